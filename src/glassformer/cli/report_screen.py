"""Evaluation reports in the terminal: of one model, as `evaluate` and `train` print it, and of several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from glassformer.cli.screen import rows_table, table_of, text_of, visible

if TYPE_CHECKING:
    from glassformer.evaluation.compare.seeds import SeedSummary
    from glassformer.evaluation.evaluate import EvaluationReport


def show_report(report: EvaluationReport, console: Console) -> None:
    """Print the main metric beside the baselines, the other metrics, the metrics of each class, and notes."""
    headings, rows = report.systems_table()
    console.print(text_of(report.caption), end="\n\n")
    # The descriptions of the baselines follow below.
    console.print(rows_table(headings[:3], [row[:3] for row in rows], left=3))
    for name, baseline in report.baselines.items():
        console.print(text_of(f"{visible(name)}: {visible(baseline.about)}", "dim"))
    for table in (report.other_metrics_table(), report.class_table()):
        if table is not None:
            console.print()
            console.print(rows_table(*table, left=len(table[0])))
    console.print()
    console.print(text_of(report.method, "dim"))
    for note in report.notes:
        console.print(text_of(f"note: {note}"))


def show_seeds(summary: SeedSummary, console: Console) -> None:
    """Print mean and standard deviation of the metrics over several seeds."""
    console.print(text_of(summary.caption), end="\n\n")
    metric = summary.first.metric
    durations = [_minutes(run.cost.seconds, run.cost.cpu_seconds) for run in summary.runs]
    seconds, cpu_seconds = (None if x is None else x.value for x in (summary.seconds, summary.cpu_seconds))
    rows = [
        [f"mean of {len(durations)}", summary.means[metric].written(), _minutes(seconds, cpu_seconds)],
        *(
            [f"seed {run.seed}", run.report.metrics[metric].written(3), duration]
            for run, duration in zip(summary.runs, durations, strict=True)
        ),
        *([name, scores[metric].written(), ""] for name, scores in summary.baselines.items() if metric in scores),
    ]
    console.print(table_of(["", metric, "minutes (CPU)"], rows, left=1))
    console.print()
    others = [[name, mean.written()] for name, mean in summary.means.items() if name != metric]
    console.print(table_of(["metric", "mean"], others, left=1))
    for note in summary.notes:
        console.print(text_of(note, "dim"))


def _minutes(seconds: float | None, cpu_seconds: float | None) -> str:
    """Training time in minutes: wall clock, and CPU time in brackets."""
    from glassformer.evaluation.compare.costs import minutes

    return minutes(seconds) + (f" ({minutes(cpu_seconds)})" if cpu_seconds is not None else "")
