"""What was taken for what.

        said
true    anger  joy  love        a row: what is true · a column: what was said
anger     120    9     0        normalise="true": shares of each row, on the diagonal the recall
joy         4  310    12        normalise="said": shares of each column, on the diagonal the precision
love        1   64    51
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.errors import judged_words, kind_of
from glassformer.files import shown
from glassformer.tasks.predictions import Record

Normalise = Literal["true", "said"] | None

MOST_NUMBERED, MOST_NAMED, MOST_IN_TERMINAL = 20, 60, 12
"""Classes up to which cells have numbers, and lines names; beyond that the pairs that are confused most are listed."""
MOST_PAIRS = 12
LONGEST = 18  # characters of a name on the picture
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
class Confusion:
    """Counts of pairs of what is true and what was said.

    names: of the classes · counts: rows are what is true, columns what was said. [C, C]
    """

    names: list[str]
    counts: np.ndarray

    def shares(self, normalise: Normalise = None) -> np.ndarray:
        """The counts, or shares of each row ("true") or column ("said"); 0 where there is nothing to divide by. [C, C]

        Raises: ConfigError: another word.
        """
        if normalise not in (None, "true", "said"):
            raise ConfigError(
                f"normalise is {shown(normalise)}; it must be 'true' (shares of rows), 'said' (of columns) or None"
            )
        counts = self.counts.astype(np.float64)
        if normalise is None:
            return counts
        whole = counts.sum(1 if normalise == "true" else 0, keepdims=True)
        shares: np.ndarray = np.divide(counts, whole, out=np.zeros_like(counts), where=whole > 0)
        return shares

    def pairs(self, top: int = MOST_PAIRS) -> list[tuple[str, str, int, float]]:
        """What is confused most: true, said, how often, and which share of the true ones that is."""
        counts = self.counts.copy()
        np.fill_diagonal(counts, 0)
        shares = self.shares("true")
        order = np.argsort(-counts, axis=None, kind="stable")[:top]
        found = (np.unravel_index(place, counts.shape) for place in order)
        return [
            (self.names[i], self.names[j], int(counts[i, j]), float(shares[i, j]))
            for i, j in found
            if counts[i, j]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Names and counts for JSON."""
        return {"names": list(self.names), "counts": self.counts.tolist()}

    def svg(self, normalise: Normalise = None, *, styled: bool = True) -> str:
        """The matrix as a picture that keeps to light or dark; `styled`: with its own style, to stand alone.

        Shades are shares of what is true (of what was said with `normalise="said"`); classes in small numbers show too.
        """
        return _picture(self, normalise, STYLE if styled else "")

    def __str__(self) -> str:
        if len(self.names) > MOST_IN_TERMINAL:
            lines = [f"{len(self.names)} classes; confused most:"]
            lines += [
                f"  {count:5,}  {share:4.0%} of {true} as {said}" for true, said, count, share in self.pairs()
            ]
            return "\n".join(lines)
        shares = self.shares("true")
        names = [_short(name) for name in self.names]
        widths = [
            max(len(name), len(f"{column.max():,}") + 2)
            for name, column in zip(names, self.counts.T, strict=True)
        ]
        first = max(len("true \\ said"), *map(len, names))
        lines = [
            "true \\ said".ljust(first) + "".join(f"  {n:>{w}}" for n, w in zip(names, widths, strict=True))
        ]
        for i, name in enumerate(names):
            cells = (
                f"  {SHADES[_shade(shares[i, j])]}{count:>{width - 1},}"
                for j, (count, width) in enumerate(zip(self.counts[i].tolist(), widths, strict=True))
            )
            lines.append(name.ljust(first) + "".join(cells))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (
            f'<div style="max-width: {_side(len(self.names)) * len(self.names) + 240}px">{self.svg()}</div>'
        )


