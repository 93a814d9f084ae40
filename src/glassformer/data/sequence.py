"""Row sequences: random access to validated rows, each a dict of column → value, wherever they are stored.

rows = read_rows("train.csv")       rows[0]        {"text": "so glad", "label": "joy"}
                                    rows.where(0)  "train.csv: line 2"

A schema validates them on the way: the same columns in every row, values of one type in each.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from glassformer.errors import ConfigError, DataError, import_optional, nearest
from glassformer.files import safe_repr
from glassformer.reports.report import Display
from glassformer.reports.table import Table

Row: TypeAlias = dict[str, Any]
ColumnNames: TypeAlias = Sequence[str] | None

TYPE_NAMES: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "an object",
    bytes: "bytes",
}


IDENTIFIERS = ("id", "idx", "guid", "uuid")
"""Columns that number the rows, as SQuAD's and GLUE's do: no task reads them, and none is in the way."""


def type_name(value: Any) -> str:
    """The type of a value for messages; integers and floats are both "a number"."""
    names = (kind for type_, kind in TYPE_NAMES.items() if isinstance(value, type_))
    return next(names, "a number" if isinstance(value, Real) else f"a {type(value).__name__}")


class MissingColumnError(DataError):
    """A row lacks a required column.

    column: its name
    """

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


def missing_column(name: str, names: Iterable[str], role: str | None = None) -> str:
    """`no column 'lable'; nearest: 'label'; there are: 'text', 'label'`, and how to name the column of a role."""
    known = list(names)
    available = ", ".join(map(safe_repr, known[:20])) or "none"
    remedy = f"; say which one it is: columns={{'{role}': NAME}}" if role else ""
    return f"no column {safe_repr(name)}{nearest(name, known)}; there are: {available}{remedy}"


def check_column(where: str, name: str, columns: Iterable[str], role: str | None = None) -> None:
    """Raises: DataError: a column that is not among these.

    Args:
        where: the file that lacks it
        role: what it is for
    """
    if name not in columns:
        raise MissingColumnError(f"{where}: {missing_column(name, columns, role)}", name)


def labels_of(cell: Any) -> list[Any]:
    """The labels in a cell: those of a list, or the one."""
    several = isinstance(cell, (list, tuple, set, frozenset, np.ndarray))
    return list(cell) if several else [cell]


def are_names(columns: object) -> bool:
    """Whether these are names of columns, one or more, each once."""
    if isinstance(columns, str) or not isinstance(columns, Collection):
        return False
    return all(isinstance(name, str) for name in columns) and 0 < len(set(columns)) == len(columns)


class RowSchema:
    """Validates rows one by one: required columns, values of one type in each column.

    Args:
        columns: the required ones, without null values; None = all, which may have null values
        kinds: column → type of its values, as far as known from earlier rows
    Raises: ConfigError: an empty list of columns, or a duplicate.
    """

    def __init__(self, columns: ColumnNames = None, kinds: Mapping[str, str] | None = None) -> None:
        if columns is not None and not are_names(columns):
            raise ConfigError(f"columns is {safe_repr(columns)}; give the names of one or more columns, each once")
        self._required = None if columns is None else tuple(columns)
        self.kinds = dict(kinds or {})

    @property
    def columns(self) -> tuple[str, ...]:
        """The required columns, or all that occurred."""
        return tuple(self.kinds) if self._required is None else self._required

    def validate(self, row: Mapping[str, Any], where: str, line: int | None = None) -> Row:
        """Validate a row and return its required columns.

        Args:
            where, line: its file and line, for messages.

        Raises: DataError: a column is missing, has no value, or another kind of value than before.
        """
        try:
            values = self.project(row)
            for name, value in values.items():
                kind = TYPE_NAMES.get(type(value)) or type_name(value)
                if kind != self.kinds.get(name):
                    self._admit(name, value, kind)
            return values
        except (KeyError, DataError) as error:
            # The location is put together here alone: for millions of good rows it would only cost time.
            where = where if line is None else f"{where}: line {line}"
            if isinstance(error, KeyError):
                check_column(where, error.args[0], row)
            raise DataError(f"{where}: {error}") from None

    def project(self, row: Mapping[str, Any]) -> Row:
        """The required columns of a row, without validation. Raises: KeyError: one is missing."""
        return dict(row) if self._required is None else {name: row[name] for name in self._required}

    def _admit(self, name: str, value: Any, kind: str) -> None:
        """A value of another kind than the column had so far: its first one, a null value, or an error."""
        if value is None:
            if self._required is not None:
                raise DataError(null_value(name))
            self.kinds.setdefault(name, "nothing")
        elif self.kinds.setdefault(name, kind) == "nothing":
            self.kinds[name] = kind
        elif self.kinds[name] != kind:
            raise DataError(
                f"{name!r} is {safe_repr(value)}, {kind}, where the rows before have {self.kinds[name]}; "
                "a column holds one kind"
            )


def null_value(column: str) -> str:
    """The message of a required column without a value."""
    return f"{column!r} is empty (null); give it a value, or leave the row out"


class RowSequence(Sequence[Row], Display):
    """Rows with random access: `rows[5]`, `len(rows)`, `for row in rows`, `rows[:100]`.

    columns: their names
    fingerprint: a hash of the content
    kinds: column → type of its values
    name: their file, or what messages call them
    """

    columns: Sequence[str]
    fingerprint: str
    kinds: Mapping[str, str]
    name: str

    @abstractmethod
    def row(self, index: int) -> Row:
        """The row at 0 … len - 1."""

    @abstractmethod
    def __len__(self) -> int: ...

    def file(self, index: int) -> str:
        """The file of a row: `train.csv`."""
        return self.name

    def where(self, index: int) -> str:
        """The location of a row, for messages: `train.csv: line 17`."""
        return f"{self.name}: row {index}"

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> RowSequence: ...
    def __getitem__(self, index: int | slice) -> Row | RowSequence:
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there is no row {index} among {len(self):,}")
        return self.row(position)

    def __iter__(self) -> Iterator[Row]:
        return map(self.row, range(len(self)))

    def select(self, indices: Iterable[int]) -> RowSequence:
        """The rows at these indices, in this order. Raises: DataError: no index, or one out of range."""
        return SelectedRows(self, np.fromiter(indices, np.int64))

    def filter(self, keep: Callable[[Row], bool]) -> RowSequence:
        """The rows for which `keep` is true. Raises: DataError: there are none."""
        indices = [index for index, row in enumerate(self) if keep(row)]
        if not indices:
            raise DataError(
                f"the filter drops all {len(self):,} rows of {self.file(0)}; look at its condition, "
                f"and at a row: {shorten(self[0], 200)}"
            )
        return self if len(indices) == len(self) else self.select(indices)

    def to_pandas(self) -> Any:
        """A pandas DataFrame, in memory. Raises: MissingExtraError: no pandas."""
        pandas = import_optional("pandas", "pandas", "data", "a DataFrame")
        return pandas.DataFrame(list(self), columns=list(self.columns))

    def __repr__(self) -> str:
        rows = "\n".join(f"  {shorten(row, 100)}" for row in islice(self, 3))
        return f"{self._title()}: {', '.join(self.columns)}\n{rows}"

    def tables(self) -> list[Table]:
        """The first rows, as a table for the terminal and notebooks."""
        cells = [[shorten(row.get(name), 120) for name in self.columns] for row in islice(self, 5)]
        return [Table(self.columns, cells, self._title(), longest=120)]

    def _title(self) -> str:
        first, last = self.file(0), self.file(len(self) - 1)
        origin = first if first == last else f"{first} … {last}"
        return f"{len(self):,} row{'s' if len(self) > 1 else ''} of {origin}"


class InMemoryRows(RowSequence):
    """Rows of a list of dicts. Raises: DataError: no row, an invalid one, or one that is no mapping.

    Args:
        places: of each row, for messages; None = "row 0", …
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        columns: ColumnNames = None,
        name: str = "the list",
        places: Sequence[str] | None = None,
    ) -> None:
        schema, digest = RowSchema(columns), hashlib.sha256()
        self.name, self._places = name, places
        self._rows: list[Row] = []
        for number, row in enumerate(rows):
            where = self.where(number)
            self._rows.append(schema.validate(as_row(row, where), where))
            digest.update(json.dumps(self._rows[-1], default=_json_default).encode("utf-8", "surrogatepass"))
        if not self._rows:
            raise DataError(f"{name}: holds no row")
        self.columns, self.kinds, self.fingerprint = schema.columns, schema.kinds, digest.hexdigest()

    def row(self, index: int) -> Row:
        return dict(self._rows[index])

    def where(self, index: int) -> str:
        return super().where(index) if self._places is None else f"{self.name}: {self._places[index]}"

    def __len__(self) -> int:
        return len(self._rows)


