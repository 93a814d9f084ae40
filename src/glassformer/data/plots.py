"""SVG charts of data reports: bar charts, histograms, box plots; colours come from the page.

Series take the classes `s0`, `s1`, … and marks `axis`, `grid`, `name`; the page says how they look, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

WIDTH = 720
LEFT = 150  # margin for names
RIGHT = 96  # margin for numbers


def bars(values: Mapping[str, Sequence[int]], totals: Sequence[int], series: Sequence[str]) -> str:
    """Bar chart of class frequencies: for each class a bar for each file, as long as its share of that file.

    Args: values: class → its rows in each file · totals: rows of each file · series: their names
    """
    shares = {
        name: [n / max(t, 1) for n, t in zip(counts, totals, strict=True)] for name, counts in values.items()
    }
    largest = max((share for row in shares.values() for share in row), default=1) or 1
    thick, gap = (16, 8) if len(series) == 1 else (13, 10)
    pitch = thick * len(series) + gap
    elements = []
    for row, (name, counts) in enumerate(values.items()):
        top = row * pitch + gap / 2
        elements.append(_text(LEFT - 8, top + (pitch - gap) / 2, _truncate(name, 22), "name end", full=name))
        for number, count in enumerate(counts):
            share = shares[name][number]
            width = max(share / largest * (WIDTH - LEFT - RIGHT), 1 if count else 0)
            y = top + number * thick
            label = f"{series[number]}: {name}, {count:,} rows, {share:.1%}"
            elements.append(
                f'<rect class="s{number}" x="{LEFT}" y="{y:.1f}" width="{width:.1f}" height="{thick - 2}" rx="2">'
                f"<title>{escape(label)}</title></rect>"
            )
            elements.append(_text(LEFT + width + 6, y + thick / 2 - 1, f"{count:,} · {share:.1%}", "value"))
    return _svg(len(values) * pitch, elements, f"rows a class in {', '.join(series)}")


def scale(lengths: Sequence[np.ndarray]) -> tuple[int, int]:
    """Bin width and number of bins, shared by all histograms of a page so that they compare.

    Where the longest 0.5% are far off, they are counted in a note instead.
    """
    largest = max((int(values.max(initial=1)) for values in lengths), default=1)
    usual = max((int(np.quantile(values, 0.995)) for values in lengths if len(values)), default=1)
    end = largest if largest <= 1.5 * usual else usual
    step = _nice(end / 50)
    return step, end // step + 1


def histogram(
    values: np.ndarray, unit: str, number: int, step: int, count: int, limit: int | None = None
) -> str:
    """Histogram of text lengths, in `count` bins of `step` lengths each."""
    counts = np.bincount(np.minimum(values // step, count), minlength=count + 1)
    beyond, counts, largest = int(counts[count]), counts[:count], int(values.max(initial=0))
    high, height, left = int(counts.max(initial=1)) or 1, 150, 44
    wide = (WIDTH - left - 12) / count
    elements = [_line(left, height, WIDTH - 12, height, "axis")]
    for mark in _ticks(high, 5):
        y = height - mark / high * (height - 12)
        elements += [_line(left, y, WIDTH - 12, y, "grid"), _text(left - 6, y, f"{mark:,}", "value end")]
    for bin_index, texts in enumerate(map(int, counts)):
        tall = texts / high * (height - 12)
        first, last = bin_index * step, bin_index * step + step - 1
        label = f"{first:,}" if step == 1 else f"{first:,} to {last:,}"
        elements.append(
            f'<rect class="s{number}" x="{left + bin_index * wide + 0.5:.1f}" y="{height - tall:.1f}" '
            f'width="{max(wide - 1, 0.5):.1f}" height="{tall:.1f}">'
            f"<title>{label} {unit}: {texts:,} texts</title></rect>"
        )
    for mark in [0, *_ticks(count * step, 10)]:
        elements.append(_text(left + mark / step * wide, height + 14, f"{mark:,}", "value middle"))
    if limit is not None and limit < count * step:
        x = left + (limit + 1) / step * wide
        elements += [_line(x, 4, x, height, "limit"), _text(x + 5, 10, f"limit {limit:,}", "value")]
    if beyond:
        more = f"{beyond:,} longer, up to {largest:,}"
        elements.append(_text(WIDTH - 14, height - 10, more, "value end"))
    return _svg(height + 24, elements, f"lengths of texts in {unit}")


def boxes(values: Mapping[str, np.ndarray], unit: str) -> str:
    """Box plot of lengths by class: quartiles as a box, a line at the median, whiskers from 5% to 95%."""
    quantiles = {
        name: np.quantile(lengths, [0.05, 0.25, 0.5, 0.75, 0.95]) for name, lengths in values.items()
    }
    largest = max((float(five[-1]) for five in quantiles.values()), default=1) or 1
    pitch, right = 24, WIDTH - 24
    height = len(quantiles) * pitch
    marks = [0, *_ticks(largest, 10)]

    def x_of(length: float) -> float:
        return LEFT + length / largest * (right - LEFT)

    elements = [_line(x_of(mark), 0, x_of(mark), height, "grid") for mark in marks]
    for row, (name, five) in enumerate(quantiles.items()):
        y = row * pitch + pitch / 2
        low, first, middle, third, high = map(x_of, five)
        label = (
            f"{name}: half of the texts have {five[1]:.0f} to {five[3]:.0f} {unit}, the median {five[2]:.0f}"
        )
        elements += [
            _text(LEFT - 8, y, _truncate(name, 22), "name end", full=name),
            _line(low, y, first, y, "axis"),
            _line(third, y, high, y, "axis"),
            f'<rect class="box" x="{first:.1f}" y="{y - 6:.1f}" width="{max(third - first, 1):.1f}" height="12" rx="2">'
            f"<title>{escape(label)}</title></rect>",
            _line(middle, y - 6, middle, y + 6, "median"),
        ]
    elements += [_text(x_of(mark), height + 12, f"{mark:,.0f}", "value middle") for mark in marks]
    return _svg(height + 22, elements, f"lengths by class in {unit}")


def _svg(height: float, elements: Sequence[str], label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{"".join(elements)}</svg>'


def _text(x: float, y: float, text: str, kind: str, full: str | None = None) -> str:
    title = f"<title>{escape(full)}</title>" if full is not None and full != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" dy=".35em">{escape(text)}{title}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _nice(size: float) -> int:
    """Round up to 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(max(size, 1)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= size))


def _ticks(end: float, about: int) -> list[int]:
    """Tick positions: about so many round numbers up to the end, without 0."""
    step = _nice(end / about)
    return list(range(step, int(end) + 1, step))


def _truncate(text: str, largest: int) -> str:
    return text if len(text) <= largest else f"{text[: largest - 1]}…"
