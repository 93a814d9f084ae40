"""Parallel corpora: line n of one file is the translation of line n of the other.

train.en   Two young men …        read_rows({"source": "train.en", "target": "train.de"})
train.de   Zwei junge Männer …    read_rows("train.{en,de}")
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from glassformer.data.index import IndexedRows
from glassformer.data.lines import MAX_ROW_BYTES
from glassformer.data.plain_text import PlainText
from glassformer.data.sequence import Row, RowSequence
from glassformer.errors import DataError


class ParallelRows(RowSequence):
    """Rows of parallel text files, a column each. Raises: DataError: their numbers of lines differ."""

    def __init__(self, files: Mapping[str, Path], *, limit: int = MAX_ROW_BYTES) -> None:
        self._columns = [
            IndexedRows(path, PlainText(name=name, blank=True), limit=limit) for name, path in files.items()
        ]
        shortest, longest = min(self._columns, key=len), max(self._columns, key=len)
        if len(shortest) < len(longest):
            raise unequal_lengths(shortest.file(0), longest.where(len(shortest)))
        self.columns = tuple(files)
        self.kinds = dict.fromkeys(files, "a text")
        self.fingerprint = hashlib.sha256(
            "".join(column.fingerprint for column in self._columns).encode()
        ).hexdigest()

    def row(self, index: int) -> Row:
        return {name: value for column in self._columns for name, value in column.row(index).items()}

    def __iter__(self) -> Iterator[Row]:
        for rows in zip(*self._columns, strict=True):
            yield {name: value for row in rows for name, value in row.items()}

    def file(self, index: int) -> str:
        return self._columns[0].file(index)

    def where(self, index: int) -> str:
        return self._columns[0].where(index)

    def __len__(self) -> int:
        return len(self._columns[0])


def unequal_lengths(shorter: str, where: str) -> DataError:
    """The error of a file with fewer lines than the others."""
    return DataError(
        f"{where} has no counterpart: {shorter} ends before it; files of pairs have as many lines"
    )
