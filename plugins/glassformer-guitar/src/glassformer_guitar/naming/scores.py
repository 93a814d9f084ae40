"""Scores of chains of pedals: how many are exact, and F1 of each pedal, whatever the order.

chain      <overdrive> <delay>          predicted  <overdrive> <chorus>
exact 0 · overdrive: true positive · delay: false negative · chorus: false positive
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.tasks.metrics.metric import BootstrapSums
from glassformer_guitar.pedals import PEDALS


def chain_counts(true: Sequence[str], predicted: Sequence[str]) -> np.ndarray:
    """Whether a chain is exact, and true positives, false positives and false negatives of each pedal. [1 + 3 · 9]"""
    counts = [
        (
            name in true and name in predicted,
            name not in true and name in predicted,
            name in true and name not in predicted,
        )
        for name in PEDALS
    ]
    return np.array(
        [list(true) == list(predicted), *(x for column in zip(*counts, strict=True) for x in column)], float
    )


def chain_scores(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> BootstrapSums:
    """The scores of chains and predicted ones, for any resample of them."""
    rows = np.stack([np.append(chain_counts(*pair), 1.0) for pair in pairs])

    def of(sums: np.ndarray) -> dict[str, np.ndarray]:
        hits, false_alarms, misses = np.split(sums[:, 1:-1], 3, axis=1)
        doubled = 2 * hits + false_alarms + misses
        f1 = 2 * hits / np.maximum(doubled, 1)
        there = doubled > 0  # a pedal that is nowhere has no F1
        scores = {
            "exact": sums[:, 0] / sums[:, -1],
            "f1_macro": (f1 * there).sum(1) / np.maximum(there.sum(1), 1),
            "f1_micro": 2 * hits.sum(1) / np.maximum(doubled.sum(1), 1),
        }
        return scores | {f"f1_{name}": f1[:, i] for i, name in enumerate(PEDALS)}

    methods = {
        "exact": "share of chains that are the same pedals in the same order",
        "f1_macro": "mean F1 of the pedals that occur",
        "f1_micro": "F1 of all pedals together",
    }
    return BootstrapSums(rows, of, methods)
