"""Metrics that are updated batch by batch, in memory that does not grow with the data.

    batch ──update──> state: sufficient statistics (sums) ──compute──> loss, accuracy, F1, …
                        └ the states of several processes are added (all-reduce), and computed in the same way

Every metric adds up the loss of its head, once. A score that would be 0 / 0 is 0, as with scikit-learn's
`zero_division=0`. The scores of rows that are resampled for confidence intervals (`bootstrap.py`) come from the same
functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.deprecation import former_attributes
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.tasks.microbatch import MicroBatch

LOWER_IS_BETTER = frozenset(
    {"loss", "perplexity", "bits", "bits_per_character", "bits_per_token", "wer", "cer", "mse"}
)
"""Metrics of which less is better; of all others more is."""


def greater_is_better(metric: str) -> bool:
    """Is a model better the higher this metric is?"""
    return metric not in LOWER_IS_BETTER


@former_attributes(add="update", figures="compute")
class Metric:
    """Mean loss = Σ over its parts of (sum of losses / labels that count), exactly, however the data was batched.

    state: the sufficient statistics by name; those of several processes, or of parts of the data, are added

    Args: head: whose loss · parts: of what the loss consists, where that is more than one sum
    """

    def __init__(self, head: Head, parts: Sequence[str] = ("loss",)) -> None:
        self.head = head
        self.parts = tuple(parts)
        self.state: dict[str, Tensor] = {}
        for part in parts:
            self.add_state(f"{part}.sum")
            self.add_state(f"{part}.count")

    def add_state(self, name: str, *shape: int) -> None:
        """A further statistic, zero at first. Double precision: sums of millions of losses stay exact enough."""
        self.state[name] = torch.zeros(shape, dtype=torch.float64)

    def update(self, output: Output, batch: MicroBatch) -> None:
        """Add the statistics of one micro-batch."""
        counts = self.head.label_counts(batch.labels)
        with torch.no_grad():
            for part, total in self.head.output_loss_sums(output, batch.labels).items():
                self.state[f"{part}.sum"] += total.cpu().double()
                self.state[f"{part}.count"] += counts[part]

    def compute(self) -> dict[str, float]:
        """The scores of all that was added.

        Raises: DataError: nothing that counts was added.
        """
        counts = [float(self.state[f"{part}.count"]) for part in self.parts]
        if not any(counts):
            raise DataError("nothing to evaluate: none of the examples has a label that counts")
        sums = (float(self.state[f"{part}.sum"]) for part in self.parts)
        return {"loss": sum(total / max(count, 1) for total, count in zip(sums, counts, strict=True))}


class PerplexityMetric(Metric):
    """perplexity = exp(mean loss per token): among how many tokens the model is undecided, as if all were as likely.

    1 where it is certain and right, about the size of the vocabulary before training. The mean is over tokens, not over
    texts or batches. `bits` is the same as bits per token: loss / ln 2.

    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks".
    """

    def compute(self) -> dict[str, float]:
        scores = super().compute()
        loss = scores["loss"]
        # exp(710) overflows a double
        return {**scores, "perplexity": float(np.exp(min(loss, 700.0))), "bits": loss / math.log(2)}


def counted_labels(output: Output, batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """The most likely class and the true one, wherever a label counts. [n] each"""
    assert output.logits is not None and isinstance(batch.labels, Tensor)
    true = batch.labels.flatten()
    counts = true >= 0  # IGNORE_INDEX is negative
    return output.logits.flatten(0, -2)[counts].argmax(-1), true[counts]
