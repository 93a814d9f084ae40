"""Columnar data: Hugging Face `datasets`, pandas DataFrames, and the columns of Arrow schemas."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from glassformer.data.schema import Schema, missing_column
from glassformer.data.sequence import InMemoryRows, Row, RowSequence
from glassformer.errors import DataError, MissingExtraError

ARROW_BATCH_ROWS = 1_000


class HuggingFaceRows(RowSequence):
    """Rows of a Hugging Face `datasets.Dataset`, which is not copied.

    Raises: DataError: a column is missing, or has null values.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None) -> None:
        self._dataset = dataset.with_format(None)
        self._schema = Schema(columns)
        arrow_columns = ArrowColumns("the dataset", dataset.with_format("arrow")[:0].schema, columns)
        digest = hashlib.sha256()
        for table in dataset.with_format("arrow").iter(batch_size=ARROW_BATCH_ROWS):
            for batch in table.select(list(arrow_columns.columns)).combine_chunks().to_batches():
                arrow_columns.check(batch)
                digest.update(batch.replace_schema_metadata(None).serialize())
        arrow_columns.finish()
        self.columns, self.kinds, self.fingerprint = (
            arrow_columns.columns,
            arrow_columns.kinds,
            digest.hexdigest(),
        )

    def row(self, index: int) -> Row:
        return self._schema.project(self._dataset[index], self.where(index))

    def file(self, index: int) -> str:
        return "the dataset"

    def where(self, index: int) -> str:
        return f"the dataset: row {index}"

    def __len__(self) -> int:
        return len(self._dataset)


class ArrowColumns:
    """The required columns of an Arrow schema: their types, and a check of each batch for null values.

    Raises: DataError: a column is missing, or a name is duplicate.
    """

    def __init__(self, name: str, schema: Any, columns: Sequence[str] | None) -> None:
        self._name, self._nulls_allowed = name, columns is None
        Schema(columns)  # validates the list of columns
        if duplicates := sorted({column for column in schema.names if schema.names.count(column) > 1}):
            raise DataError(f"{name}: names the column {duplicates[0]!r} twice")
        self.columns = tuple(schema.names if columns is None else columns)
        for column in self.columns:
            if column not in schema.names:
                raise DataError(f"{name}: {missing_column(column, schema.names)}")
        self.arrow = import_pyarrow("pyarrow").schema([schema.field(column) for column in self.columns])
        self.kinds = {column: _type_name(schema.field(column).type) for column in self.columns}
        self.count = 0

    def check(self, batch: Any) -> None:
        """Check the next batch for null values. Raises: DataError: a required column has one, with the row."""
        for column in () if self._nulls_allowed else self.columns:
            values = batch.column(column)
            if values.null_count:
                row = self.count + values.is_null().to_pylist().index(True)
                raise DataError(
                    f"{self._name}: row {row}: {column!r} is empty (null); give it a value, or leave the row out"
                )
        self.count += batch.num_rows

    def finish(self) -> None:
        """Check that there was a row. Raises: DataError: there was none."""
        if not self.count:
            raise DataError(f"{self._name}: holds no row")


def from_frame(frame: Any, columns: Sequence[str] | None = None) -> RowSequence:
    """Rows of a pandas DataFrame; null values (NaN, NaT, NA) become None. Raises: DataError: as for a list."""
    names = list(map(str, frame.columns))
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the frame: names the column {duplicates[0]!r} twice")
    objects = frame.set_axis(names, axis="columns").astype(object)
    return InMemoryRows(
        objects.where(objects.notna(), None).to_dict("records"), columns=columns, name="the frame"
    )


def import_pyarrow(name: str) -> ModuleType:
    """Import a module of pyarrow. Raises: MissingExtraError: it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "reading Parquet and data sets") from error


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
