"""Lines in a terminal, drawn in the dots of Braille: eight to a character, two across and four down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# The bit of the dot in each row and column of a character. Source: Unicode, block 2800, "Braille Patterns".
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
Cell = tuple[str, int | None]


def dotted(
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    across: tuple[float, float],
    up: tuple[float, float],
    width: int,
    height: int,
) -> list[list[Cell]]:
    """Lines in a field of characters.

    Args:
        lines: each its places and its values, places ascending. [N], [N]
        across, up: which places and values the edges of the field stand for · width, height: in characters
    Returns: rows of characters from the top, each with the number of the last line that goes through it, or None.
    """
    import numpy as np

    bits = [[0] * width for _ in range(height)]
    owner: list[list[int | None]] = [[None] * width for _ in range(height)]
    places = np.linspace(*across, 2 * width)
    for number, (steps, values) in enumerate(lines):
        there = np.isfinite(values)
        if not there.any():
            continue
        first, last = steps[there][0], steps[there][-1]
        heights = (np.interp(places, steps[there], values[there]) - up[0]) / (up[1] - up[0])
        rows = np.clip(np.round((1 - heights) * (4 * height - 1)), 0, 4 * height - 1).astype(int)
        columns = np.flatnonzero((places >= first) & (places <= last))
        before = None
        for column in columns:
            row = int(rows[column])
            start, end = sorted((row, row if before is None else before))
            for dot in range(
                start, end + 1
            ):  # all that lie between two columns, so that a steep line has no gaps
                bits[dot // 4][column // 2] |= BITS[dot % 4][column % 2]
                owner[dot // 4][column // 2] = number
            before = row
    return [
        [(chr(0x2800 + bit) if bit else " ", which) for bit, which in zip(row, own, strict=True)]
        for row, own in zip(bits, owner, strict=True)
    ]
