"""How sure a figure is: 95 % intervals by resampling rows.

    rows        1 2 3 4 5        a figure of these rows …
    a sample    2 5 5 1 3        … and of a thousand samples drawn from them with replacement:
    another     4 4 2 1 1        95 % of those figures lie in the interval

Of a row its counts are kept, never its text: the figure of a sample is a function of the sum of their counts.
Two systems judged on the same rows are drawn in the same samples, so that what makes a row hard for both cancels out.

Source: Efron, Bootstrap methods (1979); for two systems Koehn, Statistical significance tests for MT evaluation (2004).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError

RESAMPLES = 1_000
LEVEL = 0.95
PICKS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Interval:
    """A figure, and where it would lie for 95 % of samples of rows; one row alone says nothing about that."""

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
        """The same figure counted the other way round."""
        if self.low is None or self.high is None:
            return Interval(-self.value)
        return Interval(-self.value, -self.high, -self.low)

    @property
    def leaves_out_zero(self) -> bool:
        """Is a difference beyond what chance would give?"""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Tally(ABC):
    """The counts of rows that were judged, and the figures that come of them.

    Args:
        width: how many counts a row has.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._kept = array("d")

    def add(self, output: str, references: str | Sequence[str]) -> None:
        """Judge what was written against one reference, or several.

        Raises: DataError: no texts, or no reference.
        """
        self._kept.extend(self.counts(_text(output, "output"), _references(references)))

    def __len__(self) -> int:
        """How many rows were judged."""
        return len(self._kept) // self._width

    def shorten(self, rows: int) -> None:
        """Forget all but the first rows."""
        del self._kept[rows * self._width :]

    @property
    def rows(self) -> np.ndarray:
        """The counts. [N, K]"""
        return np.array(self._kept, dtype=np.float64).reshape(-1, self._width)

    @abstractmethod
    def counts(self, output: str, references: list[str]) -> Sequence[float]:
        """What is counted in a row. [K]"""

    @property
    @abstractmethod
    def method(self) -> str:
        """How it is counted, and by which versions of which packages."""

    @abstractmethod
    def figures(self, sums: np.ndarray, rows: int) -> Mapping[str, np.ndarray]:
        """The figures of S samples by name, from the sums of their rows' counts. [S, K] → [S] each"""

    def intervals(self, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
        """Every figure with its interval.

        Args:
            resamples: how many samples are drawn · seed: the same ones each time.
        Raises: DataError: no row was judged. ConfigError: no samples.
        """
        whole, drawn = self._drawn(resamples, seed)
        return {name: interval_of(whole[name], drawn[name], len(self)) for name in whole}

    def differences(self, first: Tally, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
        """How far every figure lies above that of another system on the same rows.

        Raises: DataError: not the same number of rows. Else as `intervals`.
        """
        if len(self) != len(first):
            raise DataError(
                f"one system was judged on {len(self)} rows, the other on {len(first)}; "
                "a difference needs the same rows"
            )
        mine, my_draws = self._drawn(resamples, seed)
        theirs, their_draws = first._drawn(resamples, seed)
        return {
            name: interval_of(mine[name] - theirs[name], my_draws[name] - their_draws[name], len(self))
            for name in mine
        }

    def _drawn(self, resamples: int, seed: int) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """The figures of the rows as they are, and of each sample."""
        rows = self.rows
        if not len(rows):
            raise DataError("no row was judged; give at least one output with its reference")
        if resamples < 1:
            raise ConfigError(f"resamples is {resamples}; draw at least 1, better {RESAMPLES}")
        whole = self.figures(rows.sum(axis=0, keepdims=True), len(rows))
        drawn = self.figures(resampled(rows, resamples, seed), len(rows))
        return {name: float(figure[0]) for name, figure in whole.items()}, dict(drawn)


def resampled(rows: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Sums over as many rows as there are, drawn with replacement. [N, K] → [S, K]

    Which rows are drawn depends on their number and the seed alone.
    """
    count = len(rows)
    generator = np.random.default_rng(seed)
    sums = np.empty((resamples, rows.shape[1]))
    at_once = max(1, PICKS_AT_ONCE // count)
    for start in range(0, resamples, at_once):
        samples = min(at_once, resamples - start)
        picks = generator.integers(count, size=(samples, count)) + count * np.arange(samples)[:, None]
        times = np.bincount(picks.ravel(), minlength=samples * count).reshape(samples, count)
        sums[start : start + samples] = times @ rows
    return sums


def judge_all(tally: Tally, outputs: Iterable[str], references: Iterable[str | Sequence[str]]) -> None:
    """Add every output with its reference, or its references.

    Raises: DataError: not as many references as outputs.
    """
    if isinstance(outputs, str) or isinstance(references, str):
        raise DataError("outputs and references are one a row; put a single text into a list: ['…']")
    for row, (output, reference) in enumerate(zip_longest(outputs, references)):
        if output is None or reference is None:
            missing = "output" if output is None else "reference"
            raise DataError(f"row {row} has no {missing}; outputs and references belong together one by one")
        tally.add(output, reference)


def interval_of(value: float, drawn: np.ndarray, rows: int) -> Interval:
    """A figure with its 95 % interval, from those of the samples. drawn: [S]"""
    if rows == 1:
        return Interval(value)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def _references(references: Any) -> list[str]:
    given = [references] if isinstance(references, str) else references
    if not isinstance(given, Sequence) or not given:
        raise DataError(f"a row needs a reference, or a list of several; got {references!r:.60}")
    return [_text(reference, "reference") for reference in given]


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"the {what} must be a string, got {type(text).__name__}: {text!r:.60}")
    return text
