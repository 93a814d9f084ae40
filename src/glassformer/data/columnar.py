"""Columnar data: Parquet files, Hugging Face `datasets` and pandas DataFrames.

Parquet ──some rows at a time──> Arrow file, temporary ──memory map──> row i, without unpacking its neighbours
"""

from __future__ import annotations

import hashlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.data.sequence import (
    ColumnNames,
    InMemoryRows,
    Row,
    RowSchema,
    RowSequence,
    RowSource,
    ScannedRow,
    check_column,
    null_value,
)
from glassformer.errors import DataError, import_optional
from glassformer.files import error_reason, file_sha256, max_unpacked_bytes, open_regular_file

ARROW_BATCH_ROWS = 1_000  # held in memory at once; a row of the Arrow file is found by its batch


class ParquetFile(RowSource):
    """A Parquet file. Raises: DataError: it cannot be read; a column is missing, or has null values."""

    def __init__(self, path: Path) -> None:
        self.name, self.path = str(path), path

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return ParquetRows(self, columns)

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        number = position or 0
        for batch in self.batches(*self.open(columns), start=number):
            for row in batch.to_pylist():
                yield ScannedRow(row, f"{self.name}: row {number}", number + 1)
                number += 1

    def open(self, columns: ColumnNames) -> tuple[Any, ArrowColumns]:
        """Open the file, and check that it has the required columns."""
        stream, _ = open_regular_file(self.path, DataError)  # a clear error for a missing file, a folder or a pipe
        stream.close()
        with self.errors():
            file = import_pyarrow("pyarrow.parquet").ParquetFile(self.path, memory_map=True)
        return file, ArrowColumns(self.name, file.schema_arrow, columns)

    def batches(self, file: Any, columns: ArrowColumns, start: int = 0) -> Iterator[Any]:
        """Arrow record batches from a row on; row groups before it are not decompressed."""
        metadata, group, skipped = file.metadata, 0, 0
        while group < metadata.num_row_groups and skipped + metadata.row_group(group).num_rows <= start:
            skipped += metadata.row_group(group).num_rows
            group += 1
        columns.count, names = skipped, list(columns.names)
        groups, room = range(group, metadata.num_row_groups), max_unpacked_bytes(self.path)
        with self.errors():
            for batch in file.iter_batches(self._batch_rows(metadata, room), row_groups=groups, columns=names):
                columns.check(batch)
                room -= batch.nbytes
                if room < 0:
                    raise self._swelling()
                skip = max(start - (columns.count - batch.num_rows), 0)
                if skip < batch.num_rows:
                    yield batch.slice(skip).select(names)

    def _batch_rows(self, metadata: Any, room: int) -> int:
        """How many rows to hold at once: a value, at most as large as its column, may be repeated for each of them."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        sizes = [
            group.column(number).total_uncompressed_size for group in groups for number in range(group.num_columns)
        ]
        if sum(sizes) > room:
            raise self._swelling()
        return int(max(1, min(ARROW_BATCH_ROWS, room // max(1, *sizes, 1))))

    def _swelling(self) -> DataError:
        return DataError(
            f"{self.name}: unpacks to more than {max_unpacked_bytes(self.path):,} bytes, far more than tables do of so "
            "small a file; if you trust it, write it again without compression"
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of Arrow as `DataError`."""
        try:
            yield
        except (import_pyarrow("pyarrow").ArrowException, OSError) as problem:
            raise DataError(f"{self.name}: cannot be read as Parquet: {error_reason(problem)}") from problem


