"""A table: names of columns, and rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import DataError
from glassformer.files import safe_repr

FORMS = (
    "a table is a dict of columns ({'year': ['1896', '1900'], …}), a list of rows ([{'year': '1896', …}, …]) or a "
    "pandas DataFrame"
)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts.

    columns: their names
    rows: the text of each cell, in the order of the columns
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, given: Any) -> TextTable:
        """A table of a dict of columns, a list of rows, or a pandas DataFrame; values become text.

        Raises: DataError: something else, columns of unequal length, or no cell.
        """
        if isinstance(given, TextTable):
            return given
        if hasattr(given, "columns") and hasattr(given, "itertuples"):  # a frame, whose package need not be imported
            return cls._checked(list(given.columns), [list(row) for row in given.itertuples(index=False, name=None)])
        if isinstance(given, Mapping) and given:
            columns = {name: _cells(name, cells) for name, cells in given.items()}
            lengths = {name: len(cells) for name, cells in columns.items()}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{name!r} has {count}" for name, count in lengths.items())
                raise DataError(f"the columns of a table have as many cells each; {counts}")
            return cls._checked(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])
        if isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
            names = list(given[0])
            if other := next((i for i, row in enumerate(given) if list(row) != names), None):
                raise DataError(f"row {other} of the table has the columns {list(given[other])}, the first {names}")
            return cls._checked(names, [list(row.values()) for row in given])
        raise DataError(f"the table is {safe_repr(given)}; {FORMS}")

    @classmethod
    def _checked(cls, columns: list[Any], rows: list[list[Any]]) -> TextTable:
        if not columns or not rows:
            raise DataError(f"the table has {len(columns)} columns and {len(rows)} rows; it needs at least one of each")
        return cls(tuple(map(_text, columns)), tuple(tuple(map(_text, row)) for row in rows))


def _cells(name: Any, cells: Any) -> list[Any]:
    if isinstance(cells, (str, bytes)) or not hasattr(cells, "__iter__"):
        raise DataError(f"column {name!r} of the table is {safe_repr(cells)}; it must be a list of cells")
    return list(cells)


def _text(value: Any) -> str:
    """A cell as text; a missing value is empty."""
    return "" if value is None or value != value else str(value)  # NaN differs from itself
