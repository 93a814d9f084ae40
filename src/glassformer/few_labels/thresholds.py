"""Decision thresholds of several labels: from which score on each label holds, chosen on labelled rows alone.

Of a label with few positive rows its own threshold is a matter of chance; it then has the one that is best for all
labels together.

Source: Lipton, Elkan and Naryanaswamy 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure"; thresholds of
rare labels: Yang 2001, "A Study on Thresholding Strategies for Text Categorization", section 2 (SCutFBR).
"""

from __future__ import annotations

import numpy as np

from glassformer.tasks.classify.kinds import THRESHOLD

LEAST_POSITIVE = 4
"""Positive rows from which on a label has a threshold of its own."""


def best_thresholds(scores: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """The threshold of each label with the highest F1 on labelled rows.

    Args:
        scores: of rows that the scorer did not learn from; NaN = it did, and the row is left out. [N, L]
        holds: which labels they have. [N, L]
    Returns: the thresholds. [L]
    """
    usable = ~np.isnan(scores).any(1)
    scores, holds = scores[usable], holds[usable]
    common = best_threshold(scores.ravel(), holds.ravel())
    return np.array(
        [
            best_threshold(scores[:, i], holds[:, i]) if holds[:, i].sum() >= LEAST_POSITIVE else common
            for i in range(scores.shape[1])
        ]
    )


def best_threshold(scores: np.ndarray, holds: np.ndarray) -> float:
    """The threshold with the highest F1, in the middle between two scores; 0.5 where nothing holds. [N], [N]"""
    if not holds.any():
        return THRESHOLD
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(holds[order])
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + holds.sum())
    # Equal scores are on one side of any threshold.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    last = int(np.argmax(f1))
    below = ranked[last + 1] if last + 1 < len(ranked) else 0.0
    return float((ranked[last] + below) / 2)
