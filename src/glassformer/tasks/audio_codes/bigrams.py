"""Bigrams of codes: a code is predicted by the one before it in its codebook. A baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.tasks.causal.baselines import Ngrams


class CodeNgrams:
    """An n-gram language model of each codebook.

    Args:
        recordings: codes of each [T, K]
        order: 1 or 2
    """

    def __init__(self, recordings: Iterable[np.ndarray], order: int, books: int, entries: int) -> None:
        learnt = list(recordings)
        self.order = order
        self.books = [Ngrams((codes[:, book].tolist() for codes in learnt), order, entries) for book in range(books)]

    def bits(self, codes: np.ndarray) -> list[float]:
        """-log2 p of a recording's codes, summed in each codebook. [T, K] → K"""
        return [self._bits(model, codes[:, book].tolist()) for book, model in enumerate(self.books)]

    def _bits(self, model: Ngrams, codes: Sequence[int]) -> float:
        return -sum(
            math.log2(model.probability(code, codes[max(at - self.order + 1, 0) : at])) for at, code in enumerate(codes)
        )
