"""Metrics of extractive question answering: the best span by its two ends, exact match and F1 of tokens or words.

    tokens   [CLS] how much ? [SEP] holds 6000 hours of music [SEP]
    start      1.2   …                     3.1  0.2                     start alone: 6000
    end        0.9   4.0 (much!)                2.8                     end alone: much, before the start and outside
    span                                   6000 hours                   the best pair with start ≤ end, in the context

    predicted "about 6000 hours", true "6000 hours"     exact match 0      precision 2/3, recall 2/2: F1 0.8
    predicted "about 6000 dollars", true "6000 hours"   exact match 0      precision 1/3, recall 1/2: F1 0.4

Scores compare texts, as SQuAD does: case, punctuation, articles (a, an, the) and white space do not count. Of several
true answers the one that fits best counts. "No answer" is the span of the first token, and an empty text, which fits
only itself. A long context has several windows; its answer is the best span of all of them:

    windows   [CLS] question [SEP] it plays 6000 hours [SEP]     best span 5.9    none 1.2
              [CLS] question [SEP] hours of music .    [SEP]     best span 0.3    none 4.0    answer: 5.9 > 1.2

Sources: Devlin et al. 2019, sections 4.2 and 4.3: the score of a span is the sum of its two. Rajpurkar et al. 2016,
"SQuAD", section 6.1, for exact match and F1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError
from glassformer.tasks.metrics.metric import Metric

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LONGEST = 30
"""Default maximum number of tokens of an answer; Devlin et al. 2019, released code."""

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def best_spans(
    start: Float[Tensor, "B T"],
    end: Float[Tensor, "B T"],
    context: Int[Tensor, "B 2"],
    longest: int = LONGEST,
) -> tuple[Int[Tensor, "B 2"], Float[Tensor, "B"]]:
    """The span with the highest start + end: start ≤ end, both in the context, at most this many tokens.

    Args:
        start, end: scores of each token
        context: its first and last token; none where the last is before the first
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


class WindowAnswer(NamedTuple):
    """What a reader makes of one window.

    question: the number of its row
    window: orders the windows of a question
    score, no_answer: of its best span, and of "no answer"
    f1, exact: of its best span as a text
    f1_of_none, exact_of_none: of "no answer"
    """

    question: float
    window: float
    score: float
    no_answer: float
    f1: float
    exact: float
    f1_of_none: float
    exact_of_none: float


class SpanMetric(Metric):
    """The share of questions whose answer is exactly right, and the F1 of the words that predicted and true one share.

    Each question counts once, with the answer that all of its windows together give, as in the report of an evaluation.

    Args:
        longest: tokens of an answer
    Source: the two metrics: Rajpurkar et al. 2016, section 6.1.
    """

    def __init__(self, head: Head, longest: int = LONGEST) -> None:
        super().__init__(head, ("start", "end"))
        self.longest = longest

    def update(self, output: Output, batch: Any) -> None:
        """Add the answers of a `SpanBatch`, which knows the text and the true answers of each window."""
        super().update(output, batch)
        assert output.start_logits is not None and output.end_logits is not None
        spans, scores = best_spans(output.start_logits, output.end_logits, batch.context, self.longest)
        none = output.start_logits[:, 0].float() + output.end_logits[:, 0].float()
        values = zip(spans.tolist(), scores.tolist(), none.tolist(), batch.windows, batch.indices, strict=True)
        for span, score, no_answer, window, index in values:
            texts = window.text_of(span), ""
            of_texts = [measure(text, window.answers) for text in texts for measure in (word_f1, exact_match)]
            self.records.append(list(WindowAnswer(window.question, index, score, no_answer, *of_texts)))

    def compute(self) -> dict[str, float]:
        loss = super().compute()  # which says so where nothing was added
        questions: dict[float, list[WindowAnswer]] = {}
        for answer in sorted(WindowAnswer(*record) for record in self.records):
            questions.setdefault(answer.question, []).append(answer)
        f1 = exact = 0.0
        for windows in questions.values():
            best = max(windows, key=lambda window: window.score)  # of equals the first
            answered = best.score > min(window.no_answer for window in windows)
            f1 += best.f1 if answered else best.f1_of_none
            exact += best.exact if answered else best.exact_of_none
        return {**loss, "exact_match": exact / len(questions), "f1": f1 / len(questions)}


# ---------------------------------------------------------------------------------------- answers as texts


def words_of(text: str) -> list[str]:
    """The words that count, of a text in lower case without punctuation."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 where the words are those of an answer, else 0.

    Args:
        answers: any is right; none = there is no answer
    """
    return float(any(words_of(predicted) == words_of(answer) for answer in answers or [""]))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """F1 of the words that the predicted answer shares with a gold answer.

    Args:
        answers: the best counts; none = there is no answer
    """
    return max(_shared_words(words_of(predicted), words_of(answer)) for answer in answers or [""])


def _shared_words(predicted: list[str], true: list[str]) -> float:
    if not predicted or not true:
        return float(predicted == true)
    shared = (Counter(predicted) & Counter(true)).total()
    return 2 * shared / (len(predicted) + len(true))