class ParquetRows(RowSequence):
    """Rows by number of a Parquet file. Raises: DataError: as `ParquetFile`. MissingExtraError: no pyarrow."""

    def __init__(self, file: ParquetFile, columns: ColumnNames = None) -> None:
        arrow = import_pyarrow("pyarrow")
        opened, required = file.open(columns)
        self.name, self.columns, self.kinds = file.name, required.names, required.kinds
        self._ends: list[int] = []
        self._arrow_file = tempfile.NamedTemporaryFile(suffix=".arrow")  # noqa: SIM115 (deleted with this object)
        with file.errors(), arrow.ipc.new_file(self._arrow_file.name, required.arrow) as writer:
            for batch in file.batches(opened, required):
                writer.write_batch(batch.cast(required.arrow))
                self._ends.append(required.count)
        required.finish()
        self.fingerprint = file_sha256(file.path, repr(self.columns).encode())
        self._batches = arrow.ipc.open_file(arrow.memory_map(self._arrow_file.name))

    def row(self, index: int) -> Row:
        number = bisect_right(self._ends, index)
        start = self._ends[number - 1] if number else 0
        row: Row = self._batches.get_batch(number).slice(index - start, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[Row]:
        for number in range(len(self._ends)):
            yield from self._batches.get_batch(number).to_pylist()

    def __len__(self) -> int:
        return self._ends[-1]


class HuggingFaceRows(RowSequence):
    """Rows of a Hugging Face `datasets.Dataset`, which is not copied; audio is not decoded: {"bytes": …, "path": …}.

    Raises: DataError: a column is missing, or has null values.
    """

    name = "the dataset"

    def __init__(self, dataset: Any, columns: ColumnNames) -> None:
        for name, feature in dataset.features.items():
            if type(feature).__name__ == "Audio":  # decoded at the model's sample rate, by `audio/read.py`
                dataset = dataset.cast_column(name, replace(feature, decode=False))
        self._dataset = dataset.with_format(None)
        self._project = RowSchema(columns).project
        required = ArrowColumns(self.name, dataset.with_format("arrow")[:0].schema, columns)
        digest = hashlib.sha256()
        for table in dataset.with_format("arrow").iter(batch_size=ARROW_BATCH_ROWS):
            for batch in table.select(list(required.names)).combine_chunks().to_batches():
                required.check(batch)
                digest.update(batch.replace_schema_metadata(None).serialize())
        required.finish()
        self.columns, self.kinds, self.fingerprint = required.names, required.kinds, digest.hexdigest()

    def row(self, index: int) -> Row:
        return self._project(self._dataset[index])

    def __len__(self) -> int:
        return len(self._dataset)


class ArrowColumns:
    """The required columns of an Arrow schema: their types, and a check of each batch for null values.

    Raises: DataError: a column is missing, or a name is duplicate.
    """

    def __init__(self, name: str, schema: Any, columns: ColumnNames) -> None:
        self._name, self._nulls_allowed = name, columns is None
        RowSchema(columns)  # validates the list of columns
        check_unique(name, schema.names)
        self.names = tuple(schema.names if columns is None else columns)
        for column in self.names:
            check_column(name, column, schema.names)
        self.arrow = import_pyarrow("pyarrow").schema([schema.field(column) for column in self.names])
        self.kinds = {column: _type_name(schema.field(column).type) for column in self.names}
        self.count = 0

    def check(self, batch: Any) -> None:
        """Check the next batch for null values. Raises: DataError: a required column has one, with the row."""
        for column in () if self._nulls_allowed else self.names:
            values = batch.column(column)
            if values.null_count:
                row = self.count + values.is_null().to_pylist().index(True)
                raise DataError(f"{self._name}: row {row}: {null_value(column)}")
        self.count += batch.num_rows

    def finish(self) -> None:
        """Check that there was a row. Raises: DataError: there was none."""
        if not self.count:
            raise DataError(f"{self._name}: holds no row")


def rows_of_frame(frame: Any, columns: ColumnNames = None) -> RowSequence:
    """Rows of a pandas DataFrame; null values (NaN, NaT, NA) become None. Raises: DataError: as for a list."""
    names = list(map(str, frame.columns))
    check_unique("the frame", names)
    objects = frame.set_axis(names, axis="columns").astype(object)
    return InMemoryRows(objects.where(objects.notna(), None).to_dict("records"), columns=columns, name="the frame")


def check_unique(name: str, columns: list[str]) -> None:
    """Raises: DataError: a column that is named twice."""
    if duplicates := sorted({column for column in columns if columns.count(column) > 1}):
        raise DataError(f"{name}: names the column {duplicates[0]!r} twice")


def import_pyarrow(name: str) -> ModuleType:
    """Import a module of pyarrow. Raises: MissingExtraError: it is not installed."""
    module: ModuleType = import_optional(name, "pyarrow", "data", "reading Parquet and data sets")
    return module


def _type_name(type_: Any) -> str:
    types = import_pyarrow("pyarrow").types
    if types.is_dictionary(type_):
        return _type_name(type_.value_type)
    tests = {
        "a text": (types.is_string, types.is_large_string),
        "true or false": (types.is_boolean,),
        "a number": (types.is_integer, types.is_floating),
        "a list": (types.is_list, types.is_large_list, types.is_fixed_size_list),
        "an object": (types.is_struct,),
        "bytes": (types.is_binary, types.is_large_binary),
        "nothing": (types.is_null,),
    }
    return next((kind for kind, which in tests.items() if any(test(type_) for test in which)), f"a {type_}")
