"""HTML page of the error analysis: one file, or served next to the explorer.

head        metrics of the model and its baselines
confusion   a cell filters the rows by its pair of classes     loss by label, by token
rows        by loss, filtered, searched; each with its prediction, and a link to look inside the model

Rows are JSON in the page, and `static/errors.js` shows a few at a time, so thousands are no burden. Every text is
escaped: the page runs its own script and no other, and loads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from glassformer.evaluation.error_analysis.confusion import (
    MAX_NUMBERED_CLASSES,
    MAX_PAIRS,
    ConfusionMatrix,
    confusion_matrix,
)
from glassformer.evaluation.error_analysis.errors import (
    GROUP_COLUMNS,
    ErrorAnalysis,
    ErrorGroup,
    analyse_errors,
    label_kind,
)
from glassformer.evaluation.evaluate import EvaluationReport
from glassformer.files import null_for_nan
from glassformer.reports.page import json_script, page, scroll_region, shown_path, shown_place, write_page
from glassformer.reports.table import html_table, percent
from glassformer.runs.curves import STATIC as PAGE
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.predictions import sort_by_loss, total_loss
from glassformer.tasks.types import Prediction

STATIC = Path(__file__).parent / "static"
MAX_ROWS = 5_000
"""A browser filters and sorts this many rows without a delay; of more, the page has the worst and the best."""
MAX_CHARACTERS = 8_000_000
"""Of all texts together; of rows longer than their share of it, the page has the beginning."""
MAX_METRICS, MAX_GROUPS = 3, 200
"""Metrics that fit in the line at the top of a phone; groups that a reader can scroll through."""
MAX_CLASSES_BESIDE = 8
"""Maximum classes of a matrix next to the rows; a larger one is above them."""


class ErrorsPage:
    """The error analysis page of an evaluation.

    Args:
        report, records: of one evaluation
        model: a folder or a run, as shown in commands
        pages: index of a prediction → its explorer page, relative to this one
    """

    ROWS_AT_ONCE = 25

    def __init__(
        self,
        report: EvaluationReport,
        records: Sequence[Prediction],
        *,
        model: str = "MODEL",
        pages: Mapping[int, str] | None = None,
    ) -> None:
        self.report = report
        self.records = records
        self.model = model
        self.pages = pages or {}
        self.kind = label_kind(records)
        self.errors: ErrorAnalysis = analyse_errors(records)
        names = report.classes.names if report.classes is not None and self.kind == "classes" else None
        self.confusion = confusion_matrix(records, names)
        ranked = sort_by_loss(records)
        self.rows = ranked if len(ranked) == len(records) else list(records)
        if len(self.rows) > MAX_ROWS:  # the worst and the best
            self.rows = self.rows[: MAX_ROWS // 2] + self.rows[-MAX_ROWS // 2 :]

    @property
    def title(self) -> str:
        return f"Where {self.report.name} goes wrong"

    @property
    def style(self) -> str:
        return (PAGE / "page.css").read_text("utf-8") + (STATIC / "errors.css").read_text("utf-8")

    @property
    def script(self) -> str:
        return (STATIC / "errors.js").read_text("utf-8")

    def standalone(self) -> str:
        """The page as one HTML file."""
        return page(self.title, self.body(), style=self.style, script=self.script)

    def save(self, path: str | Path) -> Path:
        """Write the page atomically. Raises: DataError: it cannot be written."""
        return write_page(path, self.standalone())

    def body(self, *, served: bool = False) -> str:
        """The HTML body without the script; `served`: the explorer is next to it."""
        head = f"<main><header><h1>{escape(self.title)}</h1>{self.summary()}</header>"
        return "\n".join([head, self.metrics_table(), self.groups_table(), self.rows_html(served=served), "</main>"])

    def rows_html(self, *, served: bool = False) -> str:
        """The rows, with the confusion matrix and the losses next to them."""
        panels = list(self._side_panels())
        side_by_side = self.confusion is None or len(self.confusion.names) <= MAX_CLASSES_BESIDE
        return "\n".join(
            [
                f'<div class="{"columns" if panels and side_by_side else "stacked"}">',
                f'<div class="side">{"".join(panels)}</div>' if panels else "",
                f'<section class="list" aria-label="Rows" data-rows="{self.ROWS_AT_ONCE}">{_FILTERS}'
                f'{_LEGEND if self.kind == "tags" else ""}<ol class="rows"></ol>{_PAGER}</section></div>',
                "<noscript><p>The rows are shown by a script, and scripts are switched off here.</p></noscript>",
                json_script("records", null_for_nan(self._page_data(served))),
            ]
        )

    # ------------------------------------------------------------------------------------------------- the head

    def summary(self) -> str:
        files = ", ".join(map(shown_path, self.report.data.get("files", ()))) or "rows"
        of, omitted = len(self.records), len(self.records) - len(self.rows)
        parts = [f"{of:,} rows of {files} · task {self.report.task}"]
        if self.errors.wrong:
            parts.append(f" · {self.errors.wrong:,} wrong ({self.errors.wrong / of:.1%})")
        elif any(row.correct is not None for row in self.records):
            parts.append(" · none wrong")
        if omitted:
            parts.append(
                f". The page holds those with the highest and the lowest loss; {omitted:,} between them are left out"
            )
        notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in self.report.notes)
        return f'<p class="dim">{escape("".join(parts))}.</p>{notes}'

    def metrics_table(self) -> str:
        """The table of the metrics of the model and its baselines, each with its interval."""
        report = self.report
        names = sorted(report.metrics, key=lambda name: name != report.metric)[:MAX_METRICS]
        systems = [(report.name, "", report.metrics)]
        systems += [(name, one.about, one.metrics) for name, one in report.baselines.items()]
        ends = {name: _bar_end([metrics[name] for _, _, metrics in systems if name in metrics]) for name in names}
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("system", *names))
        body = "".join(
            f'<tr{" class=model" if row == 0 else ""}><th scope="row">{escape(name)}'
            + (f'<span class="dim">{escape(about)}</span>' if about else "")
            + "</th>"
            + "".join(f"<td>{_metric_cell(metrics.get(x), ends[x])}</td>" for x in names)
            + "</tr>"
            for row, (name, about, metrics) in enumerate(systems)
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        hint = '<p class="dim">In brackets and as bars: 95% intervals.</p>'
        return scroll_region("Metrics", table, "scroll metrics") + hint

    def groups_table(self) -> str:
        """The metrics by the values of a column, where the report has them."""
        groups = self.report.groups
        if groups is None:
            return ""
        sentences = "".join(f'<p class="dim">{escape(sentence)}</p>' for sentence in groups.sentences())
        return scroll_region(f"Metrics by {groups.column}", groups.table().html()) + sentences

    # ------------------------------------------------------------------------------------- next to the rows

    def _side_panels(self) -> Iterator[str]:
        if self.confusion is not None:
            yield _confusion_panel(self.confusion, "words" if self.kind == "tags" else "rows")
        if self.errors.labels:
            yield _group_panel("tag" if self.kind == "tags" else "label", self.errors.labels)
        if self.errors.words:
            yield _group_panel("word", self.errors.words)

    # -------------------------------------------------------------------------------------------------- the rows

    def _page_data(self, served: bool) -> dict[str, Any]:
        """JSON that the script of the page draws."""
        # rows of a book each would make a page that no browser opens
        limit = max(500, MAX_CHARACTERS // max(len(self.rows), 1))
        return {
            "kind": self.kind,
            "names": self._label_names(),
            "counts": None if self.confusion is None else self.confusion.counts.tolist(),
            "served": served,
            "model": shown_path(self.model),
            "rows": [_row_data(record, limit, self.pages.get(record.index)) for record in self.rows],
        }

    def _label_names(self) -> list[str]:
        if self.confusion is not None:
            return self.confusion.names
        return sorted({group.name for group in self.errors.labels}) if self.kind == "labels" else []


def explorer_texts(record: Prediction) -> list[str]:
    """The inputs of the explorer for a row: a text, a pair, or a source and the generated text."""
    row = record.row
    if "tokens" in row:
        return [" ".join(map(str, row["tokens"]))]
    if "source" in row:
        return [
            str(row["source"]),
            *([record.predicted] if isinstance(record.predicted, str) and record.predicted else []),
        ]
    return [str(text) for text in row.values() if isinstance(text, str) and text][:2]


# ---------------------------------------------------------------------------------------------------- pieces


def _row_data(record: Prediction, limit: int, page: str | None) -> dict[str, Any]:
    """A row for the script: `at` its number, `y` the true label, `s` the prediction."""
    details = record.details
    length = sum(len(x) for x in record.row.values() if isinstance(x, str))
    data: dict[str, Any] = {
        "at": record.index,
        "where": shown_place(record.where),
        "row": {role: x[:limit] if isinstance(x, str) else x for role, x in record.row.items()},
        "y": record.label,
        "s": record.predicted,
        "ok": record.correct,
        "loss": _rounded(total_loss(record)),
        "look": None if length > limit else explorer_texts(record),
    }
    if "scores" in details:
        data["scores"] = [[name, _rounded(p)] for name, p in details["scores"].items()]
    if "losses" in details:
        data["losses"] = [_rounded(x) for x in details["losses"]]
    if "metrics" in details:
        data["metrics"] = details["metrics"]
    if length > limit:
        data["cut"] = length
    if page:
        data["page"] = page
    return data


def _rounded(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(f"{x:.5g}")


def _bar_end(values: Sequence[Interval]) -> float:
    """The end of the scale of a metric's bars: 1 for shares, else the maximum."""
    largest = max((max(x.value, x.high or x.value) for x in values), default=1.0)
    return 1.0 if largest <= 1 else largest


