"""`glassformer compare RUN RUN …`: metrics of runs with confidence intervals (also drawn), and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.screen import counted, notes, plain_table, print_json, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.evaluation.compare.comparison import RunComparison
    from glassformer.tasks.metrics.intervals import Interval

# Width in characters of the column in which intervals are drawn.
MIN_WIDTH, MAX_WIDTH = 9, 41


def compare_runs(
    folders: Sequence[str], *, html: Path | None = None, json: bool = False, latency: bool = False
) -> None:
    """Compare runs, and print the result. Raises: ConfigError: a folder that holds no run."""
    from glassformer.evaluation.compare.comparison import compare_runs as compare_folders
    from glassformer.evaluation.compare.comparison import is_comparable
    from glassformer.evaluation.compare.page import comparison_page

    for folder in folders:
        if not is_comparable(folder):
            raise ConfigError(
                f"{folder}: holds no run and no evaluation; name folders that `glassformer train` or `evaluate` wrote, "
                "or give the test data that systems generate text for: --data FILE"
            )
    with notes(), counted(None, "evaluating") as progress:
        comparison = compare_folders(folders, latency=latency, progress=progress)
    if html is not None:
        html.write_text(comparison_page(comparison), encoding="utf-8", errors="replace")
    if json:
        print_json(comparison.to_dict())
        return
    _show(comparison)
    if html is not None:
        typer.echo(f"saved in {html}")


def whisker(x: Interval, low: float, high: float, width: int) -> str:
    """Draw a confidence interval as a whisker, on a scale from low to high: `   ╶──●───╴  `."""

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1)) if high > low else width // 2

    start, end = (column(x.value if end is None else end) for end in (x.low, x.high))
    cells = [" "] * width
    cells[start : end + 1] = "─" * (end + 1 - start)
    if start < end:
        cells[start], cells[end] = "╶", "╴"
    cells[column(x.value)] = "●"
    return "".join(cells)


def _show(comparison: RunComparison) -> None:
    from rich.console import Console
    from rich.text import Text

    from glassformer.evaluation.compare.page import interval_range

    console = Console(highlight=False)
    console.print(Text(visible(comparison.caption)), end="\n\n")
    (_, _, interval, apart), rows = comparison.table()
    widths = [max(len(row[i]) for row in [["", "", interval, apart], *rows]) for i in (1, 2, 3)]
    widths[0] = max(widths[0] + 2, *(len(row[0]) for row in rows))
    room = min(max(console.width - sum(widths) - 6, MIN_WIDTH), MAX_WIDTH)
    table = plain_table()
    for heading in ("", "", interval, apart):
        table.add_column(heading, no_wrap=bool(heading), overflow="fold")
    remaining = iter(rows)
    for metric in comparison.metrics:
        results = comparison.systems_with(metric)
        ends = interval_range(system.metrics[metric] for system in results)
        for number, system in enumerate(results):
            name, who, value, difference = next(remaining)
            if number == 0:
                table.add_row(Text(visible(name), style="bold"))
            significant = metric in system.differences and system.differences[metric].leaves_out_zero
            table.add_row(
                Text(visible(f"  {who}"), style="" if system.seeds else "dim"),
                Text(whisker(system.metrics[metric], *ends, room), style="cyan" if number == 0 else ""),
                Text(value),
                Text(difference, style="bold" if significant else "dim"),
            )
    console.print(table)
    console.print()
    headings, rows = comparison.costs()
    costs = plain_table()
    for i, heading in enumerate(headings):
        costs.add_column(heading, justify="right" if i else "left", overflow="fold")
    for row in rows:
        costs.add_row(*(Text(visible(cell)) for cell in row))
    console.print(costs)
    for note in comparison.notes:
        console.print(Text(visible(note), style="dim"))
