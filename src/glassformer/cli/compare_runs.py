"""`glassformer compare RUN RUN …`: what runs reached and cost, with their intervals drawn beside the figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.screen import counted, notes, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.evaluation.compare.comparison import Comparison
    from glassformer.tasks.metrics.intervals import Interval

NARROWEST, WIDEST = 9, 41


def compare_runs(
    places: Sequence[str], *, html: Path | None = None, json: bool = False, latency: bool = False
) -> None:
    """Compare, and show it. Raises: ConfigError: a place that is no run."""
    from glassformer.evaluation.compare.comparison import compare_runs as compared
    from glassformer.evaluation.compare.comparison import is_place
    from glassformer.evaluation.compare.page import page

    for place in places:
        if not is_place(place):
            raise ConfigError(
                f"{place}: holds no run and no evaluation; name folders that `glassformer train` or `evaluate` made, "
                "or give rows that systems are to write about: --data FILE"
            )
    with notes(), counted(None, "judging") as progress:
        found = compared(places, latency=latency, progress=progress)
    if html is not None:
        html.write_text(page(found), encoding="utf-8", errors="replace")
    if json:
        import json as json_format

        typer.echo(json_format.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    _show(found)
    if html is not None:
        typer.echo(f"saved in {html}")


def whisker(x: Interval, low: float, high: float, width: int) -> str:
    """An interval as a line with a dot on a scale from low to high: `   ╶──●───╴  `."""

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1)) if high > low else width // 2

    start, end = (column(x.value if end is None else end) for end in (x.low, x.high))
    cells = [" "] * width
    cells[start : end + 1] = "─" * (end + 1 - start)
    if start < end:
        cells[start], cells[end] = "╶", "╴"
    cells[column(x.value)] = "●"
    return "".join(cells)


def _show(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from glassformer.evaluation.compare.page import reach

    console = Console(highlight=False)
    console.print(Text(visible(found.headed)), end="\n\n")
    (_, _, interval, apart), rows = found.table()
    taken = [max(len(row[i]) for row in [["", "", interval, apart], *rows]) for i in (1, 2, 3)]
    taken[0] = max(taken[0] + 2, *(len(row[0]) for row in rows))
    room = min(max(console.width - sum(taken) - 6, NARROWEST), WIDEST)
    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for heading in ("", "", interval, apart):
        table.add_column(heading, no_wrap=bool(heading), overflow="fold")
    shown = iter(rows)
    for figure in found.figures:
        standings = found.of(figure)
        ends = reach(one.figures[figure] for one in standings)
        for number, one in enumerate(standings):
            name, who, value, difference = next(shown)
            if number == 0:
                table.add_row(Text(visible(name), style="bold"))
            sure = figure in one.differences and one.differences[figure].leaves_out_zero
            table.add_row(
                Text(visible(f"  {who}"), style="" if one.seeds else "dim"),
                Text(whisker(one.figures[figure], *ends, room), style="cyan" if number == 0 else ""),
                Text(value),
                Text(difference, style="bold" if sure else "dim"),
            )
    console.print(table)
    console.print()
    headings, rows = found.costs()
    costs = Table(box=None, header_style="bold cyan", pad_edge=False)
    for i, heading in enumerate(headings):
        costs.add_column(heading, justify="right" if i else "left", overflow="fold")
    for row in rows:
        costs.add_row(*(Text(visible(cell)) for cell in row))
    console.print(costs)
    for note in found.notes:
        console.print(Text(visible(note), style="dim"))
