"""A comparison as one HTML file: nothing in it is fetched or run, and every text is escaped."""

from __future__ import annotations

from html import escape

from glassformer.tasks.generate.compare import Comparison, Example, SystemScores
from glassformer.tasks.metrics.intervals import Interval

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1c2024, #e6e8ea); --dim: light-dark(#5c6670, #98a2ac);
  --page: light-dark(#ffffff, #14171a); --card: light-dark(#f5f6f8, #1d2125); --line: light-dark(#d9dde2, #343a41);
  --mark: light-dark(#0b6bcb, #6cb2ff); --good: light-dark(#0a7a3d, #5fd08f); --bad: light-dark(#b3261e, #ff8a80); }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 84rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.125rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: .8125rem; margin: 0 0 .375rem; color: var(--dim); font-weight: 600; overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; } .dim { color: var(--dim); font-size: .875rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.25rem 0 .75rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { text-align: left; padding: .5rem 1.25rem .5rem 0; vertical-align: top; border-top: 1px solid var(--line);
  white-space: nowrap; }
thead th { border: 0; color: var(--dim); font-weight: 600; font-size: .8125rem; }
tbody th { font-weight: 600; min-width: 8rem; max-width: 18rem; white-space: normal; overflow-wrap: anywhere; }
td > b { font-size: 1.0625rem; } .by { color: var(--dim); font-size: .8125rem; display: block; }
.more { color: var(--good); } .less { color: var(--bad); }
.track { position: relative; display: block; width: 9rem; height: .5rem; margin: .25rem 0; border-radius: .25rem;
  background: var(--line); }
.track i { position: absolute; top: 0; bottom: 0; border-radius: .25rem; background: var(--mark); opacity: .45; }
.track u { position: absolute; top: -.125rem; bottom: -.125rem; width: .1875rem; margin-left: -.09375rem;
  border-radius: .125rem; background: var(--mark); }
article { margin: 1rem 0 2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); gap: .75rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem .875rem; }
.card.reference { border-color: var(--mark); }
.text { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; overflow: auto; }
details { margin: 0 0 .75rem; } summary { cursor: pointer; color: var(--mark); font-size: .875rem; }
"""


def page(comparison: Comparison) -> str:
    """The whole page."""
    several = len(comparison.systems) > 1
    first = comparison.systems[0].name
    notes = [
        f"{comparison.rows:,} rows" + (", those judged before Ctrl-C." if comparison.interrupted else "."),
        "A bar is the interval in which the figure would lie for 95 % of samples of such rows; the mark is the figure.",
        f"Below it stands the difference to {first} on the same rows, in colour where its interval leaves out zero."
        if several
        else "",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(_title(comparison))}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(_title(comparison))}</h1>"
        + "".join(f'<p class="dim">{escape(note)}</p>' for note in notes if note)
        + _table(comparison)
        + "".join(f'<p class="dim">{escape(method)}</p>' for method in comparison.methods)
        + ("<h2>What they wrote</h2>" if comparison.examples else "")
        + "".join(map(_example, comparison.examples))
        + "</main></body></html>\n"
    )


def _title(comparison: Comparison) -> str:
    return f"{comparison.task.capitalize()}: {', '.join(system.name for system in comparison.systems)}"


def _table(comparison: Comparison) -> str:
    names = [name.removesuffix(" f") for name in comparison.shown]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("", *names, "words", "seconds a row"))
    ends = {
        name: max(one.figures[name].high or one.figures[name].value for one in comparison.systems)
        for name in comparison.shown
    }
    body = "".join(
        f'<tr><th scope="row">{escape(one.name)}</th>'
        + "".join(_cell(one, name, digits, ends[name]) for name, digits in comparison.shown.items())
        + f"<td>{one.words:.1f}</td><td>{one.seconds:.2g}</td></tr>"
        for one in comparison.systems
    )
    last = f'<tr><th scope="row">references</th>{"<td></td>" * len(names)}<td>{comparison.words:.1f}</td><td></td></tr>'
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="figures"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}{last}</tbody></table></div>"
    )


def _cell(system: SystemScores, name: str, digits: int, end: float) -> str:
    score = system.figures[name]
    value, _, interval = score.written(digits).partition(" ")
    difference = system.differences.get(name)
    return (
        f'<td><b>{value}</b> <span class="dim">{interval}</span>{_track(score, end)}'
        + ("" if difference is None else f'<span class="by {_side(difference)}">')
        + ("" if difference is None else f"{difference.written(digits, signed=True)}</span>")
        + "</td>"
    )


def _track(score: Interval, end: float) -> str:
    """The interval as a bar between 0 and the end of the furthest one."""
    low, high = (score.value if x is None else x for x in (score.low, score.high))
    left, mark, right = (100 * x / end if end else 0.0 for x in (low, score.value, high))
    return (
        f'<span class="track"><i style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        f'<u style="left:{mark:.2f}%"></u></span>'
    )


def _side(difference: Interval) -> str:
    return ("more" if difference.value > 0 else "less") if difference.leaves_out_zero else ""


def _example(example: Example) -> str:
    cards = [("reference", text, " reference") for text in example.references]
    cards += [(name, text, "") for name, text in example.outputs.items()]
    return (
        f"<article><details><summary>line {example.line}: the text, {len(example.text.split()):,} words</summary>"
        f'<div class="card"><div class="text" dir="auto" tabindex="0">{escape(example.text)}</div></div></details>'
        '<div class="cards">'
        + "".join(
            f'<section class="card{kind}"><h3>{escape(name)}</h3>'
            f'<div class="text" dir="auto">{escape(text) or "(nothing)"}</div></section>'
            for name, text, kind in cards
        )
        + "</div></article>"
    )
