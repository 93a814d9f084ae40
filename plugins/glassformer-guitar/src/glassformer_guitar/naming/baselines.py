"""A plain classifier of pedals: logistic regression on the mean and the deviation of each mel band over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer_guitar.pedals import PEDALS

RIDGE = 1e-3
"""Weight decay, without which separable classes would drive the weights to infinity."""
STEPS = 60
"""Iterations of L-BFGS at most; few features need few."""


def mel_means(features: Tensor) -> Tensor:
    """Mean and standard deviation of each band over time. [N, M, frames] → [N, 2 M]"""
    return torch.cat([features.mean(2), features.std(2)], 1)


def predict_pedals(train: Tensor, chains: Sequence[Sequence[str]], features: Tensor) -> list[list[str]]:
    """The pedals whose probability is above one half, in the order of a board.

    Args:
        train: features of the training rows, with their chains
        features: those to predict [N, D]
    """
    mean, spread = train.mean(0), train.std(0) + 1e-6
    x, inputs = ((one - mean) / spread for one in (train, features))
    labels = torch.tensor(np.array([[name in chain for name in PEDALS] for chain in chains]), dtype=torch.float32)
    weights = torch.zeros(x.shape[1] + 1, len(PEDALS), requires_grad=True)

    def logits(rows: Tensor) -> Tensor:
        return rows @ weights[:-1] + weights[-1]

    optimizer = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits(x), labels)
        loss = loss + RIDGE * weights[:-1].square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    with torch.no_grad():
        likely = logits(inputs) > 0
    return [[name for name, there in zip(PEDALS, row, strict=True) if there] for row in likely.tolist()]
