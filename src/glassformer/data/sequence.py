"""Row sequences: random access to rows, each a dict of column → value, wherever they are stored.

rows = read_rows("train.csv")       rows[0]        {"text": "so glad", "label": "joy"}
                                    rows.where(0)  "train.csv: line 2"
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, overload

import numpy as np

from glassformer.data.schema import Schema
from glassformer.errors import DataError, MissingExtraError

Row = dict[str, Any]


class RowSequence(Sequence[Row]):
    """Rows with random access: `rows[5]`, `len(rows)`, `for row in rows`, `rows[:100]`.

    columns: their names · fingerprint: a hash of the content · kinds: column → type of its values
    """

    columns: Sequence[str]
    fingerprint: str
    kinds: Mapping[str, str]

    @abstractmethod
    def row(self, index: int) -> Row:
        """The row at 0 … len - 1."""

    @abstractmethod
    def file(self, index: int) -> str:
        """The file of a row: `train.csv`."""

    @abstractmethod
    def where(self, index: int) -> str:
        """The location of a row, for messages: `train.csv: line 17`."""

    @abstractmethod
    def __len__(self) -> int: ...

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


class InMemoryRows(RowSequence):
    """Rows of a list of dicts. `name`: what messages call it."""

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
            self._rows.append(schema.validate(as_row(row, where), where))
            digest.update(json.dumps(self._rows[-1], default=_json_default).encode("utf-8", "surrogatepass"))
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


class SelectedRows(RowSequence):
    """A selection of rows by index, in any order."""

    def __init__(self, rows: RowSequence, indices: np.ndarray) -> None:
        if not indices.size:
            raise DataError(f"none of the {len(rows):,} rows of {rows.file(0)} is left; select at least one")
        if not 0 <= int(indices.min()) <= int(indices.max()) < len(rows):
            raise DataError(f"rows go from 0 to {len(rows) - 1}; got {indices.min()} to {indices.max()}")
        self._rows, self._indices = rows, indices
        self.columns, self.kinds = rows.columns, rows.kinds
        self.fingerprint = sha256_of(rows.fingerprint.encode(), indices.tobytes())

    def row(self, index: int) -> Row:
        return self._rows.row(int(self._indices[index]))

    def file(self, index: int) -> str:
        return self._rows.file(int(self._indices[index]))

    def where(self, index: int) -> str:
        return self._rows.where(int(self._indices[index]))

    def __len__(self) -> int:
        return len(self._indices)


def as_row(value: Any, where: str) -> Row:
    """A row as a dict. Raises: DataError: it is not a mapping."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {_short(value, 100)}; a row is a dict, column → value")
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
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return f"{type(value).__name__} {value}"


def _short(value: Any, size: int) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= size else text[: size - 1] + "…"
