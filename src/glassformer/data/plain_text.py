"""Plain text files: a row a line, a row between separator lines, or one row for the whole file.

One day, a little girl …        read_rows("stories.txt", separator="<|endoftext|>")
Lily went to her mom …
<|endoftext|>
Once upon a time …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.data.formats import Format, ParsedRow, parsed_row
from glassformer.data.lines import LineReader
from glassformer.errors import ConfigError


@dataclass(frozen=True)
class PlainText(Format):
    """Plain text: rows with one column.

    Args:
        separator: the line between texts, "" for a blank one; None = each line that is not blank is a text
        whole: the file is one text · name: of the column · blank: whether blank lines are texts too
    """

    separator: str | None = None
    whole: bool = False
    name: str = "text"
    blank: bool = False

    def __post_init__(self) -> None:
        if (self.separator is not None) + self.whole + self.blank > 1:
            raise ConfigError("separator, whole and blank say three different things; give one of them")

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        lines.begin_row()
        if self.separator is None and not self.whole:
            for line in lines:
                if self.blank or line.strip():
                    yield parsed_row(lines, {self.name: strip_newline(line)})
                lines.begin_row()
            return
        block: list[str] = []
        for line in lines:
            if not self.whole and line.strip() == self.separator:
                if text := "".join(block).strip("\r\n"):
                    yield parsed_row(lines, {self.name: text})
                block.clear()
                lines.begin_row()
            elif block or line.strip():
                block.append(line)
            else:
                lines.begin_row()  # blank lines before a text belong to none
        if text := "".join(block).strip("\r\n"):
            yield parsed_row(lines, {self.name: text})


def strip_newline(line: str) -> str:
    """Strip the line end."""
    return line.removesuffix("\n").removesuffix("\r")
