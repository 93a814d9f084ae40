"""The evaluation report in the terminal, as `glassformer evaluate` and `train` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.cli.screen import plain_table, visible

if TYPE_CHECKING:
    from glassformer.evaluation.report import EvaluationReport


def show(report: EvaluationReport) -> None:
    """Print the main metric beside the baselines, the other metrics, the metrics of each class, and notes."""
    from rich.console import Console
    from rich.text import Text

    def print_table(headings: list[str], rows: list[list[str]]) -> None:
        table = plain_table()
        for heading in headings:
            table.add_column(Text(visible(heading)), overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        console.print()
        console.print(table)

    console = Console(highlight=False)
    console.print(Text(visible(report.caption)))
    headings, rows = report.systems_table()
    print_table(headings[:3], [row[:3] for row in rows])  # the descriptions of the baselines follow below
    for name, baseline in report.baselines.items():
        console.print(Text(f"{visible(name)}: {visible(baseline.about)}", style="dim"))
    print_table(*report.other_metrics_table())
    if (classes := report.class_table()) is not None:
        print_table(*classes)
    console.print()
    console.print(Text(visible(report.method), style="dim"))
    for note in report.notes:
        console.print(Text(f"note: {visible(note)}"))
