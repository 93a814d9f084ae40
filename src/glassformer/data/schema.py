"""Schema validation: the same columns in every row, values of one type in each.

{"text": "so glad", "label": 1}
{"text": "leave me", "label": "anger"}      line 2: 'label' is 'anger', a text, where the rows before have a number
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr

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


def type_name(value: Any) -> str:
    """The type of a value for messages; integers and floats are both "a number"."""
    names = (kind for type_, kind in TYPE_NAMES.items() if isinstance(value, type_))
    return next(names, "a number" if isinstance(value, Real) else f"a {type(value).__name__}")


class Schema:
    """Validates rows one by one: required columns, values of one type in each column.

    Args:
        columns: the required ones, without null values; None = all, which may have null values
        kinds: column → type of its values, as far as known from earlier rows
    Raises: ConfigError: an empty list of columns, or a duplicate.
    """

    def __init__(self, columns: Sequence[str] | None = None, kinds: Mapping[str, str] | None = None) -> None:
        if columns is not None and (
            isinstance(columns, str) or not columns or len(set(columns)) < len(columns)
        ):
            raise ConfigError(f"columns is {columns!r}; give the names of one or more columns, each once")
        self._required = None if columns is None else tuple(columns)
        self.kinds = dict(kinds or {})

    @property
    def columns(self) -> tuple[str, ...]:
        """The required columns, or all that occurred."""
        return tuple(self.kinds) if self._required is None else self._required

    def validate(self, row: Mapping[str, Any], where: str, line: int | None = None) -> dict[str, Any]:
        """Validate a row and return its required columns. `where`, `line`: its file and line, for messages.

        Raises: DataError: a column is missing, has no value, or another kind of value than before.
        """
        values = self.project(row, where, line)
        for name, value in values.items():
            kind = TYPE_NAMES.get(type(value)) or type_name(value)
            if kind == self.kinds.get(name):
                continue
            if value is None:
                if self._required is not None:
                    raise DataError(
                        f"{_location(where, line)}: {name!r} is empty (null); give it a value, or leave the row out"
                    )
                self.kinds.setdefault(name, "nothing")
            elif self.kinds.setdefault(name, kind) == "nothing":
                self.kinds[name] = kind
            elif self.kinds[name] != kind:
                raise DataError(
                    f"{_location(where, line)}: {name!r} is {safe_repr(value)}, {kind}, "
                    f"where the rows before have {self.kinds[name]}; a column holds one kind"
                )
        return values

    def project(self, row: Mapping[str, Any], where: str, line: int | None = None) -> dict[str, Any]:
        """The required columns of a row, without validation of their values."""
        if self._required is None:
            return dict(row)
        try:
            return {name: row[name] for name in self._required}
        except KeyError as error:
            raise DataError(f"{_location(where, line)}: {missing_column(error.args[0], row)}") from None


def missing_column(name: str, names: Iterable[str]) -> str:
    """`no column 'lable'; nearest: 'label'; there are: 'text', 'label'`"""
    known = list(names)
    available = ", ".join(map(repr, known[:20])) or "none"
    return f"no column {name!r}{nearest(name, known)}; there are: {available}"


def _location(where: str, line: int | None) -> str:
    return where if line is None else f"{where}: line {line}"
