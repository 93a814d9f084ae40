"""Heat maps as pictures (SVG), without a browser: what a notebook is saved with, and every reader of notebooks shows.

GitHub leaves out the colours of a table in a notebook, and shows a picture.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape

from glassformer.reports.drawing import NUMBER, length_of, matrix, mixed

CELL, WIDE = 18, 46
"""Pixels of a cell without its number, and at least with it."""
NUMBERED = 12
"""Columns of a picture at most whose cells have their numbers."""
LONGEST = 16
"""Letters of a name at most."""
LEVELS = 20
"""Steps of a colour: the cells of a step are one path, so that a picture of a thousand cells has some kilobytes."""
Colour = tuple[int, int, int]


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    shades: Sequence[Sequence[float]],
    numbers: Sequence[Sequence[str]],
    colours: tuple[Colour, Colour],
) -> str:
    """A matrix as an SVG: a square a cell, crossed out where it is NaN; with its numbers where there is room.

    Args:
        rows, columns: their names
        shades: from -1 to 1. [R][C]
        numbers: the texts of the cells. [R][C]
        colours: of cells below and above zero
    """

    def fill(shade: float) -> str | None:
        if shade != shade:  # NaN, which its number says too
            return "" if numbered else None
        level = round(min(1.0, abs(shade)) * LEVELS)
        return mixed(colours[shade > 0], level / LEVELS) if level else ""

    numbered = len(columns) <= NUMBERED
    texts = [[_cut(text) for text in row] for row in numbers] if numbered else None
    wide = max((math.ceil(length_of(text, NUMBER)) + 6 for row in texts for text in row), default=0) if texts else 0
    return matrix(
        [_cut(name) for name in rows],
        [_cut(name) for name in columns],
        [[fill(shade) for shade in row] for row in shades],
        texts,
        cell=(max(WIDE, wide) if numbered else CELL, CELL),
    ).svg()


def image(svg: str, alt: str) -> str:
    """A picture as an HTML element that needs no file."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def picture_page(title: str, body: str) -> str:
    """A page of pictures and tables without a program.

    Args:
        title: plain text
        body: HTML
    """
    style = "<style>body{font-family:system-ui,sans-serif;margin:2em} img{max-width:100%}</style>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    return f"{head}{style}<body>{body}</body></html>\n"


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
