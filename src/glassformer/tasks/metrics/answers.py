"""Metrics of extractive question answering: the best span by its two ends, exact match and F1 of tokens or words.

    tokens   [CLS] how much ? [SEP] holds 6000 hours of music [SEP]
    start      1.2   …                     3.1  0.2                     start alone: 6000
    end        0.9   4.0 (much!)                2.8                     end alone: much, before the start and outside
    span                                   6000 hours                   the best pair with start ≤ end, in the context

    said "about 6000 hours", true "6000 hours"       exact match 0      precision 2/3, recall 2/2: F1 0.8
    said "about 6000 dollars", true "6000 hours"     exact match 0      precision 1/3, recall 1/2: F1 0.4

A validation scores spans of tokens, an evaluation their texts, as SQuAD does: case, punctuation, articles (a, an, the)
and what white space there is do not count. Of several true answers the one that fits best counts. "No answer" is the
span of the first token, and an empty text, which fits only itself.

Sources: Devlin et al. 2019, sections 4.2 and 4.3: the score of a span is the sum of its two. Rajpurkar et al. 2016,
"SQuAD", section 6.1, for exact match and F1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError
from glassformer.tasks.metrics.metric import Metric

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LONGEST = 30
"""No answer has more tokens, unless said otherwise; Devlin et al. 2019, released code."""

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def best_spans(
    start: Float[Tensor, "B T"],
    end: Float[Tensor, "B T"],
    context: Int[Tensor, "B 2"],
    longest: int = LONGEST,
) -> tuple[Int[Tensor, "B 2"], Float[Tensor, "B"]]:
    """The span with the highest start + end: start ≤ end, both in the context, at most so many tokens.

    Args: start, end: scores of each token · context: its first and last token; none where the last is before the first
    Returns: first and last token, and the score; -∞ where there is no context. Among equals the shortest, the first.
    Raises: ConfigError: spans of no token.
    """
    if longest < 1:
        raise ConfigError(f"longest is {longest}; an answer has at least one token")
    tokens = torch.arange(start.shape[1], device=start.device)
    context = context.to(start.device)
    inside = (tokens >= context[:, :1]) & (tokens <= context[:, 1:])
    start, end = (x.float().masked_fill(~inside, -torch.inf) for x in (start, end))
    best = torch.full((len(start),), -torch.inf, device=start.device)
    spans = torch.zeros(len(start), 2, dtype=torch.int64, device=start.device)
    # By length, of which there are few: all pairs of tokens at once would take [B, T, T].
    for more in range(min(longest, start.shape[1])):  # a span of 1 + more tokens
        scores, first = (start[:, : start.shape[1] - more] + end[:, more:]).max(-1)
        better = scores > best
        best = torch.where(better, scores, best)
        spans = torch.where(better[:, None], torch.stack((first, first + more), -1), spans)
    return spans, best


class SpanMetric(Metric):
    """How many answers are exactly right, and the F1 of the tokens that said and true answer share.

    The said span is that of `best_spans`, or the first token (no answer) where that scores higher. Each window of a
    long text is judged by itself; of several true answers the one that fits best counts. As in SQuAD, where one side
    says that there is no answer, both figures are 1 if the other does too and else 0.

    Args: longest: tokens of an answer
    Source: the two figures: Rajpurkar et al. 2016, section 6.1, there on words.
    """

    def __init__(self, head: Head, longest: int = LONGEST) -> None:
        super().__init__(head, ("start", "end"))
        self.longest = longest
        self.add_state("answers", 3)  # how many, exactly right, Σ F1

    def update(self, output: Output, batch: Any) -> None:
        """Add the statistics of a `SpanBatch`, which knows the context and the answers of each text."""
        super().update(output, batch)
        assert output.start_logits is not None and output.end_logits is not None
        spans, scores = best_spans(output.start_logits, output.end_logits, batch.context, self.longest)
        silent = output.start_logits[:, 0].float() + output.end_logits[:, 0].float() >= scores
        spans[silent] = 0
        pairs = list(zip(spans.tolist(), batch.answers, strict=True))
        exact = sum(predicted in answers for predicted, answers in pairs)
        f1 = sum(max(overlap(predicted, true) for true in answers) for predicted, answers in pairs)
        self.state["answers"] += torch.tensor([len(pairs), exact, f1], dtype=torch.float64)

    def compute(self) -> dict[str, float]:
        loss = super().compute()  # which says so where nothing was added
        count, exact, f1 = self.state["answers"].tolist()
        return {**loss, "exact_match": exact / count, "f1": f1 / count}


def overlap(predicted: Sequence[int], true: Sequence[int]) -> float:
    """F1 of the tokens of two spans, each its first and last token. [0, 0] is no answer, which shares nothing."""
    if 0 in (*predicted, *true):
        return float(list(predicted) == list(true))
    shared = min(predicted[1], true[1]) - max(predicted[0], true[0]) + 1
    return 2 * max(shared, 0) / (predicted[1] - predicted[0] + true[1] - true[0] + 2)


# ---------------------------------------------------------------------------------------- answers as texts


def words_of(text: str) -> list[str]:
    """The words that count, of a text in lower case without punctuation."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 where the words are those of an answer, else 0. Args: answers: any is right; none = there is no answer"""
    return float(any(words_of(predicted) == words_of(answer) for answer in answers or [""]))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """F1 of the words that said and true answer share. Args: as `exact_match`"""
    return max(_shared_words(words_of(predicted), words_of(answer)) for answer in answers or [""])


def _shared_words(predicted: list[str], true: list[str]) -> float:
    if not predicted or not true:
        return float(predicted == true)
    shared = (Counter(predicted) & Counter(true)).total()
    return 2 * shared / (len(predicted) + len(true))
