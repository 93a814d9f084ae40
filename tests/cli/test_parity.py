"""`glassformer parity` as its user meets it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from glassformer import Model
from glassformer.cli.app import app
from glassformer.errors import DataError, MissingExtraError, UnsupportedError
from glassformer.evaluation.parity import compare_folder
from glassformer.models import FAMILIES
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    place = tmp_path_factory.mktemp("tiny")
    Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation").save_pretrained(place)
    return place


@pytest.fixture
def one_sided(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference gets a tensor of block 1 with one number changed; we get the file as it is."""
    from glassformer.evaluation import parity

    honest = parity.reference_model

    def tampered(architecture: str, config: Any, tensors: Any, dtype: torch.dtype) -> Any:
        changed = tensors["transformer.h.1.mlp.c_proj.weight"].clone()
        changed[0, 0] += 0.5
        return honest(architecture, config, {**tensors, "transformer.h.1.mlp.c_proj.weight": changed}, dtype)

    monkeypatch.setattr(parity, "reference_model", tampered)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["parity", *arguments], env={"COLUMNS": "120", "NO_COLOR": "1"})


def test_equal(folder: Path) -> None:
    done = run(str(folder))
    assert done.exit_code == 0, done.output
    assert "GPT2LMHeadModel" in done.output and "compared with transformers" in done.output
    assert "equal at every stage" in done.output and "differs" not in done.output
    for stage in ("embed.out", "blocks.0.attn.out", "blocks.2.out", "final", "logits"):
        assert stage in done.output
    assert "no tokenizer, so no text" in " ".join(done.output.split())


def test_json(folder: Path) -> None:
    done = run(str(folder), "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and report["equal"] is True and report["first"] is None
    assert report["architecture"] == "GPT2LMHeadModel"
    runs = {(run["precision"], run["input"]) for run in report["runs"]}
    assert runs == {(p, i) for p in ("fp32", "fp64") for i in ("random ids", "padded right", "padded left")}
    assert {stage["within"] for run in report["runs"] for stage in run["stages"]} == {True}


@pytest.mark.usefixtures("one_sided")
def test_a_difference_is_named_and_is_exit_code_1(folder: Path) -> None:
    done = run(str(folder))
    assert done.exit_code == 1
    assert "differs first at blocks.1.ffn.out" in " ".join(done.output.split())
    report = json.loads(run(str(folder), "--json").stdout)
    assert report["equal"] is False and report["first"]["stage"] == "blocks.1.ffn.out"


def test_another_seed_draws_other_ids(folder: Path) -> None:
    one, other = (json.loads(run(str(folder), "--json", "--seed", seed).stdout)["runs"] for seed in ("1", "2"))
    assert one != other


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        compare_folder(tmp_path / "nowhere")


def test_without_the_reference_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[reference\]'"):
        compare_folder(folder)


def test_a_family_that_the_reference_has_not(tmp_path: Path) -> None:
    Model.from_config(FAMILIES["transformer"].tiny).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match="has no class"):
        compare_folder(tmp_path)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("vit", "this 'vit' model reads pixel_values"),
        ("clip", "this 'clip' model reads input_ids and pixel_values"),
        ("t5", "this 't5' model needs more: .*decoder_input_ids"),
        ("musicgen_decoder", "this 'musicgen_decoder' model reads ids of codebooks"),
    ],
)
def test_models_that_read_more_than_ids_are_refused(tmp_path: Path, kind: str, problem: str) -> None:
    Model.from_config({**FAMILIES[kind].tiny, "model_type": kind}).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match=f"parity compares models on token ids alone, and {problem}"):
        compare_folder(tmp_path)


def test_weights_below_a_name_of_several_parts(tmp_path: Path) -> None:
    Model.from_config({**FAMILIES["dpr"].tiny, "model_type": "dpr"}).save_pretrained(tmp_path)
    report = compare_folder(tmp_path)
    assert report.equal and report.architecture == "DPRContextEncoder"


def test_a_seed_that_is_none_and_options_that_it_has_not(folder: Path) -> None:
    for seed in ("-1", "9" * 30):
        assert run(str(folder), "--seed", seed).exit_code == 2
    assert run(str(folder), "--base", "x").exit_code == 2, "adapters are not compared"


def test_fp64_weights_are_no_difference(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "config.json", tmp_path)
    tensors = {name: tensor.double() + 1e-12 for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert compare_folder(tmp_path).equal


def test_pickles_are_read_only_if_allowed(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "config.json", tmp_path)
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    assert "allow_pickle" in str(run(str(tmp_path)).exception)
    assert run(str(tmp_path), "--allow-pickle").exit_code == 0


def test_real_checkpoint(shared: Path) -> None:
    """stories260k, text through its tokenizer included."""
    report = compare_folder(shared / "models" / "stories260k")
    assert report.equal and report.architecture == "LlamaForCausalLM"
    assert ("fp64", "text") in {(run.precision, run.input) for run in report.runs}
    assert max(d.absolute for run in report.runs if run.precision == "fp64" for d in run.stages) < 1e-9


def test_as_a_program(tmp_path: Path, command: Command) -> None:
    done = command("parity", tmp_path / "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "no such folder" in done.stderr and "Traceback" not in done.stderr
