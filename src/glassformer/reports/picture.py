"""Heat maps as pictures (SVG), without a browser: what a notebook is saved with, and every reader of notebooks shows.

GitHub leaves out the colours of a table in a notebook, and shows a picture.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Sequence
from html import escape

CELL, WIDE = 18, 46
"""Pixels of a cell without its number and with it."""
NUMBERED = 12
"""Columns of a picture at most whose cells have their numbers."""
LETTER, LONGEST = 7.2, 16
"""Pixels of a letter, and the letters of a name at most."""
LEVELS = 20
"""Steps of a colour: the cells of a step are one path, so that a picture of a thousand cells has some kilobytes."""
FAINT = 0.6
"""Opacity of the largest colour behind a number, which stays legible."""
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
    numbered = len(columns) <= NUMBERED
    wide = WIDE if numbered else CELL
    upright = max(map(len, columns), default=0) * LETTER > wide - 4
    names = [_cut(name) for name in columns]
    left = 8 + LETTER * max(map(len, map(_cut, rows)), default=0)
    top = 8 + (LETTER * max(map(len, names), default=0) if upright else CELL)
    width, height = left + wide * len(columns) + 8, top + CELL * len(rows) + 8
    paths, crosses, texts = defaultdict[tuple[Colour, int], list[str]](list), list[str](), list[str]()
    for i, (name, row) in enumerate(zip(rows, shades, strict=True)):
        y = top + CELL * i
        texts.append(_text(left - 6, y + 13, _cut(name), "end"))
        for j, shade in enumerate(row):
            x = left + wide * j
            if shade != shade and not numbered:  # NaN, which its number says too
                crosses.append(f"M{x + 5:g} {y + 5:g}l8 8m0 -8l-8 8")
            elif shade == shade and (level := round(min(1.0, abs(shade)) * LEVELS)):
                paths[colours[shade > 0], level].append(f"M{x:g} {y:g}h{wide}v{CELL}h-{wide}z")
            if numbered:
                texts.append(_text(x + wide / 2, y + 13, _cut(numbers[i][j]), "middle"))
    for j, name in enumerate(names):
        x = left + wide * (j + 0.5)
        turn = f' transform="rotate(-90 {x + 4:g} {top - 6:g})"' if upright else ""
        texts.append(_text(x + 4 if upright else x, top - 6, name, "start" if upright else "middle", turn))
    strongest = FAINT if numbered else 1.0
    filled = "".join(
        f'<path fill="rgb{colour}" fill-opacity="{level / LEVELS * strongest:.2f}" d="{"".join(cells)}"/>'
        for (colour, level), cells in sorted(paths.items())
    )
    crossed = f'<path stroke="#999" d="{"".join(crosses)}"/>' if crosses else ""
    across, down = wide * len(columns), CELL * len(rows)
    frame = f'<path fill="none" stroke="#ccc" d="M{left:g} {top:g}h{across}v{down}h-{across}z"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{filled}{crossed}{frame}'
        f'<g font-family="ui-monospace,monospace" font-size="12" fill="#222">{"".join(texts)}</g></svg>'
    )


def image(svg: str, alt: str) -> str:
    """A picture as an HTML element that needs no file."""
    data = base64.b64encode(svg.encode("utf-8", "backslashreplace")).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
