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

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError
from glassformer.tasks.metrics.metric import Metric

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import ArrayLike

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


def ranked_spans(
    start: Float[Tensor, "T"],
    end: Float[Tensor, "T"],
    context: tuple[int, int],
    longest: int = LONGEST,
    count: int = 1,
) -> list[tuple[float, int, int]]:
    """The spans of a text with the highest start + end, best first, under the conditions of `best_spans`.

    Args:
        count: how many at most
    Returns: score, first and last token of each.
    """
    first, last = context
    tokens = last - first + 1
    if tokens < 1:
        return []
    inner = slice(first, last + 1)
    begins, ends = start[inner].float().cpu(), end[inner].float().cpu()
    allowed = torch.ones(tokens, tokens, dtype=torch.bool).triu().tril(longest - 1)
    joint = (begins[:, None] + ends).masked_fill(~allowed, -torch.inf).flatten()
    best = joint.topk(min(count, int(allowed.sum())))
    places = (divmod(place, tokens) for place in best.indices.tolist())
    return [(score, first + a, first + b) for score, (a, b) in zip(best.values.tolist(), places, strict=True)]


def best_threshold(differences: ArrayLike, answered: ArrayLike, unanswered: ArrayLike) -> tuple[float, float]:
    """The threshold above which "no answer" is the best answer to a question, for questions whose answers are known.

    A question is answered where its difference is at most the threshold. Of equally good thresholds the one that
    answers the fewest questions.

    Args:
        differences: the score of "no answer" minus that of the best span; ∞ where there is no span. [questions]
        answered: the metric of the best span. [questions]
        unanswered: the metric of "no answer". [questions]
    Returns: the threshold, half way between two differences, and the mean of the metric with it.
    Source: `find_best_thresh` of the official script of SQuAD 2.0 (Rajpurkar et al. 2018).
    """
    difference, with_answer, without = (np.asarray(x, dtype=float) for x in (differences, answered, unanswered))
    order = np.argsort(difference, kind="stable")
    order = order[np.isfinite(difference[order])]
    steps = difference[order]
    if not len(steps):
        return 0.0, float(without.mean())
    totals = np.concatenate(([0.0], (with_answer - without)[order].cumsum()))
    # Equal differences are on the same side of any threshold.
    possible = np.concatenate(([True], steps[1:] > steps[:-1], [True]))
    best = int(np.argmax(np.where(possible, totals, -np.inf)))
    around = np.concatenate(([steps[0] - 2], steps, [steps[-1] + 2]))
    return float(around[best : best + 2].mean()), float(without.mean() + totals[best] / len(difference))


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
    Where some questions have no answer, `no_answer_threshold` is the one with the highest F1, with which both metrics
    are computed; where all have one, each is answered.

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
        best = [max(windows, key=lambda window: window.score) for windows in questions.values()]  # of equals the first
        none = [min(window.no_answer for window in windows) for windows in questions.values()]
        differences = [no_answer - answer.score for answer, no_answer in zip(best, none, strict=True)]
        threshold, scores = math.inf, loss
        if any(answer.f1_of_none for answer in best):
            threshold, _ = best_threshold(differences, *zip(*((x.f1, x.f1_of_none) for x in best), strict=True))
            scores = {**loss, "no_answer_threshold": threshold}
        answered = [difference <= threshold for difference in differences]
        chosen = list(zip(best, answered, strict=True))
        exact = sum(x.exact if given else x.exact_of_none for x, given in chosen)
        f1 = sum(x.f1 if given else x.f1_of_none for x, given in chosen)
        return {**scores, "exact_match": exact / len(questions), "f1": f1 / len(questions)}


# ---------------------------------------------------------------------------------------- answers as texts


def words_of(text: str) -> list[str]:
    """The words that count, of a text in lower case without punctuation."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 where the words are those of an answer, else 0.

    Args:
        answers: any is right; none = there is no answer
    """
    return float(any(words_of(predicted) == words for words in _true_words(answers)))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """F1 of the words that the predicted answer shares with a gold answer.

    Args:
        answers: the best counts; none = there is no answer
    """
    words = words_of(predicted)
    return max(_shared_words(words, true) for true in _true_words(answers))


def _true_words(answers: Sequence[str]) -> list[list[str]]:
    """The words of each true answer; by the rules of SQuAD 2.0, one of articles and punctuation alone is none."""
    return [words for answer in answers if (words := words_of(answer))] or [[]]


def _shared_words(predicted: list[str], true: list[str]) -> float:
    if not predicted or not true:
        return float(predicted == true)
    shared = (Counter(predicted) & Counter(true)).total()
    return 2 * shared / (len(predicted) + len(true))
