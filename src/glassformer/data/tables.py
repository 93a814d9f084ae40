"""CSV and TSV files.

    text,label                        read_rows("train.csv")
    "one, two and ""three"" apples",joy

    im feeling grouchy;anger          read_rows("train.txt", kind="csv", delimiter=";", quotes=False,
                                                header=False, names=("text", "label"))

Source: RFC 4180 for CSV; the registration of text/tab-separated-values, where a quote is a letter like any other.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from glassformer.data.lines import Format, LineReader, OnBadRows, ParsedRow, strip_newline
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr

TSV_OPTIONS: dict[str, Any] = {"delimiter": "\t", "quotes": False}
DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that a file is likely to have; in much of Europe, spreadsheets write a semicolon."""
TYPES: dict[str, type] = {"text": str, "int": int, "float": float}


@dataclass(frozen=True)
class DelimitedText(Format):
    """Delimited text (CSV, TSV); every value is a text unless `types` says otherwise.

    Args:
        delimiter: one character
        quotes: whether fields may be quoted
        header: whether the first line holds the column names
        names: of the columns, where it does not
        types: column → "int" or "float", for columns of numbers
        on_bad_rows: "error", or "skip": rows with too many or too few fields, and with a number that is none, are left
            out, and a warning counts them
    """

    delimiter: str = ","
    quotes: bool = True
    header: bool = True
    names: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    on_bad_rows: OnBadRows = "error"

    def __post_init__(self) -> None:
        if not (isinstance(self.delimiter, str) and len(self.delimiter) == 1 and self.delimiter not in '"\r\n'):
            raise ConfigError(f"delimiter is {safe_repr(self.delimiter)}; it must be one character, such as ',' or ';'")
        if self.header == bool(self.names):
            raise ConfigError("a table has a header, or header=False and names=(…): give one of them")
        if not isinstance(self.types, Mapping):
            raise ConfigError(f"types is {safe_repr(self.types)}; it must say column: int or float")
        if unknown := [kind for kind in self.types.values() if not isinstance(kind, str) or kind not in TYPES]:
            raise ConfigError(f"types has {safe_repr(unknown[0])}; a column is one of: {', '.join(TYPES)}")

    def read_header(self, lines: LineReader) -> tuple[str, ...]:
        if not self.header:
            names = tuple(self.names)
        else:
            names = next((tuple(fields) for fields in self._fields(lines)), ())
            if not names:
                return ()  # an empty file: the reader says so
        names = tuple(name if name.strip() else f"column {i}" for i, name in enumerate(names, 1))
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            lines.fail(f"names the column {safe_repr(duplicates[0])} twice")
        if missing := [name for name in self.types if name not in names]:
            raise DataError(
                f"{lines.name}: types names {safe_repr(missing[0])}, which is no column{nearest(missing[0], names)}; "
                f"there are: {', '.join(map(repr, names))}"
            )
        return names

    def rows(self, lines: LineReader, header: tuple[str, ...]) -> Iterator[ParsedRow]:
        for number, fields in enumerate(self._fields(lines)):
            if not number and len(header) == 1:  # with another delimiter, all of a line is one column
                self._refuse_other_delimiter(lines)
            row = lines.row_or_skip(self.on_bad_rows, self._row, fields, header, lines)
            if row is not None:
                yield lines.parsed(row)

    def _row(self, fields: Sequence[str], header: Sequence[str], lines: LineReader) -> dict[str, Any]:
        if len(fields) != len(header):
            self._refuse_other_delimiter(lines)
            where = "the first line names" if self.header else "names has"
            hint = "; a delimiter or a line's end in a field needs double quotes around it" if self.quotes else ""
            lines.fail(f"has {len(fields)} fields, {where} {len(header)}{hint}")
        row: dict[str, Any] = dict(zip(header, fields, strict=True))
        for name, kind in self.types.items():
            row[name] = parse_number(row[name], name, kind, lines)
        return row

    def _refuse_other_delimiter(self, lines: LineReader) -> None:
        """Raises: DataError: the first line is one field, and with another delimiter as many as the current line."""
        first, line = lines.first_line, lines.line
        if not self.header or lines.lines_read < 2 or self._count(first, self.delimiter) != 1:
            return
        for other in DELIMITERS:
            if other != self.delimiter and self._count(first, other) == self._count(line, other) > 1:
                raise DataError(
                    f"{lines.name}: the first line looks separated by {other!r}, and so does line {lines.lines_read}: "
                    f"read it with delimiter= {other!r}"
                )

    def _count(self, line: str, delimiter: str) -> int:
        """The number of fields of a line."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE
        text = strip_newline(line).replace("\r", " ")  # which csv would refuse
        return len(next(csv.reader([text], delimiter=delimiter, quoting=quoting), []))

    def _fields(self, lines: LineReader) -> Iterator[list[str]]:
        """The fields of each row; empty lines are skipped."""
        # csv has a process-wide field limit (128 KiB). It is only ever raised here: our own limit is checked before.
        csv.field_size_limit(max(csv.field_size_limit(), lines.limit))
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE
        reader = csv.reader(lines, strict=True, delimiter=self.delimiter, quoting=quoting)
        lines.begin_row()
        try:
            for fields in reader:
                if fields:
                    yield fields
                lines.begin_row()
        except csv.Error as error:
            if lines.lines_read == 1:
                next(lines, None)  # the header is compared with the line below it
            self._refuse_other_delimiter(lines)
            what = f"cannot be read as a row: {error}"
            if "new-line character" in str(error):  # whose hint is about an argument of open()
                what = (
                    "holds a carriage return (CR) within a field; put the field in double quotes, or save the file "
                    "with one kind of line end"
                )
            raise DataError(f"{lines.name}: line {lines.row_line} {what}") from error


def parse_number(value: str, name: str, kind: str, lines: LineReader) -> Any:
    """A cell as a finite number.

    Args:
        kind: "int" or "float"
    Raises: DataError: it is none, with file and line.
    """
    try:
        number = TYPES[kind](value)
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not math.isfinite(number):
        what = "a whole number" if kind == "int" else "a number"
        lines.fail(f"has {safe_repr(value)} as {name!r}; it must be {what}")
    return number