class RowView(RowSequence):
    """Rows that lie in another sequence, `_rows`, at other indices or each changed by itself."""

    _rows: RowSequence

    def _locate(self, index: int) -> tuple[RowSequence, int]:
        """The sequence that holds a row, and the row's index there."""
        return self._rows, index

    def _change(self, row: Row) -> Row:
        return row

    def row(self, index: int) -> Row:
        rows, at = self._locate(index)
        return self._change(rows.row(at))

    def file(self, index: int) -> str:
        rows, at = self._locate(index)
        return rows.file(at)

    def where(self, index: int) -> str:
        rows, at = self._locate(index)
        return rows.where(at)

    def __len__(self) -> int:
        return len(self._rows)


class SelectedRows(RowView):
    """A selection of rows by index, in any order."""

    def __init__(self, rows: RowSequence, indices: np.ndarray) -> None:
        if not indices.size:
            raise DataError(f"none of the {len(rows):,} rows of {rows.file(0)} is left; select at least one")
        if not 0 <= int(indices.min()) <= int(indices.max()) < len(rows):
            raise DataError(f"rows go from 0 to {len(rows) - 1}; got {indices.min()} to {indices.max()}")
        self._rows, self._indices = rows, indices
        self.columns, self.kinds = rows.columns, rows.kinds
        self.fingerprint = sha256_of(rows.fingerprint.encode(), indices.tobytes())

    def _locate(self, index: int) -> tuple[RowSequence, int]:
        return self._rows, int(self._indices[index])

    def __len__(self) -> int:
        return len(self._indices)


