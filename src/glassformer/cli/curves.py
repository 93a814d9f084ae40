"""`glassformer curves RUN …`: training curves of one or several runs, in the terminal or as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from glassformer.cli.options import Checked, Html, Json, command
from glassformer.cli.screen import fits, note, print_json, rows_table, say, terminal, text_of, visible
from glassformer.errors import DataError, nearest
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.runs.curves import CurveChart
    from glassformer.runs.history import RunHistory

COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
HEIGHT, MAX_WIDTH, MAX_SKIPPED_LINES = 12, 100, 5
"""Lines and characters of a chart, so that loss and metric fit on a screen; and notes about skipped steps."""


@command
def curves(
    runs: Annotated[
        list[Path],
        Checked("glassformer.runs.folder:check_logs"),
        typer.Argument(
            help="Run folders, folders with runs in them, or logs: also of TensorBoard and Weights & Biases.",
            show_default=False,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Metric to plot: loss, lr, grad_norm, tokens_per_s, or a validation metric; repeatable.",
        ),
    ] = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Plot training curves of one run, or of several side by side; also while a run is still training.

    Examples:
      glassformer curves RUN
      glassformer curves RUN_A RUN_B --metric f1
      glassformer curves RUN_A RUN_B --html page.html
      # every run of TensorBoard and Weights & Biases in these folders
      glassformer curves lightning_logs wandb
    """
    from glassformer.runs.curves import charts
    from glassformer.runs.history import read_runs

    histories = read_runs(runs)
    by_metric = {chart.name: chart for chart in charts(histories, 2_000)}
    for name in metric or ():
        if name not in by_metric:
            raise DataError(f"no metric {name!r}; there are {', '.join(by_metric)}{nearest(name, by_metric)}")
    if html is not None:
        from glassformer.runs.curves import write_page

        check_html_path(html)
        write_page(list(runs), html)
    if json:
        print_json([_facts(run) for run in histories])
        return
    _show(histories, [by_metric[name] for name in metric or ["loss"] if name in by_metric])
    if html is not None:
        say(f"saved in {html}")


def _facts(run: RunHistory) -> dict[str, Any]:
    return {
        "run": run.name,
        "steps": run.last,
        "seconds": round(run.seconds, 3),
        "state": run.state.name,
        "nothing_written_for": run.state.silence or None,
        "best_step": run.best,
        "metrics": run.best_metrics(),
        "skipped": [{"step": at["step"], "loss": str(at.get("loss"))} for at in run.skipped],
        "left_out": list(run.left_out),
        "options": run.options,
    }


def _show(runs: list[RunHistory], plotted: list[CurveChart]) -> None:
    from glassformer.runs.curves import left_out_lines, metrics_table

    for line in left_out_lines(runs):
        note(line)
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
    from glassformer.reports.braille import dotted
    from glassformer.reports.table import number
    from glassformer.runs.curves import value_range

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
