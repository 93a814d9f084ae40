"""Data report as a standalone HTML page: SVG charts and tables, without scripts or external resources.

Bar charts of classes, histograms of lengths, box plots by class. Series take the classes `s0`, `s1`, … and marks
`axis`, `grid`, `value`; the style says how they look, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TypeVar

import numpy as np

from glassformer.data.findings import Finding
from glassformer.data.report import LENGTH_NAMES, DataReport
from glassformer.files import counted
from glassformer.reports.page import page, scroll_region, shown_label, shown_place
from glassformer.reports.table import html_table

T = TypeVar("T")

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#0f1c2b, #e9eff5); --dim: light-dark(#55657a, #93a4b6);
  --page: light-dark(#f4f6f9, #0c1117); --card: light-dark(#ffffff, #131a22); --line: light-dark(#d9e0e8, #293441);
  --s0: light-dark(#0b6b83, #63cddb); --s1: light-dark(#c2410c, #ff9d5c); --s2: light-dark(#6d3fc0, #b99bff);
  --shade: light-dark(#0f1c2b33, #93a4b659);
  --warn: light-dark(#9a6200, #f0b849); --good: light-dark(#0a6e48, #6fd3a5); }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 Inter, ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; margin: 2.75rem 0 .5rem; }
h3 { font-size: .875rem; margin: 1.25rem 0 .25rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; } .dim { color: var(--dim); font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tile, .scroll { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; }
.tile { padding: .75rem .875rem; }
.tile b { display: block; font-size: 1.375rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: .8125rem; overflow-wrap: anywhere; }
details, .plain { border-left: .1875rem solid var(--warn); padding: .25rem 0 .25rem .75rem; margin: .5rem 0; }
details.quiet { border: 0; padding: 0; color: var(--dim); }
.plain.good { border-color: var(--good); }
summary { cursor: pointer; } details ul { margin: .5rem 0 .25rem; padding: 0; list-style: none; color: var(--dim);
  font-size: .8125rem; max-height: 22rem; overflow: auto; }
details li { padding: .25rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .875rem; color: var(--dim); margin: 0 0 .75rem; }
.key i { display: inline-block; width: .75rem; height: .75rem; border-radius: .1875rem; margin-right: .375rem; }
.scroll { overflow-x: auto; padding: .75rem; margin: .5rem 0; background:
  linear-gradient(to right, var(--card) 40%, transparent) left / 36px 100% no-repeat local,
  linear-gradient(to left, var(--card) 40%, transparent) right / 36px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat, var(--card); }
.plot { margin: .25rem .5rem 1.5rem 2.75rem; } .plot.named { margin-left: 9.5rem; }
.plot.named.counted { margin: 0 0 0 15.5rem; }
svg { display: block; width: 100%; overflow: visible; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .value { fill: var(--dim); font-size: 11px; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .axis { stroke: var(--dim); } svg .grid { stroke: var(--line); }
svg .limit { stroke: var(--warn); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg .box { fill: var(--s0); fill-opacity: .35; stroke: var(--s0); }
svg .median { stroke: var(--s0); stroke-width: 2.5; }
.s0 { fill: var(--s0); background: var(--s0); } .s1 { fill: var(--s1); background: var(--s1); }
.s2 { fill: var(--s2); background: var(--s2); }
table { border-collapse: collapse; font-size: .875rem; min-width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .375rem 0 .375rem 1.25rem; border-top: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child, .words th, .words td { text-align: left; padding-left: 0; padding-right: 1.25rem;
  white-space: normal; }
thead th { border: 0; color: var(--dim); font-weight: 600; white-space: normal; } tbody th { font-weight: 500; }
@media (max-width: 560px) {
  .plot.named { margin-left: 8.25rem; } .plot.named.counted { margin-left: 13.25rem; }
  svg text { font-size: 11px; } svg .value { font-size: 10px; }
  th, td { padding-left: .75rem; }
}
"""

MAX_SERIES = 3  # files in a bar chart, each with its colour
MAX_CLASSES = 30  # classes shown at once; the others are folded away
MAX_LOCATIONS = 50  # locations shown for a finding; JSON has more

