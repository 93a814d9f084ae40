"""Extractive reader: the answer to a question as a part of one of several passages, with its place in the file.

    passages of a search ──windows──> model ──> spans of every window ──joint score──> the best spans, none overlapping
                                            └─> "no answer": first where it beats every span by more than a threshold

    span score = start logit + end logit - log Σ e^start - log Σ e^end  sums over the tokens of all windows: log P(span)
    score      = w · span score + (1 - w) · log P(passage)              P(passage): softmax of the search's scores, in
                                                                        units of their standard deviation

Logits are compared across passages as they are, so that a passage without an answer may lose to every other; a softmax
within each would make its best span as likely as that of the right one.
Sources: Clark and Gardner 2018, "Simple and effective multi-paragraph reading comprehension", section 3 (one sum for
all); Yang et al. 2019, "End-to-end open-domain question answering with BERTserini", section 3.3 (the combination).
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import check_count, safe_repr
from glassformer.files.schema import Schema
from glassformer.model import Model
from glassformer.tasks.metrics.answers import LONGEST, ranked_spans
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.pipeline_registry import pipeline
from glassformer.tasks.question_answering import word_place
from glassformer.tasks.span import AnswerText, Question, check_asked

if TYPE_CHECKING:
    from glassformer.text.engine import EncodedRow

READER_WEIGHT = 0.2
"""Weight of the reader in the joint score: of tenths the best for BM25 and for dense search (docs/tasks.md)."""
LEAST_CHANCE = 0.0005
"""That an answer begins or ends with a word, from which on the word is listed."""


class RankedPassage(Protocol):
    """What a reader needs of a passage; a search gives more.

    text: its text
    start: its first character in the document
    score: by which the search ranked it, higher is better
    """

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def score(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class PassageSpan(Schema):
    """An answer in a passage.

    text: the answer; "" = there is none in any passage, and `passage` is None
    passage: the number of its passage among those that were read
    start, stop: its characters in the passage
    file_start, file_stop: its characters in the document
    place: the file, and its line or page there; "" = of an answer without a file
    score: by which spans are ranked, joined of the next two; of "no answer" that of the span which it beats, and the
        distance to it
    span_score: log-probability of the span among all tokens of all passages
    passage_score: by which the search ranked the passage
    """

    text: str
    passage: int | None
    start: int = 0
    stop: int = 0
    file_start: int = 0
    file_stop: int = 0
    place: str = ""
    score: float
    span_score: float
    passage_score: float = 0.0

    @property
    def answered(self) -> bool:
        """Whether it is an answer, and not that there is none."""
        return self.passage is not None


@dataclass(frozen=True, kw_only=True)
class BoundaryScore(Schema):
    """How likely the answer begins or ends with a word of a passage.

    start, stop: characters of the word in the passage
    begins, ends: probabilities, of all words of all passages that were read together
    """

    text: str
    start: int
    stop: int
    begins: float
    ends: float


class Reader:
    """Finds answers to questions in passages, with a model for question answering.

        reader = Reader("runs/xquad/model")
        reader.read("how long?", retriever.search("how long?"), top=3)

    Args:
        model: one loaded with task="question-answering", or its folder or name
        weight: of the reader in the joint score, 0 to 1; 1 = the search only chooses the passages
        window, stride: tokens of a window, and those that neighbours share; see `AnswerText`
        longest: tokens of the longest answer
    Raises: WeightsError: the model was not trained to find answers. UnsupportedError: it cannot be.
    """

    def __init__(
        self,
        model: Model | str | Path,
        *,
        weight: float = READER_WEIGHT,
        window: int | None = None,
        stride: int | None = None,
        longest: int = LONGEST,
    ) -> None:
        if not 0 <= weight <= 1:
            raise ConfigError(f"weight is {safe_repr(weight)}; it must be a number from 0 to 1")
        self.model, self.weight = pipeline("question-answering", model).model, weight
        self.task = AnswerText(self.model, max_tokens=window, stride=stride, longest=longest)

    def read(self, question: str, passages: Sequence[RankedPassage], *, top: int = 1) -> list[PassageSpan]:
        """The best answers to a question in passages; see `read_with_boundaries`."""
        return self.read_with_boundaries(question, passages, top=top)[0]

    def read_with_boundaries(
        self, question: str, passages: Sequence[RankedPassage], *, top: int = 1
    ) -> tuple[list[PassageSpan], list[list[BoundaryScore]]]:
        """The best answers to a question in passages, best first; none overlaps a better one of the same place.

        Where the score of "no answer", in the window that is least for it, exceeds that of the best span by more than
        the threshold of the model (as tuned in training, else 0), the first is that there is none.

        Args:
            passages: as a search gives them; their numbers in the spans are those of this list
            top: how many at most; a warning where there are fewer
        Returns: the answers; and for each passage the words with which the answer may begin or end
        Raises: DataError: a question or a passage without a word, or a question that leaves no room for a passage.
        """
        check_asked("question", question)
        check_count("top", top)
        for number, passage in enumerate(passages):
            if not passage.text.strip():
                raise DataError(f"passage {number} is {safe_repr(passage.text)}; it must have a word")
        if not passages:
            return [], []
        windows = self._windows(question, passages)
        spans = _apart(self._ranked(windows, passages), passages, top)
        if none := self._no_answer(windows, spans):
            spans = [none, *spans][:top]
        if spans and len(spans) < top:
            warnings.warn(f"top is {top}, and the passages have {len(spans)} answers that do not overlap", stacklevel=3)
        return spans, _boundaries(windows, passages)

    def _windows(self, question: str, passages: Sequence[RankedPassage]) -> list[_Window]:
        """The windows of all passages, with their logits."""
        encoding = self.task.windows([question] * len(passages), [passage.text for passage in passages])
        owners = encoding.overflow_to_sample
        examples = [
            self.task.example(row, Question(question, passages[owner].text, []))
            for row, owner in zip(encoding.rows, owners, strict=True)
        ]
        outputs = run_examples(self.task, examples, tokens=self.task.evaluation.tokens, labelled=False)
        parts = zip(encoding.rows, owners, examples, outputs, strict=True)
        return [
            _Window(row, owner, tuple(example["context"].tolist()), start.float().cpu(), end.float().cpu())
            for row, owner, example, (start, end) in parts
        ]

    def _ranked(self, windows: Sequence[_Window], passages: Sequence[RankedPassage]) -> Iterator[PassageSpan]:
        """The spans of windows, best first; of one window, none overlaps a better one."""
        whole = _log_normaliser(windows)
        chances = _log_softmax([passage.score for passage in passages])
        heap: list[tuple[float, int, int, int, float, int, int]] = []

        def push(number: int, begin: int, stop: int) -> None:
            """The best span of a stretch of a window's tokens."""
            window = windows[number]
            for score, first, last in ranked_spans(window.start, window.end, (begin, stop), self.task.longest):
                joint = self.weight * (score - whole) + (1 - self.weight) * chances[window.passage]
                heapq.heappush(heap, (-joint, number, begin, stop, score - whole, first, last))

        for number, window in enumerate(windows):
            push(number, *window.context)
        while heap:
            joint, number, begin, stop, span_score, first, last = heapq.heappop(heap)
            push(number, begin, first - 1)  # what is left of the stretch, on either side of the span
            push(number, last + 1, stop)
            row, owner = windows[number].row, windows[number].passage
            place = word_place(row, first)[0], word_place(row, last)[1]
            yield _span(owner, passages[owner], place, -joint, span_score)

    def _no_answer(self, windows: Sequence[_Window], spans: Sequence[PassageSpan]) -> PassageSpan | None:
        """That there is no answer, where it beats each span by more than the threshold."""
        best = [
            score
            for window in windows
            for score, *_ in ranked_spans(window.start, window.end, window.context, self.task.longest)
        ]
        if not best:
            return PassageSpan(text="", passage=None, score=0.0, span_score=0.0)
        none = min(float(window.start[0] + window.end[0]) for window in windows)
        beaten = none - max(best) - self.task.threshold
        if beaten <= 0:
            return None
        score = spans[0].score + self.weight * beaten
        return PassageSpan(text="", passage=None, score=score, span_score=none - _log_normaliser(windows))


