"""Data files from Python: reports, splits, cards and versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.data.corpus import Corpus
from glassformer.data.files import inspect_files, split_file, write_card, write_version_of
from glassformer.data.options import CardOptions, InspectionOptions, SplitOptions, VersionOptions
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "all.csv"
    rows = [f"row {i},{'joy' if i % 2 else 'fear'}" for i in range(20)]
    path.write_text("body,mood\n" + "\n".join([*rows, "row 3,joy"]) + "\n")
    return path


class Letters:
    """A tokenizer of which each character is a token."""

    model_max_length = 5

    def batch_ids(self, texts: list[str], limit: int | None) -> tuple[list[list[int]], None]:
        return [list(map(ord, text)) for text in texts], None


def test_a_report_a_card_and_a_version(table: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"no column 'text': inspecting 'body'; .*: columns=\{'text': NAME\}$"):
        inspect_files([table])
    options = InspectionOptions(columns={"text": "body", "label": "mood"}, tokenizer="letters")
    report = inspect_files([table], options, tokenizer=Letters())
    (file,) = report.files
    assert file.rows == 21 and file.lengths["tokens"].over_limit == 10  # "row 10" to "row 19"
    facts = {"title": "Rows", "licence": "CC0-1.0", "biases": ["Short ones."]}
    write_card(report, CardOptions(output=tmp_path / "CARD.md", **facts))
    assert "Short ones." in (tmp_path / "CARD.md").read_text()
    with pytest.raises(DataError, match="already exists"):
        write_card(report, CardOptions(output=tmp_path / "CARD.md", **facts))
    folder = write_version_of([table], report, VersionOptions(output=tmp_path / "rows", version="1.0", **facts))
    assert json.loads((folder / "version.json").read_text())["files"]["all.csv"]["rows"] == 21


def test_a_split_without_repeats(table: Path, tmp_path: Path) -> None:
    options = SplitOptions(output=tmp_path / "parts", columns={"text": "body", "label": "mood"}, fractions=[0.5, 0.5])
    written = split_file(table, options)
    assert (written.rows, written.dropped) == (20, 1)
    assert {path.name: rows for path, rows in written.files.items()} == {"train.csv": 10, "validation.csv": 10}
    assert sorted(row["mood"] for row in read_rows(tmp_path / "parts" / "train.csv")) == ["fear"] * 5 + ["joy"] * 5
    with pytest.raises(ConfigError, match="columns is 'texts'; it must be label, group, text or text_pair"):
        SplitOptions(output=tmp_path, columns={"texts": "body"})
    with pytest.raises(ConfigError, match="limit= counts tokens"):
        InspectionOptions(limit=3)


def test_a_corpus_is_read_again_at_each_iteration(table: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    corpus = Corpus([table, tmp_path / "lines.txt"], "body", line_feeds=True)
    texts = list(corpus)
    assert texts == list(corpus) and len(texts) == 23 and texts[-2:] == ["a\n", "b\n"] and texts[0] == "row 0"
