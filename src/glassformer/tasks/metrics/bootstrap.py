"""Intervals for any figure: rows that were judged are drawn again and again, each so many times.

    rows              1 2 3 4 5       figures of all rows: each counts once
    a sample          2 5 5 1 3       times = 1 1 1 0 2, and the figures of that; a thousand such give the interval

What was judged keeps counts of each row, and computes its figures for any `times`; so a figure that is no mean, such as
F1, is drawn as simply as one that is. Where counts add up they are `Counted`, as a `Tally` of texts is.
The value of a figure is that of the package that the field reports it by; ours, for rows that count once, must agree.

Source: Efron, Bootstrap methods (1979).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.metrics.intervals import RESAMPLES, Interval, Tally, interval_of

CELLS_AT_ONCE = 2**20
AGREEMENT = 1e-9


class Sampled(ABC):
    """What was judged, row by row.

    methods: figure → how it was computed: which package in which version, with which settings
    """

    methods: Mapping[str, str]

    @abstractmethod
    def __len__(self) -> int:
        """How many rows were judged."""

    @abstractmethod
    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        """The figures of S samples, in which each row stands so many times. [S, N] → [S] each"""

    def packaged(self) -> dict[str, float]:
        """The figures of the rows as they are, by the packages of `methods`, where there are such."""
        return {}

    def values(self) -> dict[str, float]:
        """The figures of the rows as they are: the packages' own, where ours agree with them.

        Raises: DataError: no row was judged.
        """
        if not len(self):
            raise DataError("there is no row to judge")
        whole = self.figures(np.ones((1, len(self)), dtype=np.int64))
        ours, theirs = {name: float(figure[0]) for name, figure in whole.items()}, self.packaged()
        for name, value in theirs.items():
            if not abs(value - ours[name]) <= AGREEMENT * max(1.0, abs(value)):
                raise RuntimeError(
                    f"{name} is {value!r} by {self.methods[name]}, and {ours[name]!r} by our counts"
                )
        return {**ours, **theirs}


class Counted(Sampled):
    """Rows whose figures follow from the sums of a few counts, as a mean or a ratio does.

    Args:
        rows: the counts of each. [N, K]
        of: the figures of S samples from their sums. [S, K] → [S] each
        methods: as in `Sampled`
    """

    def __init__(
        self,
        rows: np.ndarray,
        of: Callable[[np.ndarray], Mapping[str, np.ndarray]],
        methods: Mapping[str, str],
    ) -> None:
        self.rows, self.of, self.methods = rows, of, methods

    def __len__(self) -> int:
        return len(self.rows)

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        return dict(self.of(times @ self.rows))


class Means(Counted):
    """Figures that are means over rows. Args: figures: name → what each row has [N] · methods: as of `Sampled`"""

    def __init__(self, figures: Mapping[str, np.ndarray], methods: Mapping[str, str]) -> None:
        def means(sums: np.ndarray) -> dict[str, np.ndarray]:
            return {name: sums[:, i] / sums[:, -1] for i, name in enumerate(figures)}

        columns = [*figures.values(), np.ones(len(next(iter(figures.values()))))]
        super().__init__(np.stack(columns, axis=-1), means, methods)


def tallied(tally: Tally, methods: Mapping[str, str]) -> Counted:
    """What a tally counted; of its figures those that `methods` names."""
    rows = tally.rows

    def named(sums: np.ndarray) -> dict[str, np.ndarray]:
        return {name: each for name, each in tally.figures(sums, len(rows)).items() if name in methods}

    return Counted(rows, named, methods)


class Together(Sampled):
    """Several ways in which the same rows were judged.

    Raises: DataError: they were not judged on as many rows.
    """

    def __init__(self, *parts: Sampled) -> None:
        if len({len(part) for part in parts}) != 1:
            raise DataError(
                f"these were judged on {', '.join(str(len(part)) for part in parts)} rows; they differ"
            )
        self.parts = parts
        self.methods = {name: method for part in parts for name, method in part.methods.items()}

    def __len__(self) -> int:
        return len(self.parts[0])

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        return {name: figure for part in self.parts for name, figure in part.figures(times).items()}


def intervals(judged: Sampled, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """Every figure with its 95 % interval.

    Raises: DataError: no row was judged. ConfigError: no samples.
    """
    values, drawn = judged.values(), _drawn(judged, resamples, seed)
    return {name: interval_of(value, drawn[name], len(judged)) for name, value in values.items()}


def differences(
    judged: Sampled, other: Sampled, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """How far every figure lies above that of another system on the same rows, drawn in the same samples.

    Raises: DataError: not the same number of rows. Else as `intervals`.
    """
    if len(judged) != len(other):
        raise DataError(
            f"one system was judged on {len(judged)} rows, the other on {len(other)}; a difference needs the same rows"
        )
    mine, theirs = judged.values(), other.values()
    my_draws, their_draws = _drawn(judged, resamples, seed), _drawn(other, resamples, seed)
    return {
        name: interval_of(mine[name] - theirs[name], my_draws[name] - their_draws[name], len(judged))
        for name in mine
        if name in theirs
    }


def _drawn(judged: Sampled, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """The figures of each sample; which rows it has depends on their number and the seed alone. [S] each"""
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}; draw at least 1, better {RESAMPLES}")
    count, generator = len(judged), np.random.default_rng(seed)
    at_once = max(1, CELLS_AT_ONCE // count)
    parts = []
    for start in range(0, resamples, at_once):
        samples = min(at_once, resamples - start)
        picks = generator.integers(count, size=(samples, count)) + count * np.arange(samples)[:, None]
        times = np.bincount(picks.ravel(), minlength=samples * count).reshape(samples, count)
        parts.append(judged.figures(times))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
