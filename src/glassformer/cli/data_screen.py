"""What `glassformer data inspect` prints for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from glassformer.data.findings import Finding
    from glassformer.data.report import Report

SHOWN = 20  # classes
PLACES = 3  # of a finding


def show(report: Report) -> None:
    """Print files, classes, lengths, and what was found."""
    from rich.console import Console

    console = Console(highlight=False)
    for part in report.parts:
        gaps = {name: f", none in {count:,}" for name, count in part.gaps.items()}
        columns = ", ".join(f"{name} ({kind}{gaps.get(name, '')})" for name, kind in part.columns.items())
        _line(console, f"{part.name}: {part.rows:,} rows", columns)
    if report.classes:
        console.print()
        console.print(_classes(report))
        if len(report.classes) > SHOWN:
            console.print(
                f"and {len(report.classes) - SHOWN:,} more; --html and --json have all", style="dim"
            )
    console.print()
    console.print(_lengths(report))
    console.print()
    if not report.findings:
        console.print("Nothing odd was found.", style="green")
    for found in report.findings:
        _finding(console, found)


def _line(console: Console, said: str, more: str) -> None:
    from rich.text import Text

    from glassformer.cli.screen import visible

    console.print(Text.assemble((visible(said), "bold cyan"), "  ", (visible(more), "dim")))


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    return table


def _classes(report: Report) -> Table:
    """A line a class: a bar for its share of the first file, and its rows in each."""
    from rich.text import Text

    from glassformer.cli.screen import bar, visible

    table = _table("class")
    table.add_column("", no_wrap=True)
    for part in report.parts:
        table.add_column(visible(Path(part.name).name), justify="right")
    first = report.parts[0]
    most = max(first.classes.values(), default=1)
    for name in report.classes[:SHOWN]:
        cells = [part.classes.get(name, 0) for part in report.parts]
        shares = [
            f"{count:,} · {count / part.rows:.1%}" for count, part in zip(cells, report.parts, strict=True)
        ]
        table.add_row(Text(visible(name)), Text(bar(cells[0] / most, 16), style="cyan"), *shares)
    return table


def _lengths(report: Report) -> Table:
    from rich.text import Text

    from glassformer.cli.screen import visible

    table = _table("lengths", *report.parts[0].lengths["words"].quantiles())
    for part in report.parts:
        for unit, lengths in part.lengths.items():
            values = lengths.quantiles().items()
            cells = [f"{value:,.1f}" if name == "mean" else f"{value:,.0f}" for name, value in values]
            table.add_row(Text(visible(f"{Path(part.name).name}, {unit}")), *cells)
    return table


def _finding(console: Console, found: Finding) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from glassformer.cli.screen import visible

    console.print(Text.assemble(("! ", "bold yellow"), visible(found.said)))
    places = [visible(place) for place in found.places[:PLACES]]
    if places and found.count > PLACES:
        places.append(f"… and {found.count - PLACES:,} more")
    for place in places:
        console.print(Padding(Text(place, style="dim"), (0, 0, 0, 4)))
