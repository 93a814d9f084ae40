"""Results of a study: a table, trained on × evaluated on, and learning curves over the rows of the set that grows.

         on de                  on fr
de       0.802 [0.791, 0.812]   0.583 [0.561, 0.604]  ← zero-shot, without a row of fr: a horizontal line
fr-250   …                      0.471 [0.450, 0.493]  ┐
fr-500   …                      0.540 [0.519, 0.562]  │ a learning curve; where it crosses the line for good,
fr-1000  …                      0.622 [0.602, 0.643]  ┘ this many rows are worth as much
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.evaluation.compare.seeds import mean_of
from glassformer.files import as_path
from glassformer.reports.page import write_page
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.metrics.metric import Interval


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """Which learning curve to plot.

    over: the set that grows
    test_set: the test set of the metric
    zero_shot: a set without such rows, whose metric is the horizontal line
    """

    over: str
    test_set: str
    zero_shot: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained model of a study, and its metrics.

    name: such as fr-250
    of: the training set, fr
    size: rows of the set that grows, where one does
    rows: it was trained on
    steps, tokens, seconds: of its training
    metrics: test set → the main metric
    baselines: test set → baseline → the same metric
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
    metrics: dict[str, Interval]
    baselines: dict[str, dict[str, Interval]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A learning curve.

    points: rows of the set that grows → metric
    """

    name: str
    points: dict[int, Interval]
    baseline: bool = False


