"""One file that a list names twice, by whatever path, is an error: its rows would count twice without a word."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.corpus import Corpus
from glassformer.data.files import inspect_files
from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.compare import compare
from glassformer.runs.config import parse_config
from glassformer.runs.data import read_splits
from glassformer.tasks.classify.task import Classify


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the working directory, by several names."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.csv"
    path.write_text("text,label\ntime flies,a\nfruit flies,b\n")
    Path("link.csv").symlink_to(path)
    os.link(path, "hard.csv")
    return path


AGAIN = ["a.csv", "./a.csv", "link.csv", "hard.csv"]


def train(files: Sequence[str], **data: Any) -> object:
    values = {"task": "classify", "model": "x", "output": "y", "data": {"train": list(files), **data}}
    return read_splits(parse_config(values), Classify)


READERS: dict[str, Callable[[list[str]], object]] = {
    "read_rows": read_rows,
    "stream_rows": lambda files: stream_rows(files, buffer=1),
    "inspect": lambda files: inspect_files([Path(file) for file in files]),
    "corpus": lambda files: Corpus([Path(file) for file in files]),
    "train": train,
    "train on samples": lambda files: train(files, limit=[1] * len(files)),
}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_is_given_twice(rows: Path, reader: str, again: str) -> None:
    Path("other.csv").write_text("text,label\nbirds fly,a\n")
    with pytest.raises(DataError, match=r"a\.csv (is given twice|and \S+ are the same file); give it once"):
        READERS[reader](["a.csv", "other.csv", again])
    READERS[reader](["a.csv", "other.csv"])


def test_a_copy_is_another_file(rows: Path) -> None:
    Path("copy.csv").write_bytes(rows.read_bytes())
    assert len(read_rows(["a.csv", "copy.csv"])) == 4


@pytest.mark.parametrize("sources", [["in/*.csv", "in/a.csv"], ["in", "in/a.csv"], ["in/*.csv", "in"]])
def test_a_pattern_or_a_folder_holds_it_too(rows: Path, sources: list[str]) -> None:
    Path("in").mkdir()
    rows.rename("in/a.csv")
    with pytest.raises(DataError, match=r"in/a\.csv is given twice; give it once"):
        read_rows(sources)


def test_pairs_of_files_and_synthetic_recordings(rows: Path) -> None:
    for end in ("en", "de"):
        Path(f"train.{end}").write_text("one\ntwo\n")
    with pytest.raises(DataError, match="give it once"):
        read_rows(["train.{en,de}", "./train.{en,de}"])
    with pytest.raises(DataError, match="blues is given twice"):
        read_rows(["blues", "blues"], kind="guitar", clips=2)


def test_a_model_is_compared_with_itself(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"model and .*link are the same folder; give it once"):
        compare([tmp_path / "model", tmp_path / "link"], [{"article": "a", "highlights": "b"}])
