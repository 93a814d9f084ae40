"""What `glassformer evaluate` and `train` print of a report for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.evaluation.report import Report


def show(report: Report) -> None:
    """Print how the model stands beside its baselines, its other figures, its classes, and what should be known."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import visible

    def printed(headings: list[str], rows: list[list[str]]) -> None:
        table = Table(box=None, header_style="bold cyan", pad_edge=False)
        for heading in headings:
            table.add_column(Text(visible(heading)), overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        console.print()
        console.print(table)

    console = Console(highlight=False)
    console.print(Text(visible(report.headed)))
    headings, rows = report.standings()
    printed(headings[:3], [row[:3] for row in rows])  # what a baseline is stands below
    for name, standing in report.baselines.items():
        console.print(Text(f"{visible(name)}: {visible(standing.about)}", style="dim"))
    printed(*report.others())
    if (classes := report.class_table()) is not None:
        printed(*classes)
    console.print()
    console.print(Text(visible(report.method), style="dim"))
    for note in report.notes:
        console.print(Text(f"note: {visible(note)}"))
