"""`glassformer trace`, on tiny checkpoints written here and on real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.cli.trace import trace
from glassformer.core import Tape
from glassformer.errors import ConfigError, DataError
from glassformer.model import load
from tests.e2e.tiny_models import looked_at, make_folder
from tests.explorer.conftest import INSPECTABLE

TEXT = "time flies like an arrow"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def shown(capsys: pytest.CaptureFixture[str], width: int = 80) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def data_of(capsys: pytest.CaptureFixture[str], model: object, *texts: str, **options: Any) -> Any:
    trace(str(model), list(texts), json=True, **options)
    return json.loads(capsys.readouterr().out)


def test_minilm_fits_a_screen(minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace(str(minilm), [TEXT, "fruit flies like a banana"])
    lines = shown(capsys)
    assert len(lines) < 25
    assert lines[0] == "BertModel, for feature-extraction · 13 text tokens"
    assert lines[1].startswith("63 tensors") and lines[1].endswith("as float32")
    assert "blocks.0-5    ×6, the first:" in lines
    columns = next(line for line in lines if line.startswith("  attn.q")).split()
    assert columns[:5] == ["attn.q", "B1", "H12", "T13", "E32"]
    tape = Tape("blocks.0.attn.q")
    model = load(minilm)
    model(**model.tokenizer(TEXT, "fruit flies like a banana", return_tensors="pt"), tape=tape)
    q = tape.taps["blocks.0.attn.q"].detach()
    expected = (q.mean(), q.std(correction=0), q.min(), q.max())
    assert columns[5:9] == [f"{float(value):.3g}" for value in expected]
    assert any("K key/value heads" in line for line in lines)
    assert lines[-1] == "scores and probs are computed only on request: --taps attn.probs"


@pytest.mark.representative("80", "bert", "t5", "whisper")
@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("family", INSPECTABLE)
def test_it_fits_the_terminal(
    family: str, width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    trace(str(make_folder(tmp_path, family)), [*looked_at(tmp_path, family)])
    assert "…" not in "".join(shown(capsys, width))  # nothing is cut


@pytest.mark.parametrize("family", INSPECTABLE)
def test_json_has_every_tap_of_every_layer(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path, family)
    texts = looked_at(folder, family)
    report = data_of(capsys, folder, *texts)
    names = [row["name"] for row in report["taps"]]
    assert sorted([*names, *report["left_out"]]) == sorted(load(folder).taps())
    assert all(name.endswith((".scores", ".probs")) for name in report["left_out"])
    for row in report["taps"]:
        assert len(row["axes"]) == len(row["shape"])
        assert row["bytes"] == getattr(torch, row["dtype"]).itemsize * torch.Size(row["shape"]).numel()
        assert row["smallest"] <= row["mean"] <= row["largest"]
    assert report["texts"] == list(texts)
    assert set(report["tokens"]) == set(load(folder).network.stacks())


def test_only_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(make_folder(tmp_path, "gpt2", n_layer=3))
    trace(folder, [TEXT], taps=["attn.scores", "attn.probs"])
    lines = shown(capsys)
    assert "blocks.0-2    ×3, the first:" in lines
    assert any(line.startswith("  attn.scores") and "40% inf" in line for line in lines)
    assert any(line.startswith("  attn.probs") and "40% zero" in line for line in lines)
    assert not any("computed only on request" in line or "final" in line for line in lines)
    assert data_of(capsys, folder, TEXT, taps=["final"])["left_out"] == []


def test_all_shows_every_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace(str(make_folder(tmp_path, "bert", num_hidden_layers=3)), [TEXT], all_layers=True)
    lines = shown(capsys)
    assert [line for line in lines if line.startswith("blocks")] == ["blocks.0", "blocks.1", "blocks.2"]
    assert sum(line.startswith("  attn.q ") for line in lines) == 3


def test_another_head_and_dtype(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path, "bert", task="token-classification")
    report = data_of(capsys, folder, TEXT, task="token-classification", dtype="bfloat16")
    last = report["taps"][-1]
    assert (last["name"], last["axes"], last["dtype"]) == ("logits", "BTC", "bfloat16")


def test_numbers_that_are_none_are_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_folder(tmp_path, "bert")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("encoder.layer.0.output.dense.bias"))
    weights[name][:] = torch.nan
    save_file(weights, folder / "model.safetensors")
    trace(str(folder), [TEXT])
    assert any(line.startswith("  ffn.out") and "–" in line and "100% NaN" in line for line in shown(capsys))
    rows = {row["name"]: row for row in data_of(capsys, folder, TEXT)["taps"]}
    assert rows["blocks.0.ffn.out"]["mean"] is None and rows["blocks.0.ffn.out"]["nans"] == 1


def test_what_it_refuses(tmp_path: Path) -> None:
    folder = str(make_folder(tmp_path, "bert"))
    with pytest.raises(DataError, match="give one text or two"):
        trace(folder, ["a", "b", "c"])
    with pytest.raises(DataError, match="has 202 tokens and the model reads at most 16"):
        trace(folder, ["time " * 200])
    with pytest.raises(ConfigError, match="no tap matches"):
        trace(folder, [TEXT], taps=["nosuch"])
