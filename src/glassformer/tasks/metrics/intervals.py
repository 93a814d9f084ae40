"""Confidence intervals: where a score would lie for 95 % of samples of rows.

    rows          1 2 3 4 5        a score of these rows …
    a resample    2 5 5 1 3        … and of a thousand samples drawn from them with replacement (`bootstrap.py`):
    another       4 4 2 1 1        95 % of those scores lie in the interval

Source: Efron, Bootstrap methods (1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RESAMPLES = 1_000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % confidence interval; one row alone has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return self.written(3)

    def written(self, digits: int, signed: bool = False) -> str:
        """`0.396 [0.389, 0.402]` with so many digits; `signed`: a plus before what is positive."""
        sign = "+" if signed else ""
        if self.low is None or self.high is None:
            return f"{self.value:{sign}.{digits}f}"
        return f"{self.value:{sign}.{digits}f} [{self.low:{sign}.{digits}f}, {self.high:{sign}.{digits}f}]"

    def __neg__(self) -> Interval:
        """The same score with the other sign."""
        if self.low is None or self.high is None:
            return Interval(-self.value)
        return Interval(-self.value, -self.high, -self.low)

    @property
    def leaves_out_zero(self) -> bool:
        """Is a difference beyond what chance would give?"""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def percentile_interval(value: float, resampled: np.ndarray, rows: int) -> Interval:
    """A score with its percentile interval, from the scores of resamples. resampled: [S]"""
    if rows == 1:
        return Interval(value)
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))
