"""Numbers that were said beside the true ones: how far off, and whether both rise and fall together.

mse        mean of (said - true)²
pearson    r of both, from -1 to 1: are they on a line?
spearman   r of their ranks: are they in the same order?          equal numbers share the mean of their ranks

Where one of both is the same for every row, neither r is defined, and 0 is reported.
Source: Spearman, The proof and measurement of association between two things (1904).
"""

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np

from glassformer.tasks.metrics.bootstrap import Sampled
from glassformer.tasks.metrics.classes import by_sklearn, sklearn_metrics

ROUNDING = 1e-13
"""What is left of equal squares is rounding: sums of doubles are right to about 1e-15 of themselves."""


class SaidNumbers(Sampled):
    """A number for each row. Args: true, said: [N]"""

    def __init__(self, true: np.ndarray, said: np.ndarray) -> None:
        self.true, self.said = true.astype(np.float64), said.astype(np.float64)
        by_scipy = f"scipy {version('scipy')}, 0 where one side is constant"
        self.methods = {"pearson": by_scipy, "spearman": by_scipy, "mse": by_sklearn()}
        self._squares = (self.true - self.said) ** 2
        self._centred = tuple(x - x.mean() if np.ptp(x) else np.zeros_like(x) for x in (self.true, self.said))
        self._orders = tuple(Order(x) for x in (self.true, self.said))

    def __len__(self) -> int:
        return len(self.true)

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        true, said = (order.ranks(times) for order in self._orders)
        return {
            "pearson": correlations(self._centred[0][None], self._centred[1][None], times),
            "spearman": correlations(true, said, times),
            "mse": times @ self._squares / times.sum(-1),
        }

    def packaged(self) -> dict[str, float]:
        import scipy.stats

        mse = float(sklearn_metrics().mean_squared_error(self.true, self.said))
        if len(self) < 2 or not all(np.ptp(x) for x in (self.true, self.said)):
            return {"pearson": 0.0, "spearman": 0.0, "mse": mse}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that are nearly constant
            pearson = float(scipy.stats.pearsonr(self.true, self.said).statistic)
            spearman = float(scipy.stats.spearmanr(self.true, self.said).statistic)
        return {"pearson": pearson, "spearman": spearman, "mse": mse}

    def constant(self) -> list[str]:
        """Which side is the same for every row."""
        return [side for side, x in (("true", self.true), ("said", self.said)) if not np.ptp(x)]


class Order:
    """The order of numbers, of which samples have ranks. x: [N]"""

    def __init__(self, x: np.ndarray) -> None:
        self._sorted = np.argsort(x, kind="stable")
        values, self._group = np.unique(x, return_inverse=True)
        self._begins = np.searchsorted(x[self._sorted], values)

    def ranks(self, times: np.ndarray) -> np.ndarray:
        """The mean rank of each number among those of a sample, from 1. [S, N]"""
        alike = np.add.reduceat(times[:, self._sorted], self._begins, axis=1)  # [S, distinct]
        ranks: np.ndarray = (np.cumsum(alike, axis=1) - (alike - 1) / 2)[:, self._group]
        return ranks


def correlations(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Pearson's r of samples; 0 where one side is constant. x, y: [S or 1, N]; times: [S, N] → [S]"""
    total = times.sum(-1)

    def mean(of: np.ndarray) -> np.ndarray:
        found: np.ndarray = (times * of).sum(-1) / total
        return found

    mean_x, mean_y, xx, yy = mean(x), mean(y), mean(x * x), mean(y * y)
    spread_x, spread_y = xx - mean_x**2, yy - mean_y**2
    varies = (spread_x > ROUNDING * xx) & (spread_y > ROUNDING * yy)
    r: np.ndarray = np.divide(
        mean(x * y) - mean_x * mean_y,
        np.sqrt(np.maximum(spread_x * spread_y, 0)),
        out=np.zeros(len(times)),
        where=varies,
    )
    return r.clip(-1, 1)
