"""Answers from documents: the passages that a search finds, and what in them answers the question.

    extractive reader      the best span of all passages, by a question-answering model
    generative reader      sentences that a language model writes, each with the passage that it rests on
    none                   the sentence of the best passage that is nearest to the question (`nearest_sentence.py`)

The answer names the passages that it is from, and their places in the files.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import load
from glassformer.reports.charts import Passages
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.retrieval.explanation import marked_passages, matrix_of_words, table_of_words
from glassformer.retrieval.generative import CitedSentence, GenerativeReader
from glassformer.retrieval.nearest_sentence import nearest_sentence
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.reader import BoundaryScore, PassageSpan, Reader
from glassformer.retrieval.retriever import (
    EMPTY_STORE,
    RetrievalResult,
    Retriever,
    Stage,
    StageTimer,
    excerpt,
    passage_tables,
    stages_table,
)
from glassformer.retrieval.support import EntailmentCheck
from glassformer.text.sentences import unwrapped

AnyReader = Reader | GenerativeReader

LISTED_BOUNDARIES = 8
OTHERS = 2
"""Less likely answers that are given too."""
NO_READER = (
    "this is the sentence that is nearest to the question; a question-answering model (reader= MODEL) finds the words "
    "that answer it: `glassformer train --task answer` trains one"
)


UNANSWERED = (
    "The best passage has none of the question's words and little in common with it: probably the documents do not "
    "answer this."
)
_JSON = (
    "question answer file line page place passage start stop score similarity word_share others sentences read "
    "boundaries matches method stages notes"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Report, kind="answer", keys=tuple(_JSON.split())):
    """An answer from documents, with the passage that says it.

    question: as it was asked
    answer: a text; "" = the documents have none
    passage: the one that it is from, among `matches`; None = there is no answer
    start, stop: its characters in the document; those of the passage where it was written
    score: of the answer, as those of `others`: the reader's and the search's joined (`retrieval/reader.py`); of a
        sentence, how near it is to the question (`retrieval/nearest_sentence.py`); of sentences that were written, the
        lowest support
    similarity, word_share: of a sentence, what its score is made of; None = there is no sentence encoder, or a reader
    others: answers of the reader that are less likely, the best first
    sentences: that a generative reader wrote, each with its passage; those without one are not in the answer
    read: passages that it read, by their numbers among `matches`
    boundaries: of each passage, words with which the reader's answer may begin or end
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
    similarity: float | None = None
    word_share: float | None = None
    others: list[PassageSpan] = field(default_factory=list)
    sentences: list[CitedSentence] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    boundaries: list[list[BoundaryScore]] = field(default_factory=list)
    matches: list[PassageMatch]
    method: str
    stages: list[Stage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def source(self) -> PassageMatch | None:
        """The passage that the answer is from."""
        return None if self.passage is None else self.matches[self.passage]

    @property
    def place(self) -> str:
        """The file, and the line or page of it in which the answer begins; "" = there is no answer."""
        return "" if self.source is None else self.source.place_of(self.start - self.source.start)

    @property
    def file(self) -> str:
        """The file of the answer; "" = there is no answer."""
        return "" if self.source is None else self.source.file

    @property
    def line(self) -> int:
        """The line of the file in which the answer begins; 0 = its format has no lines, or there is no answer."""
        return 0 if self.source is None else self.source.line_of(self.start - self.source.start)

    @property
    def page(self) -> int:
        """The page on which the answer begins; 0 = its format has no pages, or there is no answer."""
        return 0 if self.source is None else self.source.page_of(self.start - self.source.start)

    @property
    def title(self) -> str:
        return excerpt(self.question)

    @property
    def caption(self) -> str:
        return excerpt(self.question)

    @property
    def finding(self) -> str:
        if EMPTY_STORE in self.notes:
            return EMPTY_STORE
        if self.source is None:
            return "The documents do not answer this." if self.matches else "The documents have nothing about this."
        cited = dict.fromkeys(x.passage for x in self.sentences if x.passage is not None)
        places = ", ".join(f"[{number + 1}] {self.matches[number].place}" for number in cited)
        return f"{self._on_lines}\n\nfrom {places or self.place}"

    @property
    def _on_lines(self) -> str:
        """The answer without the line breaks by which its file is wrapped to a width."""
        if self.source is None or self.sentences:
            return self.answer
        first = self.start - self.source.start
        return re.sub(r"[ \t]+", " ", unwrapped(self.source.text)[first : first + len(self.answer)])

    def tables(self) -> list[Table]:
        return [*self._less_likely(), *self._supported(), *passage_tables(self.matches)]

    def _supported(self) -> list[Table]:
        """The sentences that a generative reader wrote, and what supports them."""
        rows = [
            [
                f"{x.support:.2f}",
                "none" if x.passage is None else f"[{x.passage + 1}] {self.matches[x.passage].place}",
                x.text,
            ]
            for x in self.sentences
        ]
        return [Table(["support", "passage", "sentence"], rows, left=3)] if rows else []

    def _less_likely(self) -> list[Table]:
        rows = [[f"{x.score:.2f}", self.matches[x.passage or 0].place_of(x.start), x.text] for x in self.others]
        if rows and self.score is not None:
            rows.insert(0, [f"{self.score:.2f}", self.place, self.answer or "(no answer)"])
        return [Table(["score", "place", "answer"], rows, left=3)] if rows else []

    def page_tables(self) -> list[Table]:
        return [
            *self._less_likely(), *self._supported(), *self._boundary_table(), *matrix_of_words(self.matches),
            stages_table(self.stages, folded=True),
        ]  # fmt: skip

    def _boundary_table(self) -> list[Table]:
        """The words with which the answer most probably begins and ends."""
        listed = [(self.matches[i].place, word) for i, own in enumerate(self.boundaries) for word in own]
        likely = sorted(listed, key=lambda x: -max(x[1].begins, x[1].ends))[:LISTED_BOUNDARIES]
        rows = [[place, word.text, f"{word.begins:.3f}", f"{word.ends:.3f}"] for place, word in likely]
        shades = [[0.0, word.begins, word.ends] for _, word in likely]
        caption = "where the answer begins and ends: probabilities of the reader, over the words of all passages"
        return [Table(["place", "word", "begins", "ends"], rows, caption, left=2, shades=shades)] if rows else []

    def passages(self) -> list[Passages]:
        source = self.source
        place = (
            None
            if source is None or self.sentences
            else (self.passage or 0, self.start - source.start, self.stop - source.start)
        )
        return marked_passages(self.matches, place)

    def trace(self) -> list[Table]:
        """The stages, with their times; and the words of the question that each passage has."""
        return [stages_table(self.stages), *table_of_words(self.matches)]


def ask(
    question: str, retriever: Retriever, options: AskOptions | None = None, *, reader: AnyReader | None = None
) -> Answer:
    """Answer a question from the documents of a store.

    Args:
        reader: one that is loaded already; None = that of the options
    Raises: as `Retriever.search`.
    """
    options = options or AskOptions()
    result = retriever.search(question, options)
    if not result.matches:
        return _of_search(result, answer="")
    if reader is None and options.reader is not None:
        reader = load_reader(options, retriever.store.settings.language)
    timer = StageTimer(result.stages)
    if reader is None:
        nearest = timer(
            "nearest sentence",
            lambda: nearest_sentence(question, result.matches[0], retriever.store, retriever.embedder),
            lambda nearest: 1,
        )
        notes = [*result.notes, *[UNANSWERED] * nearest.has_little_in_common, NO_READER]
        return _of_passage(
            result, 0, nearest.start, nearest.stop, score=round(nearest.score, 4), stages=timer.stages, notes=notes,
            similarity=None if nearest.similarity is None else round(nearest.similarity, 4),
            word_share=round(nearest.word_share, 4),
        )  # fmt: skip
    if isinstance(reader, GenerativeReader):
        return _written(result, reader, timer)
    read = partial(_spans, reader, question, result.matches, 1 + OTHERS)
    (first, *others), boundaries = timer("read", read, lambda answers: len(answers[0]))
    others = [
        replace(x, place=result.matches[x.passage].place_of(x.start)) for x in others if x.passage is not None
    ]  # fmt: skip
    return _of_passage(
        result, first.passage, first.start, first.stop, score=round(first.score, 4), stages=timer.stages,
        others=others, boundaries=boundaries,
    )  # fmt: skip


def load_reader(options: AskOptions, language: str = "en", **loading: Any) -> AnyReader:
    """A reader: of spans for a question-answering model, else one that writes.

    Args:
        options: with the reader's folder or Hub name, and how written answers are checked
        language: of the passages
        loading: keywords of `load`
    Raises: UnsupportedError: the model neither finds answers nor writes.
    """
    if options.reader is None:
        raise ConfigError("no reader is named; give reader= a folder or Hub name")
    loaded = load(options.reader, **loading)
    if loaded.task == "question-answering":
        return Reader(loaded)
    if not loaded.writes or loaded.family.modality is not None:
        raise UnsupportedError(
            f"{options.reader}: a {loaded.family.model_type!r} model for {loaded.task} is no reader: it neither finds "
            "answers (question-answering) nor writes them (text-generation, or an encoder-decoder); "
            "`glassformer train --task answer` trains a reader"
        )
    check = None if options.entailment is None else EntailmentCheck(options.entailment, **loading)
    return GenerativeReader(
        loaded, check=check, threshold=options.support, answer_tokens=options.answer_tokens, language=language
    )


def _spans(
    reader: Reader, question: str, passages: Sequence[PassageMatch], top: int
) -> tuple[list[PassageSpan], list[list[BoundaryScore]]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "top is ")  # fewer answers than could be given are no surprise
        return reader.read_with_boundaries(question, passages, top=top)


def read_text(reader: AnyReader, question: str, passages: Sequence[PassageMatch]) -> str:
    """The answer of any reader to a question, from at least one passage, without its citations; "" = there is none."""
    if isinstance(reader, GenerativeReader):
        return " ".join(sentence.text for sentence in reader.answer(question, passages).supported)
    spans, _ = _spans(reader, question, passages, 1)
    return spans[0].text


def _written(result: RetrievalResult, reader: GenerativeReader, timer: StageTimer) -> Answer:
    """The answer that a reader writes from the passages of a search."""
    written = reader.answer(result.question, result.matches, timer)
    sentences = [
        x if x.passage is None else replace(x, place=result.matches[x.passage].place) for x in written.sentences
    ]
    supported = [x for x in sentences if x.passage is not None]
    number = supported[0].passage if supported else None
    source = None if number is None else result.matches[number]
    return _of_search(
        result, answer=written.text, passage=number, start=source.start if source else 0,
        stop=source.stop if source else 0, score=min((x.support for x in supported), default=None),
        sentences=sentences, read=written.read, stages=timer.stages, notes=[*result.notes, *written.notes],
    )  # fmt: skip


def _of_passage(result: RetrievalResult, passage: int | None, begin: int, end: int, **more: Any) -> Answer:
    """An answer that is a part of a passage, by its characters there; None = there is no answer."""
    if passage is None:
        return _of_search(result, answer="", **more)
    source = result.matches[passage]
    start, stop = source.start + begin, source.start + end
    return _of_search(result, answer=source.text[begin:end], passage=passage, start=start, stop=stop, **more)


def _of_search(result: RetrievalResult, **fields: Any) -> Answer:
    """An answer with what it has of a search, unless the fields say otherwise."""
    of_search = {name: getattr(result, name) for name in ("question", "matches", "method", "stages", "notes")}
    return Answer(**{**of_search, **fields})
