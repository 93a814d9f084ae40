"""Confusion matrix of predictions.

        predicted
true    anger  joy  love        a row: the true class · a column: the predicted class
anger     120    9     0        normalise="true": shares of each row, recall on the diagonal
joy         4  310    12        normalise="said": shares of each column, precision on the diagonal
love        1   64    51
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from glassformer.deprecation import former_names
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.errors import label_kind, scored_tokens
from glassformer.files import safe_repr
from glassformer.tasks.predictions import Prediction

Normalise = Literal["true", "said"] | None

MAX_NUMBERED_CLASSES, MAX_NAMED_CLASSES, MAX_TERMINAL_CLASSES = 20, 60, 12
"""Maximum classes with numbers in the cells, with names, and in a terminal; beyond that the most confused pairs."""
MAX_PAIRS = 12
MAX_NAME_LENGTH = 18  # characters of a name in the SVG
SHADES = " ░▒▓█"

STYLE = """<style>
.confusion { --panel: #ffffff; --ink: #0f1c2b; --ink-3: #55657a; --line: #d9e0e8; --hit: #5aa7b8; --miss: #f0955c; }
@media (prefers-color-scheme: dark) {
  .confusion { --panel: #131a22; --ink: #e9eff5; --ink-3: #93a4b6; --line: #293441; --hit: #23667a; --miss: #94491c; } }
.confusion .paper { fill: var(--panel); } .confusion .frame { fill: none; stroke: var(--line); }
.confusion .hit rect { fill: var(--hit); } .confusion .miss rect { fill: var(--miss); }
.confusion text { font: 13px system-ui, sans-serif; fill: var(--ink); } .confusion .dim { fill: var(--ink-3); }
.confusion .cell text, .confusion .middle { text-anchor: middle; } .confusion .end { text-anchor: end; }
</style>"""


@dataclass(frozen=True, repr=False)
class ConfusionMatrix:
    """A confusion matrix.

    names: of the classes · counts: rows are true classes, columns predicted ones. [C, C]
    """

    names: list[str]
    counts: np.ndarray

    def shares(self, normalise: Normalise = None) -> np.ndarray:
        """The counts, normalised by row ("true") or column ("said", the predicted class); 0 for an empty one. [C, C]

        Raises: ConfigError: another value.
        """
        if normalise not in (None, "true", "said"):
            raise ConfigError(
                f"normalise is {safe_repr(normalise)}; it must be 'true' (shares of rows), 'said' (of columns) or None"
            )
        counts = self.counts.astype(np.float64)
        if normalise is None:
            return counts
        totals = counts.sum(1 if normalise == "true" else 0, keepdims=True)
        shares: np.ndarray = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
        return shares

    def pairs(self, top: int = MAX_PAIRS) -> list[tuple[str, str, int, float]]:
        """The most confused pairs: true class, predicted class, count, and its share of the true class."""
        counts = self.counts.copy()
        np.fill_diagonal(counts, 0)
        shares = self.shares("true")
        order = np.argsort(-counts, axis=None, kind="stable")[:top]
        cells = (np.unravel_index(position, counts.shape) for position in order)
        return [
            (self.names[i], self.names[j], int(counts[i, j]), float(shares[i, j]))
            for i, j in cells
            if counts[i, j]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Names and counts for JSON."""
        return {"names": list(self.names), "counts": self.counts.tolist()}

    def svg(self, normalise: Normalise = None, *, styled: bool = True) -> str:
        """The matrix as an SVG, for light and dark pages; `styled`: with its own style sheet, to stand alone.

        Shades are shares of each row (of each column with `normalise="said"`), so that rare classes show too.
        """
        return _matrix_svg(self, normalise, STYLE if styled else "")

    def __str__(self) -> str:
        if len(self.names) > MAX_TERMINAL_CLASSES:
            lines = [f"{len(self.names)} classes; confused most:"]
            lines += [
                f"  {count:5,}  {share:4.0%} of {true} as {predicted}"
                for true, predicted, count, share in self.pairs()
            ]
            return "\n".join(lines)
        shares = self.shares("true")
        names = [_shortened(name) for name in self.names]
        widths = [
            max(len(name), len(f"{column.max():,}") + 2)
            for name, column in zip(names, self.counts.T, strict=True)
        ]
        first = max(len("true \\ predicted"), *map(len, names))
        lines = [
            "true \\ predicted".ljust(first)
            + "".join(f"  {n:>{w}}" for n, w in zip(names, widths, strict=True))
        ]
        for i, name in enumerate(names):
            cells = (
                f"  {SHADES[_shade_index(shares[i, j])]}{count:>{width - 1},}"
                for j, (count, width) in enumerate(zip(self.counts[i].tolist(), widths, strict=True))
            )
            lines.append(name.ljust(first) + "".join(cells))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<div style="max-width: {_cell_width(len(self.names)) * len(self.names) + 240}px">{self.svg()}</div>'


def confusion_matrix(
    records: Sequence[Prediction], names: Sequence[str] | None = None
) -> ConfusionMatrix | None:
    """The confusion matrix of predictions, of tokens where these are tagged; None where rows have no one class.

    Args: names: of all classes, in order; None = those that occur, sorted
    Raises: DataError: a class that `names` lacks.
    """
    kind = label_kind(records)
    if kind == "tags":
        pairs = [(tag, answer) for record in records for _, tag, answer, _ in scored_tokens(record)]
    elif kind == "classes":
        pairs = [(record.label, record.predicted) for record in records]
    else:
        return None
    occurring = {name for pair in pairs for name in pair}
    # as tags are numbered: O first, then type by type
    ordered = list(names or sorted(occurring, key=lambda x: (x != "O", x.partition("-")[2], x)))
    if unknown := sorted(occurring - set(ordered)):
        raise DataError(
            f"the predictions have the class {safe_repr(unknown[0])}, which is none of {', '.join(ordered[:10])}"
        )
    number = {name: i for i, name in enumerate(ordered)}
    counts = np.zeros((len(ordered), len(ordered)), dtype=np.int64)
    np.add.at(
        counts,
        tuple(np.array([(number[a], number[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2).T),
        1,
    )
    return ConfusionMatrix(ordered, counts)


# ---------------------------------------------------------------------------------------------- the picture


def _matrix_svg(matrix: ConfusionMatrix, normalise: Normalise, style: str) -> str:
    count, side = len(matrix.names), _cell_width(len(matrix.names))
    high = side if count > MAX_NUMBERED_CLASSES else min(side, 40)
    numbered, named = count <= MAX_NUMBERED_CLASSES, count <= MAX_NAMED_CLASSES
    names = [_shortened(name) for name in matrix.names]
    longest = max(map(len, names)) * 7.2 if named else 0
    level = numbered and longest <= side - 4  # column names are horizontal, or rotated by 45°
    # beside the names of rows, below those of columns
    left, top = longest + 34, (46 if level else longest * 0.72 + 36) if named else 30
    sums = 46 if numbered else 8
    width, height = (
        left + count * side + sums + (0 if level or not named else longest * 0.5),
        top + count * high + 8,
    )
    shares = matrix.shares(normalise or "true")
    values = matrix.shares(normalise)
    parts = [
        f'<text class="dim middle" x="{left + count * side / 2:.1f}" y="14">predicted</text>',
        f'<text class="dim middle" transform="translate(12 {top + count * high / 2:.1f}) rotate(-90)">true</text>',
    ]
    if named:
        size = "" if high >= 14 else f' font-size="{high * 0.85:.1f}"'
        for i, name in enumerate(names):
            x, y = left + (i + 0.5) * side, top + (i + 0.5) * high + 4.5
            tip = f"<title>{escape(matrix.names[i])}</title>"
            parts.append(f'<text class="end"{size} x="{left - 8:.1f}" y="{y:.1f}">{escape(name)}{tip}</text>')
            attributes = (
                f'x="{x:.1f}" y="{top - 9}" class="middle"'
                if level
                else f'transform="translate({x:.1f} {top - 8:.1f}) rotate(-45)"'
            )
            parts.append(f"<text {attributes}{size}>{escape(name)}{tip}</text>")
    if numbered:
        ends = left + count * side + 10
        parts.append(f'<text class="dim" x="{ends:.1f}" y="{top - 9:.1f}">all</text>' if level else "")
        for i, total in enumerate(matrix.counts.sum(1).tolist()):
            parts.append(
                f'<text class="dim" x="{ends:.1f}" y="{top + (i + 0.5) * high + 4.5:.1f}">{total:,}</text>'
            )
    for i, j in np.ndindex(count, count):
        if not numbered and not matrix.counts[i, j]:
            continue
        x, y = left + j * side, top + i * high
        gap = 1.0 if numbered else 0.0
        number = format_cell(float(values[i, j]), normalise) if numbered and matrix.counts[i, j] else ""
        tooltip = f"true {matrix.names[i]}, predicted {matrix.names[j]}: {matrix.counts[i, j]:,}"
        parts.append(
            f'<g class="cell {"hit" if i == j else "miss"}" data-cell="{i},{j}">'
            f'<rect x="{x + gap:.1f}" y="{y + gap:.1f}" width="{side - 2 * gap:.1f}" height="{high - 2 * gap:.1f}" '
            f'rx="{3 if numbered else 0}" fill-opacity="{opacity(float(shares[i, j])):.3f}"/>'
            + (
                f'<text x="{x + side / 2:.1f}" y="{y + high / 2 + 4.5:.1f}">{escape(number)}</text>'
                if numbered
                else ""
            )
            + f"<title>{escape(tooltip)}</title></g>"
        )
    label = f"Confusion matrix of {count} classes. " + "; ".join(
        f"{n:,} {true} predicted as {predicted}" for true, predicted, n, _ in matrix.pairs(5)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="confusion" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="100%">{style}'
        f'<rect class="paper" width="100%" height="100%"/><rect class="frame" x="{left:.1f}" y="{top:.1f}" '
        f'width="{count * side:.1f}" height="{count * high:.1f}" rx="4"/>'
        f"{''.join(parts)}</svg>"
    )


def _cell_width(count: int) -> float:
    """Width of a cell."""
    return 62.0 if count <= 8 else 46.0 if count <= MAX_NUMBERED_CLASSES else max(720 / count, 1.5)


def opacity(share: float) -> float:
    """Opacity of a share: a few percent are visible, and zero is not."""
    return 0.0 if share <= 0 else 0.07 + 0.93 * share**0.7


def format_cell(value: float, normalise: Normalise) -> str:
    """The number in a cell as a short text."""
    if normalise is None:
        return f"{value:,.0f}" if value < 9_999.5 else f"{value / 1000:.0f}k"
    return f"{100 * value:.0f} %" if value >= 0.005 else "<1 %"


def _shade_index(share: float) -> int:
    return 0 if share <= 0 else 1 + min(int(share * 4), 3)


def _shortened(name: str) -> str:
    flat = "".join(c if c.isprintable() else "·" for c in name)
    return flat if len(flat) <= MAX_NAME_LENGTH else flat[: MAX_NAME_LENGTH - 1] + "…"


__getattr__ = former_names(__name__)
