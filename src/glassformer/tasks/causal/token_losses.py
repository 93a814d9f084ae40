"""Token losses: the negative log-likelihood -ln p of every label, in nats.

text       time   flies   like   an    arrow
p                 0.2     0.5    0.1   0.8
surprise          1.61    0.69   2.30  0.22         their mean is the loss, its exponential the perplexity
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from glassformer.core.flow import Output
from glassformer.core.heads import not_none, single_tensor
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.losses import CHUNK_LOGITS, IGNORE_INDEX
from glassformer.errors import UnsupportedError
from glassformer.tasks.base import Examples, Task
from glassformer.tasks.loop import TOKENS, run_examples
from glassformer.tasks.microbatch import Example, MicroBatch
from glassformer.tasks.predictions import Prediction


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each label of an example that counts, in their order.

    losses: in nats · true, top_token: the token that stands there, and the one that the model finds most likely. [n]
    """

    losses: np.ndarray
    true: np.ndarray
    top_token: np.ndarray


def token_losses(
    task: Task,
    examples: Examples | Sequence[Example],
    progress: Callable[[int], None] | None = None,
) -> Iterator[TokenLosses]:
    """The losses of the labels of each example.

    Logits are held for one micro-batch, of as many tokens as `PIECE` numbers do for; a single example is never cut.

    Args: progress: called with how many more examples are done
    Raises: UnsupportedError: the head says no words.
    """
    head = task.model.network.head
    if not isinstance(head, TokenPrediction):
        raise UnsupportedError(
            f"{type(head).__name__} gives no probability for each word of a vocabulary, so there is no perplexity"
        )
    tokens = min(TOKENS, max(1, CHUNK_LOGITS // head.decoder.out_features))
    return run_examples(
        task,
        examples,
        read=lambda output, item: _read(head, output, item),
        tokens=tokens,
        progress=progress,
    )


def _read(head: TokenPrediction, output: Output, item: MicroBatch) -> list[TokenLosses]:
    labels = head.align_labels(single_tensor(item.labels))
    counted = labels != IGNORE_INDEX
    logits, true = not_none(output.logits)[counted].float(), labels[counted]
    losses = logits.logsumexp(-1) - logits.gather(-1, true[:, None])[:, 0]
    of_rows = list(counted) if item.flow.packing is None else counted[0].split(list(item.flow.packing.lengths))
    ends = np.cumsum([0, *(int(row.sum()) for row in of_rows)])
    columns = [x.cpu().numpy() for x in (losses.double(), true, logits.argmax(-1))]
    return [TokenLosses(*(column[start:end] for column in columns)) for start, end in pairwise(ends)]


def perplexity(loss: np.ndarray) -> np.ndarray:
    """exp(mean loss). The exponential of 710 overflows a double."""
    scores: np.ndarray = np.exp(np.minimum(loss, 700.0))
    return scores


def score_prediction(
    *,
    index: int,
    where: str,
    row: dict[str, Any],
    ids: np.ndarray,
    losses: np.ndarray,
    alone: int,
    details: dict[str, Any],
) -> Prediction:
    """The prediction of a stretch: its tokens, the loss of each, and how many have no context before them."""
    tokens = len(ids) - alone
    return Prediction(
        index=index,
        where=where,
        row=row,
        label=None,
        predicted=None,
        loss=float(losses[alone:].mean()) if tokens else None,
        details={
            **details,
            "characters": len(row.get("answer", row.get("text", ""))),
            "tokens": tokens,
            "nats": float(losses.sum()),
            "ids": [int(number) for number in ids],
            "losses": [round(float(loss), 4) for loss in losses],
        },
    )


def loss_sums(predictions: Sequence[Prediction], *details: str) -> np.ndarray:
    """The sum of the losses of each row, how many tokens these are of, and further details. [N, 2 + K]"""
    rows = [
        [(x.loss or 0.0) * x.details["tokens"], x.details["tokens"], *(x.details[name] for name in details)]
        for x in predictions
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2 + len(details))
