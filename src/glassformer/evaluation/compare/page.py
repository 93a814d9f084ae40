"""Runs side by side as one file to read and to mail: a picture of every figure, and the same as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from glassformer.evaluation.compare.comparison import Comparison, Standing
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


def page(found: Comparison) -> str:
    """The whole page: no script, nothing from elsewhere."""
    title = " · ".join(one.name for one in found.standings if one.seeds)
    body = [
        f"<main><h1>{escape(title)}</h1><p class='dim'>{escape(found.headed)}.</p>",
        '<p class="dim">A dot is the figure, the line its 95 % interval; the dashed line is where the first lies. '
        "Intervals that overlap do not make two runs alike: the difference says, in bold where its interval leaves out "
        "zero.</p>",
        f'<div class="charts">{"".join(_figure(name, found) for name in found.figures)}</div>',
        "<h2>Figures</h2>" + _scrolled("figures", _table(found)),
        "<h2>What they cost</h2>" + _scrolled("costs", html_table(*found.costs())),
        *(f'<p class="dim">{escape(note)}</p>' for note in found.notes),
        "<h2>How it was computed</h2>" + _scrolled("methods", _methods(found)),
        "</main>",
    ]
    style = (STATIC / "page.css").read_text("utf-8") + STYLE
    return standalone(title, "\n".join(body), style=style)


def reach(figures: Iterable[Interval]) -> tuple[float, float]:
    """From where to where intervals go, with a little room."""
    ends = [end for x in figures for end in (x.low, x.value, x.high) if end is not None]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.04 or abs(high) * 0.05 or 0.5
    return low - room, high + room


def _figure(name: str, found: Comparison) -> str:
    """Every run as a dot on its line, one below the other on the same scale."""
    standings = found.of(name)
    low, high = reach(one.figures[name] for one in standings)

    def across(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    marks = [(across(tick), number(tick)) for tick in ticks(low, high, TICKS)]
    grid = "".join(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>' for x, _ in marks)
    first = across(standings[0].figures[name].value)
    grid += f'<line class="first" x1="{first}" x2="{first}" y1="0" y2="100%"/>'
    rows = []
    for one in standings:
        x = one.figures[name]
        start, end = (across(x.value if end is None else end) for end in (x.low, x.high))
        rows.append(
            f'<li class="{_colour(one, found)}"><span class="who">{escape(one.name)}</span>'
            f'<svg aria-hidden="true">{grid}<line x1="{start}" x2="{end}" y1="50%" y2="50%"/>'
            f'<circle cx="{across(x.value)}" cy="50%" r="5"/></svg>'
            f'<span class="said">{escape(x.written(3))}</span></li>'
        )
    axis = "".join(f'<text x="{x}" y="12">{text}</text>' for x, text in marks)
    wide = " wide" if name == found.metric else ""
    better = "" if name != found.metric else " · more is better" if found.higher else " · less is better"
    return (
        f'<figure class="chart{wide}"><figcaption><h2>{escape(name)}<span class="dim">{better}</span></h2></figcaption>'
        f'<ul class="intervals">{"".join(rows)}'
        f'<li class="axis" aria-hidden="true"><span></span><svg>{axis}</svg><span></span></li></ul></figure>'
    )


def _colour(one: Standing, found: Comparison) -> str:
    """A run has a colour, a baseline is grey."""
    return "plain" if not one.seeds else f"c{found.standings.index(one) % COLOURS}"


def _table(found: Comparison) -> str:
    """The table, with differences that leave out zero in bold."""
    headings, rows = found.table()
    others = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings[2:])
    head = f'<th scope="col">figure</th><th scope="col" class="run">run</th>{others}'
    cells = iter(rows)
    body = []
    for figure in found.figures:
        standings = found.of(figure)
        for place, one in enumerate(standings):
            name, who, value, difference = map(escape, next(cells))
            sure = figure in one.differences and one.differences[figure].leaves_out_zero
            group = f'<th scope="rowgroup" rowspan="{len(standings)}">{name}</th>' if place == 0 else ""
            body.append(
                f'<tr>{group}<th scope="row" class="run">{who}</th><td>{value}</td>'
                f"<td>{f'<b>{difference}</b>' if sure else difference}</td></tr>"
            )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _methods(found: Comparison) -> str:
    rows: Sequence[Sequence[str]] = [[name, how] for name, how in found.methods.items()]
    return html_table(["figure", "by"], rows).replace("<table>", '<table class="words">')


def _scrolled(label: str, table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
