"""Regression metrics: mean squared error, and Pearson and Spearman correlation of predictions and targets.

mse        mean of (predicted - true)²
pearson    r of both, from -1 to 1: are they on a line?
spearman   r of their ranks: are they in the same order?          equal numbers share the mean of their ranks

Where one of both is the same for every row, neither r is defined, and 0 is reported.
Source: Spearman, The proof and measurement of association between two things (1904).
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.metrics.scikit_learn import by_sklearn, method, reference, sklearn

if TYPE_CHECKING:
    from glassformer.tasks.types import MicroBatch

ROUNDING = 1e-13
"""What is left of equal squares is rounding: sums of doubles are right to about 1e-15 of themselves."""


class RegressionMetric(Metric):
    """Mean squared error and Pearson's r (-1 to 1), from sums that are added up batch by batch.

    r = Σ(x - x̄)(y - ȳ) / √(Σ(x - x̄)² Σ(y - ȳ)²); 0 where one of both is constant.
    """

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.add_state("sums", 7)  # 1, x, y, x², y², xy, (x - y)²

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert output.logits is not None and isinstance(batch.labels, Tensor)
        x, y = output.logits.flatten().cpu().double(), batch.labels.flatten().cpu().double()
        terms = torch.stack([torch.ones_like(x), x, y, x * x, y * y, x * y, (x - y) ** 2])
        self.state["sums"] += terms.sum(-1)

    def compute(self) -> dict[str, float]:
        loss = super().compute()  # which says so where nothing was added
        count, x, y, xx, yy, xy, squares = self.state["sums"].tolist()
        spread_x, spread_y = (max(square - total * total / count, 0.0) for square, total in ((xx, x), (yy, y)))
        constant = spread_x <= ROUNDING * xx or spread_y <= ROUNDING * yy
        r = 0.0 if constant else (xy - x * y / count) / math.sqrt(spread_x * spread_y)
        return {**loss, "mse": squares / count, "pearson": min(max(r, -1.0), 1.0)}


class RegressionScores(Bootstrap):
    """A number for each row.

    Args:
        true, predicted: [N]
        squares: False = without the squared error, where both have different units
    """

    def __init__(self, true: np.ndarray, predicted: np.ndarray, *, squares: bool = True) -> None:
        self.true, self.predicted = true.astype(np.float64), predicted.astype(np.float64)
        by_scipy = method("scipy.stats", "scipy", "0 where one side is constant")
        self.methods = {"pearson": by_scipy, "spearman": by_scipy, **({"mse": by_sklearn()} if squares else {})}
        self._squares = (self.true - self.predicted) ** 2
        self._centred = tuple(x - x.mean() if np.ptp(x) else np.zeros_like(x) for x in (self.true, self.predicted))
        self._orders = tuple(Order(x) for x in (self.true, self.predicted))

    def __len__(self) -> int:
        return len(self.true)

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        true, predicted = (order.ranks(resample_counts) for order in self._orders)
        scores = {
            "pearson": correlations(self._centred[0][None], self._centred[1][None], resample_counts),
            "spearman": correlations(true, predicted, resample_counts),
            "mse": resample_counts @ self._squares / resample_counts.sum(-1),
        }
        return {name: scores[name] for name in self.methods}

    def reference_scores(self) -> dict[str, float]:
        stats = reference("scipy.stats", "scipy")
        if stats is None or reference("sklearn.metrics", "scikit-learn") is None:
            return {}
        squares = {}
        if "mse" in self.methods:
            squares["mse"] = float(sklearn().mean_squared_error(self.true, self.predicted))
        if len(self) < 2 or not all(np.ptp(x) for x in (self.true, self.predicted)):
            return {"pearson": 0.0, "spearman": 0.0, **squares}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that are nearly constant
            pearson = float(stats.pearsonr(self.true, self.predicted).statistic)
            spearman = float(stats.spearmanr(self.true, self.predicted).statistic)
        return {"pearson": pearson, "spearman": spearman, **squares}

    def notes(self) -> list[str]:
        return [
            f"the {side} value is the same for every row: no correlation is defined, and 0 is reported"
            for side, x in (("true", self.true), ("predicted", self.predicted))
            if not np.ptp(x)
        ]


class Order:
    """The order of numbers, of which samples have ranks.

    x: [N]
    """

    def __init__(self, x: np.ndarray) -> None:
        self._sorted = np.argsort(x, kind="stable")
        values, self._group = np.unique(x, return_inverse=True)
        self._begins = np.searchsorted(x[self._sorted], values)

    def ranks(self, resample_counts: np.ndarray) -> np.ndarray:
        """The mean rank of each number among those of a sample, from 1. [S, N]"""
        alike = np.add.reduceat(resample_counts[:, self._sorted], self._begins, axis=1)  # [S, distinct]
        ranks: np.ndarray = (np.cumsum(alike, axis=1) - (alike - 1) / 2)[:, self._group]
        return ranks


def correlations(x: np.ndarray, y: np.ndarray, resample_counts: np.ndarray) -> np.ndarray:
    """Pearson's r of samples; 0 where one side is constant.

    Args:
        x, y: [S or 1, N]
        resample_counts: how often each resample has each row [S, N]
    Returns: r of each resample. [S]
    """
    total = resample_counts.sum(-1)

    def mean(of: np.ndarray) -> np.ndarray:
        means: np.ndarray = (resample_counts * of).sum(-1) / total
        return means

    mean_x, mean_y, xx, yy = mean(x), mean(y), mean(x * x), mean(y * y)
    spread_x, spread_y = xx - mean_x**2, yy - mean_y**2
    varies = (spread_x > ROUNDING * xx) & (spread_y > ROUNDING * yy)
    r: np.ndarray = np.divide(
        mean(x * y) - mean_x * mean_y,
        np.sqrt(np.maximum(spread_x * spread_y, 0)),
        out=np.zeros(len(resample_counts)),
        where=varies,
    )
    return r.clip(-1, 1)
