"""The report of `glassformer data inspect` on the screen: classes, lengths, findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from glassformer.cli.screen import bar, plain_table, rows_table, visible

if TYPE_CHECKING:
    from glassformer.data.findings import Finding
    from glassformer.data.report import DataReport

MAX_CLASSES = 20
MAX_PLACES = 3  # examples of a finding


def show_report(report: DataReport, console: Console) -> None:
    """Print columns, class balance, length statistics and findings of a data set."""
    for part in report.files:
        gaps = {name: f", none in {count:,}" for name, count in part.gaps.items()}
        columns = ", ".join(f"{name} ({kind}{gaps.get(name, '')})" for name, kind in part.columns.items())
        _show_line(console, f"{part.name}: {part.rows:,} rows", columns)
    if report.classes:
        console.print()
        console.print(_classes(report))
        if len(report.classes) > MAX_CLASSES:
            console.print(f"and {len(report.classes) - MAX_CLASSES:,} more; --html and --json have all", style="dim")
    console.print()
    console.print(_lengths(report))
    console.print()
    if not report.findings:
        console.print("No problems found.", style="green")
    for finding in report.findings:
        _show_finding(console, finding)


def _show_line(console: Console, title: str, details: str) -> None:
    console.print(Text.assemble((visible(title), "bold cyan"), "  ", (visible(details), "dim")))


def _classes(report: DataReport) -> Table:
    """One line per class: a bar for its frequency in the first file, and its rows in each file."""
    table = plain_table("class")
    table.add_column("", no_wrap=True)
    for part in report.files:
        table.add_column(visible(Path(part.name).name), justify="right")
    first = report.files[0]
    largest = max(first.classes.values(), default=1)
    for name in report.classes[:MAX_CLASSES]:
        cells = [part.classes.get(name, 0) for part in report.files]
        shares = [
            f"{count:,} · {count / part.class_total:.1%}" for count, part in zip(cells, report.files, strict=True)
        ]
        table.add_row(Text(visible(name)), Text(bar(cells[0] / largest, 16), style="cyan"), *shares)
    return table


def _lengths(report: DataReport) -> Table:
    rows = []
    for part in report.files:
        for unit, lengths in part.lengths.items():
            values = lengths.quantiles().items()
            cells = [f"{value:,.1f}" if name == "mean" else f"{value:,.0f}" for name, value in values]
            rows.append([f"{Path(part.name).name}, {unit}", *cells])
    return rows_table(["lengths", *report.files[0].lengths["words"].quantiles()], rows)


def _show_finding(console: Console, finding: Finding) -> None:
    console.print(Text.assemble(("! ", "bold yellow"), visible(finding.message)))
    places = [visible(place) for place in finding.locations[:MAX_PLACES]]
    if places and finding.count > MAX_PLACES:
        places.append(f"… and {finding.count - MAX_PLACES:,} more")
    for place in places:
        console.print(Padding(Text(place, style="dim"), (0, 0, 0, 4)))
