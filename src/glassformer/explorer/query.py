"""Query string parsing, strict: no duplicate, no unknown and no missing parameter, each of its type."""

from __future__ import annotations

import re
from collections.abc import Iterable

from glassformer.errors import DataError, nearest
from glassformer.files import safe_repr

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)


class Query:
    """The parameters of `?layer=3&rows=0:64`; `reject_unknown` raises for those that nothing has read."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            if name in self._values:
                raise DataError(f"duplicate parameter {safe_repr(name)}; give it once")
            self._values[name] = value
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        value = self.optional(name)
        if value is not None:
            return value
        if default is None:
            raise DataError(f"the parameter {name!r} is missing")
        return default

    def optional(self, name: str) -> str | None:
        self._read.add(name)
        return self._values.get(name)

    def integer(self, name: str, default: int | None = None) -> int:
        return _integer(name, self.text(name, None if default is None else str(default)))

    def flag(self, name: str) -> bool:
        value = self.text(name, "0")
        if value not in ("0", "1"):
            raise DataError(f"{name} is {safe_repr(value)}; it must be 0 or 1")
        return value == "1"

    def span(self, name: str) -> tuple[int, int]:
        """A half-open range `a:b`."""
        value = self.text(name)
        begin, colon, end = value.partition(":")
        if not colon:
            raise DataError(f"{name} is {safe_repr(value)}; give a:b, from a up to but not including b")
        return _integer(name, begin), _integer(name, end)

    def integers(self, name: str) -> list[int]:
        return [_integer(name, part) for part in self.text(name).split(",")]

    def strings(self, name: str) -> list[str] | None:
        """Comma-separated strings; None where the parameter is missing."""
        value = self.optional(name)
        return None if value is None else [word for word in value.split(",") if word]

    def reject_unknown(self) -> None:
        """Raises: DataError: a parameter that nothing has read, such as a misspelt one."""
        for name in self._values.keys() - self._read:
            raise DataError(
                f"unknown parameter {safe_repr(name)}; allowed here: {', '.join(sorted(self._read))}"
                f"{nearest(name, self._read)}"
            )


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise DataError(f"{name} is {safe_repr(text)}; it must be an integer, 0 or more")
    return int(text)
