"""Stream rows with references from a CSV or JSONL file; an error names the line.

rows.csv      article,highlights                       rows.jsonl   {"article": "…", "highlights": "…"}
              "A long text …","What it says."                       {"article": "…", "highlights": ["one", "another"]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.format_detection import EXTENSIONS, data_extension, make_format
from glassformer.data.lines import LineReader, open_decompressed
from glassformer.data.schema import missing_column
from glassformer.errors import DataError
from glassformer.files import safe_repr

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
    if EXTENSIONS.get(data_extension(path)) not in KINDS:
        ends = ", ".join(end for end, kind in EXTENSIONS.items() if kind in KINDS)
        raise DataError(f"{path}: rows come as CSV, TSV or JSONL; its name must end in {ends} (.gz)")
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit} rows; take at least 1")
    format = make_format(EXTENSIONS[data_extension(path)], {})
    with open_decompressed(path) as stream:
        lines = LineReader(stream, str(path), limit=LONGEST)
        header, empty = format.read_header(lines), True
        for raw in islice(format.rows(lines, header), limit):
            empty = False
            where = f"{path}: line {raw.line}"
            references = _field(raw.row, reference, where)
            yield Row(
                raw.line,
                " ".join(_texts(_field(raw.row, text, where), text, where)),
                _texts(references, reference, where),
            )
        if empty:
            raise DataError(f"{path}: holds no row")


def _field(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        raise DataError(f"{where}: {missing_column(name, row)}")
    return row[name]


def _texts(value: Any, name: str, where: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: {name!r} is {safe_repr(value)}; it must be a text that is not blank")
    return texts
