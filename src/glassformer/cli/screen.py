"""Terminal output: numbers, tables, progress bars, JSON, and text made safe for the terminal."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.options import has_option, in_options
from glassformer.files import counted
from glassformer.reports.report import Display
from glassformer.reports.table import IntervalCell, colours
from glassformer.reports.table import Table as ReportTable

_END = r"[+\-−]?(?:[\d.∞]|nan|inf)[^\s\]]*(?: \S{1,4})?"  # of an interval
INTERVAL = re.compile(rf"^(\S+(?: \S{{1,4}})?) (\[{_END}, {_END}\])")
"""A number with its interval, `0.56 [0.51, 0.61]` or `4.2 ms [3.9 ms, 4.5 ms]`; other brackets are part of a text."""
TEXTS_SHARE = 0.6
"""Part of a narrow terminal for the columns of texts, which are folded, before columns of numbers are left out."""
FOLDED_WIDTH = 20
"""Characters to which other columns of texts are folded first: lines of three or four words can still be read."""
MIN_WHISKER, MAX_WHISKER = 9, 41
"""Characters of a drawn interval."""
EXAMPLE_CHARACTERS = 100
"""Of an example on a command line: most sentences are whole, and a long text ends at a word."""


def show_next(commands: Sequence[str]) -> None:
    """The commands to continue with, where there are any."""
    if commands:
        typer.echo("\n".join(["next:", *(f"  {visible(command)}" for command in commands)]))


def first_words(text: str) -> str:
    """The beginning of an example, for a command line."""
    words = text.split()
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(word for word, end in zip(words, ends, strict=True) if end <= EXAMPLE_CHARACTERS)


def visible(text: str) -> str:
    """Escape control characters, so that no text can inject terminal escape sequences."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def visible_lines(text: str) -> str:
    """Escape control characters, but keep the line breaks."""
    return "\n".join(visible(line) for line in text.split("\n"))


def say(text: str, *, err: bool = False) -> None:
    """Print a sentence that holds names of files or other texts, without their control characters."""
    typer.echo(visible_lines(text), err=err)


def say_saved(page: Path, pages: Sequence[str], *, err: bool = False) -> None:
    """Say where a page is, and that the folder of the pages that its links open belongs to it."""
    links = ""
    if pages:
        folder = Path(pages[0]).parent
        links = f"; its links open {counted(len(pages), 'page')} in {folder}/: keep that folder next to it"
    say(f"saved in {page}{links}", err=err)


def save_page(html: Path | None, report: Display, json: bool = False) -> None:
    """Write the page of a report where one is wanted, with options as they are typed, and say where it is.

    Args:
        html: whose path was checked before the work
        json: standard output is JSON, and has nothing else
    """
    if html is None:
        return
    from glassformer.reports.page import report_page, write_page

    write_page(html, report_page(report, wording=in_options))
    if not json:
        say(f"\nsaved in {html}")


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print JSON on standard output, at once: a program that waits for it reads a pipe."""
    typer.echo(json.dumps(data, ensure_ascii=False, indent=indent))
    sys.stdout.flush()


@contextmanager
def notes(*, repeats: bool = True) -> Iterator[None]:
    """Print Python warnings, such as about truncated texts, as one `note:` line each on standard error.

    Args:
        repeats: False = of warnings that differ in their numbers alone, print the first
    """
    printed: set[str] = set()

    def show_once(message: Warning | str, *_: object, **__: object) -> None:
        kind = re.sub(r"\d[\d,]*", "", str(message))
        if repeats or kind not in printed:
            printed.add(kind)
            note(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show_once
        yield


@contextmanager
def progress_of(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, told how many of how many are done; where that is no terminal, lines."""
    from rich.progress import BarColumn, Progress

    from glassformer.progress import log_lines

    console = Console(stderr=True)
    if not console.is_terminal:
        yield log_lines(title)
        return
    columns = ("{task.description}", BarColumn(), "{task.completed:.0f} of {task.total:.0f}")
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=1)

        def update(done: int, of: int) -> None:
            if of:
                progress.update(task, completed=done, total=of)

        yield update


def note(text: object) -> None:
    """Print a note on standard error, with options as they are typed, and without control characters."""
    print(
        folded(visible_lines(f"note: {in_options(str(text))}")), file=sys.stderr
    )  # which a progress bar replaces while it is shown


