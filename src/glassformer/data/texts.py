"""Texts of files: a line each, a column of a table, or the values of JSON lines.

    read_texts("lines.txt")                        a text per line
    read_texts("rows.csv", ["body"])               the column body; two columns are a pair of texts
    read_texts("rows.jsonl", ["text"])             the value of each line: a text, words, a conversation, or an object

`read_rows` reads whole rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.data.json_rows import json_values
from glassformer.data.lines import LineReader, data_extension, line_feeds, open_decompressed, strip_newline
from glassformer.data.rows import EXTENSIONS, read_rows
from glassformer.data.sequence import check_column
from glassformer.errors import DataError
from glassformer.files import as_path, read_bytes

STDIN = "standard input"
# Bytes of one text. Rows for training are bounded elsewhere; a text that is typed has no other bound.
NO_LIMIT = 1 << 40
TABLES = ("csv", "tsv", "json", "parquet", "conll", "conllu")


def names_a_format(file: str) -> bool:
    """Whether the extension of a file says how it is read."""
    return data_extension(Path(file)) in EXTENSIONS


def is_table(file: str) -> bool:
    """Whether a file's name says that it has columns: .csv, .jsonl, .parquet …, each maybe followed by .gz."""
    return EXTENSIONS.get(data_extension(Path(file))) in (*TABLES, "jsonl")


def read_texts(
    file: Path | str | None, columns: Sequence[str] = ("text",), format: Mapping[str, Any] | None = None
) -> Iterator[Any]:
    """The texts of a file; None = of standard input, a line each.

    Args:
        columns: of a table: that of the texts, or those of both texts of a pair
        format: how its rows are read, as keywords of `read_rows`; None = a file is read by its name
    Raises: DataError: no such column, or not what the name of the file says.
    """
    if file is None:
        if format:
            raise DataError("options of a file format are for files; standard input has a text per line")
        return _lines_of(None, columns)
    file = as_path(file, "file")
    # A file of JSON lines may also hold texts, a line each.
    table = format or EXTENSIONS.get(data_extension(file)) in TABLES
    return _rows_of(file, columns, format or {}) if table else _lines_of(file, columns)


def _rows_of(file: Path, columns: Sequence[str], format: Mapping[str, Any]) -> Iterator[Any]:
    """The texts in columns of a table."""
    rows = read_rows(file, columns=tuple(columns), limit=NO_LIMIT, **format)
    return (_of_row(row, columns, rows.where(number)) for number, row in enumerate(rows))


def _lines_of(file: Path | None, columns: Sequence[str]) -> Iterator[Any]:
    """The lines of a text file or of standard input; of a JSON Lines file, the value of each line."""
    name = STDIN if file is None else str(file)
    with nullcontext(sys.stdin.buffer) if file is None else open_decompressed(file) as stream:
        if file is None or EXTENSIONS.get(data_extension(file)) != "jsonl":
            yield from text_lines(stream, name)
            return
        lines = LineReader(stream, name, limit=NO_LIMIT)
        for value in json_values(lines):
            where = f"{name}: line {lines.row_line}"
            if isinstance(value, dict):
                for column in columns:
                    check_column(where, column, value)
                yield _of_row(value, columns, where)
            else:
                yield _text(value, where)


def read_text(file: Path | str | None) -> str:
    """All of a file, or of standard input, as one text: without a byte order mark and the last line break.

    Raises: DataError: not UTF-8, or a file that cannot be read.
    """
    content = sys.stdin.buffer.read() if file is None else read_bytes(as_path(file, "file"), DataError)
    try:
        return content.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        name = STDIN if file is None else file
        raise DataError(f"{name} is not UTF-8 text (byte {error.start}); convert it to UTF-8") from error


def read_json(file: Path | str) -> Any:
    """The value of a JSON file. Raises: DataError: it is none."""
    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: is not valid JSON ({str(error)[:80]})") from error


def read_whole_rows(
    file: Path | str,
    columns: Mapping[str, str] | None = None,
    format: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """All rows of a table, in memory.

    Args:
        columns: that it must have, and what each is; those of a "file" are paths, relative to the folder of the table;
            None = any
        format: keywords of `read_rows`
    """
    source, names = as_path(file, "file"), None if columns is None else tuple(columns)
    paths = [name for name, kind in (columns or {}).items() if kind == "file"]
    rows = [dict(row) for row in read_rows(source, columns=names, limit=NO_LIMIT, **(format or {}))]
    for row in rows:
        row |= {x: str(source.parent / row[x]) for x in paths if isinstance(row[x], str) and row[x]}
    return rows


def read_part(file: str, kind: str, format: Mapping[str, Any] | None = None) -> Any:
    """What a file holds of an input of several parts: the rows of a "table", the value of "json"; of a "file" its path.

    Args:
        format: of a table, as keywords of `read_rows`
    """
    if kind == "file":
        return file
    return read_whole_rows(file, format=format) if kind == "table" else read_json(file)


def text_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a text. Raises: DataError: not UTF-8, or binary."""
    lines = LineReader(line_feeds(stream), name, limit=NO_LIMIT)
    for line in lines:
        if "\0" in line:
            raise DataError(
                f"{name}: line {lines.lines_read} holds a NUL byte, so this is a binary file; give a text file"
            )
        yield strip_newline(line)


def _of_row(row: Any, columns: Sequence[str], where: str) -> Any:
    values = [_text(row[column], where) for column in columns]
    return values[0] if len(values) == 1 else {"text": values[0], "text_pair": values[1]}


def _text(value: Any, where: str) -> Any:
    """A text, a conversation, or a list of words. Raises: DataError: something else."""

    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return {"tokens": value}
    if not isinstance(value, (str, list)):
        raise DataError(f"{where} holds {value!r:.60}; it must be a text, a list of words, or a conversation")
    return value
