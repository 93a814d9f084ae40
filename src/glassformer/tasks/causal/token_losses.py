"""How surprised a model is: the loss of every token that it should have said, -ln p, in nats.

text       time   flies   like   an    arrow
p                 0.2     0.5    0.1   0.8
surprise          1.61    0.69   2.30  0.22         their mean is the loss, its exponential the perplexity
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from glassformer.core.flow import Output
from glassformer.core.heads import Vocabulary, made, one_tensor
from glassformer.core.losses import HIDDEN, PIECE
from glassformer.errors import UnsupportedError
from glassformer.tasks.base import Examples, Objective
from glassformer.tasks.loop import TOKENS, answers
from glassformer.tasks.microbatch import Example, Pass


@dataclass(frozen=True)
class Surprise:
    """What was said of the labels of an example that count, in their order.

    losses: of each, in nats · true, likeliest: the token that stands there, and the one that the model would have put
    """

    losses: np.ndarray
    true: np.ndarray
    likeliest: np.ndarray


def surprises(
    objective: Objective,
    examples: Examples | Sequence[Example],
    progress: Callable[[int], None] | None = None,
) -> Iterator[Surprise]:
    """Of each example, how surprised the model is by its labels.

    Logits are held for one pass, of as many tokens as `PIECE` numbers do for; a single example is never cut.

    Args: progress: called with how many more examples are done
    Raises: UnsupportedError: the head says no words.
    """
    head = objective.model.network.head
    if not isinstance(head, Vocabulary):
        raise UnsupportedError(
            f"{type(head).__name__} gives no probability for each word of a vocabulary, so there is no perplexity"
        )
    tokens = min(TOKENS, max(1, PIECE // head.decoder.out_features))
    return answers(
        objective,
        examples,
        read=lambda output, item: _read(head, output, item),
        tokens=tokens,
        progress=progress,
    )


def _read(head: Vocabulary, output: Output, item: Pass) -> list[Surprise]:
    labels = head.aligned(one_tensor(item.labels))
    counted = labels != HIDDEN
    logits, true = made(output.logits)[counted].float(), labels[counted]
    losses = logits.logsumexp(-1) - logits.gather(-1, true[:, None])[:, 0]
    of_rows = (
        list(counted) if item.flow.segments is None else counted[0].split(list(item.flow.segments.lengths))
    )
    ends = np.cumsum([0, *(int(row.sum()) for row in of_rows)])
    columns = [x.cpu().numpy() for x in (losses.double(), true, logits.argmax(-1))]
    return [Surprise(*(column[start:end] for column in columns)) for start, end in pairwise(ends)]