def _span(number: int, passage: RankedPassage, place: tuple[int, int], score: float, span_score: float) -> PassageSpan:
    start, stop = place
    return PassageSpan(
        text=passage.text[start:stop], passage=number, start=start, stop=stop, file_start=passage.start + start,
        file_stop=passage.start + stop, score=score, span_score=span_score, passage_score=passage.score,
    )  # fmt: skip


class _Window(NamedTuple):
    """A window of a passage: its tokens, the number of the passage, first and last token of it, and logits. [tokens]"""

    row: EncodedRow
    passage: int
    context: tuple[int, int]
    start: Tensor
    end: Tensor


def _inner(windows: Sequence[_Window]) -> list[Tensor]:
    """The logits of start and of end, of the tokens of all windows that an answer may be of."""
    spans = [slice(window.context[0], window.context[1] + 1) for window in windows]
    sides = [window.start for window in windows], [window.end for window in windows]
    return [torch.cat([logits[span] for logits, span in zip(side, spans, strict=True)]) for side in sides]


def _log_normaliser(windows: Sequence[_Window]) -> float:
    """log Σ e^start + log Σ e^end, over the tokens of all windows that an answer may be of."""
    return sum(float(logits.logsumexp(0)) for logits in _inner(windows))


def _boundaries(windows: Sequence[_Window], passages: Sequence[RankedPassage]) -> list[list[BoundaryScore]]:
    """The words of each passage with which the answer may begin or end, in their order.

    Summed over the tokens of a word, and over the windows that have it: all of them together sum to 1.
    """
    starts, ends = (logits.softmax(0).tolist() for logits in _inner(windows))
    words: list[dict[tuple[int, int], list[float]]] = [{} for _ in passages]
    at = 0
    for window in windows:
        for token in range(window.context[0], window.context[1] + 1):
            sums = words[window.passage].setdefault(word_place(window.row, token), [0.0, 0.0])
            sums[0] += starts[at]
            sums[1] += ends[at]
            at += 1
    return [
        [
            BoundaryScore(
                text=passage.text[start:stop], start=start, stop=stop, begins=round(begins, 4), ends=round(finishes, 4)
            )
            for (start, stop), (begins, finishes) in sorted(own.items())
            if max(begins, finishes) >= LEAST_CHANCE
        ]
        for passage, own in zip(passages, words, strict=True)
    ]


