"""Rows to judge, from a CSV or JSONL file, one after the other; what is wrong with one is said with its line.

rows.csv      article,highlights                       rows.jsonl   {"article": "…", "highlights": "…"}
              "A long text …","What it says."                       {"article": "…", "highlights": ["one", "another"]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.kinds import ENDINGS, ending, format_of
from glassformer.data.lines import Lines, opened
from glassformer.data.schema import missing
from glassformer.errors import DataError
from glassformer.files import shown

KINDS = ("csv", "tsv", "jsonl")
LONGEST = 100_000_000  # bytes of a row: whole books are judged too


@dataclass(frozen=True)
class Row:
    """A text and what a good system writes about it; `line`: where it begins in the file."""

    line: int
    text: str
    references: list[str]


def read_rows(path: Path, text: str, reference: str, limit: int | None = None) -> Iterator[Row]:
    """The rows of a file in UTF-8, as they are asked for.

    Args:
        text, reference: the names of the two columns (CSV, TSV) or keys (JSONL). In JSONL a text may be a list of its
            sentences, and a reference a list of several.
        limit: no more than so many.
    Raises: DataError: what is wrong, with the line.
    """
    if ENDINGS.get(ending(path)) not in KINDS:
        ends = ", ".join(end for end, kind in ENDINGS.items() if kind in KINDS)
        raise DataError(f"{path}: rows come as CSV, TSV or JSONL; its name must end in {ends} (.gz)")
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit} rows; take at least 1")
    how = format_of(ENDINGS[ending(path)], {})
    with opened(path) as stream:
        lines = Lines(stream, str(path), limit=LONGEST)
        head, empty = how.begin(lines), True
        for found in islice(how.rows(lines, head), limit):
            empty = False
            where = f"{path}: line {found.line}"
            references = _field(found.row, reference, where)
            yield Row(
                found.line,
                " ".join(_texts(_field(found.row, text, where), text, where)),
                _texts(references, reference, where),
            )
        if empty:
            raise DataError(f"{path}: holds no row")


def _field(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        raise DataError(f"{where}: {missing(name, row)}")
    return row[name]


def _texts(value: Any, name: str, where: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: {name!r} is {shown(value)}; it must be a text that is not blank")
    return texts
