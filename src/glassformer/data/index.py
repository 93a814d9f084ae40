"""The rows of a file of lines, of which only the places are kept in memory: 16 bytes a row."""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from glassformer.data.formats import Format
from glassformer.data.lines import LIMIT, File, Lines
from glassformer.data.schema import Schema
from glassformer.data.sequence import Row, Rows
from glassformer.errors import DataError


class Indexed(Rows):
    """Rows by number of a file that is gone through once, and from then on read row by row.

    Raises: DataError: what is wrong with a row, with the file and its line.
    """

    def __init__(
        self, path: Path, how: Format, *, columns: Sequence[str] | None = None, limit: int = LIMIT
    ) -> None:
        self._file, self._format, self._limit = File(path), how, limit
        self._schema = Schema(columns)
        self._starts, self._sizes, self._lines = array("q"), array("I"), array("I")
        digest = hashlib.sha256(repr((how, columns)).encode())
        lines = Lines(self._file.stream(), str(path), limit=limit, digest=digest)
        self._head = how.begin(lines)
        for item in how.rows(lines, self._head):
            self._schema.checked(item.row, lines.name, item.line)
            self._starts.append(item.start)
            self._sizes.append(item.end - item.start)
            self._lines.append(item.line)
        if not self._starts:
            raise DataError(f"{path}: holds no row")
        self.columns, self.kinds = self._schema.columns, self._schema.kinds
        self.fingerprint = digest.hexdigest()

    def row(self, index: int) -> Row:
        data = self._file.at(self._starts[index], self._sizes[index])
        line = self._lines[index]
        lines = Lines(io.BytesIO(data), self._file.name, limit=self._limit, number=line - 1)
        return self._schema.cut(next(self._format.rows(lines, self._head)).row, self._file.name, line)

    def __iter__(self) -> Iterator[Row]:
        lines = Lines(self._file.stream(), self._file.name, limit=self._limit)
        lines.go(self._starts[0], self._lines[0] - 1)
        for item in self._format.rows(lines, self._head):
            yield self._schema.cut(item.row, self._file.name, item.line)

    def file(self, index: int) -> str:
        return self._file.name

    def where(self, index: int) -> str:
        return f"{self._file.name}: line {self._lines[index]}"

    def __len__(self) -> int:
        return len(self._starts)
