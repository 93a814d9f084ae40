"""Losses of sentence embeddings by hand; `tests/tasks/test_embed.py` compares them with sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.core import embedding_losses as losses


def test_the_losses_by_hand() -> None:
    """Two pairs at right angles: their own cosine 1, the other's 0."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    own = torch.arange(2)
    assert float(losses.ranking_loss(x, own, 1.0)) == pytest.approx(2 * np.log(1 + np.exp(-1)))
    assert float(losses.ranking_loss(x, own, 1.0, ~torch.eye(2, dtype=torch.bool))) == 0
    assert float(losses.triplet_loss(torch.tensor([0.2, 0.9]), torch.tensor([0.9, 0.2]), 0.5)) == pytest.approx(1.2)
    together = torch.tensor([1.0, 0.0, 0.0])
    assert float(losses.contrastive_loss(torch.tensor([0.4, 0.1, 0.9]), together, 0.5)) == pytest.approx(0.16)
    scores = torch.tensor([0.5, 0.1, 0.1])  # the first pair is above both others, which have one score
    expected = 3 * np.log(1 + np.exp(0.3) + np.exp(-0.2))
    assert float(losses.cosent_loss(torch.tensor([0.3, 0.6, 0.1]), scores, 1.0)) == pytest.approx(expected)


def test_false_negatives_by_hand() -> None:
    """Rows 0 and 1 have one anchor, rows 0 and 2 one candidate; the last candidate is a negative of a row."""
    anchors, candidates = torch.tensor([1, 1, 2]), torch.tensor([7, 8, 7, 9])
    left_out = losses.false_negatives(anchors, candidates, torch.arange(3))
    expected = [[False, True, True, False], [True, False, True, False], [True, False, False, False]]
    assert left_out.tolist() == expected
