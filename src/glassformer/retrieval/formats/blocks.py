"""Text that is put together of paragraphs, headings and rows of tables: what HTML and DOCX are read into.

begin_heading() write("Apples") end_heading(1)      Apples
                                                    ‹blank line›
write("They are ") write("green.") end_block()      They are green.
                                                    ‹blank line›
begin_row() next_cell() write("Gala") … end_row()   | Gala | 12 |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from glassformer.retrieval.document import Document, Heading, sections

_SPACES = re.compile(r"\s+")
MAX_HEADING = 300
"""Characters of a heading; what is longer is a paragraph that was made large."""


class TextBlocks:
    """Collects a text; a part begins at each heading."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0  # characters before the open line
        self._line: list[str] = []  # pieces of the open line
        self._headings: list[Heading] = []
        self._rows: list[list[str]] = []  # cells of the open rows; of each the last is open
        self._blank = True  # whether the text ends with a blank line
        self._in_heading = False

    def write(self, text: str, *, verbatim: bool = False) -> None:
        """Add text to the open paragraph, heading or cell; white space is one space, unless it is verbatim."""
        if not verbatim or self._rows:
            text = _SPACES.sub(" ", text)
        if self._rows:
            self._rows[-1][-1] += text
        elif text and (self._line or text.strip() or verbatim):
            self._line.append(text)

    def end_line(self) -> None:
        """End the open line; within a cell or a heading, it is a space."""
        if self._rows or self._in_heading:
            self.write(" ")
            return
        line = "".join(self._line)
        self._line = []
        if not line.strip():
            return
        if "\n" not in line:  # not verbatim, where spaces align
            line = _SPACES.sub(" ", line).strip()
        self._append(line.rstrip() + "\n")
        self._blank = False

    def end_block(self) -> None:
        """End the open paragraph."""
        self.end_line()
        if not (self._blank or self._rows or self._in_heading):
            self._append("\n")
            self._blank = True

    def begin_heading(self) -> None:
        self.end_block()
        self._in_heading = True

    def end_heading(self, level: int) -> None:
        """End the open heading, below which a part of the document begins."""
        name = _SPACES.sub(" ", "".join(self._line)).strip()
        begins, self._in_heading = self._size, False
        self.end_block()
        if name and len(name) <= MAX_HEADING:
            self._headings.append(Heading(begins, level, name))

    def begin_row(self) -> None:
        if not self._rows:
            self.end_line()
        self._rows.append([""])

    def next_cell(self) -> None:
        if self._rows:
            self._rows[-1].append("")

    def end_row(self) -> None:
        """End a row; that of a table within a cell becomes text of the cell."""
        cells = [_SPACES.sub(" ", cell).strip() for cell in self._rows.pop()]
        # What is between cells is in none of them: the first is that.
        cells = cells[1:] if not cells[0] else cells
        if not any(cells):
            return
        if self._rows:
            self._rows[-1][-1] += f" {' '.join(filter(None, cells))} "
            return
        # One cell: a table that lays out a page.
        self._append(f"{cells[0]}\n" if len(cells) == 1 else f"| {' | '.join(cells)} |\n")
        self._blank = False

    def document(self, *, title: str = "", metadata: Mapping[str, Any] | None = None) -> Document:
        """The document of what was collected; its title is the first heading where it has none."""
        while self._rows:
            self.end_row()
        self.end_block()
        first, text = next((heading.name for heading in self._headings), ""), "".join(self._pieces)
        return Document(text, sections(text, self._headings), (), title or first, metadata or {})

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
