"""Rows by number, each a mapping from column to value, whatever they lie in.

rows = read_rows("train.csv")       rows[0]        {"text": "so glad", "label": "joy"}
                                    rows.where(0)  "train.csv: line 2"
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, islice
from typing import Any, overload

import numpy as np

from glassformer.data.schema import Schema, missing
from glassformer.errors import DataError, MissingExtraError

Row = dict[str, Any]


class Rows(Sequence[Row]):
    """Rows by number: `rows[5]`, `len(rows)`, `for row in rows`, `rows[:100]`.

    columns: their names · fingerprint: another for other content · kinds: column → what it holds
    """

    columns: Sequence[str]
    fingerprint: str
    kinds: Mapping[str, str]

    @abstractmethod
    def row(self, index: int) -> Row:
        """The row at 0 … len - 1."""

    @abstractmethod
    def file(self, index: int) -> str:
        """What a row comes from: `train.csv`."""

    @abstractmethod
    def where(self, index: int) -> str:
        """Where a row stands, for messages: `train.csv: line 17`."""

    @abstractmethod
    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"there is no row {index} among {len(self):,}")
        return self.row(place)

    def __iter__(self) -> Iterator[Row]:
        return map(self.row, range(len(self)))

    def select(self, indices: Iterable[int]) -> Rows:
        """These rows, in this order. Raises: DataError: none, or one that is not there."""
        return Selected(self, np.fromiter(indices, np.int64))

    def filter(self, keep: Callable[[Row], bool]) -> Rows:
        """The rows for which `keep` is true. Raises: DataError: it drops all of them."""
        indices = [index for index, row in enumerate(self) if keep(row)]
        if not indices:
            raise DataError(
                f"the filter drops all {len(self):,} rows of {self.file(0)}; look at its condition, "
                f"and at a row: {_short(self[0], 200)}"
            )
        return self if len(indices) == len(self) else self.select(indices)

    def to_pandas(self) -> Any:
        """A pandas DataFrame, in memory. Raises: MissingExtraError: no pandas."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "data", "a DataFrame") from error
        return pandas.DataFrame(list(self), columns=list(self.columns))

    def __repr__(self) -> str:
        return f"{self._title()}: {', '.join(self.columns)}\n" + "\n".join(
            f"  {_short(row, 100)}" for row in islice(self, 3)
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(_short(row.get(name), 120))}</td>" for name in self.columns)
            + "</tr>"
            for row in islice(self, 5)
        )
        return f"<table><caption>{escape(self._title())}</caption><tr>{head}</tr>{body}</table>"

    def _title(self) -> str:
        first, last = self.file(0), self.file(len(self) - 1)
        origin = first if first == last else f"{first} … {last}"
        return f"{len(self):,} row{'s' if len(self) > 1 else ''} of {origin}"


