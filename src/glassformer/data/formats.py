"""What a format of rows is: how a file of lines falls into rows, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from glassformer.data.lines import Lines


class Found(NamedTuple):
    """A row where it was found.

    line: where it begins · start, end: its bytes · behind: how many lines lie before `end`
    """

    line: int
    start: int
    end: int
    behind: int
    row: dict[str, Any]


class Format(ABC):
    """A way in which rows lie in files; its fields are the options of `read_rows` for it.

    `rows` is used for everything: to go through a file, and again on the bytes of a single row.
    """

    def begin(self, lines: Lines) -> Any:
        """What stands before the first row and is needed to understand each: the names of a table."""
        return None

    @abstractmethod
    def rows(self, lines: Lines, head: Any) -> Iterator[Found]:
        """The rows from here to the end."""


def found(lines: Lines, row: dict[str, Any]) -> Found:
    """The row of the lines since `lines.begin()`."""
    return Found(lines.line, lines.start, lines.place, lines.number, row)
