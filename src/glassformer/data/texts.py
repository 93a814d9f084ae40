"""Plain text: a row a line, a row between lines that separate, or one row for the whole file.

One day, a little girl …        read_rows("stories.txt", separator="<|endoftext|>")
Lily went to her mom …
<|endoftext|>
Once upon a time …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.data.formats import Format, Found, found
from glassformer.data.lines import Lines
from glassformer.errors import ConfigError


@dataclass(frozen=True)
class PlainText(Format):
    """Rows with one column, a text.

    Args:
        separator: a line that stands between texts, "" for a blank one; None = each line that is not blank is a text
        whole: the file is one text · name: of the column · blank: whether a blank line is a text too
    """

    separator: str | None = None
    whole: bool = False
    name: str = "text"
    blank: bool = False

    def __post_init__(self) -> None:
        if (self.separator is not None) + self.whole + self.blank > 1:
            raise ConfigError("separator, whole and blank say three different things; give one of them")

    def rows(self, lines: Lines, head: Any) -> Iterator[Found]:
        lines.begin()
        if self.separator is None and not self.whole:
            for line in lines:
                if self.blank or line.strip():
                    yield found(lines, {self.name: bare(line)})
                lines.begin()
            return
        held: list[str] = []
        for line in lines:
            if not self.whole and line.strip() == self.separator:
                if text := "".join(held).strip("\r\n"):
                    yield found(lines, {self.name: text})
                held.clear()
                lines.begin()
            elif held or line.strip():
                held.append(line)
            else:
                lines.begin()  # blank lines before a text are none of it
        if text := "".join(held).strip("\r\n"):
            yield found(lines, {self.name: text})


def bare(line: str) -> str:
    """A line without its end."""
    return line.removesuffix("\n").removesuffix("\r")
