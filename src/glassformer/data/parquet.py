"""Parquet files: streamed, or converted to a temporary Arrow file for random access.

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

from glassformer.data.columnar import ARROW_BATCH_ROWS, ArrowColumns, import_pyarrow
from glassformer.data.sequence import Row, RowSequence
from glassformer.errors import DataError
from glassformer.files import error_reason, open_regular_file


class ParquetReader:
    """Reads a Parquet file batch by batch. `columns`: the required ones.

    Raises: DataError: not a readable Parquet file; a column is missing, or has null values.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self._path = path
        open_regular_file(path, DataError)[0].close()  # a clear error for a missing file, a folder or a pipe
        with _parquet_errors(path):
            self._file = import_pyarrow("pyarrow.parquet").ParquetFile(path, memory_map=True)
        self.columns = ArrowColumns(str(path), self._file.schema_arrow, columns)

    def batches(self, start: int = 0) -> Iterator[Any]:
        """Arrow record batches from a row on; row groups before it are not decompressed."""
        metadata, group, skipped = self._file.metadata, 0, 0
        while group < metadata.num_row_groups and skipped + metadata.row_group(group).num_rows <= start:
            skipped += metadata.row_group(group).num_rows
            group += 1
        self.columns.count = skipped
        groups = range(group, metadata.num_row_groups)
        with _parquet_errors(self._path):
            for batch in self._file.iter_batches(
                ARROW_BATCH_ROWS, row_groups=groups, columns=list(self.columns.columns)
            ):
                self.columns.check(batch)
                skip = max(start - (self.columns.count - batch.num_rows), 0)
                if skip < batch.num_rows:
                    yield batch.slice(skip).select(list(self.columns.columns))


class ParquetRows(RowSequence):
    """Rows by number of a Parquet file. Raises: DataError: as `Parquet`. MissingExtraError: no pyarrow."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        arrow, source = import_pyarrow("pyarrow"), ParquetReader(path, columns)
        self._name = str(path)
        self._ends: list[int] = []
        self._arrow_file = tempfile.NamedTemporaryFile(suffix=".arrow")  # noqa: SIM115 (deleted with this object)
        schema = source.columns.arrow
        with _parquet_errors(path), arrow.ipc.new_file(self._arrow_file.name, schema) as writer:
            for batch in source.batches():
                writer.write_batch(batch.cast(schema))
                self._ends.append(source.columns.count)
        source.columns.finish()
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
        self.columns, self.kinds = source.columns.columns, source.columns.kinds
        digest.update(repr(self.columns).encode())
        self.fingerprint = digest.hexdigest()
        self._batches = arrow.ipc.open_file(arrow.memory_map(self._arrow_file.name))

    def row(self, index: int) -> Row:
        number = bisect_right(self._ends, index)
        start = self._ends[number - 1] if number else 0
        row: Row = self._batches.get_batch(number).slice(index - start, 1).to_pylist()[0]
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
def _parquet_errors(path: Path) -> Iterator[None]:
    """Raise errors of Arrow as `DataError`."""
    try:
        yield
    except (import_pyarrow("pyarrow").ArrowException, OSError) as problem:
        raise DataError(f"{path}: cannot be read as Parquet: {error_reason(problem)}") from problem
