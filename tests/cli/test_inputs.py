"""Inputs of commands: one text of an argument, a file or standard input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.cli.inputs import role_inputs, whole_texts
from glassformer.errors import DataError
from tests.cli.conftest import Command


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


CONTENTS = [
    (b"time flies\n", "time flies"),
    (b"time\r\nflies\r\n", "time\r\nflies"),
    (b"\xef\xbb\xbftime\n\n", "time\n"),
    (b"", ""),
]


@pytest.mark.parametrize(("content", "text"), CONTENTS)
def test_a_dash_reads_standard_input(content: bytes, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, content)
    assert whole_texts(["-", "b"]) == [text, "b"]


@pytest.mark.parametrize(("content", "text"), CONTENTS)
def test_a_file_is_one_text(content: bytes, text: str, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "essay.txt"
    file.write_bytes(content)
    assert whole_texts([str(file), "b"]) == [text, "b"]
    assert f"read as a file, one text of {len(text)} characters" in capsys.readouterr().err


def test_what_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"caf\xe9")
    with pytest.raises(DataError, match=r"standard input is not UTF-8 text \(byte 3\)"):
        whole_texts(["-"])
    with pytest.raises(DataError, match="not both"):
        whole_texts(["-", "-"])
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text \(byte 3\)"):
        whole_texts([str(tmp_path / "latin.txt")])
    with pytest.raises(DataError, match=r"missing\.txt: no such file"):
        whole_texts([str(tmp_path / "missing.txt")])
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    with pytest.raises(DataError, match="a table holds many texts"):
        whole_texts([str(tmp_path / "rows.csv")])


@pytest.mark.parametrize("name", ["trace", "lens", "look", "generate", "tokens"])
def test_each_command_about_a_text_reads_a_file(command: Command, tmp_path: Path, name: str) -> None:
    file = tmp_path / "line.txt"
    file.write_text("ROMEO:\nO, she\n")
    more = {"look": ["--html", tmp_path / "page.html"], "generate": ["--max-new-tokens", 1]}.get(name, [])
    data = json.loads(command(name, "package:glassformer/checkpoints/shakespeare", file, *more, "--json").stdout)
    assert "ROMEO:\nO, she" in (data.get("texts") or [data.get("text"), data.get("prompt")])


# ───────────────────────────── arguments are checked before a model is loaded ─────────────────────────────

NO_MODEL = "no-such-model"
"""A name that would be an error itself, as soon as a model were loaded."""

COMMANDS = [
    ("look", ["a", "b", "c"], "give one text or two, got 3"),
    ("look", ["missing.txt"], "missing.txt: no such file"),
    ("look", ["a", "--html", "missing/page.html"], "missing: no such folder"),
    ("lens", ["a", "b", "c"], "give one text or two, got 3"),
    ("lens", ["-", "-"], "standard input can be one of the two texts"),
    ("attribute", ["missing.txt"], "missing.txt: no such file"),
    ("trace", ["a", "b", "c"], "give one text or two, got 3"),
    ("patch", ["a", "missing.txt"], "missing.txt: no such file"),
    ("generate", ["missing.txt"], "missing.txt: no such file"),
    ("tokens", ["missing.txt"], "missing.txt: no such file"),
    ("transcribe", ["missing.flac"], "missing.flac: no such file"),
    ("listen", ["--data", "missing.wav"], "missing.wav: no such file"),
    ("bench", ["--data", "missing.csv"], "missing.csv: no such file"),
    ("encode", ["missing.txt", "--output", "out.npy"], "missing.txt"),
    ("embed-map", ["missing.txt"], "missing.txt: no such file"),
    ("similar", ["only one"], "compares texts, and got one"),
    ("export", ["--output", "here.txt"], "here.txt: is a file; --output names a folder"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), COMMANDS)
def test_arguments_are_checked_before_the_model(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("time flies")
    code, _, error = command(name, NO_MODEL, *arguments)
    assert code == 2 and message in error and NO_MODEL not in error


def test_of_a_task(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["predict", "clasify", NO_MODEL, "a"], "nearest: 'classify'"),
        (["predict", "image-classification", NO_MODEL, "missing.jpg"], "missing.jpg: no such file"),
        (["train", "--task", "clasify", "--model", NO_MODEL, "--data", "rows.csv"], "nearest: 'classify'"),
        (["corpus", "index", NO_MODEL, "missing.txt", "--output", "index"], "missing.txt: no such file"),
        (["corpus", "search", NO_MODEL, "missing", "text", "--token", "text", "--layer", "1"], "missing: no such file"),
    ):
        code, _, error = command(*arguments)
        assert code == 2 and message in error and NO_MODEL not in error


def test_parts_of_an_input_are_texts_tables_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("games.csv").write_text("year,city\n1896,Athens\n1900,Paris\n")
    Path("words.json").write_text('[["Total", [70, 900, 120, 920]]]')
    Path("broken.json").write_text("[")
    asked = {"query": "where?", "table": [{"year": "1896", "city": "Athens"}, {"year": "1900", "city": "Paris"}]}
    assert role_inputs(["where?", "games.csv"], {"query": "text", "table": "table"}, {}) == [asked]
    page = {"question": "text", "word_boxes": "json"}
    words = [["Total", [70, 900, 120, 920]]]
    assert role_inputs(["total?", "words.json"], page, {}) == [{"question": "total?", "word_boxes": words}]
    for file, message in (("broken.json", "is not valid JSON"), ("missing.json", "no such file")):
        with pytest.raises(DataError, match=message):
            role_inputs(["total?", file], page, {})
