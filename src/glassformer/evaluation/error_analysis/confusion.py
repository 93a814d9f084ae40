"""Confusion matrix of predictions.

        predicted
true    anger  joy  love        a row: the true class · a column: the predicted class
anger     120    9     0        normalise="true": shares of each row, recall on the diagonal
joy         4  310    12        normalise="predicted": shares of each column, precision on the diagonal
love        1   64    51
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.errors import label_kind, scored_tokens
from glassformer.files import safe_repr
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent
from glassformer.tasks.metrics.classes import confusion_matrix as count_pairs
from glassformer.tasks.types import Prediction

Normalise = Literal["true", "predicted"] | None

MAX_NUMBERED_CLASSES, MAX_NAMED_CLASSES, MAX_TERMINAL_CLASSES = 20, 60, 12
"""Maximum classes with numbers in the cells, with names, and in a terminal; beyond that the most confused pairs."""
MAX_PAIRS = 12
"""Rows of the table of confused pairs: a screen without scrolling."""
MAX_NAME_LENGTH = 18  # characters of a name in the SVG

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
class ConfusionMatrix(Report, kind="confusion-matrix"):
    """A confusion matrix.

    names: of the classes
    counts: rows are true classes, columns predicted ones. [C, C]
    """

    names: list[str]
    counts: np.ndarray

    def shares(self, normalise: Normalise = None) -> np.ndarray:
        """The counts, normalised by row ("true") or column ("predicted"); 0 for an empty one. [C, C]

        Raises: ConfigError: another value.
        """
        if normalise not in (None, "true", "predicted"):
            raise ConfigError(
                f"normalise is {safe_repr(normalise)}; it must be 'true' (shares of rows), 'predicted' (of columns) "
                "or None"
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
            (self.names[i], self.names[j], int(counts[i, j]), float(shares[i, j])) for i, j in cells if counts[i, j]
        ]

    def svg(self, normalise: Normalise = None, *, styled: bool = True) -> str:
        """The matrix as an SVG, for light and dark pages; `styled`: with its own style sheet, as a file of its own.

        Shades are shares of each row (of each column with `normalise="predicted"`), so that rare classes show too.
        """
        return _MatrixSvg(self, normalise).svg(STYLE if styled else "")

    def tables(self) -> list[Table]:
        """The matrix, shaded by shares of the true class; of many classes the pairs that are confused most."""
        if len(self.names) > MAX_TERMINAL_CLASSES:
            rows = [[true, predicted, f"{n:,}", f"{share:.0%}"] for true, predicted, n, share in self.pairs()]
            caption = f"Confusion matrix of {len(self.names)} classes: confused most"
            return [Table(["true", "predicted", "count", "of the true class"], rows, caption, left=2)]
        shares = self.shares("true")
        signs = 2 * np.eye(len(self.names)) - 1  # right answers in one colour, confusions in the other
        counts = zip(self.names, self.counts.tolist(), strict=True)
        rows = [[name, *(f"{n:,}" for n in row)] for name, row in counts]
        return [Table(["true \\ predicted", *self.names], rows, "Confusion matrix", shades=(shares * signs).tolist())]


def confusion_matrix(records: Sequence[Prediction], names: Sequence[str] | None = None) -> ConfusionMatrix | None:
    """The confusion matrix of predictions, of tokens where these are tagged; None where rows have no one class.

    Args:
        names: of all classes, in order; None = those that occur, sorted
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
    true, predicted = np.array([(number[a], number[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2).T
    return ConfusionMatrix(ordered, np.array(count_pairs(true, predicted, len(ordered))))


# ---------------------------------------------------------------------------------------------- the picture


class _MatrixSvg:
    """The picture of a matrix: names of predicted classes above the cells, of true ones on their left."""

    def __init__(self, matrix: ConfusionMatrix, normalise: Normalise) -> None:
        self.matrix, self.normalise = matrix, normalise
        self.count = count = len(matrix.names)
        self.numbered, self.named = count <= MAX_NUMBERED_CLASSES, count <= MAX_NAMED_CLASSES
        self.side = _cell_width(count)
        self.high = min(self.side, 40) if self.numbered else self.side
        self.names = [_shortened(name) for name in matrix.names]
        self.longest = max(map(len, self.names)) * 7.2 if self.named else 0  # 7.2: a character, about
        # names of columns are horizontal, or rotated by 45°
        self.level = self.numbered and self.longest <= self.side - 4
        self.left = self.longest + 34
        self.top = (46 if self.level else self.longest * 0.72 + 36) if self.named else 30
        self.right, self.bottom = self.left + count * self.side, self.top + count * self.high

    def svg(self, style: str) -> str:
        # the last name, rotated, sticks out on the right
        rotated = self.longest * 0.5 if self.named and not self.level else 0
        width, height = self.right + (46 if self.numbered else 8) + rotated, self.bottom + 8
        label = f"Confusion matrix of {self.count} classes. " + "; ".join(
            f"{n:,} {true} predicted as {predicted}" for true, predicted, n, _ in self.matrix.pairs(5)
        )
        parts = [*self._axes(), *self._names(), *self._totals(), *self._cells()]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="confusion" role="img" aria-label="{escape(label)}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" width="100%">{style}'
            f'<rect class="paper" width="100%" height="100%"/>'
            f'<rect class="frame" x="{self.left:.1f}" y="{self.top:.1f}" width="{self.count * self.side:.1f}" '
            f'height="{self.count * self.high:.1f}" rx="4"/>{"".join(parts)}</svg>'
        )

    def _axes(self) -> Iterator[str]:
        x, y = self.left + self.count * self.side / 2, self.top + self.count * self.high / 2
        yield f'<text class="dim middle" x="{x:.1f}" y="14">predicted</text>'
        yield f'<text class="dim middle" transform="translate(12 {y:.1f}) rotate(-90)">true</text>'

    def _names(self) -> Iterator[str]:
        size = "" if self.high >= 14 else f' font-size="{self.high * 0.85:.1f}"'
        for i, name in enumerate(self.names if self.named else ()):
            x, y = self.left + (i + 0.5) * self.side, self._baseline(i)
            text = f"{escape(name)}<title>{escape(self.matrix.names[i])}</title></text>"
            yield f'<text class="end"{size} x="{self.left - 8:.1f}" y="{y:.1f}">{text}'
            if self.level:
                yield f'<text x="{x:.1f}" y="{self.top - 9}" class="middle"{size}>{text}'
            else:
                yield f'<text transform="translate({x:.1f} {self.top - 8:.1f}) rotate(-45)"{size}>{text}'

    def _totals(self) -> Iterator[str]:
        """The number of rows of each true class, on the right."""
        x = self.right + 10
        if self.numbered and self.level:
            yield f'<text class="dim" x="{x:.1f}" y="{self.top - 9:.1f}">all</text>'
        for i, total in enumerate(self.matrix.counts.sum(1).tolist() if self.numbered else ()):
            yield f'<text class="dim" x="{x:.1f}" y="{self._baseline(i):.1f}">{total:,}</text>'

    def _cells(self) -> Iterator[str]:
        shares, values = self.matrix.shares(self.normalise or "true"), self.matrix.shares(self.normalise)
        gap, radius = (1.0, 3) if self.numbered else (0.0, 0)
        width, height = self.side - 2 * gap, self.high - 2 * gap
        for i, j in np.ndindex(self.count, self.count):
            count = self.matrix.counts[i, j]
            if not self.numbered and not count:  # of hundreds of classes most cells are empty
                continue
            x, y = self.left + j * self.side, self.top + i * self.high
            tip = f"true {self.matrix.names[i]}, predicted {self.matrix.names[j]}: {count:,}"
            number = escape(format_cell(float(values[i, j]), self.normalise)) if count else ""
            text = f'<text x="{x + self.side / 2:.1f}" y="{self._baseline(i):.1f}">{number}</text>'
            yield (
                f'<g class="cell {"hit" if i == j else "miss"}" data-cell="{i},{j}">'
                f'<rect x="{x + gap:.1f}" y="{y + gap:.1f}" width="{width:.1f}" height="{height:.1f}" '
                f'rx="{radius}" fill-opacity="{opacity(float(shares[i, j])):.3f}"/>'
                f"{text if self.numbered else ''}<title>{escape(tip)}</title></g>"
            )

    def _baseline(self, row: int) -> float:
        """Where the text of a row is: 4.5 below its middle, half of what digits of 13 pixels are high."""
        return self.top + (row + 0.5) * self.high + 4.5


def _cell_width(count: int) -> float:
    return 62.0 if count <= 8 else 46.0 if count <= MAX_NUMBERED_CLASSES else max(720 / count, 1.5)


def opacity(share: float) -> float:
    """Opacity of a share: a few percent are visible, and zero is not."""
    return 0.0 if share <= 0 else 0.07 + 0.93 * share**0.7


def format_cell(value: float, normalise: Normalise) -> str:
    """The number in a cell as a short text."""
    if normalise is None:
        return f"{value:,.0f}" if value < 9_999.5 else f"{value / 1000:.0f}k"
    return percent(value)


def _shortened(name: str) -> str:
    flat = "".join(c if c.isprintable() else "·" for c in name)
    return flat if len(flat) <= MAX_NAME_LENGTH else flat[: MAX_NAME_LENGTH - 1] + "…"
