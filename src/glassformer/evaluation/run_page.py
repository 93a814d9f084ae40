"""The page of a run as reports: what happened, its metrics, errors, curves and settings; `look RUN`.

metrics     next to baselines, per class      curves       the loss and the main metric; others folded
errors      as `glassformer errors` has them  settings     of the training, folded
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.evaluation.error_analysis.served import (
    ServedReports,
    evaluated_rows,
    first_texts,
    write_explorer_pages,
)
from glassformer.evaluation.evaluate import EvaluationReport, beside_baselines
from glassformer.evaluation.runs import EvaluatedSplit
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Display
from glassformer.reports.table import Table
from glassformer.runs.curves import RunSettings, TrainingCurves, subtitle, verdict
from glassformer.runs.history import RunHistory, read_run

FIRST_ROWS, LINKED_ROWS = 10, 5
"""Rows that are shown until one asks for all, and those with an explorer page next to a file."""


@dataclass(frozen=True, repr=False)
class RunVerdict(Display):
    """What happened in a run, in a sentence, and the metrics of its best model."""

    report: EvaluationReport
    history: RunHistory

    @property
    def caption(self) -> str:
        """`classify · 600 steps in 1:02`"""
        return f"{self.report.task} · {subtitle([self.history])}"

    @property
    def finding(self) -> str:
        """`f1 0.700 [0.600, 0.800]; better than the baseline “most frequent” (0.300) on 30 rows. Best f1 0.7 at …`"""
        return f"{beside_baselines(self.report)}. {verdict(self.history, self.report.metric)}".strip()

    def tables(self) -> list[Table]:
        return self.report.tables()

    def page_tables(self) -> list[Table]:
        return self.report.page_tables()

    def remarks(self) -> list[str]:
        return self.report.remarks()


def run_reports(
    split: EvaluatedSplit, history: RunHistory | None = None, pages: Mapping[int, str] | None = None
) -> list[Display]:
    """The reports of the page of a run.

    Args:
        split: rows of the run, evaluated
        history: what its event log says, None = read now
        pages: index of a prediction → its explorer page, of a file; None = the explorer is served next to it
    """
    history = history or read_run(split.run.folder)
    errors = evaluated_rows(split, pages, first=FIRST_ROWS, whole=False)
    curves = TrainingCurves([history], whole=False)
    return [RunVerdict(split.report, history), errors, curves, RunSettings([history])]


def serve_run(split: EvaluatedSplit, port: int | None = None) -> ServedReports:
    """Serve the page of a run next to the explorer. Raises: ConfigError: the port is taken."""
    reports, title = run_reports(split), split.report.name
    return ServedReports(reports, split.run.model, port, name="run", title=title, texts=first_texts(split))


def save_run_page(split: EvaluatedSplit, path: Path, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Write the page of a run as an HTML file, and next to it the explorer's pages of the rows with the highest loss.

    Args:
        progress: called after each of these pages with the number of them and of all
    Returns: the explorer's pages, relative to the folder of the file.
    """
    pages = write_explorer_pages(split, LINKED_ROWS, path, progress)
    write_page(path, report_page(*run_reports(split, pages=pages), title=split.report.name))
    return sorted(pages.values())
