"""HTML page of the error analysis: one file, or served beside the explorer.

head        metrics of the model and its baselines
confusion   a cell filters the rows by its pair of classes     loss by label, by token
rows        by loss, filtered, searched; each with its prediction, and a link to look inside the model

Rows are JSON in the page, and `static/errors.js` shows a few at a time, so thousands are no burden. Every text is
escaped: the page runs its own script and no other, and loads nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.confusion import (
    MAX_NUMBERED_CLASSES,
    MAX_PAIRS,
    ConfusionMatrix,
    confusion_matrix,
)
from glassformer.evaluation.error_analysis.errors import (
    ErrorAnalysis,
    ErrorGroup,
    analyse_errors,
    label_kind,
    sort_by_loss,
    total_loss,
)
from glassformer.evaluation.report import EvaluationReport
from glassformer.files import error_reason
from glassformer.files.atomic import atomic_file
from glassformer.pages.standalone import page
from glassformer.pages.tables import html_table
from glassformer.runs.curves import STATIC as PAGE
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.predictions import Prediction

if TYPE_CHECKING:
    from glassformer.model import Model

STATIC = Path(__file__).parent / "static"
MAX_ROWS = 5_000
MAX_CHARACTERS = 8_000_000
"""Of all texts together; of rows longer than their share of it, the page has the beginning."""
MAX_METRICS, MAX_GROUPS = 3, 200
MAX_LAYER_BYTES = 2_000_000
"""Maximum bytes of exact layers in the explorer page of a row."""
MAX_CLASSES_BESIDE = 8
"""Maximum classes of a matrix beside the rows; a larger one is above them."""


class ErrorsPage:
    """The error analysis page of an evaluation.

    Args:
        report, records: of one evaluation
        model: its folder, as shown in commands
        pages: index of a prediction → its explorer page, relative to this one
    """

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

    def standalone(self) -> str:
        """The page as one HTML file."""
        return page(self.title, self.body(), style=page_style(), script=page_script())

    def save(self, path: str | Path) -> Path:
        """Write the page atomically. Raises: DataError: it cannot be written."""
        try:
            with atomic_file(Path(path).resolve()) as stream:
                stream.write(self.standalone().encode("utf-8", "replace"))
        except OSError as problem:
            raise DataError(f"{path}: the page cannot be written: {error_reason(problem)}") from problem
        return Path(path)

    def body(self, *, served: bool = False) -> str:
        """The HTML body without the script; `served`: the explorer is beside it."""
        panels = list(self._side_panels())
        beside = self.confusion is None or len(self.confusion.names) <= MAX_CLASSES_BESIDE
        return "\n".join(
            [
                f"<main><header><h1>{escape(self.title)}</h1>{self._summary()}</header>",
                self._metrics_table(),
                f'<div class="{"columns" if panels and beside else "stacked"}">',
                f'<div class="side">{"".join(panels)}</div>' if panels else "",
                f'<section class="list" aria-label="Rows">{_FILTERS}'
                f'{_LEGEND if self.kind == "tags" else ""}<ol class="rows"></ol>{_PAGER}</section></div>',
                "<noscript><p>The rows are shown by a script, and scripts are switched off here.</p></noscript></main>",
                f'<script type="application/json" id="records">{self._page_data(served)}</script>',
            ]
        )

    # ------------------------------------------------------------------------------------------------- the head

    def _summary(self) -> str:
        files = ", ".join(self.report.data.get("files", ())) or "rows"
        of, omitted = len(self.records), len(self.records) - len(self.rows)
        parts = [f"{of:,} rows of {files} · task {self.report.task}"]
        if self.errors.wrong:
            parts.append(f" · {self.errors.wrong:,} wrong ({self.errors.wrong / of:.1%})")
        if omitted:
            parts.append(
                f". The page holds those with the highest and the lowest loss; {omitted:,} between them are left out"
            )
        notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in self.report.notes)
        return f'<p class="dim">{escape("".join(parts))}.</p>{notes}'

    def _metrics_table(self) -> str:
        """The table of the metrics of the model and its baselines, each with its interval."""
        report = self.report
        names = sorted(report.metrics, key=lambda name: name != report.metric)[:MAX_METRICS]
        systems = [(report.name, "", report.metrics)]
        systems += [(name, one.about, one.metrics) for name, one in report.baselines.items()]
        ends = {
            name: _bar_end([metrics[name] for _, _, metrics in systems if name in metrics]) for name in names
        }
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("system", *names))
        body = "".join(
            f'<tr{" class=model" if row == 0 else ""}><th scope="row">{escape(name)}'
            + (f'<span class="dim">{escape(about)}</span>' if about else "")
            + "</th>"
            + "".join(f"<td>{_metric_cell(metrics.get(x), ends[x])}</td>" for x in names)
            + "</tr>"
            for row, (name, about, metrics) in enumerate(systems)
        )
        return (
            '<div class="scroll figures" tabindex="0" role="region" aria-label="Metrics">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            '<p class="dim">In brackets and as bars: 95 % intervals.</p>'
        )

    # ------------------------------------------------------------------------------------- beside the rows

    def _side_panels(self) -> Iterator[str]:
        if self.confusion is not None:
            yield _confusion_panel(self.confusion, "words" if self.kind == "tags" else "rows")
        if self.errors.labels:
            yield _group_panel("tag" if self.kind == "tags" else "label", self.errors.labels)
        if self.errors.words:
            yield _group_panel("word", self.errors.words)

    # -------------------------------------------------------------------------------------------------- the rows

    def _page_data(self, served: bool) -> str:
        """The JSON that the script shows; `<` is escaped, so that no text can end the script element."""
        limit = max(500, MAX_CHARACTERS // max(len(self.rows), 1))
        data = {
            "kind": self.kind,
            "names": self._label_names(),
            "counts": None if self.confusion is None else self.confusion.counts.tolist(),
            "served": served,
            "model": self.model,
            "rows": [_row_data(record, limit, self.pages.get(record.index)) for record in self.rows],
        }
        return json.dumps(_null_for_nan(data), ensure_ascii=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        )

    def _label_names(self) -> list[str]:
        if self.confusion is not None:
            return self.confusion.names
        return sorted({group.name for group in self.errors.labels}) if self.kind == "labels" else []


def page_style() -> str:
    return (PAGE / "page.css").read_text("utf-8") + (STATIC / "errors.css").read_text("utf-8")


def page_script() -> str:
    return (STATIC / "errors.js").read_text("utf-8")


def write_explorer_pages(
    model: Model,
    records: Sequence[Prediction],
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, str]:
    """Write an explorer page for each of these predictions into a folder, which is created.

    Returns: index of a prediction → its page, relative to the parent of the folder.
    """
    from glassformer.errors import GlassformerError
    from glassformer.explorer.session_runs import SessionRuns
    from glassformer.explorer.standalone_page import StandalonePage

    folder.mkdir(parents=True, exist_ok=True)
    runs, written = SessionRuns(model), {}
    try:
        for done, record in enumerate(records):
            texts = explorer_texts(record)
            try:
                session = runs.begin(texts).result()
                StandalonePage(session, runs.facts, texts, cap_bytes=MAX_LAYER_BYTES).save(
                    folder / f"row-{record.index}.html"
                )
                written[record.index] = f"{folder.name}/row-{record.index}.html"
            except (
                GlassformerError
            ):  # a text that is too long to look into: the page shows the command, which says why
                continue
            finally:
                if progress is not None:
                    progress(done + 1, len(records))
    finally:
        runs.stop()
    return written


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
    return {
        "at": record.index,
        "where": record.where,
        "row": {role: x[:limit] if isinstance(x, str) else x for role, x in record.row.items()},
        "y": record.label,
        "s": record.predicted,
        "ok": record.correct,
        "loss": _rounded(total_loss(record)),
        **(
            {"scores": [[n, _rounded(p)] for n, p in details["scores"].items()]}
            if "scores" in details
            else {}
        ),
        **({"losses": [_rounded(x) for x in details["losses"]]} if "losses" in details else {}),
        **({"figures": details["figures"]} if "figures" in details else {}),
        **({"cut": length} if length > limit else {}),
        **({"page": page} if page else {}),
        "look": None if length > limit else explorer_texts(record),
    }


def _rounded(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(f"{x:.5g}")


def _null_for_nan(value: Any) -> Any:
    """A value for strict JSON, which has no NaN: it becomes null."""
    if isinstance(value, Mapping):
        return {str(name): _null_for_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_null_for_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    count = len(matrix.names)
    pairs = "".join(
        f'<li><button type="button" data-pair="{matrix.names.index(true)},{matrix.names.index(predicted)}">'
        f"<b>{n:,}</b> {escape(true)} <span>predicted as</span> {escape(predicted)} "
        f"<i>{_share(share)}</i></button></li>"
        for true, predicted, n, share in matrix.pairs(MAX_PAIRS)
    )
    buttons = "".join(
        f'<button type="button" data-normalise="{how}" aria-pressed="{pressed}">{words}</button>'
        for how, words, pressed in (
            ("", "counts", "true"),
            ("true", "% of true", "false"),
            ("said", "% of predicted", "false"),
        )
    )
    return (
        '<section class="panel matrix"><h2>Confusion matrix</h2>'
        f'<p class="dim">A row is a true class, a column a predicted one. Choose a cell to see its {unit}.</p>'
        + (
            f'<div class="how" role="group" aria-label="Numbers in the cells">{buttons}</div>'
            if count <= MAX_NUMBERED_CLASSES
            else ""
        )
        + f'<div class="picture{"" if count <= MAX_CLASSES_BESIDE else " wide"}" tabindex="0" role="region" '
        + f'aria-label="Confusion matrix">{matrix.svg(styled=False)}</div>'
        + (
            f"<details{' open' if count > MAX_CLASSES_BESIDE else ''}><summary>Confused most</summary>"
            f'<ol class="pairs">{pairs}</ol></details>'
            if pairs
            else ""
        )
        + "</section>"
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "&lt;1%"


def _group_panel(called: str, groups: Sequence[ErrorGroup]) -> str:
    """Loss by label or by token; the script makes its name a filter of the rows."""
    rows = [
        [x.name, f"{x.mean:.3f}", f"{x.total:,.1f}", f"{x.count:,}", f"{x.wrong:,}"]
        for x in groups[:MAX_GROUPS]
    ]
    more = f'<p class="dim">{len(groups) - MAX_GROUPS:,} more.</p>' if len(groups) > MAX_GROUPS else ""
    order = "sum" if called == "word" else "mean loss"
    return (
        f'<section class="panel" data-groups="{called}"><h2>By {called}</h2><p class="dim">Highest {order} first.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Loss by {called}">'
        f"{html_table([called, 'mean loss', 'sum', 'count', 'wrong'], rows)}</div>{more}</section>"
    )


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
