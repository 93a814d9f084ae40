"""Comparison of systems: every metric with its interval and paired difference to the first, the costs, and the page.

    trained runs, seeds, evaluations    runs.py     their saved predictions, scored by their task
    lead-3, a model, any function       texts.py    what they generate for the same rows, by ROUGE, or BLEU and chrF

Both come to sufficient statistics of each row, which are resampled together: what makes a row hard for two systems
cancels out of their difference (`tasks/metrics/metric.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape

from glassformer.evaluation.compare.costs import Cost, LatencySummary, minutes
from glassformer.reports.page import scroll_region
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, html_table
from glassformer.runs.charts import COLOURS, number, ticks
from glassformer.runs.curves import chart_page
from glassformer.tasks.metrics.metric import Interval

MAX_TEXT = 600
"""Characters of a text in a table; the page and the JSON have all."""


@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """One system of a comparison.

    seeds: how many runs it is; 0 = a baseline of the first run
    about: what a baseline is
    metrics: with intervals over rows, or over seeds
    differences: of each metric to that of the first system
    apart: why there is no difference
    rows: it was evaluated on
    seconds_per_row: of its predictions
    words: of a generated text, on average
    cost, latency: where they are known
    """

    name: str
    metrics: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)
    apart: str | None = None
    seeds: int = 1
    about: str = ""
    rows: int | None = None
    seconds_per_row: float | None = None
    words: float | None = None
    cost: Cost = field(default_factory=Cost)
    latency: LatencySummary | None = None


@dataclass(frozen=True)
class ExampleRow:
    """A row and what each system generated for it, by name."""

    line: int
    text: str
    references: list[str]
    outputs: dict[str, str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Report, kind="comparison"):
    """Systems on the same rows.

    systems: the others are compared with the first; baselines of a run come last
    shown: the metrics of the tables, with their digits
    caption: what is compared, on what
    metric, higher: the main one, and whether more of it is better
    methods: metric → how it was computed
    rows, words: of generated texts: how many, and the words of a reference on average
    interrupted: are these only the rows before Ctrl-C?
    examples: rows with the texts that were generated for them
    """

    task: str
    systems: list[ComparedSystem]
    shown: dict[str, int]
    caption: str
    metric: str = ""
    higher: bool = True
    methods: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: int | None = None
    words: float | None = None
    interrupted: bool = False
    examples: list[ExampleRow] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.task.capitalize()}: {', '.join(one.name for one in self.systems if one.seeds)}"

    def systems_with(self, metric: str) -> list[ComparedSystem]:
        """The systems that have a metric."""
        return [one for one in self.systems if metric in one.metrics]

    def tables(self) -> list[Table]:
        """For each metric every system with its difference to the first; their costs; what they generated."""
        return [*map(self.metric_table, self.shown), self.cost_table(), *map(_example_table, self.examples)]

    def metric_table(self, metric: str) -> Table:
        """A system a row: the metric with its interval, and its difference to the first system."""
        rows, digits = [], self.shown[metric]
        for one in self.systems_with(metric):
            difference = one.differences.get(metric)
            apart = (one.apart or "") if difference is None else difference.cell(digits, signed=True)
            rows.append([one.name, one.metrics[metric].cell(digits), apart])
        better = f", {'higher' if self.higher else 'lower'} is better" * (metric == self.metric)
        if len(self.systems) == 1:
            return Table(["", f"{metric}, 95 % interval"], [row[:2] for row in rows], metric + better)
        return Table(["", "95 % interval", "difference"], rows, metric + better)

    def cost_table(self) -> Table:
        """The costs of each system; columns without a value are left out.

        minutes: of training · MB: on disk · ms a row: in batches · ms alone: latency of one row at a time
        words, seconds: of a generated text, on average
        """
        columns: dict[str, Callable[[ComparedSystem], str]] = {
            "rows": lambda one: _formatted(one.rows, ",d"),
            "words": lambda one: _formatted(one.words, ".1f"),
            # A text takes seconds, a label milliseconds.
            "seconds": lambda one: "" if one.words is None else _formatted(one.seconds_per_row, ".2g"),
            "minutes": lambda one: minutes(one.cost.seconds),
            "CPU minutes": lambda one: minutes(one.cost.cpu_seconds),
            "steps": lambda one: _formatted(one.cost.steps, ",d"),
            "parameters": lambda one: _formatted(one.cost.parameters, ",d"),
            "MB": lambda one: "" if one.cost.bytes is None else f"{one.cost.bytes / 1e6:,.1f}",
            "ms a row": lambda one: (
                "" if one.words is not None else _formatted(one.seconds_per_row and 1000 * one.seconds_per_row, ".3g")
            ),
            "ms alone": lambda one: "" if (x := one.latency) is None else f"{x.mean:.1f} ± {x.std:.1f}",
            "median, p95": lambda one: "" if (x := one.latency) is None else f"{x.p50:.1f}, {x.p95:.1f}",
        }
        runs = [one for one in self.systems if one.seeds]
        known = {name: cells for name, f in columns.items() if any(cells := [f(one) for one in runs])}
        rows = [[one.name, *(cells[i] for cells in known.values())] for i, one in enumerate(runs)]
        if self.words is not None:
            rows.append(["references", *(f"{self.words:.1f}" if name == "words" else "" for name in known)])
        return Table(["", *known], rows, "costs")


def _example_table(example: ExampleRow) -> Table:
    """A row: its text, its references, and what each system generated for it."""
    texts = [("text", example.text), *(("reference", text) for text in example.references), *example.outputs.items()]
    rows = [[name, text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"] for name, text in texts]
    return Table(
        ["", "text"], [[name, text or "(nothing)"] for name, text in rows], f"line {example.line}", left=2,
        longest=MAX_TEXT + 2,
    )  # fmt: skip


def interval_range(
    values: Iterable[Interval], *, room: float = 0.04, flat: float = 0.05, least: float = 0.5
) -> tuple[float, float]:
    """The range of an axis: all intervals, with a margin.

    Args: room: the margin, a share of their range · flat: of the value where all are one · least: where that is 0
    """
    ends = [end for x in map(drawable, values) if x for end in (x.low, x.value, x.high) if end is not None] or [0.0]
    low, high = min(ends), max(ends)
    margin = (high - low) * room or abs(high) * flat or least
    return low - margin, high + margin


def drawable(x: Interval) -> Interval | None:
    """An interval as a chart draws it: one end that is NaN or infinite leaves out both; None = such a value."""
    if not math.isfinite(x.value):
        return None
    return x if all(end is None or math.isfinite(end) for end in (x.low, x.high)) else Interval(x.value)


def _formatted(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


# ------------------------------------------------------------------------------------------------- the page

TICKS = 5

STYLE = """
.intervals { display: grid; gap: 0 14px; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr) max-content; }
.intervals > li { display: grid; grid-column: 1 / -1; grid-template-columns: subgrid; align-items: center; }
.intervals .who { max-width: 18rem; font-size: .88rem; overflow-wrap: anywhere; }
.intervals .who::before { content: ""; display: inline-block; width: 9px; height: 9px; margin-right: 7px;
  border-radius: 50%; background: var(--c); }