MAX_COLUMNS = 4  # of lengths, side by side
MAX_NAME = 20  # characters that fit into the left margin
NAMES_END = 88  # px before the bars of rows, where their numbers begin


def report_html(report: DataReport) -> str:
    """Render the HTML page of a report."""
    title = ", ".join(file.name for file in report.files)
    labels = f", labels from “{escape(report.label)}”" if report.label else ""
    findings = "".join(map(_finding, report.findings)) or '<p class="plain good">No problems found.</p>'
    body = (
        f'<main><h1>{escape(title)}</h1><p class="dim">Texts from the column “{escape(report.text)}”{labels}.</p>'
        f"{_tiles(report)}<h2>To look at</h2>{findings}{_balance(report)}{_lengths(report)}{_by_class(report)}"
        f"{_columns(report)}</main>"
    )
    return page(f"Data: {title}", body, style=STYLE)


def _tiles(report: DataReport) -> str:
    one = len(report.files) == 1
    tiles = [(f"{file.rows:,}", "rows" if one else f"rows in {file.name}") for file in report.files]
    if report.classes:
        tiles.append((f"{len(report.classes):,}", "classes" if len(report.classes) > 1 else "class"))
    lengths = report.files[0].lengths[report.unit].quantiles
    tiles.append((f"{lengths['50%']:,.0f}", f"{report.unit} in the median text"))
    tiles.append((f"{lengths['max']:,.0f}", f"{report.unit} in the longest"))
    cells = (f'<div class="tile"><b>{number}</b><span>{escape(label)}</span></div>' for number, label in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _finding(finding: Finding) -> str:
    if not finding.locations:
        return f'<p class="plain">{escape(finding.message)}</p>'
    locations = (" · ".join(map(shown_place, each.split(" · "))) for each in finding.locations[:MAX_LOCATIONS])
    items = [f'<li dir="auto">{escape(location)}</li>' for location in locations]
    if finding.count > len(items):
        items.append(f"<li>… and {finding.count - len(items):,} more</li>")
    return f"<details><summary>{escape(finding.message)}</summary><ul>{''.join(items)}</ul></details>"


def _balance(report: DataReport) -> str:
    if not report.classes:
        return ""
    files = report.files[:MAX_SERIES]
    values = {name: [file.classes.get(name, 0) for file in files] for name in report.classes}
    names, totals = [file.name for file in files], [file.class_total for file in files]
    key = "".join(f'<span><i class="s{i}"></i>{escape(name)}</span>' for i, name in enumerate(names))
    return (
        "<h2>Rows per class</h2>"
        + (f'<div class="key">{key}</div>' if len(files) > 1 else "")
        + _folded(values, "rows per class", lambda few: bars(few, totals, names))
        + (f'<p class="dim">The first {MAX_SERIES} files are shown.</p>' if report.files[MAX_SERIES:] else "")
    )


def _lengths(report: DataReport) -> str:
    one = len(report.files) == 1  # then the title of the page names it
    step, count = scale([file.lengths[report.unit].values for file in report.files])
    plots, rows = "", []
    for number, file in enumerate(report.files):
        lengths = file.lengths[report.unit]
        plot = histogram(lengths.values, report.unit, number % MAX_SERIES, step, count, lengths.limit)
        heading = "" if one else f"<h3>{escape(file.name)}</h3>"
        plots += heading + scroll_region(f"lengths in {file.name}", plot)
        rows += [[unit if one else f"{file.name}, {unit}", *lengths.cells()] for unit, lengths in file.lengths.items()]
    # A file a column, as long as there are few: nine columns of percentiles are wider than a phone.
    columns = [["", *LENGTH_NAMES], *rows]
    headings, *lines = (
        map(list, zip(*columns, strict=True)) if len(rows) <= MAX_COLUMNS else (["", *LENGTH_NAMES], *rows)
    )
    table = html_table(headings, lines)
    return (
        f"<h2>Lengths in {report.unit}</h2>{plots}{scroll_region('lengths', table)}"
        '<p class="dim">Percentiles: 95% is the length that 95% of the texts do not exceed.</p>'
    )


def _by_class(report: DataReport) -> str:
    values = {name: lengths.values for name, lengths in report.files[0].by_class.items()}
    if not values:
        return ""
    of = f"{report.files[0].name}. " if len(report.files) > 1 else ""
    return (
        f"<h2>Lengths by class in {report.unit}</h2>"
        f'<p class="dim">{escape(of)}A box holds the middle half of the texts, its line is the '
        "median; whiskers reach from 5% to 95%.</p>"
        + _folded(values, "lengths by class", lambda few: boxes(few, report.unit))
    )


def _columns(report: DataReport) -> str:
    skipped = int(len(report.files) == 1)  # one file: its name is that of the page
    rows = [
        [file.name, name, kind + (f", missing in {counted(file.gaps[name], 'row')}" if name in file.gaps else "")]
        for file in report.files
        for name, kind in file.columns.items()
    ]
    headings, *cells = (row[skipped:] for row in [["file", "column", "holds"], *rows])
    return "<h2>Columns</h2>" + scroll_region("columns", html_table(headings, cells), "scroll words")


def _folded(values: Mapping[str, T], label: str, plot: Callable[[Mapping[str, T]], str]) -> str:
    """A plot of the first classes, and a folded one of all others."""
    names = list(values)
    first = scroll_region(label, plot({name: values[name] for name in names[:MAX_CLASSES]}))
    if len(names) <= MAX_CLASSES:
        return first
    others = scroll_region(f"{label}, the others", plot({name: values[name] for name in names[MAX_CLASSES:]}))
    more = f"{len(names) - MAX_CLASSES:,} more classes"
    return f'{first}<details class="quiet"><summary>{more}</summary>{others}</details>'


def bars(values: Mapping[str, Sequence[int]], totals: Sequence[int], series: Sequence[str]) -> str:
    """Bar chart of class frequencies: for each class a bar for each file, as long as its share of that file.

    Args:
        values: class → its rows in each file
        totals: of each file, of which a bar is a share
        series: their names
    """
    shares = {name: [n / max(t, 1) for n, t in zip(counts, totals, strict=True)] for name, counts in values.items()}
    largest = max((share for row in shares.values() for share in row), default=1) or 1
    thick, gap = (16, 8) if len(series) == 1 else (13, 10)
    pitch = thick * len(series) + gap
    elements = []
    for row, (name, counts) in enumerate(values.items()):
        elements.append(_name(-NAMES_END - 8, (row + 0.5) * pitch, name))
        for number, (count, share) in enumerate(zip(counts, shares[name], strict=True)):
            y = row * pitch + gap / 2 + number * thick
            label = f"{series[number]}: {name}, {count:,} rows, {share:.1%}"
            elements.append(_text(-NAMES_END, y + thick / 2 - 1, f"{count:,} · {share:.1%}", "value"))
            elements.append(_rect(f"s{number}", 0, y, share / largest, thick - 2, label))
    return _svg(len(values) * pitch, elements, f"rows per class in {', '.join(series)}", "plot named counted")


def scale(lengths: Sequence[np.ndarray]) -> tuple[int, int]:
    """Bin width and number of bins, shared by all histograms of a page so that they compare.

    Where the longest 0.5% are far off, they are counted in a note instead.
    """
    largest = max((int(values.max(initial=1)) for values in lengths), default=1)
    usual = max((int(np.quantile(values, 0.995, method="lower")) for values in lengths if len(values)), default=1)
    end = largest if largest <= 1.5 * usual else usual
    step = _nice(end / 50)
    return step, end // step + 1


def histogram(values: np.ndarray, unit: str, number: int, step: int, count: int, limit: int | None = None) -> str:
    """Histogram of text lengths, in `count` bins of `step` lengths each."""
    counts = np.bincount(np.minimum(values // step, count), minlength=count + 1)
    beyond, counts, largest = int(counts[count]), counts[:count], int(values.max(initial=0))
    high, height = int(counts.max(initial=1)) or 1, 150
    elements = [_line(0, height, 1, height, "axis")]
    for mark in _ticks(high, 5):
        y = height - mark / high * (height - 12)
        elements += [_line(0, y, 1, y, "grid"), _text(-6, y, f"{mark:,}", "value end")]
    for bin_index, texts in enumerate(map(int, counts)):
        tall = texts / high * (height - 12)
        first, last = bin_index * step, bin_index * step + step - 1
        label = f"{first:,}" if step == 1 else f"{first:,} to {last:,}"
        label += f" {unit}: {texts:,} texts"
        elements.append(_rect(f"s{number}", bin_index / count, height - tall, 0.92 / count, tall, label, radius=0))
    for mark in [0, *_ticks(count * step, 6)]:
        elements.append(_text(_percent(mark / step / count), height + 14, f"{mark:,}", "value middle"))
    if limit is not None and limit < count * step:
        x = (limit + 1) / step / count
        elements += [_line(x, 4, x, height, "limit"), _text(_percent(x), 10, f"limit {limit:,}", "value")]
    if beyond:
        more = f"{beyond:,} longer, up to {largest:,}"
        elements.append(_text(_percent(1), height - 10, more, "value end"))
    return _svg(height, elements, f"lengths of texts in {unit}")


def boxes(values: Mapping[str, np.ndarray], unit: str) -> str:
    """Box plot of lengths by class: quartiles as a box, a line at the median, whiskers from 5% to 95%."""
    quantiles = {name: np.quantile(lengths, [0.05, 0.25, 0.5, 0.75, 0.95]) for name, lengths in values.items()}
    largest = max((float(five[-1]) for five in quantiles.values()), default=1) or 1
    pitch = 24
    height = len(quantiles) * pitch
    marks = [0, *_ticks(largest, 6)]
    elements = [_line(mark / largest, 0, mark / largest, height, "grid") for mark in marks]
    for row, (name, five) in enumerate(quantiles.items()):
        y = row * pitch + pitch / 2
        low, first, middle, third, high = (float(length) / largest for length in five)
        label = f"{name}: half of the texts have {five[1]:.0f} to {five[3]:.0f} {unit}, the median {five[2]:.0f}"
        elements += [
            _name(-8, y, name),
            _line(low, y, first, y, "axis"),
            _line(third, y, high, y, "axis"),
            _rect("box", first, y - 6, third - first, 12, label),
            _line(middle, y - 6, middle, y + 6, "median"),
        ]
    elements += [_text(_percent(mark / largest), height + 12, f"{mark:,.0f}", "value middle") for mark in marks]
    return _svg(height, elements, f"lengths by class in {unit}", "plot named")


def _svg(height: float, elements: Sequence[str], label: str, css_class: str = "plot") -> str:
    """A picture as wide as there is room: places across are shares of it, and texts keep their size."""
    svg = f'<svg height="{height:.0f}" role="img" aria-label="{escape(label)}">{"".join(elements)}</svg>'
    return f'<div class="{css_class}">{svg}</div>'


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _text(x: float | str, y: float, text: str, kind: str, title: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y:.1f}" dy=".35em">{escape(text)}{title}</text>'


def _name(x: float, y: float, name: str) -> str:
    """The name of a class in the left margin; one that does not fit is cut, and whole in a tooltip."""
    name = shown_label(name)
    if len(name) <= MAX_NAME:
        return _text(x, y, name, "name end")
    return _text(x, y, f"{name[: MAX_NAME - 1]}…", "name end", f"<title>{escape(name)}</title>")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    across = f'x1="{_percent(x1)}" x2="{_percent(x2)}"'
    return f'<line class="{kind}" {across} y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float, label: str, radius: int = 2) -> str:
    rounded = f' rx="{radius}"' if radius else ""
    across = f'x="{_percent(x)}" width="{_percent(width)}"'
    return (
        f'<rect class="{kind}" {across} y="{y:.1f}" height="{height:.1f}"{rounded}>'
        f"<title>{escape(label)}</title></rect>"
    )


def _nice(size: float) -> int:
    """Round up to 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(max(size, 1)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= size))


def _ticks(end: float, about: int) -> list[int]:
    """Tick positions: about this many round numbers up to the end, without 0."""
    step = _nice(end / about)
    return list(range(step, int(end) + 1, step))