def _log_softmax(scores: Sequence[float]) -> list[float]:
    """The log-probability of each passage, by its score in units of the standard deviation of all of them.

    BM25 gives scores of any size and cosines lie within 1 of each other: the units make one weight fit both.
    """
    values = np.asarray(scores, dtype=float)
    scaled = (values - values.max()) / (values.std() or 1.0)
    log_chances: list[float] = (scaled - np.log(np.exp(scaled).sum())).tolist()
    return log_chances


def _apart(spans: Iterable[PassageSpan], passages: Sequence[RankedPassage], top: int) -> list[PassageSpan]:
    """The best spans, of those that come best first, of which none overlaps a better one."""
    apart: list[PassageSpan] = []
    for span in spans:
        if not any(_overlap(span, other, passages) for other in apart):
            apart.append(span)
            if len(apart) == top:
                break
    return apart


def _overlap(one: PassageSpan, other: PassageSpan, passages: Sequence[RankedPassage]) -> bool:
    """Whether two spans share a character of a document; passages that name no file share nothing."""
    if one.passage is None or other.passage is None:
        return False
    places = (one.passage, other.passage) if one.passage != other.passage else (0, 0)
    files = [getattr(passages[number], "file", number) for number in places]
    return files[0] == files[1] and one.file_start < other.file_stop and other.file_start < one.file_stop
