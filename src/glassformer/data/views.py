"""Views of row sequences: column subsets, renamed columns and labels, concatenation."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from glassformer.data.sequence import Row, RowSchema, RowSequence, RowView, check_column, labels_of, sha256_of
from glassformer.errors import DataError


class ColumnSubset(RowView):
    """A view of some columns, without null values. Raises: DataError: a column is missing, or has a null value."""

    def __init__(self, rows: RowSequence, columns: Sequence[str]) -> None:
        self._rows, schema = rows, RowSchema(columns)
        for index, row in enumerate(rows):
            schema.validate(row, rows.where(index))
        self.columns, self.kinds = schema.columns, schema.kinds
        self.fingerprint = sha256_of(rows.fingerprint.encode(), *(name.encode() for name in columns))

    def _change(self, row: Row) -> Row:
        return {name: row[name] for name in self.columns}


class RelabelledRows(RowView):
    """A view with renamed labels in one column; those of a list, or tags, one by one.

    Args:
        names: label → new label; several may become one
    Raises: DataError: no such column.
    """

    def __init__(self, rows: RowSequence, column: str, names: Mapping[str, str]) -> None:
        check_column(rows.file(0), column, rows.columns)
        self._rows, self._column, self._names = rows, column, dict(names)
        self.columns, self.kinds = rows.columns, rows.kinds
        if rows.kinds[column] != "a list":
            self.kinds = {**rows.kinds, column: "a text"}
        self.fingerprint = sha256_of(rows.fingerprint.encode(), json.dumps([column, self._names]).encode())

    def __iter__(self) -> Iterator[Row]:
        return map(self._change, self._rows)

    def missing_labels(self) -> list[str]:
        """The labels to rename that occur in no row."""
        present = {_label(label) for row in self._rows for label in labels_of(row.get(self._column))}
        return [name for name in self._names if name not in present]

    def _change(self, row: Row) -> Row:
        value = row.get(self._column)
        texts = [None if label is None else _label(label) for label in labels_of(value)]
        names = [None if text is None else self._names.get(text, text) for text in texts]
        return {**row, self._column: names if isinstance(value, (list, tuple, np.ndarray)) else names[0]}


class RenamedColumns(RowView):
    """A view with renamed columns, so that the rows of one file match those of another.

    Args:
        names: column → new name; a column that has the new name already is dropped
    Raises: DataError: no such column.
    """

    def __init__(self, rows: RowSequence, names: Mapping[str, str]) -> None:
        for name in names:
            check_column(rows.file(0), name, rows.columns)
        self._rows, replaced = rows, set(names.values()) - set(names)
        self._names = {name: names.get(name, name) for name in rows.columns if name not in replaced}
        self.columns = list(self._names.values())
        self.kinds = {new: rows.kinds[name] for name, new in self._names.items()}
        self.fingerprint = rows.fingerprint

    def __iter__(self) -> Iterator[Row]:
        return map(self._change, self._rows)

    def _change(self, row: Row) -> Row:
        return {new: row[name] for name, new in self._names.items() if name in row}


class ConcatenatedRows(RowView):
    """Several row sequences, one after the other. Raises: DataError: their columns or types differ."""

    def __init__(self, parts: Sequence[RowSequence]) -> None:
        first = parts[0]
        for part in parts[1:]:
            if set(part.columns) != set(first.columns):
                raise DataError(
                    f"{part.file(0)} has the columns {', '.join(part.columns)}, and {first.file(0)} has "
                    f"{', '.join(first.columns)}; name those that all have: columns=(…)"
                )
            for name in first.columns:
                if len({part.kinds[name], first.kinds[name]} - {"nothing"}) > 1:
                    raise DataError(
                        f"{part.file(0)}: {name!r} is {part.kinds[name]}, and in {first.file(0)} "
                        f"{first.kinds[name]}; a column holds one kind"
                    )
        self._parts = list(parts)
        self._ends = list(accumulate(map(len, parts)))
        self.columns, self.kinds = first.columns, first.kinds
        self.fingerprint = sha256_of(*(part.fingerprint.encode() for part in parts))

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self._parts)

    def _locate(self, index: int) -> tuple[RowSequence, int]:
        number = bisect_right(self._ends, index)
        return self._parts[number], index - (self._ends[number - 1] if number else 0)


def _label(value: Any) -> str:
    """A label as text; booleans as in JSON."""
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)
