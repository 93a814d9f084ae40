"""Plain text, parallel text and CoNLL files.

    One day, a little girl …        read_rows("stories.txt", separator="<|endoftext|>")
    <|endoftext|>
    Once upon a time …

    train.en   Two young men …      read_rows("train.{en,de}"), or ({"source": "train.en", "target": "train.de"})
    train.de   Zwei junge Männer …  {"source": "Two young men …", "target": "Zwei junge Männer …"}

    Vinken   NNP   B-PER            read_rows("train.conll")    {"tokens": ["Vinken", "joins"], "tags": ["B-PER", "O"]}
    joins    VBZ   O                  … fields={"tokens": 0, "pos": 1, "tags": -1}

    1   Hi      hi      INTJ   …    read_rows("train.conllu")   {"tokens": ["Hi", "there"], "tags": ["INTJ", "ADV"]}
    2   there   there   ADV    …      … fields={"tokens": 1, "tags": 7}   for dependency relations

Source: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 3;
Universal Dependencies, "CoNLL-U format", version 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

from glassformer.data.lines import Format, LineFile, LineReader, ParsedRow, strip_newline
from glassformer.data.sequence import ColumnNames, Row, RowSequence, RowSource, ScannedRow, check_column
from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, safe_repr

DOCUMENT_BOUNDARY = "-DOCSTART-"
UNIVERSAL_DEPENDENCIES = {"fields": {"tokens": 1, "tags": 3}, "comment": "#", "numbers": 0}
"""Options of `Sentences` for CoNLL-U files: forms, universal parts of speech, word numbers."""


@dataclass(frozen=True)
class PlainText(Format):
    """Plain text: rows with one column.

    Args:
        separator: the line between texts, "" for a blank one; None = each line that is not blank is a text
        whole: the file is one text
        name: of the column
        blank: whether blank lines are texts too
    """

    separator: str | None = None
    whole: bool = False
    name: str = "text"
    blank: bool = False

    def __post_init__(self) -> None:
        if (self.separator is not None) + self.whole + self.blank > 1:
            raise ConfigError("separator, whole and blank say three different things; give one of them")

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        lines.begin_row()
        if self.separator is None and not self.whole:
            for line in lines:
                if self.blank or line.strip():
                    yield lines.parsed({self.name: strip_newline(line)})
                lines.begin_row()
            return
        block: list[str] = []
        for line in lines:
            if not self.whole and line.strip() == self.separator:
                if text := "".join(block).strip("\r\n"):
                    yield lines.parsed({self.name: text})
                block.clear()
                lines.begin_row()
            elif block or line.strip():
                block.append(line)
            else:
                lines.begin_row()  # blank lines before a text belong to none
        if text := "".join(block).strip("\r\n"):
            yield lines.parsed({self.name: text})


@dataclass(frozen=True)
class Sentences(Format):
    """CoNLL sentences: each row holds lists, one value a token. Fields are separated by tabs, else by spaces.

    Other white space, such as the no-break space of "10 000", is part of a token; spaces around a field are not.

    Args:
        fields: column → index of its field in a line; -1 = the last
        comment: prefix of comment lines
        numbers: index of the field with the number of a word; lines of ranges (1-2) and of empty nodes (2.1) are left
            out. None = words have no numbers
    """

    fields: Mapping[str, int] = field(default_factory=lambda: {"tokens": 0, "tags": -1})
    comment: str | None = None
    numbers: int | None = None

    def __post_init__(self) -> None:
        fields = self.fields if isinstance(self.fields, Mapping) else {}
        if not fields or not all(isinstance(index, int) for index in fields.values()):
            raise ConfigError(f"fields is {safe_repr(self.fields)}; it must say column: number of the field, from 0")

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        lines.begin_row()
        row: dict[str, list[str]] = {}
        width = 0
        for line in lines:
            text = strip_newline(line)
            if not text.strip(BETWEEN_FIELDS) or text.startswith(DOCUMENT_BOUNDARY):
                if row:
                    yield lines.parsed(row)
                row = {}
                lines.begin_row()
                continue
            if self.comment and text.startswith(self.comment):
                continue
            values = _fields(text)
            lines.row_line, first_line = lines.lines_read, lines.row_line  # errors name the line of the token
            if not row:
                width = len(values)
                self._check_width(width, lines)
                row = {name: [] for name in self.fields}
            if len(values) != width:
                lines.fail(f"has {len(values)} fields, and the sentence has {width} before it")
            if self.numbers is None or not {"-", "."} & {*values[self.numbers]}:
                for name, index in self.fields.items():
                    if not values[index].strip():
                        lines.fail(f"has nothing as {name!r}; a token and its tag may not be blank")
                    row[name].append(values[index])
            lines.row_line = first_line
        if row:
            yield lines.parsed(row)

    def _check_width(self, width: int, lines: LineReader) -> None:
        """Raises: DataError: a line has no field for a column, or one field for two columns."""
        if self.numbers is not None and not -width <= self.numbers < width:
            lines.fail(f"has {counted(width, 'field')}, and numbers says field {safe_repr(self.numbers)} (from 0)")
        columns: dict[int, str] = {}
        for name, index in self.fields.items():
            if not -width <= index < width:
                lines.fail(f"has {width} fields, and {name!r} should be number {index} (from 0)")
            if (other := columns.setdefault(index % width, name)) != name:
                lines.fail(
                    f"has {counted(width, 'field')}, and {name!r} would be the same one as {other!r}; each "
                    "needs a field of its own: name them by fields=, or put tags behind the tokens"
                )


BETWEEN_FIELDS = " \t"


def _fields(line: str) -> list[str]:
    """The fields of a line, separated by tabs or by runs of spaces, without the spaces around them."""
    if "\t" in line:
        return [value.strip(" ") for value in line.split("\t")]
    return [value for value in line.split(" ") if value]


class ParallelFiles(RowSource):
    """Parallel files: line n of each makes a row, a column a file."""

    def __init__(self, files: Mapping[str, str | Path], encoding: str | None = None) -> None:
        self._files = {
            name: LineFile(Path(path), PlainText(name=name, blank=True), encoding) for name, path in files.items()
        }
        self.name = next(iter(self._files.values())).name

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        for name in columns or ():
            check_column(self.name, name, self._files)
        return ParallelRows({name: self._files[name].indexed(None, limit) for name in columns or self._files})

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        files = list(self._files.values())
        starts = position or [None] * len(files)
        scans = [file.scan(start, columns, limit) for file, start in zip(files, starts, strict=True)]
        for items in zip_longest(*scans):
            if None in items:
                longer = next(item.where for item in items if item)
                raise _unequal_lengths(files[items.index(None)].name, longer)
            row = {name: value for item in items for name, value in item.row.items()}
            yield ScannedRow(row, items[0].where, [item.next_position for item in items])

    def stamp(self) -> list[Any]:
        return [file.stamp() for file in self._files.values()]


class ParallelRows(RowSequence):
    """Rows of parallel text files, a column each. Raises: DataError: their numbers of lines differ."""

    def __init__(self, files: Mapping[str, RowSequence]) -> None:
        self._files = list(files.values())
        shortest, longest = min(self._files, key=len), max(self._files, key=len)
        if len(shortest) < len(longest):
            raise _unequal_lengths(shortest.name, longest.where(len(shortest)))
        self.name, self.columns, self.kinds = (
            self._files[0].name,
            tuple(files),
            dict.fromkeys(files, "a text"),
        )
        self.fingerprint = sha256("".join(file.fingerprint for file in self._files).encode()).hexdigest()

    def row(self, index: int) -> Row:
        return {name: value for file in self._files for name, value in file.row(index).items()}

    def __iter__(self) -> Iterator[Row]:
        for rows in zip(*self._files, strict=True):
            yield {name: value for row in rows for name, value in row.items()}

    def where(self, index: int) -> str:
        return self._files[0].where(index)

    def __len__(self) -> int:
        return len(self._files[0])


def _unequal_lengths(shorter: str, where: str) -> DataError:
    return DataError(f"{where} has no counterpart: {shorter} ends before it; files of pairs have as many lines")
