"""Files whose lines belong together: line n of one is the translation of line n of the other.

train.en   Two young men …        read_rows({"source": "train.en", "target": "train.de"})
train.de   Zwei junge Männer …    read_rows("train.{en,de}")
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from glassformer.data.index import Indexed
from glassformer.data.lines import LIMIT
from glassformer.data.sequence import Row, Rows
from glassformer.data.texts import PlainText
from glassformer.errors import DataError


class Parallel(Rows):
    """A column from each file. Raises: DataError: one has more lines than another."""

    def __init__(self, files: Mapping[str, Path], *, limit: int = LIMIT) -> None:
        self._parts = [
            Indexed(path, PlainText(name=name, blank=True), limit=limit) for name, path in files.items()
        ]
        shortest, longest = min(self._parts, key=len), max(self._parts, key=len)
        if len(shortest) < len(longest):
            raise unequal(shortest.file(0), longest.where(len(shortest)))
        self.columns = tuple(files)
        self.kinds = dict.fromkeys(files, "a text")
        self.fingerprint = hashlib.sha256(
            "".join(part.fingerprint for part in self._parts).encode()
        ).hexdigest()

    def row(self, index: int) -> Row:
        return {name: value for part in self._parts for name, value in part.row(index).items()}

    def __iter__(self) -> Iterator[Row]:
        for rows in zip(*self._parts, strict=True):
            yield {name: value for row in rows for name, value in row.items()}

    def file(self, index: int) -> str:
        return self._parts[0].file(index)

    def where(self, index: int) -> str:
        return self._parts[0].where(index)

    def __len__(self) -> int:
        return len(self._parts[0])


def unequal(shorter: str, where: str) -> DataError:
    """What is wrong where one of the files ends before the others."""
    return DataError(
        f"{where} has no counterpart: {shorter} ends before it; files of pairs have as many lines"
    )