class Listed(Rows):
    """Rows that lie in memory: a list of dicts. `name`: what messages call it."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        columns: Sequence[str] | None = None,
        name: str = "the list",
    ) -> None:
        schema, digest = Schema(columns), hashlib.sha256()
        self._name = name
        self._rows: list[Row] = []
        for number, row in enumerate(rows):
            where = f"{name}: row {number}"
            self._rows.append(schema.checked(as_row(row, where), where))
            digest.update(json.dumps(self._rows[-1], default=_digestible).encode("utf-8", "surrogatepass"))
        if not self._rows:
            raise DataError(f"{name}: holds no row")
        self.columns, self.kinds, self.fingerprint = schema.columns, schema.kinds, digest.hexdigest()

    def row(self, index: int) -> Row:
        return dict(self._rows[index])

    def file(self, index: int) -> str:
        return self._name

    def where(self, index: int) -> str:
        return f"{self._name}: row {index}"

    def __len__(self) -> int:
        return len(self._rows)


class Selected(Rows):
    """Some of the rows, in another order or the same."""

    def __init__(self, rows: Rows, indices: np.ndarray) -> None:
        if not indices.size:
            raise DataError(f"none of the {len(rows):,} rows of {rows.file(0)} is left; select at least one")
        if not 0 <= int(indices.min()) <= int(indices.max()) < len(rows):
            raise DataError(f"rows go from 0 to {len(rows) - 1}; got {indices.min()} to {indices.max()}")
        self._rows, self._indices = rows, indices
        self.columns, self.kinds = rows.columns, rows.kinds
        self.fingerprint = _hashed(rows.fingerprint.encode(), indices.tobytes())

    def row(self, index: int) -> Row:
        return self._rows.row(int(self._indices[index]))

    def file(self, index: int) -> str:
        return self._rows.file(int(self._indices[index]))

    def where(self, index: int) -> str:
        return self._rows.where(int(self._indices[index]))

    def __len__(self) -> int:
        return len(self._indices)


class OneForOne(Rows):
    """Rows that are made of others, each of the one at its place."""

    _rows: Rows

    def file(self, index: int) -> str:
        return self._rows.file(index)

    def where(self, index: int) -> str:
        return self._rows.where(index)

    def __len__(self) -> int:
        return len(self._rows)


class Narrowed(OneForOne):
    """The same rows with some of their columns, each with a value. Raises: DataError: one is missing, or has a gap."""

    def __init__(self, rows: Rows, columns: Sequence[str]) -> None:
        self._rows, self._schema = rows, Schema(columns)
        for index, row in enumerate(rows):
            self._schema.checked(row, rows.where(index))
        self.columns, self.kinds = self._schema.columns, self._schema.kinds
        self.fingerprint = _hashed(rows.fingerprint.encode(), *(name.encode() for name in columns))

    def row(self, index: int) -> Row:
        return self._schema.cut(self._rows.row(index), self.where(index))


class Renamed(OneForOne):
    """The same rows, where labels of one column have other names; those of a list, or tags, one by one.

    Args:
        names: what a label is called → what it shall be called; two may become one
    Raises: DataError: no such column.
    """

    def __init__(self, rows: Rows, column: str, names: Mapping[str, str]) -> None:
        if column not in rows.columns:
            raise DataError(f"{rows.file(0)}: {missing(column, rows.columns)}")
        self._rows, self._column, self._names = rows, column, dict(names)
        self.columns, self.kinds = rows.columns, rows.kinds
        if rows.kinds[column] != "a list":
            self.kinds = {**rows.kinds, column: "a text"}
        self.fingerprint = _hashed(rows.fingerprint.encode(), json.dumps([column, self._names]).encode())

    def row(self, index: int) -> Row:
        return self._renamed(self._rows.row(index))

    def __iter__(self) -> Iterator[Row]:
        return map(self._renamed, self._rows)

    def absent(self) -> list[str]:
        """The labels to rename that no row has."""
        seen = {_label(each) for row in self._rows for each in _labels(row.get(self._column))}
        return [name for name in self._names if name not in seen]

    def _renamed(self, row: Row) -> Row:
        value = row.get(self._column)
        names = [
            None if each is None else self._names.get(_label(each), _label(each)) for each in _labels(value)
        ]
        return {**row, self._column: names if _is_list(value) else names[0]}


class Headed(OneForOne):
    """The same rows under other headings: what makes rows of one file look like those of another.

    Args:
        names: what a column is called → what it shall be called; one that is called so already makes room
    Raises: DataError: no such column.
    """

    def __init__(self, rows: Rows, names: Mapping[str, str]) -> None:
        for name in names:
            if name not in rows.columns:
                raise DataError(f"{rows.file(0)}: {missing(name, rows.columns)}")
        self._rows, taken = rows, set(names.values()) - set(names)
        self._names = {name: names.get(name, name) for name in rows.columns if name not in taken}
        self.columns = list(self._names.values())
        self.kinds = {new: rows.kinds[name] for name, new in self._names.items()}
        self.fingerprint = rows.fingerprint

    def row(self, index: int) -> Row:
        return self._headed(self._rows.row(index))

    def __iter__(self) -> Iterator[Row]:
        return map(self._headed, self._rows)

    def _headed(self, row: Row) -> Row:
        return {new: row[name] for name, new in self._names.items() if name in row}


class Joined(Rows):
    """Rows of several sources, one behind the other. Raises: DataError: their columns are not the same."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        first = parts[0]
        for part in parts[1:]:
            if set(part.columns) != set(first.columns):
                raise DataError(
                    f"{part.file(0)} has the columns {', '.join(part.columns)}, and {first.file(0)} has "
                    f"{', '.join(first.columns)}; name those that all have: columns=(…)"
                )
            for name in first.columns:
                kinds = {part.kinds[name], first.kinds[name]} - {"nothing"}
                if len(kinds) > 1:
                    raise DataError(
                        f"{part.file(0)}: {name!r} is {part.kinds[name]}, and in {first.file(0)} "
                        f"{first.kinds[name]}; a column holds one kind"
                    )
        self._parts = list(parts)
        self._ends = list(accumulate(map(len, parts)))
        self.columns, self.kinds = first.columns, first.kinds
        self.fingerprint = _hashed(*(part.fingerprint.encode() for part in parts))

    def row(self, index: int) -> Row:
        part, place = self._found(index)
        return part.row(place)

    def file(self, index: int) -> str:
        part, place = self._found(index)
        return part.file(place)

    def where(self, index: int) -> str:
        part, place = self._found(index)
        return part.where(place)

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Row]:
        for part in self._parts:
            yield from part

    def _found(self, index: int) -> tuple[Rows, int]:
        number = bisect_right(self._ends, index)
        return self._parts[number], index - (self._ends[number - 1] if number else 0)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _labels(value: Any) -> list[Any]:
    """The labels that a column holds: those of a list, or the one."""
    return list(value) if _is_list(value) else [value]


def _label(value: Any) -> str:
    """What a label is called: a text as it is, a number or a truth by its letters."""
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def as_row(value: Any, where: str) -> Row:
    """A row that somebody gives. Raises: DataError: it is no mapping."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {_short(value, 100)}; a row is a dict, column → value")
    return dict(value)


def _hashed(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _digestible(value: Any) -> Any:
    """What JSON has no word for, for the fingerprint alone."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return f"{type(value).__name__} {value}"


def _short(value: Any, size: int) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= size else text[: size - 1] + "…"
