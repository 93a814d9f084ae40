"""Rows of objects that lie column by column, `datasets` objects and pandas frames, and what Arrow says of columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from glassformer.data.schema import Schema, missing
from glassformer.data.sequence import Listed, Row, Rows
from glassformer.errors import DataError, MissingExtraError

BATCH = 1_000


class Dataset(Rows):
    """Rows of a `datasets.Dataset`, which stay where they are.

    Raises: DataError: a column is missing, or has gaps.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None) -> None:
        self._dataset = dataset.with_format(None)
        self._schema = Schema(columns)
        seen = Columns("the dataset", dataset.with_format("arrow")[:0].schema, columns)
        digest = hashlib.sha256()
        for table in dataset.with_format("arrow").iter(batch_size=BATCH):
            for batch in table.select(list(seen.columns)).combine_chunks().to_batches():
                seen.add(batch)
                digest.update(batch.replace_schema_metadata(None).serialize())
        seen.finish()
        self.columns, self.kinds, self.fingerprint = seen.columns, seen.kinds, digest.hexdigest()

    def row(self, index: int) -> Row:
        return self._schema.cut(self._dataset[index], self.where(index))

    def file(self, index: int) -> str:
        return "the dataset"

    def where(self, index: int) -> str:
        return f"the dataset: row {index}"

    def __len__(self) -> int:
        return len(self._dataset)


class Columns:
    """The columns of an Arrow schema that are needed, their kinds, and a look at each batch for gaps.

    Raises: DataError: a column is missing, or there twice.
    """

    def __init__(self, name: str, schema: Any, columns: Sequence[str] | None) -> None:
        self._name, self._gaps_allowed = name, columns is None
        Schema(columns)  # says what is wrong with the list itself
        if twice := sorted({each for each in schema.names if schema.names.count(each) > 1}):
            raise DataError(f"{name}: names the column {twice[0]!r} twice")
        self.columns = tuple(schema.names if columns is None else columns)
        for column in self.columns:
            if column not in schema.names:
                raise DataError(f"{name}: {missing(column, schema.names)}")
        self.arrow = package("pyarrow").schema([schema.field(column) for column in self.columns])
        self.kinds = {column: _kind(schema.field(column).type) for column in self.columns}
        self.count = 0

    def add(self, batch: Any) -> None:
        """Raises: DataError: a column that is needed has no value somewhere."""
        for column in () if self._gaps_allowed else self.columns:
            values = batch.column(column)
            if values.null_count:
                row = self.count + values.is_null().to_pylist().index(True)
                raise DataError(
                    f"{self._name}: row {row}: {column!r} is empty (null); give it a value, or leave the row out"
                )
        self.count += batch.num_rows

    def finish(self) -> None:
        """Raises: DataError: there was no row."""
        if not self.count:
            raise DataError(f"{self._name}: holds no row")


def from_frame(frame: Any, columns: Sequence[str] | None = None) -> Rows:
    """Rows of a pandas DataFrame; its gaps (NaN, NaT, NA) become None. Raises: DataError: as for a list."""
    names = list(map(str, frame.columns))
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise DataError(f"the frame: names the column {twice[0]!r} twice")
    whole = frame.set_axis(names, axis="columns").astype(object)
    return Listed(whole.where(whole.notna(), None).to_dict("records"), columns=columns, name="the frame")


def package(name: str) -> ModuleType:
    """A part of pyarrow. Raises: MissingExtraError: it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "reading Parquet and data sets") from error


def _kind(type_: Any) -> str:
    types = package("pyarrow").types
    if types.is_dictionary(type_):
        return _kind(type_.value_type)
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