.intervals .plain { --c: var(--edge); } .intervals .plain .who { color: var(--ink-3); }
.intervals .said { font-size: .88rem; font-variant-numeric: tabular-nums; text-align: right; }
.intervals svg { display: block; width: 100%; height: 32px; overflow: visible; }
.intervals line { stroke: var(--c); stroke-width: 2.5; stroke-linecap: round; } .intervals circle { fill: var(--c); }
.intervals .grid { stroke: var(--line); stroke-width: 1; }
.intervals .first { stroke: var(--edge); stroke-width: 1; stroke-dasharray: 3 3; }
.intervals text { fill: var(--ink-3); font-size: 11.5px; text-anchor: middle; }
.intervals .axis svg { height: 18px; }
.chart h2 .dim { font-weight: 400; }
.texts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); gap: .75rem; }
.texts > section { padding: .75rem .875rem; border: 1px solid var(--line); border-radius: .5rem; }
.texts > section { background: var(--panel); } .texts > .reference { border-color: var(--accent); }
.texts h3 { margin: 0 0 .375rem; color: var(--ink-3); font-size: .8125rem; overflow-wrap: anywhere; }
.text { max-height: 24rem; overflow: auto; overflow-wrap: anywhere; white-space: pre-wrap; }
[rowspan] { vertical-align: top; }
.run { text-align: left; } tbody .run { font-weight: 400; }
@media (max-width: 620px) {
  .intervals { grid-template-columns: minmax(0, 1fr) max-content; }
  .intervals svg { grid-column: 1 / -1; grid-row: 2; height: 24px; }
  .intervals .axis svg { grid-row: 1; } .intervals .axis span { display: none; }
}
"""


def comparison_page(comparison: Comparison) -> str:
    """The page as one self-contained HTML file without a script."""
    apart = ""
    if len(comparison.systems) > 1:
        apart = (
            "; the dashed line is the value of the first system. Two systems differ where the interval of their "
            "difference excludes zero (bold in the table below), even if their own intervals overlap"
        )
    body = [
        f"<main><h1>{escape(comparison.title)}</h1><p class='dim'>{escape(comparison.caption)}.</p>",
        f'<p class="dim">A dot is the value, the line its 95 % interval{apart}.</p>',
        f'<div class="charts">{"".join(metric_chart(name, comparison) for name in comparison.shown)}</div>',
        "<h2>Metrics</h2>" + scroll_region("metrics", _metrics_table(comparison)),
        "<h2>What they cost</h2>" + scroll_region("costs", comparison.cost_table().html()),
        *(f'<p class="dim">{escape(note)}</p>' for note in comparison.notes),
    ]
    if comparison.methods:
        methods = html_table(["metric", "by"], list(comparison.methods.items()))
        methods = methods.replace("<table>", '<table class="words">')
        body.append("<h2>How it was computed</h2>" + scroll_region("methods", methods))
    if comparison.examples:
        body += ["<h2>What they wrote</h2>", *map(_example, comparison.examples)]
    return chart_page(comparison.title, [*body, "</main>"], style=STYLE)


def metric_chart(name: str, comparison: Comparison) -> str:
    """A chart of a metric: a dot and an interval for each system, on one scale."""
    systems = comparison.systems_with(name)
    low, high = interval_range(one.metrics[name] for one in systems)

    def across(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    marks = [(across(tick), number(tick)) for tick in ticks(low, high, TICKS)]
    grid = "".join(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>' for x, _ in marks)
    if reference := drawable(systems[0].metrics[name]):
        first = across(reference.value)
        grid += f'<line class="first" x1="{first}" x2="{first}" y1="0" y2="100%"/>'
    rows = []
    for one in systems:
        written, dot = one.metrics[name].written(comparison.shown[name]), ""
        if x := drawable(one.metrics[name]):
            start, end = (across(x.value if end is None else end) for end in (x.low, x.high))
            dot = f'<line x1="{start}" x2="{end}" y1="50%" y2="50%"/><circle cx="{across(x.value)}" cy="50%" r="5"/>'
        # A colour for each run, grey for baselines.
        colour = f"c{comparison.systems.index(one) % COLOURS}" if one.seeds else "plain"
        rows.append(
            f'<li class="{colour}"><span class="who">{escape(one.name)}</span>'
            f'<svg aria-hidden="true">{grid}{dot}</svg><span class="said">{escape(written)}</span></li>'
        )
    axis = "".join(f'<text x="{x}" y="12">{text}</text>' for x, text in marks)
    wide = " wide" if name == comparison.metric else ""
    better = f" · {'higher' if comparison.higher else 'lower'} is better" * (name == comparison.metric)
    return (
        f'<figure class="chart{wide}"><figcaption><h2>{escape(name)}<span class="dim">{better}</span></h2></figcaption>'
        f'<ul class="intervals">{"".join(rows)}'
        f'<li class="axis" aria-hidden="true"><span></span><svg>{axis}</svg><span></span></li></ul></figure>'
    )


def _metrics_table(comparison: Comparison) -> str:
    """The table of metrics; differences whose interval leaves out zero are bold."""
    headings = comparison.metric_table(next(iter(comparison.shown))).headings[1:]
    others = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings)
    head = f'<th scope="col">metric</th><th scope="col" class="run">system</th>{others}'
    body = []
    for metric in comparison.shown:
        rows = comparison.metric_table(metric).rows
        main = " *" * (metric == comparison.metric)
        for i, (who, *cells) in enumerate(rows):
            group = "" if i else f'<th scope="rowgroup" rowspan="{len(rows)}">{escape(metric)}{main}</th>'
            bold = [isinstance(cell, IntervalCell) and cell.significant for cell in cells]
            values = [f"<b>{escape(x)}</b>" if b else escape(x) for x, b in zip(cells, bold, strict=True)]
            written = "".join(f"<td>{value}</td>" for value in values)
            body.append(f'<tr>{group}<th scope="row" class="run">{escape(who)}</th>{written}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _example(example: ExampleRow) -> str:
    """A row: its text, folded; its references, and what each system wrote, side by side."""
    texts = [("reference", text, ' class="reference"') for text in example.references]
    texts += [(name, text, "") for name, text in example.outputs.items()]
    return (
        f"<article><details><summary>line {example.line}: the text, {len(example.text.split()):,} words</summary>"
        f'<div class="text" dir="auto" tabindex="0">{escape(example.text)}</div></details><div class="texts">'
        + "".join(
            f'<section{kind}><h3>{escape(name)}</h3><div class="text" dir="auto">{escape(text) or "(nothing)"}</div>'
            "</section>"
            for name, text, kind in texts
        )
        + "</div></article>"
    )
