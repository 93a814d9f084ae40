"""Evaluation of answers: a whole system, search and reader, next to its reader alone and the bound of its search.

    the search's bound     share of questions with a right passage among the first k: a reader of them exceeds it only
                           by luck, with words of another passage
    the reader alone       reads the right passage
    the whole system       reads the first k passages of the search

Exact match and F1 of words as SQuAD has them; intervals over questions, differences paired. The distance between bound
and 1 is the search's, that between the reader alone and 1 the reader's, and what the whole system lacks of the
reader alone is what further passages and missing ones cost.
Source: Rajpurkar et al. 2016, "SQuAD", section 6.1 (the metrics); Chen et al. 2017, "Reading Wikipedia to Answer
Open-Domain Questions", section 5 (document retrieval, reader and full system apart).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.errors import DataError
from glassformer.files.schema import Schema
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table
from glassformer.retrieval.answer import AnyReader, read_text
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.queries import LabelledQuery
from glassformer.retrieval.retriever import Retriever, total_ms
from glassformer.tasks.metrics.answers import exact_match, word_f1
from glassformer.tasks.metrics.metric import RESAMPLES, BootstrapMeans, Interval, resampled

BOUND, ALONE, WHOLE = "the search's bound", "the reader alone", "the whole system"
METRICS = {
    "exact_match": "share of questions whose answer has the words of a true one; case, punctuation and articles do not "
    "count",
    "f1": "F1 of the words that an answer shares with the nearest true one, mean over questions",
}
"""Metric → how it is computed."""


@dataclass(frozen=True, kw_only=True)
class AnswerScores(Schema):
    """How well a system answers.

    reads: what its reader is given
    mean_ms: milliseconds a question; None = nothing is read
    """

    name: str
    reads: str
    exact_match: Interval
    f1: Interval
    mean_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReaderEvaluation(Schema):
    """Answers of a reader to the passages of a search, with 95% bootstrap intervals over questions.

    question_count: with a true answer; others are left out
    top, method: of the search
    systems: the bound of the search, the reader alone and the whole system
    cost: F1 of the whole system minus that of the reader alone
    without_passage: questions whose right passage is neither in their row nor in the store: no system answers them
    """

    question_count: int
    top: int
    method: str
    systems: list[AnswerScores]
    cost: Interval
    without_passage: int = 0

    def table(self) -> Table:
        rows = [
            [x.name, x.reads, x.exact_match.cell(), x.f1.cell(), "" if x.mean_ms is None else f"{x.mean_ms:.0f}"]
            for x in self.systems
        ]
        headings = ["system", "reads", "exact match", "F1", "mean ms a question"]
        return Table(headings, rows, f"Answers to {self.question_count:,} questions, in brackets 95% intervals", left=2)

    @property
    def note(self) -> str:
        return f"the whole system is {self.cost.comparison} the reader alone, {self.cost.written(3, signed=True)} F1"


class _Answered(NamedTuple):
    """The answers to a question.

    hit: whether a right passage is among those of the search
    milliseconds: of the reader alone, and of the whole system
    """

    hit: bool
    alone: str
    whole: str
    milliseconds: tuple[float, float]


def evaluate_answers(
    retriever: Retriever,
    queries: Sequence[LabelledQuery],
    reader: AnyReader,
    options: RetrievalOptions | None = None,
    *,
    resamples: int = RESAMPLES,
    bar: Bar = no_bar,
) -> ReaderEvaluation:
    """Evaluate a search with a reader, and the reader alone, on questions whose answers are known.

    Args:
        queries: as `read_queries` gives them; those without an answer are left out
        reader: as `load_reader` gives it
        options: of the search; `top` passages are read
        resamples: of the bootstrap
        bar: shows progress by questions
    Raises: DataError: no query has an answer.
    """
    options = options or RetrievalOptions()
    answerable = [query for query in queries if query.answers]
    if not answerable:
        raise DataError("no query has an answer, with which those of a reader could be compared; give a column of them")
    results, missing, method = [], 0, ""
    with bar("reading", len(answerable)) as advance:
        for query in answerable:
            result = retriever.search(query.question, options)
            method = result.method
            right = _right_passage(query, retriever, result.matches)
            missing += right is None
            alone, alone_ms = _read(reader, query.question, [] if right is None else [right])
            whole, whole_ms = _read(reader, query.question, result.matches)
            whole_ms += total_ms(result.stages)
            hit = any(relevant.matches(x) for relevant in query.relevant for x in result.matches)
            results.append(_Answered(hit, alone, whole, (alone_ms, whole_ms)))
            advance(1)
    return _evaluation(answerable, results, options.top, method, missing, resamples)


def _read(reader: AnyReader, question: str, passages: Sequence[PassageMatch]) -> tuple[str, float]:
    """The answer of a reader, and its milliseconds."""
    start = time.perf_counter()
    text = read_text(reader, question, passages) if passages else ""
    return text, 1000 * (time.perf_counter() - start)


def _right_passage(query: LabelledQuery, retriever: Retriever, matches: Sequence[PassageMatch]) -> PassageMatch | None:
    """The context of the question's row, or the best passage of the store that is relevant; None = there is none."""
    if query.context:
        return PassageMatch(id=-1, score=0.0, file="", text=query.context, start=0, stop=len(query.context))
    among = (x for x in matches if any(relevant.matches(x) for relevant in query.relevant))
    stored = (x for relevant in query.relevant for x in relevant.passages_in(retriever.store))
    return next(among, None) or next(stored, None)


def _evaluation(
    queries: Sequence[LabelledQuery],
    results: Sequence[_Answered],
    top: int,
    method: str,
    missing: int,
    resamples: int,
) -> ReaderEvaluation:
    values = {BOUND: np.array([x.hit for x in results], float)}
    for name, texts in ((ALONE, [x.alone for x in results]), (WHOLE, [x.whole for x in results])):
        for metric, measure in (("exact_match", exact_match), ("f1", word_f1)):
            scored = [measure(text, query.answers) for text, query in zip(texts, queries, strict=True)]
            values[f"{name} {metric}"] = np.array(scored, float)
    scores = resampled(BootstrapMeans(values, dict.fromkeys(values, "")), resamples)
    alone_ms, whole_ms = np.array([x.milliseconds for x in results]).mean(0)

    def system(name: str, reads: str, milliseconds: float) -> AnswerScores:
        exact, f1 = (scores[f"{name} {metric}"].interval for metric in ("exact_match", "f1"))
        return AnswerScores(name=name, reads=reads, exact_match=exact, f1=f1, mean_ms=round(float(milliseconds), 2))

    bound, first = scores[BOUND].interval, f"the first {top} passages by {method}"
    return ReaderEvaluation(
        question_count=len(results),
        top=top,
        method=method,
        systems=[
            AnswerScores(name=BOUND, reads=first, exact_match=bound, f1=bound),
            system(ALONE, "the right passage", alone_ms),
            system(WHOLE, first, whole_ms),
        ],
        cost=scores[f"{WHOLE} f1"].minus(scores[f"{ALONE} f1"]).interval,
        without_passage=missing,
    )
