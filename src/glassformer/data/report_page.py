"""Data report as a standalone HTML page: plots and tables, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TypeVar

from glassformer.data.findings import Finding
from glassformer.data.plots import bars, boxes, histogram, scale
from glassformer.data.report import DataReport

T = TypeVar("T")

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1c2024, #e6e8ea); --dim: light-dark(#59636d, #9aa4ae);
  --page: light-dark(#ffffff, #14171a); --card: light-dark(#f5f6f8, #1d2125); --line: light-dark(#dfe3e8, #30363d);
  --s0: light-dark(#0b6bcb, #6cb2ff); --s1: light-dark(#c2570c, #ffa861); --s2: light-dark(#14805e, #58d3a4);
  --warn: light-dark(#9a6200, #f0b849); --good: light-dark(#0a7a3d, #5fd08f); }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; margin: 2.75rem 0 .5rem; }
h3 { font-size: .875rem; margin: 1.25rem 0 .25rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; } .dim { color: var(--dim); font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tile { background: var(--card); border-radius: .5rem; padding: .75rem .875rem; }
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
.scroll { overflow-x: auto; } svg { display: block; width: 100%; min-width: 34rem; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .value { fill: var(--dim); font-size: 11px; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .axis { stroke: var(--dim); } svg .grid { stroke: var(--line); }
svg .limit { stroke: var(--warn); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg .box { fill: var(--s0); fill-opacity: .35; stroke: var(--s0); }
svg .median { stroke: var(--s0); stroke-width: 2.5; }
.s0 { fill: var(--s0); background: var(--s0); } .s1 { fill: var(--s1); background: var(--s1); }
.s2 { fill: var(--s2); background: var(--s2); }
table { border-collapse: collapse; margin-top: 1rem; font-size: .875rem; min-width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .375rem 0 .375rem 1.25rem; border-top: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child, .words th, .words td { text-align: left; padding-left: 0; padding-right: 1.25rem;
  white-space: normal; }
thead th { border: 0; color: var(--dim); font-weight: 600; } tbody th { font-weight: 500; }
"""

MAX_SERIES = 3
"""Maximum number of files in a bar chart, each with its colour."""

MAX_CLASSES = 30
"""Maximum number of classes shown at once; the others are folded away."""

MAX_LOCATIONS = 50
"""Maximum number of locations shown for a finding; JSON has more."""


def report_html(report: DataReport) -> str:
    """Render the HTML page of a report."""
    names = [file.name for file in report.files]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Data: {escape(', '.join(names))}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(', '.join(names))}</h1>"
        f'<p class="dim">Texts from the column “{escape(report.text)}”'
        + (f", labels from “{escape(report.label)}”" if report.label else "")
        + ".</p>"
        + _tiles(report)
        + "<h2>To look at</h2>"
        + ("".join(map(_finding, report.findings)) or '<p class="plain good">Nothing odd was found.</p>')
        + (_balance(report) if report.classes else "")
        + _lengths(report)
        + (_by_class(report) if report.classes else "")
        + _columns(report)
        + "</main></body></html>\n"
    )


def _tiles(report: DataReport) -> str:
    tiles = [(f"{file.rows:,}", f"rows in {file.name}") for file in report.files]
    if report.classes:
        tiles.append((f"{len(report.classes):,}", "classes" if len(report.classes) > 1 else "class"))
    lengths = report.files[0].lengths[report.unit].quantiles()
    tiles.append((f"{lengths['50%']:,.0f}", f"{report.unit} in the median text"))
    tiles.append((f"{lengths['most']:,.0f}", f"{report.unit} in the longest"))
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{number}</b><span>{escape(label)}</span></div>' for number, label in tiles
        )
        + "</div>"
    )


def _finding(finding: Finding) -> str:
    if not finding.locations:
        return f'<p class="plain">{escape(finding.message)}</p>'
    locations = finding.locations[:MAX_LOCATIONS]
    more = finding.count - len(locations)
    return (
        f"<details><summary>{escape(finding.message)}</summary><ul>"
        + "".join(f'<li dir="auto">{escape(location)}</li>' for location in locations)
        + (f"<li>… and {more:,} more</li>" if more > 0 else "")
        + "</ul></details>"
    )


def _balance(report: DataReport) -> str:
    files = report.files[:MAX_SERIES]
    values = {name: [file.classes.get(name, 0) for file in files] for name in report.classes}
    names = [file.name for file in files]
    key = "".join(f'<span><i class="s{i}"></i>{escape(name)}</span>' for i, name in enumerate(names))
    note = (
        f'<p class="dim">The first {MAX_SERIES} files are shown.</p>'
        if len(report.files) > MAX_SERIES
        else ""
    )
    rows = [file.rows for file in files]
    chart = _folded(values, "rows a class", lambda few: bars(few, rows, names))
    return (
        "<h2>Rows a class</h2>" + (f'<div class="key">{key}</div>' if len(files) > 1 else "") + chart + note
    )


def _lengths(report: DataReport) -> str:
    step, count = scale([file.lengths[report.unit].values for file in report.files])
    plots = ""
    for number, file in enumerate(report.files):
        lengths = file.lengths[report.unit]
        plot = histogram(lengths.values, report.unit, number % MAX_SERIES, step, count, lengths.limit)
        plots += f"<h3>{escape(file.name)}</h3>" + _scrolled(f"lengths in {file.name}", plot)
    rows = {
        f"{file.name}, {unit}": lengths.quantiles()
        for file in report.files
        for unit, lengths in file.lengths.items()
    }
    cells = [
        [name, *(f"{value:,.1f}" if kind == "mean" else f"{value:,.0f}" for kind, value in quantiles.items())]
        for name, quantiles in rows.items()
    ]
    return (
        f"<h2>Lengths in {report.unit}</h2>{plots}"
        + _table("lengths", ["file, unit", *next(iter(rows.values()))], cells)
        + '<p class="dim">A percentage heads the length that this share of the texts does not exceed.</p>'
    )


def _by_class(report: DataReport) -> str:
    values = report.files[0].by_class(report.unit)
    if not values:
        return ""
    return (
        f"<h2>Lengths by class in {report.unit}</h2>"
        f'<p class="dim">{escape(report.files[0].name)}. A box holds the middle half of the texts, its line is the '
        "median; whiskers reach from 5% to 95%.</p>"
        + _folded(values, "lengths by class", lambda few: boxes(few, report.unit))
    )


def _columns(report: DataReport) -> str:
    rows = [
        [file.name, name, kind + (f", none in {file.gaps[name]:,} rows" if name in file.gaps else "")]
        for file in report.files
        for name, kind in file.columns.items()
    ]
    return "<h2>Columns</h2>" + _table("columns", ["file", "column", "holds"], rows, "words")


def _table(label: str, head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "numbers") -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return _scrolled(
        label, f'<table class="{kind}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    )


def _folded(values: Mapping[str, T], label: str, plot: Callable[[Mapping[str, T]], str]) -> str:
    """A plot of the first classes, and a folded one of all others."""
    names = list(values)
    first = _scrolled(label, plot({name: values[name] for name in names[:MAX_CLASSES]}))
    if len(names) <= MAX_CLASSES:
        return first
    others = _scrolled(f"{label}, the others", plot({name: values[name] for name in names[MAX_CLASSES:]}))
    more = f"{len(names) - MAX_CLASSES:,} more classes"
    return f'{first}<details class="quiet"><summary>{more}</summary>{others}</details>'


def _scrolled(label: str, content: str) -> str:
    """A horizontally scrollable region, reachable by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{content}</div>'