STUDY_KEYS = (
    "task",
    "metric",
    "higher",
    "method",
    "planned",
    "seeds",
    "test_sets",
    "trainings",
    "table",
    "curve",
    "lines",
    "sentences",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyResults(Report, kind="study", keys=STUDY_KEYS):
    """The results of a study so far.

    metric: the main metric
    higher: whether more of it is better
    method: how it is computed
    test_sets: name → its files and number of rows
    planned: number of runs, done or not
    """

    task: str
    metric: str
    higher: bool
    method: str
    test_sets: dict[str, dict[str, Any]]
    trainings: list[TrainedModel]
    planned: int
    curve: CurveOptions | None = None

    @property
    def names(self) -> list[str]:
        """The names of the trainings, each once, whatever the seed."""
        return list(dict.fromkeys(model.name for model in self.trainings))

    @property
    def seeds(self) -> list[int]:
        return sorted({model.seed for model in self.trainings})

    def cell(self, name: str, test_set: str) -> Interval | None:
        """The metric of a model on a test set: of one seed with its interval, of several their mean; None = not yet."""
        values = [x.metrics[test_set] for x in self.trainings if x.name == name and test_set in x.metrics]
        return mean_over_seeds(values) if values else None

    @property
    def caption(self) -> str:
        """The caption of the table."""
        brackets = "in brackets 95% intervals over the evaluated rows"
        if len(self.seeds) > 1:
            seeds = ", ".join(map(str, self.seeds))
            brackets = f"means of the seeds {seeds}, in brackets 95% t-intervals over them"
        rest = self.planned - len(self.trainings)
        missing = f"; {rest} of {self.planned} trainings are still to come" if rest else ""
        return f"{self.metric}: trained on (rows), evaluated on (columns); {brackets}{missing}"

    @property
    def table(self) -> Table:
        """A model a row, a test set a column."""
        rows = []
        for name in self.names:
            count = next(model.rows for model in self.trainings if model.name == name)
            cells = [self.cell(name, test_set) for test_set in self.test_sets]
            rows.append([name, f"{count:,}", *("" if x is None else x.cell() for x in cells)])
        return Table(["trained on", "rows", *self.test_sets], rows)

    def tables(self) -> list[Table]:
        """The table of all trainings and test sets."""
        return [self.table]

    def remarks(self) -> list[str]:
        """Where the curves cross the zero-shot metric."""
        return self.sentences

    # ------------------------------------------------------------------------------------------- the curve

    @property
    def lines(self) -> list[LearningCurve]:
        """The learning curves of the sets that hold the one that grows, then those of their baselines."""
        if self.curve is None:
            return []
        test_set, curves = self.curve.test_set, []
        sized = [model for model in self.trainings if model.size is not None]
        for name in dict.fromkeys(model.of for model in sized):
            of_set = [model for model in sized if model.of == name]
            sizes = sorted({model.size for model in of_set if model.size is not None})
            at = {n: [model for model in of_set if model.size == n] for n in sizes}
            points = {n: mean_over_seeds([x.metrics[test_set] for x in at[n]]) for n in sizes}
            curves.append(LearningCurve(name=name, points=points))
            for other in dict.fromkeys(other for x in of_set for other in x.baselines.get(test_set, {})):
                points = {n: mean_over_seeds([x.baselines[test_set][other] for x in at[n]]) for n in sizes}
                curves.append(LearningCurve(name=f"{name}: {other}", points=points, baseline=True))
        return sorted(curves, key=lambda curve: curve.baseline)

    @property
    def zero_shot(self) -> Interval | None:
        """The zero-shot metric: the horizontal line."""
        if self.curve is None or self.curve.zero_shot is None:
            return None
        return self.cell(self.curve.zero_shot, self.curve.test_set)

    @property
    def sentences(self) -> list[str]:
        """For each learning curve, from how many rows on it beats the zero-shot metric, in a sentence."""
        level = self.zero_shot
        if level is None or self.curve is None or math.isnan(level.value):
            return []
        return [
            self._crossing_sentence(line, level) for line in self.lines if not line.baseline and len(line.points) > 1
        ]

    def _crossing_sentence(self, line: LearningCurve, zero_shot: Interval) -> str:
        assert self.curve is not None
        over, zero, test_set = self.curve.over, self.curve.zero_shot, self.curve.test_set
        values, level = {n: x.value for n, x in line.points.items()}, zero_shot.value
        better = [n for n, x in values.items() if (x > level if self.higher else x < level)]
        after = crossing_point(values, level, self.higher)
        alone = " alone" if line.name == over else ""
        beats = f"training on {line.name}{alone} beats {zero} alone on {test_set}"
        worse = max((n for n in values if n not in better), default=None)
        if after is None and better:
            sizes = ", ".join(f"{n:,}" for n in better)
            chance = _chance(line.points[better[-1]], zero_shot)
            return f"With {sizes} rows of {over} {beats}{chance}, but not with {max(values):,}."
        if after is None:
            return f"With none of the numbers tried, up to {max(values):,} rows of {over}, {beats}."
        if worse is None:
            chance = _chance(line.points[min(values)], zero_shot)
            return f"Already with {min(values):,} rows of {over}, the fewest tried, {beats}{chance}."
        above = min(n for n in better if n > worse)
        # to two digits, for no more is known: 743 → 740
        rounded = int(round(after, 1 - math.floor(math.log10(after)))) if after >= 1 else 1
        about = f"With about {rounded:,} rows of {over} {beats}"
        chance = _chance(line.points[above], zero_shot)
        return f"{about}: with {worse:,} not yet, with {above:,} it does{chance}."

    # --------------------------------------------------------------------------------------------- to keep

    def write(self, folder: str | Path) -> None:
        """Write `study.json` and `study.html` into a folder."""
        from glassformer.studies.page import study_page

        folder = as_path(folder, "folder")
        self.save(folder / "study.json")
        write_page(folder / "study.html", study_page(self))


def _chance(one: Interval, other: Interval) -> str:
    """A part of a sentence, where the intervals of two metrics overlap: then chance may explain which is better."""
    return " by its value (the 95% intervals overlap)" if one.overlaps(other) else ""


def mean_over_seeds(values: Sequence[Interval]) -> Interval:
    """The value of a single seed as it is; of several the mean, with its 95% t-interval: mean ± t · s / √n.

    Source: Student, The probable error of a mean (1908).
    """
    return values[0] if len(values) == 1 else mean_of([x.value for x in values]).interval


def crossing_point(values: dict[int, float], level: float, higher: bool) -> float | None:
    """From how many rows on values are better than a level, and stay so.

    Interpolated linearly over the logarithm of the rows, between two sizes; the smallest size where all are better,
    None where that of the largest is not. After NaN or infinity, the next size.
    """
    sign = 1.0 if higher else -1.0
    points = sorted((n, sign * (value - level)) for n, value in values.items())
    if not points or not points[-1][1] > 0:  # NaN is not better than anything
        return None
    worse = [i for i, (_, gap) in enumerate(points) if not gap > 0]
    if not worse:
        return float(points[0][0])
    (n, below), (m, above) = points[worse[-1]], points[worse[-1] + 1]
    if not math.isfinite(above - below):
        return float(m)
    share = -below / (above - below)
    return math.exp(math.log(n) + share * (math.log(m) - math.log(n)))
