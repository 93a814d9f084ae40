"""Tune the weights of shallow fusion or rescoring, alpha and beta, by word error rate on validation recordings.

alpha   0     0.2   0.2   0.5   …        each pair is one search through all recordings, as an evaluation does it
beta    0     0     0.5   0
WER     9 %   8 %   7 %   11 %           the lowest wins; of equal ones the smallest weights
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from glassformer.tasks.base import Dataset
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.metrics.speech import word_errors
from glassformer.tasks.transcribe.task import Transcribe

ALPHAS, BETAS = (0.1, 0.3, 0.6, 1.0), (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class FusionScore:
    """Error rates of a search with these weights, with 95 % intervals."""

    alpha: float
    beta: float
    wer: Interval
    cer: Interval


def tune_fusion(
    task: Transcribe,
    rows: Dataset,
    language_model: str,
    *,
    alphas: Sequence[float] = ALPHAS,
    betas: Sequence[float] = BETAS,
    beams: int = 5,
    rescore: bool = False,
) -> Iterator[FusionScore]:
    """Score the search without a language model (weights 0), then with each pair of weights.

    Args:
        rows: of validation: neither the recogniser nor the language model has seen them, and no test is made on them
        language_model: the file of an n-gram model · rescore: it orders the n best texts, in the place of fusion
    Raises: ConfigError: weights out of range. DataError: see `Transcribe.predict` and `load_ngram`.
    """
    pairs = [(0.0, 0.0), *(pair for pair in product(alphas, betas) if any(pair))]
    for alpha, beta in dict.fromkeys(pairs):
        search: dict[str, Any] = {"beams": beams, "language_model": language_model, "rescore": rescore}
        predictions = list(task.for_evaluation(**search, alpha=alpha, beta=beta).predict(rows))
        texts = [each.predicted for each in predictions]
        errors = word_errors([each.label for each in predictions], texts, normaliser=task.normaliser)
        yield FusionScore(alpha, beta, errors.wer, errors.cer)


def best_fusion(scores: Sequence[FusionScore]) -> FusionScore:
    """The lowest word error rate; of equal ones the smallest weights."""
    return min(scores, key=lambda each: (each.wer.value, each.alpha, abs(each.beta)))
