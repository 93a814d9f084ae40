"""What goes wrong while a model writes, for one that continues and one that answers, by Python and by command.

Python gets an error of its kind; the command prints one line, exits with 2, and shows no traceback. After Ctrl-C what
was written is kept.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer import ConfigError, DataError, GlassformerError, Model, WeightsError, load
from glassformer.cli.app import main
from glassformer.generation.decoding import Interrupted
from glassformer.generation.rows import Rows
from tests.e2e.tiny_models import make_folder

FAMILIES = ("gpt2", "bart")
ROOM = {"gpt2": {"n_positions": 64}}  # as many as the other has
TEXT = "time flies like an arrow"
LONG = f"{TEXT} . " * 30


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("models")
    return {family: make_folder(home / family, family, **ROOM.get(family, {})) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def folder(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Path:
    return folders[request.param]


CommandResult = tuple[int, str, str]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Run a command line: its exit code, what it printed, what it complained of."""

    def run(*arguments: str) -> CommandResult:
        with pytest.raises(SystemExit) as done:
            main(["generate", *arguments])
        assert isinstance(done.value.code, int)
        return done.value.code, *capsys.readouterr()

    return run


WRONG: dict[str, tuple[str, dict[str, Any], list[str], type[GlassformerError], str]] = {
    "long prompt": (LONG, {}, [], DataError, "positions; shorten"),
    "beams": (TEXT, {"num_beams": 30}, ["--beams", "30"], ConfigError, "the vocabulary has 20 tokens; ask for fewer"),
    "temperature": (
        TEXT,
        {"do_sample": True, "temperature": -1.0},
        ["--temperature=-1"],
        ConfigError,
        "temperature is -1.0; it must be a number above 0",
    ),
    "regex": (TEXT, {"regex": "x(y"}, ["--regex", "x(y"], ConfigError, "cannot be used: unclosed group"),
    "impossible": (TEXT, {"regex": "x"}, ["--regex", "x"], ConfigError, "no text that regex 'x' allows can begin"),
    "schema": (
        TEXT,
        {"json_schema": '{"enum": []}'},
        ["--json-schema", '{"enum": []}'],
        ConfigError,
        "json_schema cannot be used: failed to compile JSON schema: Unsatisfiable schema",
    ),
    "constraints": (
        TEXT,
        {"regex": "a", "choices": ["a"]},
        ["--regex", "a", "--choice", "a"],
        ConfigError,
        "regex and choices are given; one text matches one of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_refused(folder: Path, command: Callable[..., CommandResult], wrong: str) -> None:
    prompt, asked, arguments, error, message = WRONG[wrong]
    with pytest.raises(error) as caught:
        load(folder).generate(prompt, **asked)
    assert message in str(caught.value) and str(caught.value).isprintable()
    code, out, complaint = command(str(folder), prompt, *arguments)
    assert (code, out) == (2, "\n" * out.count("\n"))
    assert complaint.startswith("error: ") and message in complaint
    assert complaint.count("\n") == 1 and "Traceback" not in complaint


def test_an_empty_prompt(folder: Path, command: Callable[..., CommandResult]) -> None:
    for nothing in ("", torch.zeros(1, 0, dtype=torch.long)):
        for beams in (1, 3):
            with pytest.raises(DataError, match="the prompt is empty; give at least one token"):
                load(folder).generate(nothing, num_beams=beams)
    code, _, complaint = command(str(folder), "")
    assert code == 2 and complaint.startswith("error: the prompt is empty") and complaint.count("\n") == 1


@pytest.mark.parametrize("asked", [[], ["--sample"], ["--beams", "3"], ["--json"]], ids=str)
def test_numbers_that_are_none(
    folder: Path, tmp_path: Path, command: Callable[..., CommandResult], asked: list[str]
) -> None:
    model = load(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    model.save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match="are NaN or infinite, because") as caught:
        load(tmp_path).generate(TEXT, num_beams=3 if "--beams" in asked else 1)
    message = str(caught.value)
    count = len(list(model.parameters()))
    assert f"because {count} tensors of the model hold NaN" in message and f", and {count - 10} more;" in message
    code, _, complaint = command(str(tmp_path), TEXT, *asked)
    assert code == 2 and complaint.splitlines()[-1] == f"error: {message}" and "Traceback" not in complaint


def test_a_prompt_is_cut_where_that_is_asked_for(folder: Path, command: Callable[..., CommandResult]) -> None:
    for asked in (["--truncate"], ["--truncate", "--beams", "2"]):
        code, out, complaint = command(str(folder), LONG, "-n", "4", *asked)
        assert code == 0 and complaint.startswith("note: 1 of 1 prompts, of up to ") and complaint.count("\n") == 1
        with pytest.warns(UserWarning, match="were left out"):
            text = load(folder).generate(LONG, max_new_tokens=4, truncation=True, num_beams=len(asked) - 1 or 1)
        assert out == text + "\n" or "--beams" in asked


# ------------------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the fourth token is computed."""
    logits, calls = Rows.live_logits, []

    def at_the_fourth(rows: Rows) -> Tensor:
        calls.append(1)
        if len(calls) % 4 == 0:
            raise KeyboardInterrupt
        return logits(rows)

    monkeypatch.setattr(Rows, "live_logits", at_the_fourth)


METHODS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "greedy": ({}, []),
    "sampling": ({"do_sample": True, "seed": 3}, ["--seed", "3"]),
    "beams": ({"num_beams": 3}, ["--beams", "3"]),
    "drawn beams": ({"num_beams": 3, "do_sample": True, "seed": 3}, ["--beams", "3", "--seed", "3"]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("interrupted")
def test_ctrl_c(folder: Path, command: Callable[..., CommandResult], method: str) -> None:
    asked, arguments = METHODS[method]
    model = load(folder)
    never = {"min_new_tokens": 9, "max_new_tokens": 9}
    with pytest.raises(Interrupted) as caught:
        model.generate(TEXT, **never, **asked)
    partial = caught.value.partial
    assert partial.new_ids.shape == (1, 3) and partial.reasons == ["interrupted"]
    before = "" if model.is_encoder_decoder else TEXT
    assert [before + partial.texts[0]] == [model.tokenizer.decode(partial.ids[0], skip_special_tokens=True)]
    code, out, complaint = command(str(folder), TEXT, "--min-new-tokens", "9", "-n", "9", *arguments)
    assert code == 130 and out == partial.texts[0] + "\n"
    assert "Traceback" not in complaint and "error" not in complaint


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_in_a_stream(folder: Path) -> None:
    model, pieces = load(folder), []
    with pytest.raises(KeyboardInterrupt):
        for piece in model.stream(TEXT, min_new_tokens=9, max_new_tokens=9):
            pieces.append(piece)
    tokens = []
    with pytest.raises(KeyboardInterrupt):
        for token in model.stream(torch.tensor([[4, 5]]), min_new_tokens=9, max_new_tokens=9):
            tokens.append(token)
    assert len(tokens) == 3 and len(pieces) <= 3


def test_a_signal_in_a_process_of_its_own(shared: Path) -> None:
    folder = shared / "models" / "stories260k"
    line = [sys.executable, "-m", "glassformer", "generate", str(folder), "Once upon a time", "-n", "100000"]
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    begun = running.stdout.read(20).decode()
    running.send_signal(signal.SIGINT)
    out, complaint = running.communicate(timeout=300)
    whole = begun + out.decode()
    assert running.returncode == 130 and whole.startswith(", there was a little") and whole.endswith("\n")
    assert b"Traceback" not in complaint


def test_the_models_write_otherwise(folder: Path) -> None:
    assert isinstance(load(folder), Model) and isinstance(load(folder).generate(TEXT, max_new_tokens=4), str)
