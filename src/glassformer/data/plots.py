"""Bars, histograms and boxes as SVG that stands in a page: nothing is fetched, colours are the page's own.

Series take the classes `s0`, `s1`, … and marks `axis`, `grid`, `name`; the page says how they look, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

WIDTH = 720
LABEL = 150  # room for names on the left
RIGHT = 96  # and for numbers on the right


def bars(values: Mapping[str, Sequence[int]], totals: Sequence[int], series: Sequence[str]) -> str:
    """Rows a class: for each a bar in each file, as long as its share of that file.

    Args: values: class → its rows in each file · totals: rows of each file · series: their names
    """
    shares = {
        name: [n / max(t, 1) for n, t in zip(counts, totals, strict=True)] for name, counts in values.items()
    }
    most = max((share for each in shares.values() for share in each), default=1) or 1
    thick, gap = (16, 8) if len(series) == 1 else (13, 10)
    each = thick * len(series) + gap
    drawn = []
    for row, (name, counts) in enumerate(values.items()):
        top = row * each + gap / 2
        drawn.append(_text(LABEL - 8, top + (each - gap) / 2, _cut(name, 22), "name end", full=name))
        for number, count in enumerate(counts):
            share = shares[name][number]
            width = max(share / most * (WIDTH - LABEL - RIGHT), 1 if count else 0)
            y = top + number * thick
            said = f"{series[number]}: {name}, {count:,} rows, {share:.1%}"
            drawn.append(
                f'<rect class="s{number}" x="{LABEL}" y="{y:.1f}" width="{width:.1f}" height="{thick - 2}" rx="2">'
                f"<title>{escape(said)}</title></rect>"
            )
            drawn.append(_text(LABEL + width + 6, y + thick / 2 - 1, f"{count:,} · {share:.1%}", "value"))
    return _svg(len(values) * each, drawn, f"rows a class in {', '.join(series)}")


def scale(lengths: Sequence[np.ndarray]) -> tuple[int, int]:
    """The width of a bar, and how many: one for all histograms of a page, so that they compare.

    Where the longest 0.5% are far off, they are said and not drawn.
    """
    most = max((int(values.max(initial=1)) for values in lengths), default=1)
    usual = max((int(np.quantile(values, 0.995)) for values in lengths if len(values)), default=1)
    end = most if most <= 1.5 * usual else usual
    step = _nice(end / 50)
    return step, end // step + 1


def histogram(
    values: np.ndarray, unit: str, number: int, step: int, count: int, limit: int | None = None
) -> str:
    """How many texts have which length, in `count` bars of `step` lengths each."""
    found = np.bincount(np.minimum(values // step, count), minlength=count + 1)
    beyond, found, most = int(found[count]), found[:count], int(values.max(initial=0))
    high, height, left = int(found.max(initial=1)) or 1, 150, 44
    wide = (WIDTH - left - 12) / count
    drawn = [_line(left, height, WIDTH - 12, height, "axis")]
    for mark in _marks(high, 5):
        y = height - mark / high * (height - 12)
        drawn += [_line(left, y, WIDTH - 12, y, "grid"), _text(left - 6, y, f"{mark:,}", "value end")]
    for place, texts in enumerate(map(int, found)):
        tall = texts / high * (height - 12)
        first, last = place * step, place * step + step - 1
        said = f"{first:,}" if step == 1 else f"{first:,} to {last:,}"
        drawn.append(
            f'<rect class="s{number}" x="{left + place * wide + 0.5:.1f}" y="{height - tall:.1f}" '
            f'width="{max(wide - 1, 0.5):.1f}" height="{tall:.1f}"><title>{said} {unit}: {texts:,} texts</title></rect>'
        )
    for mark in [0, *_marks(count * step, 10)]:
        drawn.append(_text(left + mark / step * wide, height + 14, f"{mark:,}", "value middle"))
    if limit is not None and limit < count * step:
        x = left + (limit + 1) / step * wide
        drawn += [_line(x, 4, x, height, "limit"), _text(x + 5, 10, f"limit {limit:,}", "value")]
    if beyond:
        more = f"{beyond:,} longer, up to {most:,}"
        drawn.append(_text(WIDTH - 14, height - 10, more, "value end"))
    return _svg(height + 24, drawn, f"lengths of texts in {unit}")


def boxes(values: Mapping[str, np.ndarray], unit: str) -> str:
    """Lengths by class: the middle half of the texts as a box, a line at the median, whiskers from 5% to 95%."""
    shown = {name: np.quantile(lengths, [0.05, 0.25, 0.5, 0.75, 0.95]) for name, lengths in values.items()}
    most = max((float(five[-1]) for five in shown.values()), default=1) or 1
    each, right = 24, WIDTH - 24
    height = len(shown) * each
    marks = [0, *_marks(most, 10)]

    def place(length: float) -> float:
        return LABEL + length / most * (right - LABEL)

    drawn = [_line(place(mark), 0, place(mark), height, "grid") for mark in marks]
    for row, (name, five) in enumerate(shown.items()):
        y = row * each + each / 2
        low, first, middle, third, high = map(place, five)
        said = (
            f"{name}: half of the texts have {five[1]:.0f} to {five[3]:.0f} {unit}, the median {five[2]:.0f}"
        )
        drawn += [
            _text(LABEL - 8, y, _cut(name, 22), "name end", full=name),
            _line(low, y, first, y, "axis"),
            _line(third, y, high, y, "axis"),
            f'<rect class="box" x="{first:.1f}" y="{y - 6:.1f}" width="{max(third - first, 1):.1f}" height="12" rx="2">'
            f"<title>{escape(said)}</title></rect>",
            _line(middle, y - 6, middle, y + 6, "median"),
        ]
    drawn += [_text(place(mark), height + 12, f"{mark:,.0f}", "value middle") for mark in marks]
    return _svg(height + 22, drawn, f"lengths by class in {unit}")


def _svg(height: float, drawn: Sequence[str], said: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(said)}">{"".join(drawn)}</svg>'


def _text(x: float, y: float, text: str, kind: str, full: str | None = None) -> str:
    title = f"<title>{escape(full)}</title>" if full is not None and full != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" dy=".35em">{escape(text)}{title}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _nice(size: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(max(size, 1)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= size))


def _marks(end: float, about: int) -> list[int]:
    """About so many round numbers up to the end, 0 left out."""
    step = _nice(end / about)
    return list(range(step, int(end) + 1, step))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
