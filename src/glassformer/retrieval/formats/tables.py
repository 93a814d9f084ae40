"""Tables and JSON: each row a part, by the row readers of `glassformer.data`.

    sort,weeks,remark        sort: Gala            metadata {"sort": "Gala", "weeks": "12"}, line 2
    Gala,12,"sweet, firm"    weeks: 12
                             remark: sweet, firm

    {"_id": 7, "title": "Gala", "text": "It is sweet."}      It is sweet.      headings ("Gala",), metadata {"_id": 7}

A row with a column `text` is that text, and `title` its heading; of any other row each column is a line. Damaged rows
are left out and counted; a file that is no table as a whole is read as text.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from glassformer.data.json_rows import JsonLines, JsonList
from glassformer.data.lines import Format, LineReader, ParsedRow, line_feeds
from glassformer.data.tables import DELIMITERS, TSV_OPTIONS, DelimitedText
from glassformer.errors import DataError
from glassformer.files import is_number
from glassformer.retrieval.document import Document, DocumentPart, plain_text

MAX_VALUE = 200
"""Characters of a text that is metadata: what is longer is no value to filter by."""

FIRST_LINE = 10_000
"""Characters of the first line in which delimiters are counted."""


def csv_table(text: str) -> Document:
    """CSV, with the delimiter that its first line has most of."""
    first = text[:FIRST_LINE].replace("\r", "\n").split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=lambda sign: len(next(csv.reader([first], delimiter=sign), [])) if first else 0)
    return _table(text, DelimitedText(delimiter=delimiter, on_bad_rows="skip"))


def tsv_table(text: str) -> Document:
    """Tab-separated values."""
    return _table(text, DelimitedText(**TSV_OPTIONS, on_bad_rows="skip"))


def json_lines(text: str) -> Document:
    """JSON Lines: an object a line."""
    return _table(text, JsonLines(on_bad_rows="skip"))


def json_list(text: str) -> Document:
    """A JSON list of rows; any other JSON is a text."""
    document = _table(text, JsonList())
    return plain_text(text) if document.verbatim else document


def _table(text: str, format: Format) -> Document:
    data = text.encode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            document = _document(_rows(data, format))
        except DataError as problem:
            return plain_text(text, (f"it is read as text: {_plain(problem)}",))
    return replace(document, notes=tuple(_plain(warning.message) for warning in caught))


def _plain(problem: object) -> str:
    return str(problem).removeprefix("it: ")


def _rows(data: bytes, format: Format) -> Iterator[ParsedRow]:
    lines = LineReader(line_feeds(io.BytesIO(data)), "it", limit=len(data))
    header = format.read_header(lines)
    count = 0
    for count, row in enumerate(format.rows(lines, header), 1):  # noqa: B007 (counted to the end)
        yield row
    lines.warn_of_skipped(count)


def _document(rows: Iterator[ParsedRow]) -> Document:
    """The document of rows. Raises: DataError: there is none, or one that cannot be left out."""
    pieces: list[str] = []
    parts: list[DocumentPart] = []
    size = 0
    for parsed in rows:
        text, headings = _row_text(parsed.row)
        if not text.strip():
            continue
        parts.append(DocumentPart(size, headings, parsed.line, _metadata(parsed.row)))
        pieces += [text, "\n"]
        size += len(text) + 1
    if not parts:
        raise DataError("it: holds no row")
    return Document("".join(pieces), tuple(parts))


def _row_text(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The text of a row, and its heading where it has one."""
    if isinstance(row.get("text"), str):
        title = row.get("title")
        return row["text"], (" ".join(title.split()),) if isinstance(title, str) and title.strip() else ()
    cells = {name: _written(value) for name, value in row.items()}
    if len(row) == 1:
        return next(iter(cells.values())), ()
    return "\n".join(f"{name}: {cell}" for name, cell in cells.items() if cell), ()


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns by which passages can be filtered: numbers, true and false, short texts."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, bool) or is_number(value) or (isinstance(value, str) and 0 < len(value) <= MAX_VALUE)
        if name != "text"
    }
