"""Parquet files.

Parquet ──some rows at a time──> Arrow file, temporary ──memory map──> row i, without unpacking its neighbours
"""

from __future__ import annotations

import hashlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.data.columnar import BATCH, Columns, package
from glassformer.data.sequence import Row, Rows
from glassformer.errors import DataError
from glassformer.files import open_regular, reason


class Parquet:
    """A Parquet file, to be gone through some rows at a time. `seen`: its columns, as far as they are needed.

    Raises: DataError: no such file, or none of Parquet; a column is missing, or has gaps.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self._path = path
        open_regular(path, DataError)[0].close()  # says what is wrong with the place itself
        with _said(path):
            self._file = package("pyarrow.parquet").ParquetFile(path, memory_map=True)
        self.seen = Columns(str(path), self._file.schema_arrow, columns)

    def batches(self, start: int = 0) -> Iterator[Any]:
        """Arrow's record batches from a row on; groups of rows before it are not unpacked."""
        about, group, skipped = self._file.metadata, 0, 0
        while group < about.num_row_groups and skipped + about.row_group(group).num_rows <= start:
            skipped += about.row_group(group).num_rows
            group += 1
        self.seen.count = skipped
        groups = range(group, about.num_row_groups)
        with _said(self._path):
            for batch in self._file.iter_batches(BATCH, row_groups=groups, columns=list(self.seen.columns)):
                self.seen.add(batch)
                skip = max(start - (self.seen.count - batch.num_rows), 0)
                if skip < batch.num_rows:
                    yield batch.slice(skip).select(list(self.seen.columns))


class ParquetRows(Rows):
    """Rows by number of a Parquet file. Raises: DataError: as `Parquet`. MissingExtraError: no pyarrow."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        arrow, source = package("pyarrow"), Parquet(path, columns)
        self._name = str(path)
        self._ends: list[int] = []
        self._held = tempfile.NamedTemporaryFile(suffix=".arrow")  # noqa: SIM115 (it lives as long as we)
        schema = source.seen.arrow
        with _said(path), arrow.ipc.new_file(self._held.name, schema) as writer:
            for batch in source.batches():
                writer.write_batch(batch.cast(schema))
                self._ends.append(source.seen.count)
        source.seen.finish()
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
        self.columns, self.kinds = source.seen.columns, source.seen.kinds
        digest.update(repr(self.columns).encode())
        self.fingerprint = digest.hexdigest()
        self._batches = arrow.ipc.open_file(arrow.memory_map(self._held.name))

    def row(self, index: int) -> Row:
        number = bisect_right(self._ends, index)
        place = index - (self._ends[number - 1] if number else 0)
        row: Row = self._batches.get_batch(number).slice(place, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[Row]:
        for number in range(len(self._ends)):
            yield from self._batches.get_batch(number).to_pylist()

    def file(self, index: int) -> str:
        return self._name

    def where(self, index: int) -> str:
        return f"{self._name}: row {index}"

    def __len__(self) -> int:
        return self._ends[-1]


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Arrow's errors, said as ours."""
    try:
        yield
    except (package("pyarrow").ArrowException, OSError) as problem:
        raise DataError(f"{path}: cannot be read as Parquet: {reason(problem)}") from problem
