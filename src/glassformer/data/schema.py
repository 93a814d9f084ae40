"""What the rows of a file have in common: their columns, and one kind of value in each.

{"text": "so glad", "label": 1}
{"text": "leave me", "label": "anger"}      line 2: 'label' is 'anger', a text, where the rows before have a number
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import shown

KINDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "an object",
    bytes: "bytes",
}


def kind_of(value: Any) -> str:
    """What sort of value a cell holds; numbers, whole or not, are one sort."""
    known = (kind for type_, kind in KINDS.items() if isinstance(value, type_))
    return next(known, "a number" if isinstance(value, Real) else f"a {type(value).__name__}")


class Schema:
    """Looks at row after row: the same columns, the same kind of value in each.

    Args:
        columns: those that are needed, each with a value in every row; None = all, which may have gaps
        kinds: column → what it holds, as far as it is known from rows before
    Raises: ConfigError: no column is asked for, or one twice.
    """

    def __init__(self, columns: Sequence[str] | None = None, kinds: Mapping[str, str] | None = None) -> None:
        if columns is not None and (
            isinstance(columns, str) or not columns or len(set(columns)) < len(columns)
        ):
            raise ConfigError(f"columns is {columns!r}; give the names of one or more columns, each once")
        self._needed = None if columns is None else tuple(columns)
        self.kinds = dict(kinds or {})

    @property
    def columns(self) -> tuple[str, ...]:
        """Those asked for, or all there were."""
        return tuple(self.kinds) if self._needed is None else self._needed

    def checked(self, row: Mapping[str, Any], where: str, line: int | None = None) -> dict[str, Any]:
        """The columns of a row that are needed. `where`, `line`: its file and line, for messages.

        Raises: DataError: a column is missing, has no value, or another kind of value than before.
        """
        kept = self.cut(row, where, line)
        for name, value in kept.items():
            kind = KINDS.get(type(value)) or kind_of(value)
            if kind == self.kinds.get(name):
                continue
            if value is None:
                if self._needed is not None:
                    raise DataError(
                        f"{_place(where, line)}: {name!r} is empty (null); give it a value, or leave the row out"
                    )
                self.kinds.setdefault(name, "nothing")
            elif self.kinds.setdefault(name, kind) == "nothing":
                self.kinds[name] = kind
            elif self.kinds[name] != kind:
                raise DataError(
                    f"{_place(where, line)}: {name!r} is {shown(value)}, {kind}, "
                    f"where the rows before have {self.kinds[name]}; a column holds one kind"
                )
        return kept

    def cut(self, row: Mapping[str, Any], where: str, line: int | None = None) -> dict[str, Any]:
        """The columns of a row that are needed, and no look at their values."""
        if self._needed is None:
            return dict(row)
        try:
            return {name: row[name] for name in self._needed}
        except KeyError as error:
            raise DataError(f"{_place(where, line)}: {missing(error.args[0], row)}") from None


def missing(name: str, names: Iterable[str]) -> str:
    """`no column 'lable'; nearest: 'label'; there are: 'text', 'label'`"""
    listed = list(names)
    there = ", ".join(map(repr, listed[:20])) or "none"
    return f"no column {name!r}{nearest(name, listed)}; there are: {there}"


def _place(where: str, line: int | None) -> str:
    return where if line is None else f"{where}: line {line}"
