"""Bootstrap confidence intervals of any score: the rows are resampled with replacement, a thousand times.

    rows              1 2 3 4 5       the score of all rows: each counts once
    a resample        2 5 5 1 3       resample_counts = 1 1 1 0 2: how often it has each row, and the score of that

A `Bootstrap` keeps sufficient statistics of each row and computes its scores for any resample counts, so a score that
is no mean, such as F1, is resampled as simply as one that is. Where statistics add up it is a `BootstrapSums`.
The value of a score is that of the package that the field reports it by; ours, for rows that count once, must agree.

Source: Efron, Bootstrap methods (1979).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from glassformer.deprecation import former_attributes
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.metrics.intervals import RESAMPLES, Interval, percentile_interval

CELLS_AT_ONCE = 2**20
"""Resample counts that are held at once: 8 MB."""
AGREEMENT = 1e-9


@former_attributes(figures="scores", packaged="reference_scores")
class Bootstrap(ABC):
    """Sufficient statistics of evaluated rows, whose scores can be computed for any resample.

    methods: score → how it was computed: which package in which version, with which settings
    """

    methods: Mapping[str, str]

    @abstractmethod
    def __len__(self) -> int:
        """How many rows were evaluated."""

    @abstractmethod
    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of S resamples, from how often each has each row. [S, N] → [S] each"""

    def reference_scores(self) -> dict[str, float]:
        """The scores of the rows as they are, by the packages of `methods`, where there are such."""
        return {}

    def values(self) -> dict[str, float]:
        """The scores of the rows as they are: the packages' own, where ours agree with them.

        Raises: DataError: no row was evaluated.
        """
        if not len(self):
            raise DataError("no row was evaluated; give at least one prediction with its label")
        whole = self.scores(np.ones((1, len(self)), dtype=np.int64))
        ours, theirs = {name: float(score[0]) for name, score in whole.items()}, self.reference_scores()
        for name, value in theirs.items():
            if not abs(value - ours[name]) <= AGREEMENT * max(1.0, abs(value)):
                raise RuntimeError(
                    f"{name} is {value!r} by {self.methods[name]}, and {ours[name]!r} by our counts"
                )
        return {**ours, **theirs}


class BootstrapSums(Bootstrap):
    """Scores that follow from the sums of a few statistics of each row, as a mean or a ratio does.

    Args:
        rows: the statistics of each. [N, K]
        of: the scores of S resamples from their sums. [S, K] → [S] each
        methods: as of `Bootstrap`
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

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        return dict(self.of(resample_counts @ self.rows))


class BootstrapMeans(BootstrapSums):
    """Scores that are means over rows. Args: values: name → that of each row [N] · methods: as of `Bootstrap`"""

    def __init__(self, values: Mapping[str, np.ndarray], methods: Mapping[str, str]) -> None:
        def means(sums: np.ndarray) -> dict[str, np.ndarray]:
            return {name: sums[:, i] / sums[:, -1] for i, name in enumerate(values)}

        columns = [*values.values(), np.ones(len(next(iter(values.values()))))]
        super().__init__(np.stack(columns, axis=-1), means, methods)


class BootstrapUnion(Bootstrap):
    """The scores of several metrics of the same rows.

    Raises: DataError: they are of different numbers of rows.
    """

    def __init__(self, *parts: Bootstrap) -> None:
        if len({len(part) for part in parts}) != 1:
            raise DataError(
                f"the metrics are of {', '.join(str(len(part)) for part in parts)} rows; they must be of the same rows"
            )
        self.parts = parts
        self.methods = {name: method for part in parts for name, method in part.methods.items()}

    def __len__(self) -> int:
        return len(self.parts[0])

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        return {name: score for part in self.parts for name, score in part.scores(resample_counts).items()}


def intervals(bootstrap: Bootstrap, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """Every score with its 95 % confidence interval.

    Raises: DataError: no row was evaluated. ConfigError: no resamples.
    """
    values, resampled = bootstrap.values(), _resampled_scores(bootstrap, resamples, seed)
    return {
        name: percentile_interval(value, resampled[name], len(bootstrap)) for name, value in values.items()
    }


def differences(
    bootstrap: Bootstrap, other: Bootstrap, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """How far every score lies above that of another system on the same rows: a paired bootstrap.

    Raises: DataError: not the same number of rows. Else as `intervals`.
    """
    if len(bootstrap) != len(other):
        raise DataError(
            f"one system was evaluated on {len(bootstrap)} rows, the other on {len(other)}; "
            "a difference needs the same rows"
        )
    mine, theirs = bootstrap.values(), other.values()
    my_scores, their_scores = (
        _resampled_scores(bootstrap, resamples, seed),
        _resampled_scores(other, resamples, seed),
    )
    return {
        name: percentile_interval(
            mine[name] - theirs[name], my_scores[name] - their_scores[name], len(bootstrap)
        )
        for name in mine
        if name in theirs
    }


def _resampled_scores(bootstrap: Bootstrap, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """The scores of each resample; which rows it has depends on their number and the seed alone. [S] each"""
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}; draw at least 1, better {RESAMPLES}")
    count, generator = len(bootstrap), np.random.default_rng(seed)
    at_once = max(1, CELLS_AT_ONCE // count)
    parts = []
    for start in range(0, resamples, at_once):
        samples = min(at_once, resamples - start)
        picks = generator.integers(count, size=(samples, count)) + count * np.arange(samples)[:, None]
        resample_counts = np.bincount(picks.ravel(), minlength=samples * count).reshape(samples, count)
        parts.append(bootstrap.scores(resample_counts))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