def folded(text: str) -> str:
    """A message folded between words to the width of the terminal, where standard error is one."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    whole: Any = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, width, **whole) or [""])


def plain_table(*headings: str, **options: Any) -> Table:
    """An empty table in the style of the command line: no lines, and headings in bold cyan."""
    return Table(*headings, **{"box": None, "header_style": "bold cyan", "pad_edge": False, **options})


def terminal() -> Console:
    """The console of a command: no colours of its own choosing for numbers and paths."""
    return Console(highlight=False)


def print_facts(facts: Mapping[str, str], console: Console | None = None) -> None:
    """Print named facts, a line each, folded on a terminal: the names right-justified, in bold cyan."""
    console, width = console or terminal(), max(map(len, facts)) + 1
    for name, value in facts.items():
        room = max(console.width - width - 2, 1) if console.is_terminal else len(value) * 10
        lines = Text(visible(value)).wrap(console, room, overflow="fold")
        for heading, line in zip([name, *[""] * len(lines)], lines, strict=False):
            console.print(Text.assemble((f"{heading:>{width}}  ", "bold cyan"), line), soft_wrap=True)


def print_lines(text: str) -> None:
    """Print lines of fixed columns: on a terminal cut to its width, since folded ones could not be read."""
    console = terminal()
    cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"} if console.is_terminal else {"soft_wrap": True}
    for line in text.split("\n"):
        console.print(text_of(line), **cut)


def text_of(cell: str, style: str = "") -> Any:
    """A cell of a table or a line: text that is not markup, without control characters."""
    return Text(visible_lines(cell), style=style)


def rows_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Table:
    """A table of strings that folds long cells: the first `left` columns are left-justified."""
    table = plain_table()
    for number, heading in enumerate(headings):
        table.add_column(text_of(heading), justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(text_of, row))
    return table


def show(result: Any, json: bool = False, *, indent: int | None = 2, **keys: Any) -> None:
    """Print a report as JSON, or its heading, its finding, its tables and its remarks; of several reports a list.

    Args:
        keys: that a command adds to the JSON of a report, such as the texts that it is about
    """
    several = type(result) is list
    if json:
        print_json(list(map(_json_of, result)) if several else {**_json_of(result), **keys}, indent)
        return
    for report in result if several else [result]:
        for line in report.above:
            terminal().print(text_of(line), end="\n\n")
        show_tables(report.tables(), report.below)


def _json_of(report: Any) -> dict[str, Any]:
    """The JSON of a report, whose notes name options as they are typed."""
    values: dict[str, Any] = report.to_dict()
    return {**values, "notes": list(map(in_options, values["notes"]))} if "notes" in values else values


def show_tables(tables: Iterable[ReportTable], remarks: Iterable[str] = ()) -> None:
    """Print tables with an empty line between them, and sentences below."""
    console, any_table = terminal(), False
    for table in tables:
        if any_table:
            console.print()
        any_table = True
        if table.caption:
            console.print(text_of(table.caption))
        console.print(_fitted(table, console.width))
    for i, remark in enumerate(remarks):
        if i == 0 and any_table:
            console.print()
        console.print(text_of(in_options(remark), "dim"))


def _fitted(table: ReportTable, width: int) -> Table:
    """A table of a report, with as many columns as a terminal has room for; cells with shades on their colour."""
    room, gap = _room(table, width)
    some = table.of(table.columns(room))
    shown = table_of(some.headings, some.rows, left=table.left, gap=gap) if some.shades is None else _map_of(some, gap)
    if room < len(table.headings):
        which, has_all = "" if table.evenly else "the first ", "--json has all"
        if has_option("html"):
            has_all = "--json and the page of --html have all"
        left_out = f"{which}{room - 1} of {len(table.headings) - 1} columns fit this terminal; {has_all}"
        shown.caption = "; ".join(filter(None, [str(shown.caption or ""), left_out]))
        shown.caption_justify = "left"
    return shown


def _room(table: ReportTable, width: int) -> tuple[int, int]:
    """How many columns fit, without intervals, and where the first ones fold their cells; and spaces between them."""
    from rich.cells import cell_len

    def narrow(cell: str) -> int:
        return max(map(cell_len, INTERVAL.sub(r"\1", cell).replace(" ± ", "\n± ").split("\n")))

    columns = [list(map(visible_lines, cells)) for cells in zip(table.headings, *table.rows, strict=True)]
    widths = [max(map(narrow, cells)) for cells in columns]
    if table.shades is None:  # texts are folded at their spaces before any column is left out
        for i in range(table.left, len(widths)):
            words = max(cell_len(word) for cell in columns[i] for word in cell.split() or [""])
            # a word that fills half of the terminal, such as an address, is folded too
            widths[i] = min(widths[i], max(FOLDED_WIDTH, min(words, width // 2)))
    room, gap, texts = len(widths), 2, min(sum(widths[: table.left]), round(TEXTS_SHARE * width))

    def needed() -> int:
        return texts + sum(widths[i] for i in table.columns(room)[table.left :]) + gap * (room - 1)

    while room > table.left + 1 and needed() > width:
        room, gap = room - gap % 2, 1  # first closer together
    return room, gap


def _map_of(table: ReportTable, gap: int) -> Table:
    """A heat map: a table whose cells are shaded by their numbers."""
    table, shown = table.on_lines(), plain_table(padding=(0, 1, 0, gap - 1))
    for i, heading in enumerate(table.headings):
        shown.add_column(text_of(heading), justify="left" if i < table.left else "right", overflow="fold")
    assert table.shades is not None
    below, above = colours(table.shades)
    for row, shades in zip(table.rows, table.shades, strict=True):
        styles = ["", *(_on_colour(above if shade > 0 else below, abs(shade)) for shade in shades)]
        shown.add_row(*(text_of(cell, style) for cell, style in zip(row, styles, strict=True)))
    return shown


def _on_colour(colour: tuple[int, int, int], share: float) -> str:
    """The style of a cell, the stronger the larger its share; none at all for NaN."""
    if not share >= 0.01:
        return ""
    strength = min(1.0, share) ** 0.8
    ground = ",".join(str(round(255 + (channel - 255) * strength)) for channel in colour)
    return f"{'white' if strength > 0.55 else 'black'} on rgb({ground})"


def table_of(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int, title: str = "", gap: int = 2
) -> Table:
    """A table of strings, fitted to the terminal: the first `left` columns are left-justified.

    Where there is room, intervals are drawn in front of their values. In a narrow terminal they go below their values;
    in a narrower one they are left out, and the caption says so; a table that is still too wide folds its left cells.
    """

    def build(headings: Sequence[str], rows: Sequence[Sequence[str]], fold: bool = False) -> Table:
        title_of = {"title": Text(visible(title)) if title else None, "title_justify": "left"}
        table = plain_table(padding=(0, 1, 0, gap - 1), **title_of)
        for i, heading in enumerate(headings):
            table.add_column(
                text_of(heading),  # no markup: a heading may be a text of the user
                justify="left" if i < left or any(map(_is_sentence, (row[i] for row in rows))) else "right",
                no_wrap=i < left and not fold,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*map(_cell, row))
        return table

    wide = build(headings, rows)
    if fits(wide):
        room = min(terminal().width - _width(wide) - 2, MAX_WHISKER)
        return wide if room < MIN_WHISKER else build(*_with_intervals(headings, rows, left, room))
    lines = [
        [*row[:left], *(INTERVAL.sub(r"\1\n\2", cell).replace(" ± ", "\n± ") for cell in row[left:])] for row in rows
    ]
    below = build(headings, lines)
    if fits(below):
        return below
    bare = [[*row[:left], *(INTERVAL.sub(r"\1", cell) for cell in row[left:])] for row in rows]
    if bare == [list(row) for row in rows]:
        return build(headings, rows, fold=True)
    narrow = build(headings, bare)
    narrow = narrow if fits(narrow) else build(headings, bare, fold=True)
    narrow.caption = "without intervals: the terminal is too narrow; --json has them"
    narrow.caption_justify = "left"
    return narrow


def _is_sentence(cell: str) -> bool:
    """Whether a cell is a text that reads from the left, rather than a number with its unit or interval."""
    return len(cell) > FOLDED_WIDTH and not isinstance(cell, IntervalCell) and not INTERVAL.search(cell) and " " in cell


def _cell(cell: str) -> Text:
    significant = isinstance(cell, IntervalCell) and cell.significant
    return Text(visible_lines(cell), style="bold" if significant else "")


def _with_intervals(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: int, width: int
) -> tuple[list[str], list[list[str]]]:
    """A table with a column of drawn intervals in front of the first column of several estimates, on one scale.

    Where other columns have estimates too, it is headed by the column that it is of.
    """
    for column in range(left, len(headings)):
        cells = [row[column] for row in rows]
        estimates = [cell for cell in cells if isinstance(cell, IntervalCell) and not cell.signed]
        if len(estimates) > 1:
            break
    else:
        return list(headings), [list(row) for row in rows]
    ends = [x for cell in estimates for x in (cell.value, cell.low, cell.high) if x is not None and math.isfinite(x)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    whiskers = [whisker(x, low, high, width) if isinstance(x, IntervalCell) and not x.signed else "" for x in cells]
    wider = [[*row[:column], line, *row[column:]] for row, line in zip(rows, whiskers, strict=True)]
    others = {i for row in rows for i, cell in enumerate(row) if isinstance(cell, IntervalCell) and not cell.signed}
    name = headings[column] if others != {column} and len(headings[column]) <= width else ""
    return [*headings[:column], name, *headings[column:]], wider


def whisker(x: IntervalCell, low: float, high: float, width: int) -> str:
    """Draw an interval on a scale from low to high: `   ╶──●───╴  `."""
    if not math.isfinite(x.value):
        return ""

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1)) if high > low else width // 2

    start, end = (column(x.value if end is None else end) for end in (x.low, x.high))
    cells = [" "] * width
    cells[start : end + 1] = "─" * (end + 1 - start)
    if start < end:
        cells[start], cells[end] = "╶", "╴"
    cells[column(x.value)] = "●"
    return "".join(cells)


def fits(table: Table) -> bool:
    """Whether a table is no wider than the terminal."""
    return _width(table) <= terminal().width


def _width(table: Table) -> int:
    # Measured without a limit, because rich caps the width of a table at that of the terminal.
    console = terminal()
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum


def heading(console: Console, title: str, explanation: str) -> None:
    """Print the heading of a section, and its explanation."""
    console.print()
    console.print(Text(title, style="bold cyan"))
    console.print(Text(explanation, style="dim"))
    console.print()
