"""Random access to the rows of a text file through an index of byte offsets: 16 bytes of memory a row."""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from glassformer.data.formats import Format
from glassformer.data.lines import MAX_ROW_BYTES, DataFile, LineReader
from glassformer.data.schema import Schema
from glassformer.data.sequence import Row, RowSequence
from glassformer.errors import DataError


class IndexedRows(RowSequence):
    """Rows of a file that is parsed once to build the index, and then read row by row.

    Raises: DataError: what is wrong with a row, with the file and its line.
    """

    def __init__(
        self, path: Path, format: Format, *, columns: Sequence[str] | None = None, limit: int = MAX_ROW_BYTES
    ) -> None:
        self._file, self._format, self._limit = DataFile(path), format, limit
        self._schema = Schema(columns)
        self._starts, self._sizes, self._lines = array("q"), array("I"), array("I")
        digest = hashlib.sha256(repr((format, columns)).encode())
        lines = LineReader(self._file.stream(), str(path), limit=limit, digest=digest)
        self._header = format.read_header(lines)
        for item in format.rows(lines, self._header):
            self._schema.validate(item.row, lines.name, item.line)
            self._starts.append(item.start)
            self._sizes.append(item.end - item.start)
            self._lines.append(item.line)
        if not self._starts:
            raise DataError(f"{path}: holds no row")
        self.columns, self.kinds = self._schema.columns, self._schema.kinds
        self.fingerprint = digest.hexdigest()

    def row(self, index: int) -> Row:
        data = self._file.read_at(self._starts[index], self._sizes[index])
        line = self._lines[index]
        lines = LineReader(io.BytesIO(data), self._file.name, limit=self._limit, lines_read=line - 1)
        return self._schema.project(next(self._format.rows(lines, self._header)).row, self._file.name, line)

    def __iter__(self) -> Iterator[Row]:
        lines = LineReader(self._file.stream(), self._file.name, limit=self._limit)
        lines.seek(self._starts[0], self._lines[0] - 1)
        for item in self._format.rows(lines, self._header):
            yield self._schema.project(item.row, self._file.name, item.line)

    def file(self, index: int) -> str:
        return self._file.name

    def where(self, index: int) -> str:
        return f"{self._file.name}: line {self._lines[index]}"

    def __len__(self) -> int:
        return len(self._starts)
