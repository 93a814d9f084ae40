"""HTML page of a comparison: a chart of every metric, the same as tables, costs, and examples of generated texts."""

from __future__ import annotations

from html import escape

from glassformer.evaluation.compare.comparison import Comparison, ExampleRow, interval_range
from glassformer.pages.standalone import page as standalone
from glassformer.pages.tables import html_table
from glassformer.runs.charts import COLOURS, number, ticks
from glassformer.runs.curves import STATIC

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
            "; the dashed line is where the first lies. Intervals that overlap do not make two systems alike: the "
            "difference says, in bold where its interval leaves out zero"
        )
    body = [
        f"<main><h1>{escape(comparison.title)}</h1><p class='dim'>{escape(comparison.caption)}.</p>",
        f'<p class="dim">A dot is the value, the line its 95 % interval{apart}.</p>',
        f'<div class="charts">{"".join(_metric_chart(name, comparison) for name in comparison.shown)}</div>',
        "<h2>Metrics</h2>" + _scroll_region("metrics", _metrics_table(comparison)),
        "<h2>What they cost</h2>" + _scroll_region("costs", html_table(*comparison.costs())),
        *(f'<p class="dim">{escape(note)}</p>' for note in comparison.notes),
    ]
    if comparison.methods:
        methods = html_table(["metric", "by"], list(comparison.methods.items()))
        methods = methods.replace("<table>", '<table class="words">')
        body.append("<h2>How it was computed</h2>" + _scroll_region("methods", methods))
    if comparison.examples:
        body += ["<h2>What they wrote</h2>", *map(_example, comparison.examples)]
    style = (STATIC / "page.css").read_text("utf-8") + STYLE
    return standalone(comparison.title, "\n".join([*body, "</main>"]), style=style)


def _metric_chart(name: str, comparison: Comparison) -> str:
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
        # A colour for each run, grey for baselines.
        colour = f"c{comparison.systems.index(one) % COLOURS}" if one.seeds else "plain"
        rows.append(
            f'<li class="{colour}"><span class="who">{escape(one.name)}</span>'
            f'<svg aria-hidden="true">{grid}<line x1="{start}" x2="{end}" y1="50%" y2="50%"/>'
            f'<circle cx="{across(x.value)}" cy="50%" r="5"/></svg>'
            f'<span class="said">{escape(x.written(comparison.shown[name]))}</span></li>'
        )
    axis = "".join(f'<text x="{x}" y="12">{text}</text>' for x, text in marks)
    wide = " wide" if name == comparison.metric else ""
    better = f" · {'more' if comparison.higher else 'less'} is better" * (name == comparison.metric)
    return (
        f'<figure class="chart{wide}"><figcaption><h2>{escape(name)}<span class="dim">{better}</span></h2></figcaption>'
        f'<ul class="intervals">{"".join(rows)}'
        f'<li class="axis" aria-hidden="true"><span></span><svg>{axis}</svg><span></span></li></ul></figure>'
    )


def _metrics_table(comparison: Comparison) -> str:
    """The table of metrics; differences whose interval leaves out zero are bold."""
    headings, rows = comparison.table()
    others = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings[2:])
    head = f'<th scope="col">metric</th><th scope="col" class="run">system</th>{others}'
    cells = iter(rows)
    body = []
    for metric in comparison.shown:
        systems = comparison.systems_with(metric)
        for row, one in enumerate(systems):
            name, who, *values = map(escape, next(cells))
            significant = metric in one.differences and one.differences[metric].leaves_out_zero
            group = f'<th scope="rowgroup" rowspan="{len(systems)}">{name}</th>' if row == 0 else ""
            if significant:
                values[-1] = f"<b>{values[-1]}</b>"
            written = "".join(f"<td>{value}</td>" for value in values)
            body.append(f'<tr>{group}<th scope="row" class="run">{who}</th>{written}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _scroll_region(label: str, table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'


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
