"""`glassformer curves RUN …`: how a training went, or several beside each other, in the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json

if TYPE_CHECKING:
    from glassformer.runs.history import Chart, Run

COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
HEIGHT, WIDEST, MOST_SAID = 12, 100, 5


def curves(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that a training wrote, or logs in them.", show_default=False)
    ],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure", help="What to plot: loss, lr, grad_norm, tokens_per_s, or a figure of validation."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write them there as a page, one file.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show the curves of a run, or of several beside each other; also while it is still going on.

    Examples:

    [cyan]glassformer curves RUN[/]

    [cyan]glassformer curves RUN_A RUN_B --figure f1[/]

    [cyan]glassformer curves RUN_A RUN_B --html page.html[/]
    """
    from glassformer.errors import DataError, nearest
    from glassformer.runs.history import charts, read_runs

    found = read_runs(runs)
    drawn = {chart.name: chart for chart in charts(found, 2_000)}
    for name in figure or ():
        if name not in drawn:
            raise DataError(f"no figure {name!r}; there are {', '.join(drawn)}{nearest(name, drawn)}")
    if html is not None:
        from glassformer.explorer.page import check_place
        from glassformer.runs.curves import write_page

        check_place(html)
        write_page(list(runs), html)
    if json:
        import json as json_format

        typer.echo(json_format.dumps([_facts(run) for run in found], ensure_ascii=False, indent=2))
        return
    _show(found, [drawn[name] for name in figure or ["loss"] if name in drawn])
    if html is not None:
        typer.echo(f"saved in {html}")


def _facts(run: Run) -> dict[str, Any]:
    return {
        "run": run.name,
        "steps": run.last,
        "seconds": round(run.seconds, 3),
        "ended": run.ended,
        "best_step": run.best,
        "figures": run.at_best(),
        "skipped": [{"step": at["step"], "loss": str(at.get("loss"))} for at in run.skipped],
        "options": run.options,
    }


def _show(runs: list[Run], drawn: list[Chart]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import visible
    from glassformer.runs.curves import figures

    console = Console(highlight=False)
    for chart in drawn:
        console.print(_plot(chart, runs, min(console.width, WIDEST)))
    for run in runs:
        for at in run.skipped[-MOST_SAID:]:
            what = f"{run.name}: step {at['step']:,} was not applied, its loss was {at.get('loss')}"
            console.print(Text(visible(what), style="red"))
        if len(run.skipped) > MOST_SAID:
            console.print(Text(visible(f"{run.name}: {len(run.skipped):,} such steps in all"), style="red"))
    headings, rows = figures(runs)
    if len(runs) == 1:  # what one run has to say is read down, not across
        table = Table(box=None, show_header=False, pad_edge=False)
        for heading, cell in zip(headings, rows[0], strict=True):
            table.add_row(Text(visible(heading), style="dim"), Text(visible(cell)))
    else:
        table = Table(box=None, header_style="bold cyan", pad_edge=False)
        for heading in headings:
            table.add_column(
                visible(heading), justify="left" if heading == "run" else "right", overflow="fold"
            )
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
    console.print(table)


def _plot(chart: Chart, runs: list[Run], width: int) -> Any:
    """A chart in characters: smoothed lines where there are, validations as another colour."""
    from rich.text import Text

    from glassformer.cli.dots import dotted
    from glassformer.cli.screen import visible
    from glassformer.runs.charts import extent, named, number, under

    lines = [line for line in chart.lines if not under(line, chart)]
    colours = [COLOURS[(line.run if len(runs) > 1 else i) % len(COLOURS)] for i, line in enumerate(lines)]
    low, high = extent(lines)
    last = max((int(line.steps[-1]) for line in lines), default=1)
    edge = [number(high), *[""] * (HEIGHT - 2), number(low)]
    margin = max(map(len, edge))
    text = Text(chart.title, style="bold")
    for line, colour in zip(lines, colours, strict=True):
        text.append(f"   ● {visible(named(line, runs))} {number(float(line.values[-1]))}", style=colour)
    field = dotted(
        [(line.steps, line.values) for line in lines], (0, last), (low, high), width - margin - 2, HEIGHT
    )
    for label, row in zip(edge, field, strict=True):
        text.append(f"\n{label:>{margin}} ┤", style="dim")
        for character, which in row:
            text.append(character, style="" if which is None else colours[which])
    bottom = f"{last:,}".rjust(width - margin - 3)
    return text.append(f"\n{'':>{margin}} 0{bottom}\n", style="dim")
