"""What commands share when they write for people: amounts, bars, and text that cannot steer the terminal."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

INTERVAL = re.compile(r" \[[^\]\n]*\]")
EIGHTHS = " ▏▎▍▌▋▊▉"


def amount(number: float) -> str:
    """A count in three or four digits: `9,216`, `22.7M`."""
    return (
        f"{number:,.0f}"
        if number < 9_999.5
        else _scaled(number, ("", "k", "M", "G", "T", "P")).replace(" ", "")
    )


def byte_amount(number: float) -> str:
    """Bytes in three digits, in powers of 1000: `90.9 MB`."""
    return _scaled(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    unit = 0
    while number >= 999.5 and unit < len(units) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if units[unit] in ("", "B") else max(0, 3 - len(f"{number:.0f}"))
    return f"{number:.{digits}f} {units[unit]}".rstrip()


def bar(share: float, width: int) -> str:
    """A bar of `width` characters, filled from the left by a share in [0, 1]."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def visible(text: str) -> str:
    """The text with control characters written out, so that no text can steer the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def notes(*, repeats: bool = True) -> Iterator[None]:
    """Warnings, such as that texts were cut, each in one line on standard error.

    Args: repeats: False = of those that differ in their numbers alone, the first
    """
    said: set[str] = set()

    def note(message: Warning | str, *_: object, **__: object) -> None:
        kind = re.sub(r"\d[\d,]*", "", str(message))
        if repeats or kind not in said:
            said.add(kind)
            print(f"note: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = note
        yield


@contextmanager
def counted(total: int | None, what: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on standard error, where a person sees it; it is told how many more are done.

    Args: total: None = nobody knows beforehand; then it is a count
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.advance(task, done)


def table_of(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int, title: str = "") -> Table:
    """A table whose first `left` columns stand to the left.

    Where the terminal is too narrow, intervals go below their figures; where it still is, they are left out, which the
    caption says.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def made(rows: Sequence[Sequence[str]]) -> Table:
        table = Table(
            title=Text(visible(title)) if title else None,
            title_justify="left",
            box=None,
            header_style="bold cyan",
            pad_edge=False,
        )
        for i, heading in enumerate(headings):
            named = i < left
            table.add_column(
                "\n".join(map(visible, heading.split("\n"))),
                justify="left" if named else "right",
                no_wrap=named,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text("\n".join(map(visible, cell.split("\n")))) for cell in row))
        return table

    def fits(table: Table) -> bool:
        boundless = console.options.update(max_width=10_000)  # else a table claims no more than there is
        return console.measure(table, options=boundless).maximum <= console.width

    console, wide = Console(), made(rows)
    if fits(wide):
        return wide
    below = made([[cell.replace(" [", "\n[").replace(" ± ", "\n± ") for cell in row] for row in rows])
    if fits(below):
        return below
    bare = [[INTERVAL.sub("", cell) for cell in row] for row in rows]
    if bare == [list(row) for row in rows]:
        return below
    found = made(bare)
    found.caption = "without intervals, for which there is no room here; --json has them"
    found.caption_justify = "left"
    return found
