"""Measured learning curves of few labels: how good methods were on other data, to say what a user may expect.

    curves.json      of each data set, method and number of labels: the main metric with its interval, and the time
                     written by benchmarks/few_labels_curves.py from the folders of studies

Numbers of labels are compared by labels a class: 32 labels of 2 classes are as 96 of 6.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.files import read_json_object
from glassformer.files.schema import parse
from glassformer.reports.report import Record

FILE = Path(__file__).parent / "curves.json"


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint(Record):
    """A method with a number of labels.

    labels: None = the method needs none
    value, low, high: the metric, with its 95% interval
    seconds: to learn, and to answer for all test rows
    """

    labels: int | None
    value: float
    low: float | None = None
    high: float | None = None
    seconds: float = 0.0

    @property
    def result(self) -> str:
        """The metric, and with how many labels."""
        return self.written_value if self.labels is None else f"{self.value:.2f} with {self.labels:,}"

    @property
    def written_value(self) -> str:
        """The metric; of a method that needs no labels with these words."""
        return f"{self.value:.2f}{' without any' if self.labels is None else ''}"

    @property
    def written(self) -> str:
        """The metric with its interval."""
        ends = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{ends}"


@dataclass(frozen=True, kw_only=True)
class MeasuredCurve(Record):
    """The points of a method.

    name: of the method, as `few_labels.METHODS` has it
    unlabelled: it learned from texts without labels too
    """

    name: str
    points: list[MeasuredPoint]
    unlabelled: bool = False

    def near(self, labels: float) -> MeasuredPoint:
        """The point whose number of labels is nearest by its ratio; of a method that needs none, its one."""
        return min(self.points, key=lambda x: 0.0 if x.labels is None else abs(math.log(x.labels / labels)))

    def at(self, labels: int | None) -> MeasuredPoint | None:
        """The point of this very number of labels; of a method that needs none, its one."""
        return next((x for x in self.points if x.labels is None or x.labels == labels), None)

    @property
    def needs_labels(self) -> bool:
        return any(x.labels is not None for x in self.points)


@dataclass(frozen=True, kw_only=True)
class MeasuredData(Record):
    """The curves of a data set.

    about: what its texts and labels are
    classes: number of labels that there are
    tested: number of test rows
    words: of a text in the median, as far as it was read
    model: sentence encoder
    """

    name: str
    about: str
    classes: int
    tested: int
    words: float
    seeds: int
    model: str
    metric: str
    curves: list[MeasuredCurve]

    @property
    def described(self) -> str:
        """What was measured on what, in words."""
        seeds = f"{self.seeds} seeds" if self.seeds > 1 else "1 seed"
        return f"{self.name}: {self.about}, {self.classes} labels, {self.tested:,} test rows, {seeds}, {self.model}"

    def labels_as(self, labels: float, classes: int) -> float:
        """The number of labels here with as many a class as `labels` of `classes`."""
        return max(labels, 1) / max(classes, 1) * self.classes

    def curve(self, name: str) -> MeasuredCurve | None:
        """That of a method; None = it was not measured here."""
        return next((x for x in self.curves if x.name == name), None)

    def learns(self, name: str) -> bool:
        """Whether a method was measured here, and learns from labels."""
        curve = self.curve(name)
        return curve is not None and curve.needs_labels

    def common(self, labels: float, names: Collection[str]) -> int | None:
        """The number of labels to compare methods at, the same for all; None = none of them needs any.

        Of the numbers at which all were measured the nearest by its ratio; where there is none, of all numbers.
        """
        numbers = [
            {x.labels for x in curve.points if x.labels} for curve in self.curves
            if curve.name in names and curve.needs_labels
        ]  # fmt: skip
        if not numbers:
            return None
        shared = set.intersection(*numbers) or set.union(*numbers)
        return min(sorted(shared), key=lambda n: abs(math.log(n / labels)))

    def compared(self, labels: float, names: Collection[str]) -> list[tuple[MeasuredCurve, MeasuredPoint]]:
        """Methods with their points at the number of labels that they have in common, the best first."""
        number = self.common(labels, names)
        known = [(x, point) for x in self.curves if x.name in names and (point := x.at(number)) is not None]
        return sorted(known, key=lambda pair: -pair[1].value)

    @property
    def most(self) -> int:
        """The largest number of labels that was measured."""
        return max(x.labels or 0 for curve in self.curves for x in curve.points)


@dataclass(frozen=True, kw_only=True)
class MeasuredCurves(Record):
    """The curves of several data sets."""

    data_sets: list[MeasuredData]

    def validate(self) -> None:
        """Raises: ConfigError: no data set, or a curve without points."""
        if not self.data_sets or not all(curve.points for data in self.data_sets for curve in data.curves):
            raise ConfigError("measured curves need data sets, and each curve points")

    def ranked(self, labels: float, classes: int, *, unlabelled: bool) -> list[tuple[str, float]]:
        """Methods that every data set has, by the mean of the metric near a number of labels, the best first.

        In a data set all are compared at the same number of labels.

        Args:
            unlabelled: methods that learn from unlabelled texts are among them
        """
        means: dict[str, list[float]] = {}
        for data in self.data_sets:
            names = [curve.name for curve in data.curves if unlabelled or not curve.unlabelled]
            for curve, point in data.compared(data.labels_as(labels, classes), names):
                means.setdefault(curve.name, []).append(point.value)
        shared = {name: sum(x) / len(x) for name, x in means.items() if len(x) == len(self.data_sets)}
        return sorted(shared.items(), key=lambda pair: -pair[1])

    def seconds(self, methods: Sequence[str], sizes: Sequence[int], words: float) -> float:
        """About how long these methods take with these numbers of labels in all.

        By the data set whose texts are most alike in length; with longer ones in proportion.

        Args:
            words: of a text in the median, as far as it is read
        """
        alike = min(self.data_sets, key=lambda data: abs(math.log(data.words / max(words, 1))))
        return sum(_seconds(alike, methods, size) for size in sizes) * max(1.0, words / alike.words)


def _seconds(data: MeasuredData, methods: Sequence[str], size: int) -> float:
    known = [curve for name in methods if (curve := data.curve(name)) is not None and curve.needs_labels]
    return sum(curve.near(size).seconds for curve in known)


def read_curves(path: Path = FILE) -> MeasuredCurves:
    """Curves from a file. Raises: ConfigError: it holds none."""
    curves = parse(MeasuredCurves, read_json_object(path, ConfigError), path.name)
    curves.validate()
    return curves


@cache
def measured_curves() -> MeasuredCurves:
    """Those that come with the package."""
    return read_curves()
