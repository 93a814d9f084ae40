"""HTML page of a comparison of runs: a chart of every metric, and the same as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from glassformer.evaluation.compare.comparison import ComparedSystem, RunComparison
from glassformer.pages.standalone import page as standalone
from glassformer.pages.tables import html_table
from glassformer.runs.charts import COLOURS, number, ticks
from glassformer.runs.curves import STATIC
from glassformer.tasks.metrics.intervals import Interval

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
[rowspan] { vertical-align: top; }
.run { text-align: left; } tbody .run { font-weight: 400; }
@media (max-width: 620px) {
  .intervals { grid-template-columns: minmax(0, 1fr) max-content; }
  .intervals svg { grid-column: 1 / -1; grid-row: 2; height: 24px; }
  .intervals .axis svg { grid-row: 1; } .intervals .axis span { display: none; }
}
"""


def comparison_page(comparison: RunComparison) -> str:
    """The page as one self-contained HTML file without a script."""
    title = " · ".join(one.name for one in comparison.systems if one.seeds)
    body = [
        f"<main><h1>{escape(title)}</h1><p class='dim'>{escape(comparison.caption)}.</p>",
        '<p class="dim">A dot is the value, the line its 95 % interval; the dashed line is where the first lies. '
        "Intervals that overlap do not make two runs alike: the difference says, in bold where its interval leaves out "
        "zero.</p>",
        f'<div class="charts">{"".join(_metric_chart(name, comparison) for name in comparison.metrics)}</div>',
        "<h2>Metrics</h2>" + _scroll_region("metrics", _metrics_table(comparison)),
        "<h2>What they cost</h2>" + _scroll_region("costs", html_table(*comparison.costs())),
        *(f'<p class="dim">{escape(note)}</p>' for note in comparison.notes),
        "<h2>How it was computed</h2>" + _scroll_region("methods", _methods_table(comparison)),
        "</main>",
    ]
    style = (STATIC / "page.css").read_text("utf-8") + STYLE
    return standalone(title, "\n".join(body), style=style)


def interval_range(values: Iterable[Interval]) -> tuple[float, float]:
    """The range of the axis: all intervals, with a margin."""
    ends = [end for x in values for end in (x.low, x.value, x.high) if end is not None]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.04 or abs(high) * 0.05 or 0.5
    return low - room, high + room


def _metric_chart(name: str, comparison: RunComparison) -> str:
    """A chart of a metric: a dot and an interval for each system, on one scale."""
    systems = comparison.systems_with(name)
    low, high = interval_range(one.metrics[name] for one in systems)

    def across(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    marks = [(across(tick), number(tick)) for tick in ticks(low, high, TICKS)]
    grid = "".join(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>' for x, _ in marks)
    first = across(systems[0].metrics[name].value)
    grid += f'<line class="first" x1="{first}" x2="{first}" y1="0" y2="100%"/>'
    rows = []
    for one in systems:
        x = one.metrics[name]
        start, end = (across(x.value if end is None else end) for end in (x.low, x.high))
        rows.append(
            f'<li class="{_colour_class(one, comparison)}"><span class="who">{escape(one.name)}</span>'
            f'<svg aria-hidden="true">{grid}<line x1="{start}" x2="{end}" y1="50%" y2="50%"/>'
            f'<circle cx="{across(x.value)}" cy="50%" r="5"/></svg>'
            f'<span class="said">{escape(x.written(3))}</span></li>'
        )
    axis = "".join(f'<text x="{x}" y="12">{text}</text>' for x, text in marks)
    wide = " wide" if name == comparison.metric else ""
    better = (
        "" if name != comparison.metric else " · more is better" if comparison.higher else " · less is better"
    )
    return (
        f'<figure class="chart{wide}"><figcaption><h2>{escape(name)}<span class="dim">{better}</span></h2></figcaption>'
        f'<ul class="intervals">{"".join(rows)}'
        f'<li class="axis" aria-hidden="true"><span></span><svg>{axis}</svg><span></span></li></ul></figure>'
    )


def _colour_class(one: ComparedSystem, comparison: RunComparison) -> str:
    """The CSS class of a system: a colour for each run, grey for baselines."""
    return "plain" if not one.seeds else f"c{comparison.systems.index(one) % COLOURS}"


def _metrics_table(comparison: RunComparison) -> str:
    """The table of metrics; differences whose interval leaves out zero are bold."""
    headings, rows = comparison.table()
    others = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings[2:])
    head = f'<th scope="col">metric</th><th scope="col" class="run">run</th>{others}'
    cells = iter(rows)
    body = []
    for metric in comparison.metrics:
        systems = comparison.systems_with(metric)
        for row, one in enumerate(systems):
            name, who, value, difference = map(escape, next(cells))
            significant = metric in one.differences and one.differences[metric].leaves_out_zero
            group = f'<th scope="rowgroup" rowspan="{len(systems)}">{name}</th>' if row == 0 else ""
            body.append(
                f'<tr>{group}<th scope="row" class="run">{who}</th><td>{value}</td>'
                f"<td>{f'<b>{difference}</b>' if significant else difference}</td></tr>"
            )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _methods_table(comparison: RunComparison) -> str:
    rows: Sequence[Sequence[str]] = [[name, how] for name, how in comparison.methods.items()]
    return html_table(["metric", "by"], rows).replace("<table>", '<table class="words">')


def _scroll_region(label: str, table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
