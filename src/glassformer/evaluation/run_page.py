"""HTML page of a run: what happened, its report, errors and curves, and the attention of its best model; `look RUN`.

report      metrics next to baselines, classes         curves       the loss and the main metric; others folded
errors      as `glassformer errors` lists them         settings     of the training, folded
attention   the rows with the highest loss, in the explorer
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from glassformer.evaluation.error_analysis.page import ErrorsPage, explorer_texts
from glassformer.evaluation.error_analysis.served import write_explorer_pages
from glassformer.evaluation.evaluate import beside_baselines
from glassformer.evaluation.runs import EvaluatedSplit
from glassformer.reports.page import report_files, report_part, scroll_region
from glassformer.runs.curves import RunSettings, TrainingCurves, subtitle, verdict
from glassformer.runs.history import RunHistory, read_run
from glassformer.tasks.predictions import sort_by_loss
from glassformer.tasks.types import Prediction

STATIC = Path(__file__).parent / "error_analysis" / "static"
MAX_LINKED_ROWS, MAX_TEXT = 5, 160
"""Examples below the report, and characters of each: two lines of the page."""
PARTS = ("Report", "Curves", "Errors", "Attention", "Settings")


class RunPage(ErrorsPage):
    """The page of a run.

    Args:
        split: rows of the run, evaluated
        history: what its event log says, None = read now
        pages: index of a prediction → its explorer page, relative to this one
    """

    ROWS_AT_ONCE = 8

    def __init__(
        self, split: EvaluatedSplit, history: RunHistory | None = None, pages: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(split.report, split.records, model=str(split.run.folder), pages=pages)
        self.history = history or read_run(split.run.folder)

    @property
    def title(self) -> str:
        return self.report.name

    @property
    def style(self) -> str:
        return super().style + self._report_files[0] + (STATIC / "run.css").read_text("utf-8")

    @property
    def script(self) -> str:
        return self._report_files[1] + super().script

    @property
    def _report_files(self) -> tuple[str, str]:
        return report_files([TrainingCurves([self.history])])

    def body(self, *, served: bool = False) -> str:
        """The HTML body without the script; `served`: the explorer is next to it."""
        run = self.history
        settings = report_part("settings", RunSettings([run]))
        parts = {
            "Curves": report_part("curves", TrainingCurves([run], whole=False)),
            "Report": self.summary() + self.metrics_table() + self._class_table() + self.groups_table(),
            "Errors": self.rows_html(served=served),
            "Attention": self._attention(served),
            "Settings": f"<details><summary>Settings of the training</summary>{settings}</details>",
        }
        links = "".join(f'<a href="#part-{name.lower()}">{name}</a>' for name in PARTS)
        sections = (
            f'<section class="part" id="part-{name.lower()}"><h2>{name}</h2>{parts[name]}</section>' for name in PARTS
        )
        return "\n".join(
            [
                f"<main><header><h1>{escape(self.title)}</h1>"
                f'<p class="verdict">{escape(self._verdict())}</p><p class="dim">{escape(self._facts())}</p>'
                f'<nav class="parts-of-page" aria-label="Parts of this page">{links}</nav></header>',
                *sections,
                "</main>",
            ]
        )

    def _verdict(self) -> str:
        """`f1 0.700 [0.600, 0.800]; better than the baseline “most frequent” (0.300) on 30 rows. Best f1 0.7 at …`"""
        return f"{beside_baselines(self.report)}. {verdict(self.history, self.report.metric)}".strip()

    def _facts(self) -> str:
        """`classify · 600 steps in 1:02`"""
        return f"{self.report.task} · {subtitle([self.history])}"

    def _class_table(self) -> str:
        table = self.report.class_table()
        return "" if table is None else scroll_region("Scores of each class", table.html())

    def _attention(self, served: bool) -> str:
        """Links to the explorer for the rows with the highest loss, or the command that opens it."""
        rows = "".join(self._linked_row(row, served) for row in self.rows[:MAX_LINKED_ROWS])
        return (
            '<p class="dim">What the best model looks at in the rows with the highest loss: every head of every layer. '
            f'<em>Look inside</em> does the same for any row above.</p><ol class="linked">{rows}</ol>'
        )

    def _linked_row(self, row: Prediction, served: bool) -> str:
        texts = explorer_texts(row)
        text = " | ".join(texts)
        text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"
        address = self.pages.get(row.index) or (f"/#v=1&x={_packed(texts)}" if served and texts else None)
        shown = f'<span dir="auto">{escape(text)}</span>'
        if address is not None:
            shown = f'<a target="_blank" rel="opener" href="{escape(address)}">{shown}</a>'
        loss = "" if row.loss is None else f'<span class="dim">loss {row.loss:.2f}</span>'
        return f"<li>{shown} {loss}{_answers(row)}</li>"


def save_run_page(split: EvaluatedSplit, path: Path, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Write the page of a run as an HTML file, and next to it the explorer's pages of the rows with the highest loss.

    Args:
        progress: called after each of these pages with the number of them and of all
    Returns: the explorer's pages, relative to the folder of the file.
    """
    rows = sort_by_loss(split.records)[:MAX_LINKED_ROWS]
    pages = write_explorer_pages(split.run.model, rows, path.parent / f"{path.stem}-look", progress)
    RunPage(split, pages=pages).save(path)
    return sorted(pages.values())


def _answers(row: Prediction) -> str:
    """What was predicted instead of what, where both are names."""
    if not (isinstance(row.label, str) and isinstance(row.predicted, str)) or "source" in row.row:
        return ""
    verdict = "(correct)" if row.correct else f"instead of {row.label}"
    return f' <span class="dim">predicted {escape(row.predicted)} {escape(verdict)}</span>'


def _packed(texts: list[str]) -> str:
    """Texts as the explorer's links carry them: deflated, then base64url."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(texts).encode())).decode().rstrip("=")
