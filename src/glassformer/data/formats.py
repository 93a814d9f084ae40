"""The interface of a file format: parsing a stream of lines into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from glassformer.data.lines import LineReader


class ParsedRow(NamedTuple):
    """A parsed row with its location.

    line: number of its first line · start, end: byte offsets · lines_read: how many lines lie before `end`
    """

    line: int
    start: int
    end: int
    lines_read: int
    row: dict[str, Any]


class Format(ABC):
    """A file format; its dataclass fields are the options of `read_rows` for it.

    `rows` parses whole files, and again the bytes of a single row.
    """

    def read_header(self, lines: LineReader) -> Any:
        """Read what precedes the first row and is needed to parse each: the column names of a table."""
        return None

    @abstractmethod
    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        """Parse rows from here to the end."""


def parsed_row(lines: LineReader, row: dict[str, Any]) -> ParsedRow:
    """The row that the lines since `lines.begin_row()` hold."""
    return ParsedRow(lines.row_line, lines.row_start, lines.offset, lines.lines_read, row)
