"""Rows to judge, from a CSV or JSONL file, one after the other; what is wrong with one is said with its line.

rows.csv      article,highlights                       rows.jsonl   {"article": "…", "highlights": "…"}
              "A long text …","What it says."                       {"article": "…", "highlights": ["one", "another"]}
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from glassformer.errors import DataError, nearest
from glassformer.files import open_regular, shown

KINDS: dict[str, dict[str, Any] | None] = {
    ".csv": {"delimiter": ","},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
    ".jsonl": None,
    ".ndjson": None,
}
"""The ends of names that are known, each perhaps with .gz behind it; of tables, how fields are told apart.

Source: RFC 4180 for CSV; the registration of text/tab-separated-values, where a quote is a letter like any other.
"""


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
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind not in KINDS:
        raise DataError(
            f"{path}: rows come as CSV, TSV or JSONL; its name must end in {', '.join(KINDS)} (.gz)"
        )
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit} rows; take at least 1")
    stream, _ = open_regular(path, DataError)
    with stream, gzip.open(stream) if path.suffix.lower() == ".gz" else stream as opened:
        lines = _lines(cast(BinaryIO, opened), path)
        how = KINDS[kind]
        fields = _json_rows(lines, path) if how is None else _table_rows(lines, path, how)
        count = 0
        for line, found in fields:
            where = f"{path}: line {line}"
            references = _field(found, reference, where)
            yield Row(
                line,
                " ".join(_texts(_field(found, text, where), text, where)),
                _texts(references, reference, where),
            )
            count += 1
            if count == limit:
                return
        if not count:
            raise DataError(f"{path}: holds no row")


def _lines(stream: BinaryIO, path: Path) -> Iterator[str]:
    """The lines of a file with their ends. Raises: DataError: bytes that are no text, a broken archive."""
    number = 0
    try:
        for number, line in enumerate(stream, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: line {number} is not UTF-8 text; save the file as UTF-8") from error
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read behind line {number}: {error}") from error


def _table_rows(
    lines: Iterator[str], path: Path, how: dict[str, Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(lines, strict=True, **how)
    begun = 1
    names: list[str] | None = None
    try:
        for values in reader:
            if names is None:
                names = values
                if twice := sorted({name for name in names if names.count(name) > 1}):
                    raise DataError(f"{path}: line 1 names the column {twice[0]!r} twice")
            elif values:  # an empty line is none
                if len(values) != len(names):
                    hint = (
                        ""
                        if "quoting" in how
                        else "; a comma or a line's end in a field needs double quotes around it"
                    )
                    raise DataError(
                        f"{path}: line {begun} has {len(values)} fields, the first line names {len(names)}{hint}"
                    )
                yield begun, dict(zip(names, values, strict=True))
            begun = reader.line_num + 1
    except csv.Error as error:
        hint = "; JSONL has no such limit" if "limit" in str(error) else ""
        raise DataError(f"{path}: line {begun} cannot be read as a row: {error}{hint}") from error


def _json_rows(lines: Iterator[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {number} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise DataError(f"{path}: line {number} is no JSON object, but {shown(found)}")
        yield number, found


def _field(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        names = ", ".join(map(repr, list(row)[:20]))
        raise DataError(f"{where}: no column {name!r}{nearest(name, row)}; there are: {names}")
    return row[name]


def _texts(value: Any, name: str, where: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: {name!r} is {shown(value)}; it must be a text that is not blank")
    return texts
