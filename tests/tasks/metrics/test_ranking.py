"""Retrieval metrics: ranks with ties and further candidates, recall and MRR by hand, average precision of resamples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.tasks.metrics.ranking import (
    AveragePrecisionScores,
    rank_pairs,
    ranking_bootstrap,
    ranking_scores,
)


def test_candidates_beyond_the_queries_are_ranked_too() -> None:
    eye = torch.eye(3)
    queries, candidates = eye[:2], torch.stack([eye[0], 0.5 * eye[1], eye[1], eye[2]])
    ranked = rank_pairs(queries, ["a", "b"], candidates, ["t", "u", "v", "w"], 1.0)
    assert {key: each.rank for key, each in ranked.items()} == {"a": 1, "b": 2}  # v is nearer to b than its own u
    assert next(iter(ranked["b"].probabilities)) == "v" and ranked["b"].losses.keys() == {"u"}


def test_recall_and_mrr_by_hand() -> None:
    scores = ranking_scores([1, 2, 10, 11])
    assert scores == {"recall@1": 0.25, "recall@5": 0.5, "recall@10": 0.75, "mrr@10": pytest.approx(1.6 / 4)}
    assert ranking_bootstrap([1, 2, 10, 11]).values() == pytest.approx(scores)
    resample = ranking_bootstrap([1, 2, 10, 11]).scores(np.array([[0, 2, 0, 2]]))
    assert float(resample["mrr@10"][0]) == pytest.approx(0.25) and float(resample["recall@5"][0]) == 0.5


def test_average_precision_is_that_of_scikit_learn() -> None:
    """With ties, and of a resample, in which a row counts as often as it was drawn."""
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    true, predicted = draw.integers(0, 2, 50), draw.integers(0, 8, 50) / 8
    scores = AveragePrecisionScores(true, predicted)
    counts = draw.integers(0, 4, (5, 50))
    expected = [metrics.average_precision_score(true, predicted, sample_weight=row) for row in counts]
    np.testing.assert_allclose(scores.scores(counts)["average_precision"], expected, atol=1e-12)
    assert scores.values() == {"average_precision": metrics.average_precision_score(true, predicted)}
    none = AveragePrecisionScores(np.zeros(3), np.arange(3.0))
    assert none.values() == {"average_precision": 0} and "0 is reported" in none.notes()[0]
