"""Attention weights as pictures: lines from token to token, and every head of every layer as a small map.

    lines(tokens, tokens, {"head 3": weights})          Drawing
    heads([[weights of a head, …] of a layer, …])       Drawing

Each map is scaled to its own largest weight; of a long text a pixel is the largest of its cells.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from glassformer.reports.drawing import Drawing, blue, length_of
from glassformer.reports.table import percent

Colour = tuple[int, int, int]
COLOURS = ("#0b6b83", "#c2410c", "#6d3fc0", "#2f7d1f", "#b01e68", "#8a6400", "#1d55c4", "#5b5f66")
INK, PALE, PAPER = "#0f1c2b", "#5a6b82", "#ffffff"
NIGHT_INK, NIGHT, LIGHT = "#e6edf5", (16, 22, 30), (158, 208, 255)
"""On a dark page: a text, the paper, and the largest weight."""
FAINT = 0.02
"""A share below which a line is left out."""
ROW, GAP, TOKEN, LEGEND = 27, 300, 15, 66
LEAST_GAP, MOST_ROW, LARGEST_TEXT = 120, 64, 1.8
"""In a drawing that fills a box: pixels between columns at least, between tokens at most; the largest scale."""
PIXELS = 32
"""Of a small map, along each side at most."""
ROOM, SMALLEST, LARGEST = 880, 26, 96
"""Pixels for all heads of a layer side by side, and for one of them."""


def lines(
    left: Sequence[str],
    right: Sequence[str],
    shares: Mapping[str, Sequence[Sequence[float]]],
    *,
    one: int | None = None,
    pale: tuple[Collection[int], Collection[int]] = ((), ()),
    strong: tuple[int | None, int | None] = (None, None),
    named: bool = True,
    link: bool = False,
    least: float = 0,
    room: tuple[float, float] = (48, 46),
    box: tuple[float, float] | None = None,
) -> Drawing:
    """Tokens that attend on the left, those attended to on the right, a line for each share, a colour for each head.

    Args:
        shares: of each head by its name: of each token on the left. [T][S]
        one: the token alone whose lines are drawn; None = all
        pale: tokens in grey, on the left and on the right
        strong: the token that is bold on each side
        link: the line between the two bold tokens stands out, the others are pale
        named: "from" and "to" stand above the tokens, and the names of the heads below
        least: the smallest width
        room: that is left free above and below the tokens
        box: width and height of what the drawing is to fill; None = it is as large as its tokens need
    """
    sides = [[name or " " for name in names] for names in (left, right)]
    columns = [max((length_of(name, TOKEN) for name in names), default=0) + 12 for names in sides]
    above, below = room
    row, gap = (ROW, GAP) if box is None else _apart(box, sum(columns) + 48, max(len(left), len(right)), above + below)
    width = max(sum(columns) + gap + 48, least)
    across = max(1, int((width - 48) / LEGEND))
    below += 20 * ((len(shares) - 1) // across) if named else 0
    drawing = Drawing(round(width), round(above + row * max(len(left), len(right)) + below), PAPER)
    edge = (width - sum(columns) - gap) / 2 + columns[0]
    rows: Sequence[Sequence[float]] = ()
    for lane, rows in enumerate(shares.values()):
        shift = above + row / 2 + 2.0 * (lane - (len(shares) - 1) / 2)
        for i, weights in enumerate(rows):
            for j, share in enumerate(weights):
                if share >= FAINT and one in (None, i):
                    ends, colour = (edge, shift + row * i, edge + gap, shift + row * j), COLOURS[lane % len(COLOURS)]
                    width, opacity = 0.7 + 3.3 * share, 0.1 + 0.9 * share**0.75
                    if link:
                        width, opacity = (4.0, 1.0) if (i, j) == strong else (width / 2, opacity / 3)
                    drawing.curve(*ends, colour, width=width, opacity=opacity)
    for side, (names, x, anchor) in enumerate(zip(sides, (edge - 8, edge + gap + 8), ("end", "start"), strict=True)):
        for i, name in enumerate(names):
            if side and one is not None and len(shares) == 1 and rows[one][i] >= FAINT:
                name += f"  {percent(rows[one][i])}"
            colour = PALE if i in pale[side] else INK
            drawing.text(
                x, above + row * (i + 0.5), name, size=TOKEN, colour=colour, anchor=anchor, strong=i == strong[side]
            )
        if named:
            drawing.text(x, above - 14, "to" if side else "from", colour=PALE, anchor=anchor)
    if named:
        _name_heads(drawing, list(shares), across)
    return drawing


def _name_heads(drawing: Drawing, names: Sequence[str], across: int) -> None:
    """The names of the heads in their colours at the foot of a drawing, so many in a line."""
    for lane, name in enumerate(names):
        line = drawing.height - 18 - 20 * ((len(names) - 1) // across - lane // across)
        drawing.text(24 + LEGEND * (lane % across), line, name, size=13, colour=COLOURS[lane % len(COLOURS)])


def _apart(box: tuple[float, float], wide: float, count: int, high: float) -> tuple[float, float]:
    """How far apart tokens and columns are in a drawing that fills a box: the text as large as fits, then the gaps.

    Args:
        wide, high: what of the width the tokens take, and of the height the room above and below them
        count: tokens in a column
    """
    scale = min(box[0] / (wide + LEAST_GAP), box[1] / (ROW * count + high), LARGEST_TEXT)
    return min((box[1] / scale - high) / count, MOST_ROW), box[0] / scale - wide


def heads(
    layers: Sequence[Sequence[np.ndarray]],
    numbers: tuple[Sequence[int], Sequence[int]] = ((), ()),
    *,
    dark: bool = False,
) -> Drawing:
    """Every head as a small map: a row for each layer, a column for each head.

    Args:
        layers: the weights of each head of each layer, all [T, S]
        numbers: of the layers and of the heads; none = from 0
    """
    most = max(map(len, layers))
    rows, columns = (numbers[0] or range(len(layers))), (numbers[1] or range(most))
    small = [[_pooled(each) for each in layer] for layer in layers]
    down, across = small[0][0].shape
    scale = min(max(round(min(max(ROOM / most, SMALLEST), LARGEST) / max(down, across)), 1), 24)
    gap = max(1, round(6 / scale))
    picture = np.zeros((len(layers) * (down + gap), most * (across + gap)), np.uint8)
    for i, layer in enumerate(small):
        for j, each in enumerate(layer):
            largest = float(np.nanmax(each, initial=0)) or 1.0
            shade = 1 + np.round(254 * np.nan_to_num(each) / largest)
            top, at = i * (down + gap), j * (across + gap)
            picture[top : top + down, at : at + across] = shade
    width, height = picture.shape[1] * scale, picture.shape[0] * scale
    ink, paper = (NIGHT_INK, _hex(NIGHT)) if dark else (PALE, PAPER)
    left, top = 74, 34
    drawing = Drawing(left + width + 8, top + height + 8, paper)
    drawing.image(left, top, width, height, as_address(png(picture, _palette(dark))))
    for i, number in enumerate(rows):
        middle = top + scale * (i * (down + gap) + down / 2)
        drawing.text(left - 8, middle, f"layer {number}", colour=ink, anchor="end")
    for j, number in enumerate(columns):
        name = f"head {number}" if scale * across > 54 else str(number)
        drawing.text(left + scale * (j * (across + gap) + across / 2), top - 12, name, colour=ink, anchor="middle")
    return drawing


def png(pixels: np.ndarray, palette: Sequence[Colour]) -> bytes:
    """A picture as a PNG file. Source: PNG specification, third edition, 2025.

    Args:
        pixels: numbers of the palette. [H, W], uint8
        palette: at most 256 colours
    """
    height, width = pixels.shape
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels]).tobytes()  # filter 0: as it is

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits, a palette
    colours = bytes(part for colour in palette for part in colour)
    parts = chunk(b"IHDR", header) + chunk(b"PLTE", colours) + chunk(b"IDAT", zlib.compress(lines, 9))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")


def as_address(content: bytes) -> str:
    """A PNG as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _palette(dark: bool) -> list[Colour]:
    """The paper, and 255 shades."""
    shades = [i / 254 for i in range(255)]
    if not dark:
        return [(255, 255, 255), *(_rgb(blue(t)) for t in shades)]
    return [NIGHT, *(_between(NIGHT, LIGHT, 0.06 + 0.94 * t) for t in shades)]


def _between(a: Colour, b: Colour, share: float) -> Colour:
    red, green, blue_part = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue_part


def _rgb(colour: str) -> Colour:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)


def _pooled(weights: np.ndarray) -> np.ndarray:
    """The largest weight of each pixel. [≤ 32, ≤ 32]"""
    for axis in (0, 1):
        bin = -(-weights.shape[axis] // PIXELS)
        weights = np.maximum.reduceat(weights, range(0, weights.shape[axis], bin), axis=axis)
    return weights
