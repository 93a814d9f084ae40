"""Tables: headings and rows of cells, written as text, Markdown or HTML.

Table(["", "f1"], [["model", "0.91 [0.89, 0.93]"], ["majority", "0.31"]], caption="500 rows")
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from html import escape
from typing import Literal, Self


def amount(number: float) -> str:
    """Format a count of parameters or tokens in three or four digits: `9,216`, `22.7M`, `175B`."""
    return f"{number:,.0f}" if number < 9_999.5 else _scaled(number, ("", "k", "M", "B", "T", "P")).replace(" ", "")


def flops_amount(number: float) -> str:
    """Format a number of FLOPs, with decimal prefixes: `349G`."""
    return amount(number).replace("B", "G")


def byte_amount(number: float) -> str:
    """Format a number of bytes in three digits, with decimal units: `90.9 MB`."""
    return _scaled(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def percent(share: float, digits: int = 0) -> str:
    """Format a share in percent: `41%`, `4.1%`. What is neither nothing nor all is not rounded to it.

    One below half of the last digit is `<1%`, `<0.1%`; one that would be 100% is `99.6%`, `>99.9%`. Within 1e-6 of
    all, as sums of rounded numbers are, it is `100%`.
    """
    smallest = 10.0**-digits
    if 0 < 100 * share < smallest / 2:
        return f"<{smallest:.{digits}f}%"
    if share < 1 - 1e-6 and f"{share:.{digits}%}" == f"{1:.{digits}%}":
        return percent(share, 1) if digits == 0 else f">{100 - smallest:.{digits}f}%"
    return f"{share:.{digits}%}"


def number(x: float) -> str:
    """A number as text, in four digits: `0.4123`, `1,240`, `1.2e-5`."""
    if not math.isfinite(x):
        return {math.inf: "∞", -math.inf: "−∞"}.get(x, "NaN")
    if x == 0:
        return "0"
    if not 1e-3 <= abs(x) < 1e7:
        digits, power = f"{x:.2e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{x:.4g}" if abs(x) < 1000 else f"{x:,.0f}"


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts numbers in texts by their value: `class 2` before `class 10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,18})", text)]


def scores(metrics: Mapping[str, float], main: str | None = None) -> list[str]:
    """Metrics as text: `f1_macro 0.41`; micro-averaged F1 only where it is `main`, or is not the accuracy too."""
    same = metrics.get("f1_micro") == metrics.get("accuracy") and main != "f1_micro"
    return [f"{name} {number(value)}" for name, value in metrics.items() if not (same and name == "f1_micro")]


def clock(seconds: float) -> str:
    """A duration as text: `0:42`, `1:02:03`; one that is not known (NaN) as `–`."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def hours_and_minutes(seconds: float) -> str:
    """A duration as one says it, at least a minute: `1 h 35 min`, `36 min`."""
    hours, minutes = divmod(max(1, math.ceil(seconds / 60)), 60)
    return " ".join([f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    unit = 0
    while number >= 999.5 and unit < len(units) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if unit == 0 else max(0, 3 - len(f"{number:.0f}"))
    return f"{number:.{digits}f} {units[unit]}".rstrip()


NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?( ?%)?")
BEGINS_AS_NUMBER = re.compile(r"[-+−<>≥≤~×≈]?\s*[\d∞]|NaN$")
TEXT_ROWS, TEXT_COLUMNS = 40, 14
"""On a terminal: no scrolling back."""
HTML_ROWS, HTML_COLUMNS = 64, 40
"""Of a notebook, whose cells scroll sideways; a table of a large model stays below 100 kB."""
EIGHTHS = " ▏▎▍▌▋▊▉"
MAX_CELL = 80
"""Characters of a cell, where there are several in a row: a wide table stays readable."""
BELOW, ABOVE, SHARE = (18, 90, 166), (196, 84, 0), (38, 132, 214)
"""Colours of shades, as in the explorer: below and above zero; of a table with none below."""


class IntervalCell(str):
    """A cell that is a number with an interval, `0.91 [0.89, 0.93]`: text everywhere, and a bar where there is room.

    value, low, high: the number and the ends of its interval, None where it has none
    signed: a difference: its interval leaves out zero or not, which is more to say than its place on a scale
    box: ends of the middle half, drawn as a box; the value is the median
    from_zero: an amount, such as a count: drawn as a bar from zero, on one scale with all such cells of its table
    """

    def __new__(
        cls,
        text: str,
        value: float,
        low: float | None = None,
        high: float | None = None,
        *,
        signed: bool = False,
        box: tuple[float, float] | None = None,
        from_zero: bool = False,
    ) -> Self:
        cell = super().__new__(cls, text)
        cell.value, cell.low, cell.high, cell.signed = value, low, high, signed
        cell.box, cell.from_zero = box, from_zero
        return cell

    value: float
    low: float | None
    high: float | None
    signed: bool
    box: tuple[float, float] | None
    from_zero: bool

    @property
    def significant(self) -> bool:
        """Is it a difference beyond what chance would give?"""
        return self.signed and self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Table:
    """A table of a result; the first cell of a row is its heading.

    headings: of the columns
    rows: their cells
    caption: a line above it
    left: how many columns hold texts, which a terminal left-justifies; the others hold numbers
    shades: colour of each cell behind the row's heading, from -1 to 1; None = no colour
    longest: characters of a cell that a text and a notebook show
    evenly: of too many columns, such as layers, evenly spaced ones are shown, the last among them; else the first
    reference: the row whose values a page marks in the bars of the others, as a dashed line
    baselines: rows that a page draws in grey
    folded: a page shows its caption alone at first
    under: a heading, under which a page folds several such tables together; "" = each is by itself
    note: a sentence that a page shows below the caption
    chooses: what the heading of a row chooses in the browser of its page: rows of this true class, of this group, or
        in which it is found
    commands: for each row, "" = none: a page shows it below the last cell, with a button that copies it
    measure: a page filters and groups the rows, and its charts show those that are selected, each of which is the
        group of its lines by its heading; of a group it shows the mean of this column. None = a table to read
    address: of such a page on its server: that of a row follows
    as_picture: a notebook shows its shades as a picture, and the numbers folded below it
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    _: KW_ONLY
    left: int = 1
    shades: Sequence[Sequence[float]] | None = None
    longest: int = MAX_CELL
    evenly: bool = False
    reference: int | None = None
    baselines: Sequence[int] = ()
    folded: bool = False
    under: str = ""
    note: str = ""
    chooses: Literal["", "true", "group", "find"] = ""
    commands: Sequence[str] = ()
    measure: int | None = None
    address: str = ""
    as_picture: bool = False

    def words(self) -> list[int]:
        """Columns that hold words: the first `left`, and others of which no cell begins as a number does."""
        others = range(self.left, len(self.headings))
        texts = {i: [row[i] for row in self.rows if row[i] not in ("", "–")] for i in others}
        return [*range(self.left), *(i for i in others if texts[i] and not any(map(BEGINS_AS_NUMBER.match, texts[i])))]

    def text(self) -> str:
        """The table as lines of text, the first rows and columns of a large one."""
        short = self._first(TEXT_ROWS, TEXT_COLUMNS)
        return "\n".join(filter(None, [shown_text(short.caption), text_table(short.headings, short.rows)]))

    def __str__(self) -> str:
        return self.text()

    def html(self) -> str:
        """The table as HTML, the first rows and columns of a large one."""
        short = self._first(HTML_ROWS, HTML_COLUMNS, line_break="\n")
        caption = shown_text(short.caption)
        if not short.as_picture or not short.shades:
            return html_table(short.headings, short.rows, caption, short.shades)
        from glassformer.reports import picture  # imported late: most tables draw nothing

        names, cells = [row[0] for row in short.rows], [row[1:] for row in short.rows]
        svg = picture.heat_map(names, short.headings[1:], short.shades, cells, colours(short.shades))
        title = f"<p>{escape(caption)}</p>" if caption else ""
        numbers = html_table(short.headings, short.rows, shades=short.shades)
        shown = picture.image(svg, caption or "the numbers below, as colours")
        return f"{title}{shown}<details><summary>numbers</summary>{numbers}</details>"

    def columns(self, room: int) -> list[int]:
        """Columns that are shown where there is room for some only, the first of them among these."""
        last = len(self.headings) - 1
        if not self.evenly or last < room:
            return list(range(min(room, last + 1)))
        return [0, *(1 + round(i * (last - 1) / (room - 2)) for i in range(room - 2)), last]

    def of(self, columns: Sequence[int]) -> Table:
        """The table of some of its columns, the first among them."""
        return replace(
            self,
            headings=[self.headings[i] for i in columns],
            rows=[[row[i] for i in columns] for row in self.rows],
            shades=None if self.shades is None else [[row[i - 1] for i in columns[1:]] for row in self.shades],
        )

    def _first(self, rows: int, columns: int, line_break: str = "\\n") -> Table:
        """The first rows, and columns that there is room for; the caption says how many there are."""
        larger = len(self.rows) > rows or len(self.headings) > columns
        which = "some" if self.evenly else "the first"
        whole = f" ({which} of {len(self.rows):,} rows × {len(self.headings) - 1:,} columns)" if larger else ""
        short = replace(self, rows=self.rows[:rows], shades=self.shades and self.shades[:rows])
        short = short.of(self.columns(columns))
        return replace(short.on_lines(line_break), caption=self.caption + whole)

    def on_lines(self, line_break: str = "\\n") -> Table:
        """The table with every cell on one line, cut where there are several in a row.

        Args:
            line_break: instead of one
        """
        most = self.longest if len(self.headings) > 1 else None
        return replace(
            self,
            headings=[_line(heading, most, line_break) for heading in self.headings],
            rows=[[_line(cell, most, line_break) for cell in row] for row in self.rows],
        )


def bar(share: float, width: int) -> str:
    """A horizontal bar of `width` characters, filled from the left by a share in [0, 1]."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as lines of text; columns of numbers are right-justified."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    numbers = [bool(rows) and all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(headings))]
    justify = [str.rjust if is_number else str.ljust for is_number in numbers]
    return "\n".join(
        "  ".join(put(cell, width) for put, cell, width in zip(justify, row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    )


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, in which every cell is plain text."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(markdown_text, line))} |" for line in lines)


def markdown_text(text: object) -> str:
    """A text on one line, in which Markdown sees neither HTML nor the border of a cell."""
    return " ".join(str(text).split()).replace("<", "&lt;").replace("|", "\\|")


def html_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    shades: Sequence[Sequence[float]] | None = None,
) -> str:
    """An HTML table; the first column holds the row headings.

    Args:
        headings: of the columns
        rows: their cells; line breaks in a cell are kept
        shades: colour of the cells behind a row's heading, from -1 to 1
    """
    below, above = colours(shades or ())

    def shade(row: int, column: int) -> str:
        value = 0.0 if shades is None else shades[row][column]
        if not abs(value) >= 0.01:  # NaN too has none; on the others text stays legible, light and dark
            return ""
        colour = " ".join(map(str, above if value > 0 else below))
        return f' style="background: rgb({colour} / {min(1.0, abs(value)) * 0.6:.2f})"'

    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{_cell(row[0])}</th>'
        + "".join(f"<td{shade(i, j)}>{_cell(x)}</td>" for j, x in enumerate(row[1:]))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def colours(shades: Sequence[Sequence[float]]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The colours of cells below and above zero."""
    return (BELOW, ABOVE) if any(shade < 0 for row in shades for shade in row) else (SHARE, SHARE)


def _cell(text: str) -> str:
    shown = escape(text).replace("\n", "<br>")
    return f"<b>{shown}</b>" if isinstance(text, IntervalCell) and text.significant else shown


def _line(text: str, most: int | None, line_break: str) -> str:
    """A cell on one line."""
    if isinstance(text, IntervalCell):
        return text
    shown = shown_text(text).replace("\n", line_break)
    return shown if most is None or len(shown) <= most else shown[: most - 1] + "…"


def shown_text(text: str) -> str:
    """A text without characters that a terminal would obey or a page would turn round; line breaks are kept."""
    return "".join(x if x.isprintable() or x == "\n" else x.encode("unicode_escape").decode() for x in text)
