"""Every variant does what other models do, on the command line, or refuses it in words: ways × commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import load
from glassformer.cli.app import main
from glassformer.studies.options import ShrinkOptions
from glassformer.studies.shrink import shrink
from glassformer.studies.ways import WAYS, Source
from tests.gguf.small_models import TEXTS, small
from tests.studies.samples import trained_source

PLAIN = ("half", "distilled", "pruned", "heads", "neurons", "layers", "vocabulary")
LEVELS = ("int8", "int8-static", "int4")
PROGRAMS = ("onnx", "onnx-int8")
DECODER = ("half", "int8", "int4", "pruned", "layers", "gguf")
pytestmark = pytest.mark.filterwarnings("ignore:.*exporter:", "ignore::DeprecationWarning", "ignore::FutureWarning")
QUANTISED, PROGRAM = r"the model is quantised .*the model that it was made from", "is run by ONNX Runtime as a whole"
TEXT = "time flies"


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[Any, str, str]:
    """Exit code, output and errors of a command line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, " ".join(said.err.split())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A classifier of two labels, trained for a step."""
    return trained_source(
        tmp_path_factory.mktemp("source"),
        num_hidden_layers=2,
        num_attention_heads=4,
        hidden_size=32,
        intermediate_size=64,
    )


@pytest.fixture(scope="module")
def variants(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a variant, made when it is first asked for."""
    output = tmp_path_factory.mktemp("variants")

    def folder(name: str) -> Path:
        if not (output / name).exists():
            shrink(source.folder.parent, ShrinkOptions(to=[name], output=str(output / name), limit=4))
        return output / name / name

    return folder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    small("gpt2").save_pretrained(folder / "model")
    (folder / "texts.txt").write_text("\n".join(TEXTS[0] for _ in range(4)) + "\n")
    return folder


def test_every_way_is_among_them() -> None:
    assert {*PLAIN, *LEVELS, *PROGRAMS, *DECODER} == {*WAYS}


def test_a_mix_of_them_side_by_side(
    source: Source, variants: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed, rows = ("onnx", "int8-static", "pruned", "int4", "half"), source.folder.parents[1] / "test.csv"
    folders = [source.folder, *map(variants, mixed)]
    monkeypatch.setenv("COLUMNS", "80")
    for command, options in {"bench": ["--runs", 2], "compare": []}.items():
        code, out, err = typed(capsys, command, *folders, "--task", "classify", "--data", rows, "--limit", 4, *options)
        assert code == 0, f"{command}: {err}"
        for name in ("model", *mixed):
            assert len(re.findall(rf"^{name} +[╶\d]", out, re.MULTILINE)) >= 2, f"{command}, {name}: {out}"


@pytest.mark.representative("layers", "static", "onnx")
@pytest.mark.parametrize("name", [*PLAIN, *LEVELS, *PROGRAMS])
def test_a_classifier(
    name: str,
    source: Source,
    variants: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, rows = variants(name), source.folder.parents[1] / "test.csv"
    assert load(folder).task == "text-classification"
    as_ever = ["--task", "classify", "--data", rows]
    (tmp_path / "lines.txt").write_text("time flies\nfruit flies\n")
    done: dict[str, list[object]] = {
        "predict": ["predict", "classify", folder, TEXT, "--json"],
        "evaluate": ["evaluate", folder, *as_ever, "--limit", 4, "--output", tmp_path / "evaluation"],
        "info": ["info", folder],
        "encode": ["encode", folder, tmp_path / "lines.txt", "--output", tmp_path / "vectors.npy"],
    }
    if name in PROGRAMS:
        done.pop("encode")  # of a classifier its logits alone were exported
    for command, words in done.items():
        code, _, err = typed(capsys, *words)
        assert code == 0, f"{command}: {err}"
    if name not in PROGRAMS:
        assert np.isfinite(np.load(tmp_path / "vectors.npy")).all()

    looks: dict[str, list[object]] = {
        "look": ["look", folder, TEXT, "--html", tmp_path / "page.html"],
        "lens": ["lens", folder, TEXT],
        "attribute": ["attribute", folder, TEXT],
        "trace": ["trace", folder, TEXT],
    }
    changes: dict[str, list[object]] = {
        "train": ["train", *as_ever, "--model", folder, "--steps", 1, "--output", tmp_path / "run"],
        "export": ["export", folder, "--output", tmp_path / "onnx"],
        "shrink": ["shrink", folder, *as_ever, "--to", "half", "--limit", 4, "--output", tmp_path / "small"],
        "dtype": ["predict", "classify", folder, TEXT, "--dtype", "int8"],
    }
    if name not in ("half", "heads"):  # one export and one more shrinking are enough: they take seconds
        changes = {command: words for command, words in changes.items() if name not in PLAIN or command != "export"}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for command, words in (looks | changes).items():
        code, _, err = typed(capsys, *words)
        refusal = PROGRAM if name in PROGRAMS else QUANTISED if name in LEVELS and command in changes else ""
        if command == "dtype" and name in LEVELS:
            refusal = "--dtype is 'int8', and the checkpoint is quantised already: leave dtype out"
        assert code == (2 if refusal else 0), f"{command}: {err}"
        assert re.search(refusal, err), f"{command}: {err}"
        assert "meta" not in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    left = {path.name for path in tmp_path.iterdir()} & {"run", "onnx", "small", "page.html"}
    assert not left or name in PLAIN or left == {"page.html"}, "a refusal leaves nothing"


@pytest.mark.representative("half", "int4", "gguf")
@pytest.mark.parametrize("name", DECODER)
def test_a_decoder(name: str, decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = decoder / "texts.txt"
    as_ever = ["--task", "generate", "--data", texts]
    words: list[object] = [
        "shrink",
        decoder / "model",
        *as_ever,
        "--train",
        texts,
        "--to",
        name,
        "--output",
        tmp_path / "s",
    ]
    code, _, err = typed(capsys, *words, "--set", "shrink.runs=2")
    assert code == 0, err
    folder = tmp_path / "s" / name
    for command in (
        ["generate", folder, "Once upon", "--max-new-tokens", 3, "--json"],
        ["evaluate", folder, *as_ever, "--limit", 2, "--output", tmp_path / "evaluation"],
        ["bench", folder, "--data", texts, "--count", 4, "--repeats", 1],
        ["look", folder, "Once upon", "--view", "generate", "--max-new-tokens", 2, "--html", tmp_path / "page.html"],
    ):
        code, _, err = typed(capsys, *command)
        assert code == 0, f"{command[0]}: {err}"
    code, _, err = typed(capsys, "export", folder, "--format", "gguf", "--output", tmp_path / "gguf")
    assert code == (2 if name in LEVELS else 0) and re.search(QUANTISED if name in LEVELS else "", err), err
