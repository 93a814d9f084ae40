"""`glassformer curves RUN …`: training curves of one or several runs, in the terminal or as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from glassformer.cli.options import Html, Json
from glassformer.cli.screen import fits, print_json, rows_table, say, terminal, text_of, visible
from glassformer.errors import DataError, nearest
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    import numpy as np

    from glassformer.runs.charts import CurveChart
    from glassformer.runs.history import RunHistory

COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
HEIGHT, MAX_WIDTH, MAX_SKIPPED_LINES = 12, 100, 5

# The bit of the dot in each row and column of a character. Source: Unicode, block 2800, "Braille Patterns".
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
Cell = tuple[str, int | None]


def curves(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or event logs in them.", show_default=False)],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="Metric to plot: loss, lr, grad_norm, tokens_per_s, or a validation metric; repeatable.",
        ),
    ] = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Plot training curves of one run, or of several side by side; also while a run is still training.

    Examples:

    [cyan]glassformer curves RUN[/]

    [cyan]glassformer curves RUN_A RUN_B --figure f1[/]

    [cyan]glassformer curves RUN_A RUN_B --html page.html[/]
    """
    from glassformer.runs.charts import charts
    from glassformer.runs.history import read_runs

    histories = read_runs(runs)
    by_metric = {chart.name: chart for chart in charts(histories, 2_000)}
    for name in figure or ():
        if name not in by_metric:
            raise DataError(f"no metric {name!r}; there are {', '.join(by_metric)}{nearest(name, by_metric)}")
    if html is not None:
        from glassformer.runs.curves import write_page

        check_html_path(html)
        write_page(list(runs), html)
    if json:
        print_json([_facts(run) for run in histories])
        return
    _show(histories, [by_metric[name] for name in figure or ["loss"] if name in by_metric])
    if html is not None:
        say(f"saved in {html}")


def _facts(run: RunHistory) -> dict[str, Any]:
    return {
        "run": run.name,
        "steps": run.last,
        "seconds": round(run.seconds, 3),
        "ended": run.ended,
        "best_step": run.best,
        "metrics": run.best_metrics(),
        "skipped": [{"step": at["step"], "loss": str(at.get("loss"))} for at in run.skipped],
        "options": run.options,
    }


def _show(runs: list[RunHistory], plotted: list[CurveChart]) -> None:
    from glassformer.runs.curves import metrics_table

    console = terminal()
    for chart in plotted:
        console.print(_plot(chart, runs, min(console.width, MAX_WIDTH)))
    for run in runs:
        for at in run.skipped[-MAX_SKIPPED_LINES:]:
            what = f"{run.name}: step {at['step']:,} was skipped, its loss was {at.get('loss')}"
            console.print(text_of(what, "red"))
        if len(run.skipped) > MAX_SKIPPED_LINES:
            console.print(text_of(f"{run.name}: {len(run.skipped):,} skipped steps in all", "red"))
    headings, rows = metrics_table(runs)
    table = rows_table(headings, rows)
    if len(runs) == 1 or not fits(table):  # a run a column, where there is no room for a run a row
        names = [run.name for run in runs] if len(runs) > 1 else [""]
        table = rows_table(["", *names], list(zip(headings[1:], *(row[1:] for row in rows), strict=True)))
    console.print(table)


def _plot(chart: CurveChart, runs: list[RunHistory], width: int) -> Any:
    """A line chart in characters: smoothed lines where there are, validation in another colour."""
    from glassformer.runs.charts import number, value_range

    lines = [line for line in chart.lines if not line.behind]
    colours = [COLOURS[(line.run if len(runs) > 1 else i) % len(COLOURS)] for i, line in enumerate(lines)]
    low, high = value_range(lines)
    last = max((int(line.steps[-1]) for line in lines), default=1)
    edge = [number(high), *[""] * (HEIGHT - 2), number(low)]
    margin = max(map(len, edge))
    text = Text(chart.title, style="bold")
    for line, colour in zip(lines, colours, strict=True):
        text.append(f"   ● {visible(line.name)} {number(float(line.values[-1]))}", style=colour)
    rows = dotted([(line.steps, line.values) for line in lines], (0, last), (low, high), width - margin - 2, HEIGHT)
    for label, row in zip(edge, rows, strict=True):
        text.append(f"\n{label:>{margin}} ┤", style="dim")
        for character, which in row:
            text.append(character, style="" if which is None else colours[which])
    bottom = f"{last:,}".rjust(width - margin - 3)
    return text.append(f"\n{'':>{margin}} 0{bottom}\n", style="dim")


def dotted(
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    width: int,
    height: int,
) -> list[list[Cell]]:
    """Draw lines on a canvas of Braille characters.

    Args:
        lines: each its x and y values, x ascending. [N], [N]
        x_range, y_range: the x and y values at the edges of the canvas · width, height: in characters
    Returns: rows of characters from the top, each with the index of the last line that goes through it, or None.
    """
    import numpy as np

    bits = [[0] * width for _ in range(height)]
    owner: list[list[int | None]] = [[None] * width for _ in range(height)]
    xs = np.linspace(*x_range, 2 * width)
    for number, (steps, values) in enumerate(lines):
        finite = np.isfinite(values)
        if not finite.any():
            continue
        first, last = steps[finite][0], steps[finite][-1]
        interpolated = np.interp(xs, steps[finite], values[finite])
        heights = (interpolated - y_range[0]) / (y_range[1] - y_range[0])
        rows = np.clip(np.round((1 - heights) * (4 * height - 1)), 0, 4 * height - 1).astype(int)
        columns = np.flatnonzero((xs >= first) & (xs <= last))
        before = None
        for column in columns:
            row = int(rows[column])
            start, end = sorted((row, row if before is None else before))
            # All dots between two columns are set, so that a steep line has no gaps.
            for dot in range(start, end + 1):
                bits[dot // 4][column // 2] |= BITS[dot % 4][column % 2]
                owner[dot // 4][column // 2] = number
            before = row
    return [
        [(chr(0x2800 + bit) if bit else " ", which) for bit, which in zip(row, own, strict=True)]
        for row, own in zip(bits, owner, strict=True)
    ]
