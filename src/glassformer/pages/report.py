"""Results that show themselves: one description as tables, printed in a shell, drawn in a notebook.

class Lens(Report):
    def tables(self) -> list[ReportTable]: ...        repr(lens): text · a cell that ends with it: HTML
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from glassformer.pages import html_table, text_table

TEXT_ROWS, TEXT_COLUMNS = 40, 14
HTML_ROWS, HTML_COLUMNS = 64, 40
MAX_CELL = 80
"""Characters of a cell, where there are several in a row."""


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """A table of a result; the first cell of a row is its heading.

    caption: a line above it
    shades: colour of each cell behind the row's heading, from -1 to 1; None = no colour
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    shades: Sequence[Sequence[float]] | None = None

    def text(self) -> str:
        """The table as lines of text, the first rows and columns of a large one."""
        short = self._first(TEXT_ROWS, TEXT_COLUMNS)
        return "\n".join(filter(None, [short.caption, text_table(short.headings, short.rows)]))

    def html(self) -> str:
        """The table as HTML, the first rows and columns of a large one."""
        short = self._first(HTML_ROWS, HTML_COLUMNS)
        return html_table(short.headings, short.rows, short.caption, short.shades)

    def _first(self, rows: int, columns: int) -> ReportTable:
        """The first rows and columns; the caption says how many there are."""
        most = MAX_CELL if len(self.headings) > 1 else None
        larger = len(self.rows) > rows or len(self.headings) > columns
        whole = f" (the first of {len(self.rows):,} rows × {len(self.headings) - 1:,} columns)" if larger else ""
        return replace(
            self,
            headings=[_line(heading, most) for heading in self.headings[:columns]],
            rows=[[_line(cell, most) for cell in row[:columns]] for row in self.rows[:rows]],
            caption=self.caption + whole,
            shades=None if self.shades is None else [row[: columns - 1] for row in self.shades[:rows]],
        )


class Report(ABC):
    """A result that shows itself as tables: as text where it is printed, as HTML where it ends a notebook's cell.

    A dataclass is to be declared with repr=False, or it prints its fields.
    """

    __slots__ = ()

    @abstractmethod
    def tables(self) -> Iterable[ReportTable]:
        """The tables that show the result."""

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def _line(text: str, most: int | None) -> str:
    """A cell on one line, without characters that a terminal would obey."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if most is None or len(shown) <= most else shown[: most - 1] + "…"
