"""Text metrics (BLEU, chrF, ROUGE): counts of each row, and scores of any sample of rows from the sums of its counts.

    output, references ──counts──> a row of K numbers ──sum over a sample──> scores

Of a row its counts are kept, never its text. Two systems evaluated on the same rows are resampled together, so that
what makes a row hard for both cancels out.

Source: Koehn, Statistical significance tests for machine translation evaluation (2004).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.tasks.metrics.metric import RESAMPLES, BootstrapSums, Interval, intervals


class TextMetric(ABC):
    """Sufficient statistics of each output with its references, and the scores that follow from their sums.

    Args:
        width: how many counts a row has.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._counts = array("d")

    def add(
        self, output: str, references: str | Sequence[str], counts: Sequence[float] | None = None
    ) -> Sequence[float]:
        """Add the counts of one output with its reference, or several; they are returned. [K]

        Args:
            counts: what an earlier `add` of the same texts returned, instead of counting again
        Raises: DataError: no texts, no reference, or other counts.
        """
        texts = _text(output, "output"), _references(references)
        counts = self.counts(*texts) if counts is None else counts
        if len(counts) != self._width:
            raise DataError(f"a row has {self._width} counts, got {len(counts)}; evaluate the model again")
        self._counts.extend(counts)
        return counts

    def __len__(self) -> int:
        """How many rows were added."""
        return len(self._counts) // self._width

    def shorten(self, rows: int) -> None:
        """Forget all but the first rows."""
        del self._counts[rows * self._width :]

    @property
    def rows(self) -> np.ndarray:
        """Counts of each row, which sums and resamples add up. [N, K]"""
        return np.array(self._counts, dtype=np.float64).reshape(-1, self._width)

    @abstractmethod
    def counts(self, output: str, references: list[str]) -> Sequence[float]:
        """What is counted in a row. [K]"""

    @property
    @abstractmethod
    def method(self) -> str:
        """How it is counted, and by which versions of which packages."""

    @abstractmethod
    def scores(self, sums: np.ndarray, rows: int) -> Mapping[str, np.ndarray]:
        """The scores of S samples by name, from the sums of their rows' counts. [S, K] → [S] each"""

    def bootstrap(self, methods: Mapping[str, str] | None = None) -> BootstrapSums:
        """The counts of all rows, whose scores can be computed for any resample.

        Args:
            methods: score → how it is computed; the other scores are left out. None = all of them, by `method`
        """
        rows = self.rows

        def scores(sums: np.ndarray) -> dict[str, np.ndarray]:
            of_sums = self.scores(sums, len(rows))
            return {name: values for name, values in of_sums.items() if methods is None or name in methods}

        return BootstrapSums(rows, scores, methods or {})

    def intervals(self, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
        """Every score with its 95% confidence interval.

        Args:
            resamples: how many samples are drawn
            seed: the same seed draws the same samples
        Raises: DataError: no row was added. ConfigError: no resamples.
        """
        return intervals(self.bootstrap(), resamples, seed)


def add_all(metric: TextMetric, outputs: Iterable[str], references: Iterable[str | Sequence[str]]) -> None:
    """Add every output with its reference, or its references.

    Raises: DataError: not as many references as outputs.
    """
    if isinstance(outputs, str) or isinstance(references, str):
        raise DataError("outputs and references are one a row; put a single text into a list: ['…']")
    for row, (output, reference) in enumerate(zip_longest(outputs, references)):
        if output is None or reference is None:
            missing = "output" if output is None else "reference"
            raise DataError(f"row {row} has no {missing}; outputs and references belong together one by one")
        metric.add(output, reference)


def _references(references: Any) -> list[str]:
    given = [references] if isinstance(references, str) else references
    if not isinstance(given, Sequence) or not given:
        raise DataError(f"a row needs a reference, or a list of several; got {references!r:.60}")
    return [_text(reference, "reference") for reference in given]


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"the {what} must be a string, got {type(text).__name__}: {text!r:.60}")
    return text
