"""The rows of an evaluation as a page on which to find out why: one HTML file, or served beside the explorer.

head        figures of the model and its baselines, and what was judged
confusion   a cell chooses the rows that are so confused       by label, by word: what costs most
rows        by loss, filtered, searched; each with what was said, and a link to look inside the model

Rows lie in the page as JSON, and `static/errors.js` shows a few at a time, so thousands are no burden. Every text is
only text: the page runs its own script and no other, and loads nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.confusion import MOST_NUMBERED, MOST_PAIRS, Confusion, confusion_of
from glassformer.evaluation.error_analysis.errors import Errors, Group, by_loss, errors_of, kind_of, loss_of
from glassformer.evaluation.report import Report
from glassformer.files import reason
from glassformer.pages.standalone import page
from glassformer.pages.tables import html_table
from glassformer.runs.curves import STATIC as PAGE
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.predictions import Record
from glassformer.weights.write import atomic_file

if TYPE_CHECKING:
    from glassformer.model import Model

STATIC = Path(__file__).parent / "static"
MOST_ROWS = 5_000
MOST_CHARACTERS = 8_000_000
"""Of all texts together; where rows are longer than their share of it, the page holds their beginning."""
MOST_FIGURES, MOST_GROUPS = 3, 200
LOOK_BYTES = 2_000_000
"""What the exact layers may add to the page of a row that is looked into."""
BESIDE = 8
"""Up to so many classes the matrix stands beside the rows."""


class ErrorsPage:
    """The page of an evaluation.

    Args:
        report, records: of one evaluation
        model: its folder, as commands are to name it
        pages: index of a record → the page beside this one on which it is looked into
    """

    def __init__(
        self,
        report: Report,
        records: Sequence[Record],
        *,
        model: str = "MODEL",
        pages: Mapping[int, str] | None = None,
    ) -> None:
        self.report = report
        self.records = records
        self.model = model
        self.pages = pages or {}
        self.kind = kind_of(records)
        self.errors: Errors = errors_of(records)
        names = report.classes.names if report.classes is not None and self.kind == "classes" else None
        self.confusion = confusion_of(records, names)
        ranked = by_loss(records)
        self.rows = ranked if len(ranked) == len(records) else list(records)
        if len(self.rows) > MOST_ROWS:  # the worst and the best
            self.rows = self.rows[: MOST_ROWS // 2] + self.rows[-MOST_ROWS // 2 :]

    @property
    def title(self) -> str:
        return f"Where {self.report.name} goes wrong"

    def standalone(self) -> str:
        """The page as one file."""
        return page(self.title, self.body(), style=style(), script=script())

    def save(self, path: str | Path) -> Path:
        """Write it beside its place, then move it there. Raises: DataError: it cannot be written."""
        try:
            with atomic_file(Path(path).resolve()) as stream:
                stream.write(self.standalone().encode("utf-8", "replace"))
        except OSError as problem:
            raise DataError(f"{path}: the page cannot be written: {reason(problem)}") from problem
        return Path(path)

    def body(self, *, served: bool = False) -> str:
        """All that stands between <body> and </body>, but for the script; `served`: the explorer is beside it."""
        side = list(self._sides())
        beside = self.confusion is None or len(self.confusion.names) <= BESIDE
        return "\n".join(
            [
                f"<main><header><h1>{escape(self.title)}</h1>{self._headed()}</header>",
                self._figures(),
                f'<div class="{"columns" if side and beside else "stacked"}">',
                f'<div class="side">{"".join(side)}</div>' if side else "",
                f'<section class="list" aria-label="Rows">{_FILTERS}'
                f'{_LEGEND if self.kind == "tags" else ""}<ol class="rows"></ol>{_PAGER}</section></div>',
                "<noscript><p>The rows are shown by a script, and scripts are switched off here.</p></noscript></main>",
                f'<script type="application/json" id="records">{self._data(served)}</script>',
            ]
        )

    # ------------------------------------------------------------------------------------------------- the head

    def _headed(self) -> str:
        files = ", ".join(self.report.data.get("files", ())) or "rows"
        of, left = len(self.records), len(self.records) - len(self.rows)
        said = [f"{of:,} rows of {files} · task {self.report.task}"]
        if self.errors.wrong:
            said.append(f" · {self.errors.wrong:,} wrong ({self.errors.wrong / of:.1%})")
        if left:
            said.append(
                f". The page holds those with the highest and the lowest loss; {left:,} between them are left out"
            )
        notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in self.report.notes)
        return f'<p class="dim">{escape("".join(said))}.</p>{notes}'

    def _figures(self) -> str:
        """The model's figures and those of its baselines, each with its interval."""
        report = self.report
        names = sorted(report.figures, key=lambda name: name != report.metric)[:MOST_FIGURES]
        systems = [(report.name, "", report.figures)]
        systems += [(name, one.about, one.figures) for name, one in report.baselines.items()]
        ends = {name: _end([figures[name] for _, _, figures in systems if name in figures]) for name in names}
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("system", *names))
        body = "".join(
            f'<tr{" class=model" if place == 0 else ""}><th scope="row">{escape(name)}'
            + (f'<span class="dim">{escape(about)}</span>' if about else "")
            + "</th>"
            + "".join(f"<td>{_figure(figures.get(x), ends[x])}</td>" for x in names)
            + "</tr>"
            for place, (name, about, figures) in enumerate(systems)
        )
        return (
            '<div class="scroll figures" tabindex="0" role="region" aria-label="Figures">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            '<p class="dim">In brackets and as bars: 95 % intervals.</p>'
        )

    # ------------------------------------------------------------------------------------- beside the rows

    def _sides(self) -> Iterator[str]:
        if self.confusion is not None:
            yield _confusion(self.confusion, "words" if self.kind == "tags" else "rows")
        if self.errors.labels:
            yield _groups("tag" if self.kind == "tags" else "label", self.errors.labels)
        if self.errors.words:
            yield _groups("word", self.errors.words)

    # -------------------------------------------------------------------------------------------------- the rows

    def _data(self, served: bool) -> str:
        """What the script shows; `<` is written so that no text can end the element."""
        room = max(500, MOST_CHARACTERS // max(len(self.rows), 1))
        found = {
            "kind": self.kind,
            "names": self._names(),
            "counts": None if self.confusion is None else self.confusion.counts.tolist(),
            "served": served,
            "model": self.model,
            "rows": [_row(record, room, self.pages.get(record.index)) for record in self.rows],
        }
        return json.dumps(_strict(found), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

    def _names(self) -> list[str]:
        if self.confusion is not None:
            return self.confusion.names
        return sorted({group.name for group in self.errors.labels}) if self.kind == "labels" else []


def style() -> str:
    return (PAGE / "page.css").read_text("utf-8") + (STATIC / "errors.css").read_text("utf-8")


def script() -> str:
    return (STATIC / "errors.js").read_text("utf-8")


def look_pages(
    model: Model, records: Sequence[Record], folder: Path, progress: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """Write a page of the explorer for each of these records into a folder, which is made.

    Returns: index of a record → its page, as seen from beside the folder.
    """
    from glassformer.errors import GlassformerError
    from glassformer.explorer.page import Page
    from glassformer.explorer.runs import Runs

    folder.mkdir(parents=True, exist_ok=True)
    runs, written = Runs(model), {}
    try:
        for done, record in enumerate(records):
            texts = texts_of(record)
            try:
                session = runs.begin(texts).result()
                Page(session, runs.facts, texts, cap_bytes=LOOK_BYTES).save(
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


def texts_of(record: Record) -> list[str]:
    """What a model is to be looked at with: a text, a pair, or a source and what was written."""
    row = record.row
    if "tokens" in row:
        return [" ".join(map(str, row["tokens"]))]
    if "source" in row:
        return [str(row["source"]), *([record.said] if isinstance(record.said, str) and record.said else [])]
    return [str(text) for text in row.values() if isinstance(text, str) and text][:2]


# ---------------------------------------------------------------------------------------------------- pieces


def _row(record: Record, room: int, page: str | None) -> dict[str, Any]:
    """A row for the script: `at` its number, `y` what is true, `s` what was said."""
    details = record.details
    whole = sum(len(x) for x in record.row.values() if isinstance(x, str))
    return {
        "at": record.index,
        "where": record.where,
        "row": {role: x[:room] if isinstance(x, str) else x for role, x in record.row.items()},
        "y": record.label,
        "s": record.said,
        "ok": record.right,
        "loss": _rounded(loss_of(record)),
        **(
            {"scores": [[n, _rounded(p)] for n, p in details["scores"].items()]}
            if "scores" in details
            else {}
        ),
        **({"losses": [_rounded(x) for x in details["losses"]]} if "losses" in details else {}),
        **({"figures": details["figures"]} if "figures" in details else {}),
        **({"cut": whole} if whole > room else {}),
        **({"page": page} if page else {}),
        "look": None if whole > room else texts_of(record),
    }


def _rounded(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(f"{x:.5g}")


def _strict(value: Any) -> Any:
    """What JSON has a word for."""
    if isinstance(value, Mapping):
        return {str(name): _strict(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _end(figures: Sequence[Interval]) -> float:
    """Where the bars of a figure end: at 1 for shares, else at the furthest."""
    most = max((max(x.value, x.high or x.value) for x in figures), default=1.0)
    return 1.0 if most <= 1 else most


def _figure(figure: Interval | None, end: float) -> str:
    if figure is None:
        return ""
    value, _, interval = figure.written(3).partition(" ")
    low, high = (figure.value if x is None else x for x in (figure.low, figure.high))
    left, mark, right = (max(0.0, min(100 * x / end, 100)) if end else 0.0 for x in (low, figure.value, high))
    return (
        f'<b>{value}</b> <span class="dim">{interval}</span><svg class="track" viewBox="0 0 100 8" '
        'preserveAspectRatio="none" aria-hidden="true"><rect class="rail" y="2.5" width="100" height="3"/>'
        f'<rect class="span" x="{left:.2f}" y="1.5" width="{right - left:.2f}" height="5"/>'
        f'<rect class="mark" x="{max(0.0, mark - 0.6):.2f}" width="1.2" height="8"/></svg>'
    )


def _confusion(found: Confusion, unit: str) -> str:
    count = len(found.names)
    pairs = "".join(
        f'<li><button type="button" data-pair="{found.names.index(true)},{found.names.index(said)}">'
        f"<b>{n:,}</b> {escape(true)} <span>taken for</span> {escape(said)} <i>{_share(share)}</i></button></li>"
        for true, said, n, share in found.pairs(MOST_PAIRS)
    )
    buttons = "".join(
        f'<button type="button" data-normalise="{how}" aria-pressed="{pressed}">{words}</button>'
        for how, words, pressed in (
            ("", "counts", "true"),
            ("true", "% of true", "false"),
            ("said", "% of said", "false"),
        )
    )
    return (
        '<section class="panel matrix"><h2>What was taken for what</h2>'
        f'<p class="dim">A row is what is true, a column what was said. Choose a cell to see its {unit}.</p>'
        + (
            f'<div class="how" role="group" aria-label="Numbers in the cells">{buttons}</div>'
            if count <= MOST_NUMBERED
            else ""
        )
        + f'<div class="picture{"" if count <= BESIDE else " wide"}" tabindex="0" role="region" '
        + f'aria-label="Confusion matrix">{found.svg(styled=False)}</div>'
        + (
            f"<details{' open' if count > BESIDE else ''}><summary>Confused most</summary>"
            f'<ol class="pairs">{pairs}</ol></details>'
            if pairs
            else ""
        )
        + "</section>"
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "&lt;1%"


def _groups(called: str, groups: Sequence[Group]) -> str:
    """Loss by label or by word; the script makes what names a label or word choose its rows."""
    rows = [
        [x.name, f"{x.mean:.3f}", f"{x.total:,.1f}", f"{x.count:,}", f"{x.wrong:,}"]
        for x in groups[:MOST_GROUPS]
    ]
    more = f'<p class="dim">{len(groups) - MOST_GROUPS:,} more.</p>' if len(groups) > MOST_GROUPS else ""
    order = "sum" if called == "word" else "mean loss"
    return (
        f'<section class="panel" data-groups="{called}"><h2>By {called}</h2><p class="dim">Highest {order} first.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Loss by {called}">'
        f"{html_table([called, 'mean loss', 'sum', 'count', 'wrong'], rows)}</div>{more}</section>"
    )


_FILTERS = """<form class="filters" role="search" aria-label="Choose rows">
<label>Order <select name="order"></select></label>
<label>True <select name="true"></select></label>
<label>Said <select name="said"></select></label>
<label>Answers <select name="verdict"><option value="">all</option><option value="wrong">wrong</option>
<option value="right">right</option></select></label>
<label class="find">Find
<input name="find" type="search" placeholder="in the text or its place" autocomplete="off"></label>
<button type="reset">Reset</button>
<output class="dim" aria-live="polite"></output></form>"""

_LEGEND = """<p class="dim legend">The more a word is shaded, the less likely its true tag was held. Below a wrong one:
✗ what was said, ✓ what is true; below others their tag. Underlined are the true entities, a colour a type.</p>"""

_PAGER = """<nav class="pager" aria-label="Pages of rows"><button type="button" data-step="-1">Previous</button>
<span class="dim"></span><button type="button" data-step="1">Next</button></nav>"""