def _metric_cell(metric: Interval | None, end: float) -> str:
    if metric is None:
        return ""
    value, _, interval = metric.written(3).partition(" ")
    low, high = (metric.value if x is None else x for x in (metric.low, metric.high))
    left, mark, right = (max(0.0, min(100 * x / end, 100)) if end else 0.0 for x in (low, metric.value, high))
    return (
        f'<b>{value}</b> <span class="dim">{interval}</span><svg class="track" viewBox="0 0 100 8" '
        'preserveAspectRatio="none" aria-hidden="true"><rect class="rail" y="2.5" width="100" height="3"/>'
        f'<rect class="span" x="{left:.2f}" y="1.5" width="{right - left:.2f}" height="5"/>'
        f'<rect class="mark" x="{max(0.0, mark - 0.6):.2f}" width="1.2" height="8"/></svg>'
    )


def _confusion_panel(matrix: ConfusionMatrix, unit: str) -> str:
    count, pairs = len(matrix.names), matrix.pairs(MAX_PAIRS)
    wide = count > MAX_CLASSES_BESIDE
    css_class = "picture wide" if wide else "picture"
    parts = [
        '<section class="panel matrix"><h2>Confusion matrix</h2>',
        f'<p class="dim">A row is a true class, a column a predicted one. Choose a cell to see its {unit}.</p>',
        _NORMALISE if count <= MAX_NUMBERED_CLASSES else "",
        scroll_region("Confusion matrix", matrix.svg(styled=False), css_class),
    ]
    if pairs:
        items = "".join(
            f'<li><button type="button" data-pair="{matrix.names.index(true)},{matrix.names.index(predicted)}">'
            f"<b>{n:,}</b> {escape(true)} <span>predicted as</span> {escape(predicted)} "
            f"<i>{escape(percent(share))}</i></button></li>"
            for true, predicted, n, share in pairs
        )
        opened = " open" if wide else ""
        parts.append(f'<details{opened}><summary>Confused most</summary><ol class="pairs">{items}</ol></details>')
    return "".join(parts) + "</section>"