class ScannedRow(NamedTuple):
    """A row of a scan; `next_position`: a JSON value from which the scan resumes after it."""

    row: Row
    where: str
    next_position: Any


class RowSource(ABC):
    """A file, folder or object that holds rows.

    name: what messages call it.
    """

    name: str

    @abstractmethod
    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        """Its rows with random access, all validated.

        Args:
            limit: bytes of a row
        """

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        """Its rows in order from a position on, None = from the first; values may not be validated yet."""
        rows = self.indexed(columns, limit)
        for number in range(position or 0, len(rows)):
            yield ScannedRow(rows.row(number), rows.where(number), number + 1)

    def stamp(self) -> list[Any]:
        """A cheap identity (name and size), to tell whether a saved position still fits."""
        return [Path(self.name).name, os.path.getsize(self.name) if os.path.exists(self.name) else None]


def as_row(value: Any, where: str) -> Row:
    """A row as a dict. Raises: DataError: it is not a mapping."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {shorten(value, 100)}; a row is a dict, column → value")
    return dict(value)


def sha256_of(*parts: bytes) -> str:
    """SHA-256 of byte strings, each with its length, so that their borders count."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _json_default(value: Any) -> Any:
    """Values that JSON cannot hold, in a form for the fingerprint alone."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return value.item()
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else f"{type(value).__name__} {value}"


def shorten(value: Any, size: int) -> str:
    """A value as text of at most `size` characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= size else text[: size - 1] + "…"
