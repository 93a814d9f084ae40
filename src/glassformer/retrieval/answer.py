"""Answers from documents: the passages that a search finds, and what in them answers the question.

    reader                 the best span of all passages, by a question-answering model
    none                   the sentence of the best passage that is nearest to the question

The answer names the passage that it is from, and its place in the file.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.reports.charts import Passages
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.retrieval.embedder import unit
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.reader import PassageSpan, Reader
from glassformer.retrieval.retriever import (
    RetrievalResult,
    Retriever,
    Stage,
    StageTimer,
    passage_tables,
    stages_table,
    whole_passages,
)
from glassformer.retrieval.words import query_terms, terms
from glassformer.tasks.pipeline_registry import pipeline
from glassformer.text.sentences import rules_for, sentence_spans

OTHERS = 2
"""Less likely answers that are given too."""
NO_READER = (
    "this is the sentence that is nearest to the question; a question-answering model (--reader MODEL) finds the words "
    "that answer it: `glassformer train --task answer` trains one"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Report, kind="answer"):
    """An answer from documents, with the passage that says it.

    question: as it was asked
    answer: a text; "" = the documents have none
    passage: the one that it is from, among `matches`; None = there is no answer
    start, stop: its characters in the document
    score: of the answer, the reader's and the search's joined (`retrieval/reader.py`); of a sentence, its similarity to
        the question
    others: answers of the reader that are less likely, the best first
    matches: passages that the search gave, the best first
    method: of the search
    stages: of the search and of reading, with their times
    notes: what a reader of the answer should know
    """

    question: str
    answer: str
    passage: int | None = None
    start: int = 0
    stop: int = 0
    score: float | None = None
    others: list[PassageSpan] = field(default_factory=list)
    matches: list[PassageMatch]
    method: str
    stages: list[Stage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def source(self) -> PassageMatch | None:
        """The passage that the answer is from."""
        return None if self.passage is None else self.matches[self.passage]

    @property
    def caption(self) -> str:
        return self.question

    @property
    def finding(self) -> str:
        if self.source is None:
            return "The documents do not answer this." if self.matches else "The documents have nothing about this."
        return f"{self.answer}\n\nfrom {self.source.place}"

    def tables(self) -> list[Table]:
        return [*self._less_likely(), *passage_tables(self.matches)]

    def _less_likely(self) -> list[Table]:
        rows = [[f"{x.joint:.2f}", self.matches[x.passage or 0].place, x.text] for x in self.others]
        return [Table(["less likely", "place", "answer"], rows, left=3)] if rows else []

    def page_tables(self) -> list[Table]:
        return [*self._less_likely(), stages_table(self.stages, folded=True)]

    def passages(self) -> list[Passages]:
        return whole_passages(self.matches)

    def trace(self) -> Table:
        """The stages, with their times."""
        return stages_table(self.stages)


def ask(
    question: str, retriever: Retriever, options: AskOptions | None = None, *, reader: Reader | None = None
) -> Answer:
    """Answer a question from the documents of a store.

    Args:
        reader: one that is loaded already; None = that of the options
    Raises: as `Retriever.search`.
    """
    options = options or AskOptions()
    result = retriever.search(question, options)
    if not result.matches:
        return _answer(result)
    if reader is None and options.reader is not None:
        reader = load_reader(options.reader)
    timer = StageTimer(result.stages)
    if reader is None:
        with timer.stage("nearest sentence", [0]):
            begin, end, score = nearest_sentence(question, result.matches[0], retriever)
        return _answer(result, 0, begin, end, score, stages=timer.stages, notes=[*result.notes, NO_READER])
    spans: list[PassageSpan] = []
    with timer.stage("read", spans), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "top is ")  # fewer answers than could be given are no surprise
        spans += reader.read(question, result.matches, top=1 + OTHERS)
    first, *others = spans
    more: dict[str, Any] = {"stages": timer.stages, "others": [x for x in others if x.answered]}
    return _answer(result, first.passage, first.start, first.stop, round(first.joint, 4), **more)


def load_reader(model: str, **loading: Any) -> Reader:
    """A reader.

    Args:
        model: for question answering: a folder or Hub name
        loading: keywords of `load`
    Raises: WeightsError: the model was not trained to find answers.
    """
    return Reader(pipeline("question-answering", model, **loading).model)


def _answer(
    result: RetrievalResult,
    passage: int | None = None,
    begin: int = 0,
    end: int = 0,
    score: float | None = None,
    **more: Any,
) -> Answer:
    """An answer.

    Args:
        begin, end: its characters in the passage
    """
    source = None if passage is None else result.matches[passage]
    text, first = ("", 0) if source is None else (source.text[begin:end], source.start)
    return Answer(
        question=result.question, answer=text, passage=passage, start=first + begin, stop=first + end, score=score,
        matches=result.matches, method=result.method, **{"stages": result.stages, "notes": result.notes, **more},
    )  # fmt: skip


def nearest_sentence(question: str, passage: PassageMatch, retriever: Retriever) -> tuple[int, int, float]:
    """The sentence of a passage that is nearest to a question: its first and last character, and how near it is.

    By the cosine of their vectors; without a sentence encoder by the share of the question's terms that it has.
    """
    language = retriever.store.settings.language
    spans = [_trimmed(passage.text, *span) for span in sentence_spans(passage.text, rules_for(language))]
    sentences = [passage.text[begin:end] for begin, end in spans]
    if retriever.embedder is None:
        wanted = set(query_terms(question, language))
        scores = np.array([len(wanted & set(terms(text, language))) / max(len(wanted), 1) for text in sentences])
    else:
        scores = unit(retriever.embedder.passages(sentences).astype(np.float32)) @ unit(
            retriever.embedder.query(question)
        )
    best = int(scores.argmax())
    return (*spans[best], round(float(scores[best]), 4))


def _trimmed(text: str, begin: int, end: int) -> tuple[int, int]:
    """A span without the white space around it."""
    sentence = text[begin:end]
    return begin + len(sentence) - len(sentence.lstrip()), end - len(sentence) + len(sentence.rstrip())
