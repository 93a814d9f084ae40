"""Rows that are written come back as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.data.rows import read_rows
from glassformer.data.write import write_rows
from glassformer.errors import ConfigError, DataError

WILD = [
    {"text": 'a "b", c', "label": "x"},
    {"text": "two\nlines ✓", "label": "y"},
    {"text": "end", "label": "z"},
]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("a.csv", WILD),
        ("a.jsonl", [{"text": "n", "label": [1, 2.5, None]}, {"text": "m", "label": ["q"]}]),
        ("b.jsonl", WILD),
        ("a.tsv", [{"text": 'a "b", c', "label": "x"}]),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    write_rows(tmp_path / name, rows, ["text", "label"])
    assert list(read_rows(tmp_path / name)) == rows


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="csv, tsv, jsonl"):
        write_rows(tmp_path / "a.xlsx", WILD, ["text"])
    with pytest.raises(
        DataError, match=r"row 1: 'text' is 'two\\nlines ✓', which tsv cannot hold; take jsonl"
    ):
        write_rows(tmp_path / "a.tsv", WILD, ["text"])
    with pytest.raises(DataError, match=r"'text' is \[1\], which csv cannot hold"):
        write_rows(tmp_path / "b.csv", [{"text": [1]}], ["text"])
    (tmp_path / "c.csv").write_text("mine")
    with pytest.raises(DataError, match="already exists"):
        write_rows(tmp_path / "c.csv", WILD, ["text"])
    assert (tmp_path / "c.csv").read_text() == "mine"
    with pytest.raises(DataError, match="cannot be written"):
        write_rows(tmp_path / "no" / "c.csv", WILD, ["text"])