def confusion_of(records: Sequence[Record], names: Sequence[str] | None = None) -> Confusion | None:
    """What was taken for what, row by row, or word by word where words are tagged; None where rows have no one class.

    Args: names: of all classes, in order; None = those that are true or said, in order
    Raises: DataError: a class that `names` lacks.
    """
    kind = kind_of(records)
    if kind == "tags":
        pairs = [(tag, answer) for record in records for _, tag, answer, _ in judged_words(record)]
    elif kind == "classes":
        pairs = [(record.label, record.said) for record in records]
    else:
        return None
    found = {name for pair in pairs for name in pair}
    # as tags are numbered: O first, then type by type
    ordered = list(names or sorted(found, key=lambda x: (x != "O", x.partition("-")[2], x)))
    if unknown := sorted(found - set(ordered)):
        raise DataError(
            f"the records have the class {shown(unknown[0])}, which is none of {', '.join(ordered[:10])}"
        )
    number = {name: i for i, name in enumerate(ordered)}
    counts = np.zeros((len(ordered), len(ordered)), dtype=np.int64)
    np.add.at(
        counts,
        tuple(np.array([(number[a], number[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2).T),
        1,
    )
    return Confusion(ordered, counts)


# ---------------------------------------------------------------------------------------------- the picture


def _picture(found: Confusion, normalise: Normalise, style: str) -> str:
    count, side = len(found.names), _side(len(found.names))
    high = side if count > MOST_NUMBERED else min(side, 40)
    numbered, named = count <= MOST_NUMBERED, count <= MOST_NAMED
    names = [_short(name) for name in found.names]
    longest = max(map(len, names)) * 7.2 if named else 0
    level = numbered and longest <= side - 4  # names of columns lie level, or lean
    # beside the names of rows, below those of columns
    left, top = longest + 34, (46 if level else longest * 0.72 + 36) if named else 30
    sums = 46 if numbered else 8
    width, height = (
        left + count * side + sums + (0 if level or not named else longest * 0.5),
        top + count * high + 8,
    )
    shares = found.shares(normalise or "true")
    values = found.shares(normalise)
    parts = [
        f'<text class="dim middle" x="{left + count * side / 2:.1f}" y="14">said</text>',
        f'<text class="dim middle" transform="translate(12 {top + count * high / 2:.1f}) rotate(-90)">true</text>',
    ]
    if named:
        size = "" if high >= 14 else f' font-size="{high * 0.85:.1f}"'
        for i, name in enumerate(names):
            x, y = left + (i + 0.5) * side, top + (i + 0.5) * high + 4.5
            tip = f"<title>{escape(found.names[i])}</title>"
            parts.append(f'<text class="end"{size} x="{left - 8:.1f}" y="{y:.1f}">{escape(name)}{tip}</text>')
            place = (
                f'x="{x:.1f}" y="{top - 9}" class="middle"'
                if level
                else f'transform="translate({x:.1f} {top - 8:.1f}) rotate(-45)"'
            )
            parts.append(f"<text {place}{size}>{escape(name)}{tip}</text>")
    if numbered:
        ends = left + count * side + 10
        parts.append(f'<text class="dim" x="{ends:.1f}" y="{top - 9:.1f}">all</text>' if level else "")
        for i, total in enumerate(found.counts.sum(1).tolist()):
            parts.append(
                f'<text class="dim" x="{ends:.1f}" y="{top + (i + 0.5) * high + 4.5:.1f}">{total:,}</text>'
            )
    for i, j in np.ndindex(count, count):
        if not numbered and not found.counts[i, j]:
            continue
        x, y = left + j * side, top + i * high
        gap = 1.0 if numbered else 0.0
        number = written(float(values[i, j]), normalise) if numbered and found.counts[i, j] else ""
        said = f"true {found.names[i]}, said {found.names[j]}: {found.counts[i, j]:,}"
        parts.append(
            f'<g class="cell {"hit" if i == j else "miss"}" data-cell="{i},{j}">'
            f'<rect x="{x + gap:.1f}" y="{y + gap:.1f}" width="{side - 2 * gap:.1f}" height="{high - 2 * gap:.1f}" '
            f'rx="{3 if numbered else 0}" fill-opacity="{opacity(float(shares[i, j])):.3f}"/>'
            + (
                f'<text x="{x + side / 2:.1f}" y="{y + high / 2 + 4.5:.1f}">{escape(number)}</text>'
                if numbered
                else ""
            )
            + f"<title>{escape(said)}</title></g>"
        )
    label = f"Confusion matrix of {count} classes. " + "; ".join(
        f"{n:,} {true} taken for {said}" for true, said, n, _ in found.pairs(5)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="confusion" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="100%">{style}'
        f'<rect class="paper" width="100%" height="100%"/><rect class="frame" x="{left:.1f}" y="{top:.1f}" '
        f'width="{count * side:.1f}" height="{count * high:.1f}" rx="4"/>'
        f"{''.join(parts)}</svg>"
    )


def _side(count: int) -> float:
    """How wide a cell is."""
    return 62.0 if count <= 8 else 46.0 if count <= MOST_NUMBERED else max(720 / count, 1.5)


def opacity(share: float) -> float:
    """How strongly a share shows: a few in a hundred can be seen, and nothing is nothing."""
    return 0.0 if share <= 0 else 0.07 + 0.93 * share**0.7


def written(value: float, normalise: Normalise) -> str:
    """The number in a cell, short enough for it."""
    if normalise is None:
        return f"{value:,.0f}" if value < 9_999.5 else f"{value / 1000:.0f}k"
    return f"{100 * value:.0f} %" if value >= 0.005 else "<1 %"


def _shade(share: float) -> int:
    return 0 if share <= 0 else 1 + min(int(share * 4), 3)


def _short(name: str) -> str:
    flat = "".join(c if c.isprintable() else "·" for c in name)
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"
