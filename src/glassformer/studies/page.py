"""HTML page of a study: its learning curves, the crossings in words, and the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from glassformer.reports.page import scroll_region, shown_path
from glassformer.reports.table import html_table
from glassformer.runs.charts import COLOURS, SIZE, clock, y_axis
from glassformer.runs.curves import chart_page
from glassformer.studies.results import LearningCurve, StudyResults
from glassformer.tasks.metrics.metric import Interval

_Scale = Callable[[float], float]

STYLE = """
.plot .band { fill: var(--c); opacity: .13; stroke: none; }
.plot .dashed { stroke: var(--c); stroke-width: 1.8; stroke-dasharray: 6 4; }
.plot .whisker { stroke: var(--c); stroke-width: 1.5; }
.plot .dot { fill: var(--c); }
.legend .flat .swatch { background: repeating-linear-gradient(90deg, var(--c) 0 5px, transparent 5px 8px); }
.chart .axis { margin: 2px 0 6px; text-align: center; }
.sentences { margin-top: 14px; max-width: 52rem; } .sentences li { margin: 4px 0; }
h2 + .dim { margin: -6px 0 10px; } .scroll + .dim { margin-top: 10px; }
"""
EDGE_PERCENT = 4.0  # percent left free on either side
MIN_LABEL_GAP = 7.0  # percent between labels, nearer ones would overlap


def study_page(results: StudyResults) -> str:
    """The page as one self-contained HTML file without a script."""
    curve = results.curve
    title = f"{results.metric}: trained on {_enumeration(list(dict.fromkeys(x.of for x in results.trainings)))}"
    done = len(results.trainings)
    count = f"{done} trainings" if done == results.planned else f"{done} of {results.planned} trainings"
    seconds = clock(sum(model.seconds for model in results.trainings))
    test_sets = ", ".join(f"{name} ({x['rows']:,} rows)" for name, x in results.test_sets.items())
    lines = results.lines
    crossings = "".join(f"<li>{escape(sentence)}</li>" for sentence in results.sentences)
    body = [
        f"<main><h1>{escape(title)}</h1>",
        f"<p class='dim'>{count} in {seconds}, evaluated on {escape(test_sets)}</p>",
        _curve_chart(results, lines) if curve is not None and lines else "",
        f"<ul class='sentences'>{crossings}</ul>" if crossings else "",
        f"<h2>Trained on, evaluated on</h2><p class='dim'>{escape(results.caption)}</p>",
        scroll_region("trained on, evaluated on", results.table.html()),
        "<h2>Trainings</h2>",
        scroll_region("trainings", html_table(*_runs_table(results))),
        f"<p class='dim'>{escape(results.metric)}: {escape(results.method)}</p>" if results.method else "",
        "</main>",
    ]
    return chart_page(title, body, style=STYLE)


def _runs_table(results: StudyResults) -> tuple[list[str], list[list[str]]]:
    rows = []
    for x in results.trainings:
        counts = (f"{count:,}" for count in (x.rows, x.steps, x.tokens))
        rows.append([x.name, str(x.seed), *counts, clock(x.seconds), shown_path(x.folder)])
    return ["training", "seed", "rows", "steps", "tokens read", "time", "folder"], rows


# ------------------------------------------------------------------------------------------------ the curve


def _curve_chart(results: StudyResults, lines: Sequence[LearningCurve]) -> str:
    """The learning curves on a logarithmic axis; a whisker is an interval, the dashed line the zero-shot metric."""
    assert results.curve is not None
    curve, level = results.curve, results.zero_shot
    sizes = sorted({n for line in lines for n in line.points})
    across = _log_scale(sizes)
    shown_values = [x for line in lines for x in line.points.values()] + ([level] if level else [])
    low, high = _interval_range(shown_values)

    def down(value: float) -> float:
        return 100 * (high - value) / (high - low)

    shown: list[int] = []
    for n in reversed(sizes):  # the largest for certain
        if not shown or across(shown[-1]) - across(n) >= MIN_LABEL_GAP:
            shown.append(n)
    x_labels = "".join(f'<text x="{across(n):.2f}%" y="100%" dy="18">{n:,}</text>' for n in shown)
    shapes, legend = [], []
    if level is not None and _drawable(level):
        label = escape(f"{curve.zero_shot}, without a row of {curve.over}")
        shapes.append(_zero_shot_line(level, down, label))
        legend.append(f'<li class="c0 flat"><span class="swatch"></span>{label} <b>{level}</b></li>')
    for i, line in enumerate(lines, start=level is not None):
        shapes.append(_curve_svg(line, f"c{i % COLOURS}", across, down, results.metric))
        largest = max(line.points)
        legend.append(
            f'<li class="c{i % COLOURS}"><span class="swatch"></span>{escape(line.name)}, {largest:,} rows '
            f"<b>{line.points[largest]}</b></li>"
        )
    description = f"{results.metric} on {curve.test_set} over rows of {curve.over}. " + " ".join(results.sentences)
    return (
        f'<div class="charts"><figure class="chart wide"><figcaption><h2>{escape(results.metric)} on '
        f"{escape(curve.test_set)}</h2></figcaption>"
        f'<ul class="legend">{"".join(legend)}</ul>'
        f'<div class="plot" role="img" aria-label="{escape(description)}">'
        f'<svg aria-hidden="true"><g class="y">{y_axis(low, high)}</g><g class="x">{x_labels}</g>'
        f"{''.join(shapes)}</svg></div>"
        f'<p class="dim axis">rows of {escape(curve.over)} learnt from, on a logarithmic axis</p></figure></div>'
    )


def _zero_shot_line(level: Interval, down: _Scale, label: str) -> str:
    band = ""
    if level.low is not None and level.high is not None:
        top, height = down(level.high), down(level.low) - down(level.high)
        band = f'<rect class="c0 band" x="0" width="100%" y="{top:.2f}%" height="{height:.2f}%"/>'
    y = f"{down(level.value):.2f}%"
    return f'{band}<line class="c0 dashed" x1="0" x2="100%" y1="{y}" y2="{y}"><title>{label}: {level}</title></line>'


def _curve_svg(line: LearningCurve, colour: str, across: _Scale, down: _Scale, metric: str) -> str:
    """A curve: its line in coordinates that are stretched to the page; whiskers and dots in percent, which are not."""
    points = [(n, x) for n, value in sorted(line.points.items()) if (x := _drawable(value))]
    places = (f"{across(n) * SIZE / 100:.1f} {down(x.value) * SIZE / 100:.1f}" for n, x in points)
    path = f"M{'L'.join(places)}" if points else ""
    kind = "points" if line.baseline else "smooth"
    marks = []
    for n, x in points:
        at = f"{across(n):.2f}%"
        if x.low is not None and x.high is not None:
            marks.append(
                f'<line class="{colour} whisker" x1="{at}" x2="{at}" y1="{down(x.low):.2f}%" y2="{down(x.high):.2f}%"/>'
            )
        marks.append(
            f'<circle class="{colour} dot" cx="{at}" cy="{down(x.value):.2f}%" r="4">'
            f"<title>{escape(line.name)}, {n:,} rows: {escape(metric)} {x}</title></circle>"
        )
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" width="100%" height="100%">'
        f'<path class="{colour} {kind}" d="{path}"/></svg>{"".join(marks)}'
    )


def _log_scale(sizes: Sequence[int]) -> _Scale:
    """Number of rows → percent from the left; a single number is in the middle."""
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    if low == high:
        return lambda n: 50.0
    return lambda n: EDGE_PERCENT + (100 - 2 * EDGE_PERCENT) * (math.log(n) - low) / (high - low)


def _interval_range(values: Sequence[Interval]) -> tuple[float, float]:
    """The range of an axis: all intervals that are drawn, with a margin."""
    ends = [end for x in map(_drawable, values) if x for end in (x.low, x.value, x.high) if end is not None] or [0.0]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 0.05
    return low - margin, high + margin


def _drawable(x: Interval) -> Interval | None:
    """An interval as a chart draws it: one end that is NaN or infinite leaves out both; None = such a value."""
    if not math.isfinite(x.value):
        return None
    return x if all(end is None or math.isfinite(end) for end in (x.low, x.high)) else Interval(x.value)


def _enumeration(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
