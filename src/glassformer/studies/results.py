"""What a study has found: a table, trained on × judged on, and curves over the rows of the set that grows.

         judged on de           judged on fr
de       0.802 [0.791, 0.812]   0.583 [0.561, 0.604]  ← without a row of fr: a horizontal line
fr-250   …                      0.471 [0.450, 0.493]  ┐
fr-500   …                      0.540 [0.519, 0.562]  │ a curve; where it crosses the line for good,
fr-1000  …                      0.622 [0.602, 0.643]  ┘ so many rows are worth as much
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.evaluation.compare.seeds import mean_of
from glassformer.files.parsing import strict
from glassformer.pages.tables import html_table
from glassformer.tasks.metrics.intervals import Interval
from glassformer.weights.write import write_json

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Which of it is drawn.

    over: the set whose rows grow · judge: the set on which figures are drawn
    zero_shot: a set without such rows, whose figure is the line to cross
    """

    over: str
    judge: str
    zero_shot: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A training, and how it did.

    name: such as fr-250 · of: the set, fr · size: rows of the set that grows, where one does
    rows: that it learnt from · steps, tokens: of its training · seconds: that it took
    figures: judged set → the main figure · baselines: judged set → baseline → the same figure
    """

    name: str
    of: str
    size: int | None
    seed: int
    rows: int
    steps: int
    tokens: int
    seconds: float
    folder: str
    figures: dict[str, Interval]
    baselines: dict[str, dict[str, Interval]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the curve. points: rows of the set that grows → figure; a single one may stand for all numbers."""

    name: str
    points: dict[int, Interval]
    baseline: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class Found:
    """What is known so far.

    metric: the main figure · higher: whether more of it is better · method: how it is computed
    judged: set → its files and number of rows · planned: how many trainings there shall be
    """

    task: str
    metric: str
    higher: bool
    method: str
    judged: dict[str, dict[str, Any]]
    trainings: list[Trained]
    planned: int
    curve: Curve | None = None

    @property
    def names(self) -> list[str]:
        """What was trained, each once, whatever the seed."""
        return list(dict.fromkeys(each.name for each in self.trainings))

    @property
    def seeds(self) -> list[int]:
        return sorted({each.seed for each in self.trainings})

    def cell(self, name: str, judged: str) -> Interval | None:
        """The figure of what was trained on a judged set: of one seed with its interval, of several their mean."""
        found = [
            each.figures[judged] for each in self.trainings if each.name == name and judged in each.figures
        ]
        return over_seeds(found) if found else None

    @property
    def headed(self) -> str:
        """What the table shows, in a sentence."""
        several = len(self.seeds) > 1
        brackets = (
            f"means of the seeds {', '.join(map(str, self.seeds))}, in brackets 95 % t-intervals over them"
            if several
            else "in brackets 95 % intervals over the judged rows"
        )
        rest = self.planned - len(self.trainings)
        missing = f"; {rest} of {self.planned} trainings are still to come" if rest else ""
        return f"{self.metric}: trained on (rows), judged on (columns); {brackets}{missing}"

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: what was trained a row, a judged set a column."""
        rows = []
        for name in self.names:
            learnt = next(each.rows for each in self.trainings if each.name == name)
            cells = [self.cell(name, judged) for judged in self.judged]
            rows.append([name, f"{learnt:,}", *("" if x is None else x.written(digits) for x in cells)])
        return ["trained on", "rows", *self.judged], rows

    # ------------------------------------------------------------------------------------------- the curve

    def lines(self) -> list[Line]:
        """A line for each set with rows of the one that grows, then for each of their baselines."""
        if self.curve is None:
            return []
        judge, found = self.curve.judge, []
        grown = [each for each in self.trainings if each.size is not None]
        for name in dict.fromkeys(each.of for each in grown):
            mine = [each for each in grown if each.of == name]
            sizes = sorted({each.size for each in mine if each.size is not None})
            at = {n: [each for each in mine if each.size == n] for n in sizes}
            found.append(
                Line(
                    name=name, points={n: over_seeds([each.figures[judge] for each in at[n]]) for n in sizes}
                )
            )
            for other in dict.fromkeys(other for each in mine for other in each.baselines.get(judge, {})):
                points = {n: over_seeds([each.baselines[judge][other] for each in at[n]]) for n in sizes}
                found.append(Line(name=f"{name}: {other}", points=points, baseline=True))
        return sorted(found, key=lambda line: line.baseline)

    @property
    def zero_shot(self) -> Interval | None:
        """The figure of the line to cross."""
        if self.curve is None or self.curve.zero_shot is None:
            return None
        return self.cell(self.curve.zero_shot, self.curve.judge)

    def crossings(self) -> list[str]:
        """For each line that grows, from how many rows on it beats the one to cross, in a sentence."""
        level = self.zero_shot
        if level is None or self.curve is None:
            return []
        return [
            self._said(line, level.value)
            for line in self.lines()
            if not line.baseline and len(line.points) > 1
        ]

    def _said(self, line: Line, level: float) -> str:
        assert self.curve is not None
        over, zero, judge = self.curve.over, self.curve.zero_shot, self.curve.judge
        values = {n: x.value for n, x in line.points.items()}
        better = [n for n, x in values.items() if (x > level if self.higher else x < level)]
        after = crossing(values, level, self.higher)
        alone = " alone" if line.name == over else ""
        beats = f"training on {line.name}{alone} beats {zero} alone on {judge}"
        worse = max((n for n in values if n not in better), default=None)
        if after is None and better:
            return f"With {_listed(better)} rows of {over} {beats}, but not with {max(values):,}."
        if after is None:
            return f"With none of the numbers tried, up to {max(values):,} rows of {over}, {beats}."
        if worse is None:
            return f"Already with {min(values):,} rows of {over}, the fewest tried, {beats}."
        above = min(n for n in better if n > worse)
        return f"With about {_rounded(after):,} rows of {over} {beats}: with {worse:,} not yet, with {above:,} it does."

    # --------------------------------------------------------------------------------------------- to keep

    def to_dict(self) -> dict[str, Any]:
        """All of it, as strict JSON can hold it."""
        headings, rows = self.table()
        found: dict[str, Any] = strict(
            {
                "format": FORMAT,
                **{
                    name: getattr(self, name)
                    for name in ("task", "metric", "higher", "method", "judged", "planned", "seeds")
                },
                "trainings": [asdict(each) for each in self.trainings],
                "table": {"headings": headings, "rows": rows},
                "curve": None if self.curve is None else asdict(self.curve),
                "lines": [asdict(line) for line in self.lines()],
                "crossings": self.crossings(),
            }
        )
        return found

    def save(self, folder: str | Path) -> None:
        """Write `study.json` and `study.html` into a folder."""
        from glassformer.studies.page import write_page

        write_json(Path(folder) / "study.json", self.to_dict())
        write_page(self, Path(folder) / "study.html")

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
        written = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.headed, *written, *self.crossings()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed)


def over_seeds(figures: Sequence[Interval]) -> Interval:
    """One figure as it is; of several seeds the mean, with its 95 % t-interval: mean ± t · s / √n.

    Source: Student, The probable error of a mean (1908).
    """
    return figures[0] if len(figures) == 1 else mean_of([figure.value for figure in figures]).interval


def crossing(values: dict[int, float], level: float, higher: bool) -> float | None:
    """From how many rows on figures are better than a level, and stay so: between two numbers tried on a straight
    line over the logarithm of the rows; the smallest number where all are, None where the last is not."""
    sign = 1.0 if higher else -1.0
    points = sorted((n, sign * (value - level)) for n, value in values.items())
    if not points or points[-1][1] <= 0:
        return None
    worse = [i for i, (_, gap) in enumerate(points) if gap <= 0]
    if not worse:
        return float(points[0][0])
    (n, below), (m, above) = points[worse[-1]], points[worse[-1] + 1]
    share = -below / (above - below)
    return math.exp(math.log(n) + share * (math.log(m) - math.log(n)))


def _rounded(x: float) -> int:
    """To two digits: 743 → 740."""
    return int(round(x, 1 - math.floor(math.log10(x)))) if x >= 1 else 1


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{n:,}" for n in numbers)
