"""The table of precisions of a model that generates: a row each, next to the plain network's own logits."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer import load
from glassformer.core.flow import Batch, Flow
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import DataError, WeightsError
from glassformer.evaluation.bench_generation import compare_steps, passages_of
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder

TEXTS = ["time flies like an arrow", "fruit flies like a banana"] * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("llama"), "llama")


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_a_row_for_each_precision(family: str, tmp_path: Path) -> None:
    model = load(make_folder(tmp_path, family))
    perturbed(model.network)
    passages = passages_of(model, TEXTS, 30)
    done: list[int] = []
    rows = compare_steps(model.network, passages, progress=done.append)
    assert [row.precision for row in rows] == ["plain", "fp32", "fp16", "bf16", "int8"]
    assert len(done) == 5 * len(passages) and {row.steps for row in rows} == {30}
    plain, fp32, fp16, bf16, _ = rows
    assert (plain.speedup, plain.largest_error, plain.equal_tokens, plain.perplexity_change) == (1, 0, 1, 0)
    assert fp32.largest_error < 1e-5 < fp16.largest_error < bf16.largest_error < 0.2
    assert fp32.equal_tokens == 1 and abs(fp32.perplexity_change) < 1e-5
    for row in rows:
        assert row.tokens_per_second > 0 and 0 <= row.equal_tokens <= 1
        assert math.isclose(row.perplexity / plain.perplexity - 1, row.perplexity_change, abs_tol=1e-9)
    assert prepared_precision(model.network) is None


@torch.inference_mode()
def test_perplexity_is_that_of_a_whole_pass(folder: Path) -> None:
    model = load(folder)
    passages = passages_of(model, TEXTS, 40)
    loss = steps = 0.0
    for passage in passages:
        logits = model.network(Batch(input_ids=passage.ids[None]), Flow()).logits
        assert logits is not None
        known = logits[0, passage.prompt - 1 : -1].double().log_softmax(-1)
        loss -= known.gather(1, passage.ids[passage.prompt :, None]).sum().item()
        steps += len(known)
    (row,) = compare_steps(model.network, passages, precisions=[])
    assert row.steps == steps == 40
    assert math.isclose(row.perplexity, math.exp(loss / steps), rel_tol=1e-6)


def test_what_cannot_be_measured(folder: Path) -> None:
    model = load(folder)
    with pytest.raises(DataError, match="two tokens at least"):
        passages_of(model, ["time"], 5)
    with torch.no_grad():
        model.network.final_norm.weight[0] = torch.nan  # type: ignore[union-attr, index]
    with pytest.raises(WeightsError, match=r"final_norm\.weight"):
        compare_steps(model.network, passages_of(model, TEXTS, 5), precisions=["fp32"])


def test_the_command_prints_the_same_as_data(folder: Path, tmp_path: Path) -> None:
    from glassformer.cli.app import app

    mine = tmp_path / "mine.txt"
    mine.write_text("\n".join(TEXTS))
    command = ["bench", str(folder), "--data", str(mine), "--repeats", "1", "--count", "9", "--precision", "fp32,int8"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0 and not done.stderr, done.output
    (report,) = json.loads(done.stdout)
    rows = report["rows"]
    assert (report["kind"], report["version"]) == ("generation-bench", 1)
    assert [(row["precision"], row["steps"]) for row in rows] == [("plain", 9), ("fp32", 9), ("int8", 9)]
    assert rows[1]["largest_error"] < 1e-5 and rows[1]["equal_tokens"] == 1
    done = CliRunner().invoke(app, command)
    printed = " ".join(done.output.split())
    assert done.exit_code == 0 and "9 steps of one row" in printed and "perplexity" in printed