def _group_panel(called: str, groups: Sequence[ErrorGroup]) -> str:
    """Loss by label or by token; the script makes its name a filter of the rows."""
    table = html_table([called, *GROUP_COLUMNS], [[x.name, *x.cells()] for x in groups[:MAX_GROUPS]])
    more = f'<p class="dim">{len(groups) - MAX_GROUPS:,} more.</p>' if len(groups) > MAX_GROUPS else ""
    order = "total loss" if called == "word" else "mean loss"
    return (
        f'<section class="panel" data-groups="{called}"><h2>By {called}</h2><p class="dim">Highest {order} first.</p>'
        f"{scroll_region(f'Loss by {called}', table)}{more}</section>"
    )


_NORMALISE = """<div class="how" role="group" aria-label="Numbers in the cells">
<button type="button" data-normalise="" aria-pressed="true">counts</button>
<button type="button" data-normalise="true" aria-pressed="false">% of true</button>
<button type="button" data-normalise="predicted" aria-pressed="false">% of predicted</button></div>"""

_FILTERS = """<form class="filters" role="search" aria-label="Choose rows">
<label>Order <select name="order"></select></label>
<label>True <select name="true"></select></label>
<label>Predicted <select name="said"></select></label>
<label>Answers <select name="verdict"><option value="">all</option><option value="wrong">wrong</option>
<option value="right">right</option></select></label>
<label class="find">Find
<input name="find" type="search" placeholder="in the text or its position" autocomplete="off"></label>
<button type="reset">Reset</button>
<output class="dim" aria-live="polite"></output></form>"""

_LEGEND = """<p class="dim legend">The darker a word, the lower the probability of its true tag. Below a wrong one: ✗
the predicted tag, ✓ the true one; below others their tag. True entities are underlined, a colour a type.</p>"""

_PAGER = """<nav class="pager" aria-label="Pages of rows"><button type="button" data-step="-1">Previous</button>
<span class="dim"></span><button type="button" data-step="1">Next</button></nav>"""
