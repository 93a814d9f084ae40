"""Shared parts of baselines: which training rows they learn from, and their predictions in place of the model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from glassformer.data.splits import sample
from glassformer.tasks.base import Dataset
from glassformer.tasks.classify.feature_classifier import sklearn
from glassformer.tasks.columns import placed
from glassformer.tasks.predictions import Prediction

MOST_ROWS = 50_000
"""Baselines learn from so many rows at most: more change little, and take minutes."""

SURE = 1e-12
"""No loss is that of a smaller probability: what says that something is impossible and errs is not infinitely wrong."""


def training_sample(train: Dataset) -> tuple[list[int], str]:
    """The numbers of the rows to learn from, and what is to be said of them where they are not all."""
    count = len(train)
    if count <= MOST_ROWS:
        return list(range(count)), ""
    return sample(count, MOST_ROWS).tolist(), f"; learnt from {MOST_ROWS:,} of {count:,} training rows"


def read(train: Dataset, numbers: Sequence[int], how: Any) -> list[Any]:
    """What `how` makes of each of these rows; errors say which row they are about."""
    parsed = []
    for number in numbers:
        with placed(train, number):
            parsed.append(how(train[number]))
    return parsed


def with_prediction(
    prediction: Prediction, predicted: Any, *, correct: bool | None, loss: float | None, **details: Any
) -> Prediction:
    """The prediction of a baseline for the same row."""
    return replace(prediction, predicted=predicted, correct=correct, loss=loss, details=details)


def nats(probability: float | np.ndarray) -> Any:
    """−ln p."""
    return -np.log(np.maximum(probability, SURE))


def scores(names: Sequence[str], probabilities: np.ndarray, top: int | None = None) -> Mapping[str, float]:
    """The likeliest first."""
    order = np.argsort(-probabilities, kind="stable")[:top]
    return {names[i]: float(probabilities[i]) for i in order}


def package() -> str:
    """Which version of the package learns."""
    sklearn("base")  # says how it is installed, where it is not
    return f"scikit-learn {version('scikit-learn')}"
