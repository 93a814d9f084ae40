"""The parameters of a request, read strictly: each once, none unknown, each of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

from glassformer.errors import DataError, nearest
from glassformer.files import shown

_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


class Query:
    """`?layer=3&rows=0:64` by name; what nobody read is an error of `done`."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            if name in self._values:
                raise DataError(f"the parameter {shown(name)} is there twice; give it once")
            self._values[name] = value
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        found = self.maybe(name)
        if found is not None:
            return found
        if default is None:
            raise DataError(f"the parameter {name!r} is missing")
        return default

    def maybe(self, name: str) -> str | None:
        self._read.add(name)
        return self._values.get(name)

    def whole(self, name: str, default: int | None = None) -> int:
        return _whole(name, self.text(name, None if default is None else str(default)))

    def flag(self, name: str) -> bool:
        value = self.text(name, "0")
        if value not in ("0", "1"):
            raise DataError(f"{name} is {shown(value)}; it must be 0 or 1")
        return value == "1"

    def span(self, name: str) -> tuple[int, int]:
        """`a:b`, half open."""
        value = self.text(name)
        begin, colon, end = value.partition(":")
        if not colon:
            raise DataError(f"{name} is {shown(value)}; give a:b, from a up to but not including b")
        return _whole(name, begin), _whole(name, end)

    def wholes(self, name: str) -> list[int]:
        return [_whole(name, part) for part in self.text(name).split(",")]

    def words(self, name: str) -> list[str] | None:
        """Separated by commas; None where the parameter is not there."""
        found = self.maybe(name)
        return None if found is None else [word for word in found.split(",") if word]

    def done(self) -> None:
        """All is read; a name that is left is a mistake that would otherwise go unseen."""
        for name in self._values.keys() - self._read:
            raise DataError(
                f"unknown parameter {shown(name)}; allowed here: {', '.join(sorted(self._read))}"
                f"{nearest(name, self._read)}"
            )


def _whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise DataError(f"{name} is {shown(text)}; it must be a whole number from 0 up")
    return int(text)
