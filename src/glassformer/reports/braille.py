"""Line charts in characters: lines drawn with the dots of Braille patterns, 2 × 4 to a character."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The bit of the dot in each row and column of a character. Source: Unicode, block 2800, "Braille Patterns".
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
Cell = tuple[str, int | None]


def dotted(
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    width: int,
    height: int,
) -> list[list[Cell]]:
    """Draw lines on a canvas of Braille characters.

    Args:
        lines: each its x and y values, x ascending. [N], [N]
        x_range, y_range: the x and y values at the edges of the canvas
        width, height: in characters
    Returns: rows of characters from the top, each with the index of the last line that goes through it, or None.
    """
    bits = [[0] * width for _ in range(height)]
    owner: list[list[int | None]] = [[None] * width for _ in range(height)]
    xs = np.linspace(*x_range, 2 * width)
    for number, (steps, values) in enumerate(lines):
        finite = np.isfinite(values)
        if not finite.any():
            continue
        first, last = steps[finite][0], steps[finite][-1]
        interpolated = np.interp(xs, steps[finite], values[finite])
        heights = (interpolated - y_range[0]) / (y_range[1] - y_range[0])
        rows = np.clip(np.round((1 - heights) * (4 * height - 1)), 0, 4 * height - 1).astype(int)
        columns = np.flatnonzero((xs >= first) & (xs <= last))
        before = None
        for column in columns:
            row = int(rows[column])
            start, end = sorted((row, row if before is None else before))
            # All dots between two columns are set, so that a steep line has no gaps.
            for dot in range(start, end + 1):
                bits[dot // 4][column // 2] |= BITS[dot % 4][column % 2]
                owner[dot // 4][column // 2] = number
            before = row
    return [
        [(chr(0x2800 + bit) if bit else " ", which) for bit, which in zip(row, own, strict=True)]
        for row, own in zip(bits, owner, strict=True)
    ]
