"""Answers from documents: the passages that a search finds, and what in them answers the question.

    extractive reader      the best span of all passages, by a question-answering model
    generative reader      sentences that a language model writes, each with the passage that it rests on
    none                   the sentence of the best passage that is nearest to the question

The answer names the passages that it is from, and their places in the files.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import load
from glassformer.reports.charts import Passages
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.retrieval.explanation import marked_passages, matrix_of_words, table_of_words
from glassformer.retrieval.generative import CitedSentence, GenerativeReader
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.reader import BoundaryScore, PassageSpan, Reader
from glassformer.retrieval.retriever import (
    RetrievalResult,
    Retriever,
    Stage,
    StageTimer,
    excerpt,
    passage_tables,
    stages_table,
)
from glassformer.retrieval.support import EntailmentCheck
from glassformer.retrieval.vectors import unit
from glassformer.retrieval.words import query_terms, terms
from glassformer.text.sentences import rules_for, sentence_spans, unwrapped

AnyReader = Reader | GenerativeReader

LISTED_BOUNDARIES = 8
OTHERS = 2
"""Less likely answers that are given too."""
_TABLE = re.compile(r"(?:^\|.*\n?)+", re.M)
"""The rows of a table, one below the other."""
NO_READER = (
    "this is the sentence that is nearest to the question; a question-answering model (reader= MODEL) finds the words "
    "that answer it: `glassformer train --task answer` trains one"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Report, kind="answer"):
    """An answer from documents, with the passage that says it.

    question: as it was asked
    answer: a text; "" = the documents have none
    passage: the one that it is from, among `matches`; None = there is no answer
    start, stop: its characters in the document; those of the passage where it was written
    score: of the answer, as those of `others`: the reader's and the search's joined (`retrieval/reader.py`); of a
        sentence, its similarity to the question; of sentences that were written, the lowest support
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
    def title(self) -> str:
        return excerpt(self.question)

    @property
    def caption(self) -> str:
        return excerpt(self.question)

    @property
    def finding(self) -> str:
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
        begin, end, score = timer(
            "nearest sentence", lambda: nearest_sentence(question, result.matches[0], retriever), lambda nearest: 1
        )
        notes = [*result.notes, NO_READER]
        return _of_passage(result, 0, begin, end, score=score, stages=timer.stages, notes=notes)
    if isinstance(reader, GenerativeReader):
        return _written(result, reader, timer)
    read = partial(_spans, reader, question, result.matches, 1 + OTHERS)
    (first, *others), boundaries = timer("read", read, lambda answers: len(answers[0]))
    return _of_passage(
        result, first.passage, first.start, first.stop, score=round(first.score, 4), stages=timer.stages,
        others=[x for x in others if x.answered], boundaries=boundaries,
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
    supported = [x for x in written.sentences if x.passage is not None]
    number = supported[0].passage if supported else None
    source = None if number is None else result.matches[number]
    return _of_search(
        result, answer=written.text, passage=number, start=source.start if source else 0,
        stop=source.stop if source else 0, score=min((x.support for x in supported), default=None),
        sentences=written.sentences, read=written.read, stages=timer.stages, notes=[*result.notes, *written.notes],
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


def nearest_sentence(question: str, passage: PassageMatch, retriever: Retriever) -> tuple[int, int, float]:
    """The sentence of a passage that is nearest to a question: its first and last character, and how near it is.

    By the cosine of their vectors; without a sentence encoder by the share of the question's terms that it has.
    """
    language = retriever.store.settings.language
    prose = unwrapped(passage.text)
    spans = [_trimmed(passage.text, *span) for span in sentence_spans(prose, rules_for(language))]
    if all(line.partition(":")[0] in passage.metadata for line in passage.text.splitlines()):
        spans = [_trimmed(passage.text, 0, len(passage.text))]  # a row of a table, a column a line, is one statement
    spans = [span for span in spans if not _is_heading(passage, *span)] or spans
    sentences = [_with_columns(passage.text, *span) for span in spans]
    if retriever.embedder is None:
        wanted = set(query_terms(question, language))
        scores = np.array([len(wanted & set(terms(text, language))) / max(len(wanted), 1) for text in sentences])
    else:
        scores = unit(retriever.embedder.passages(sentences).astype(np.float32)) @ unit(
            retriever.embedder.query(question)
        )
    best = int(scores.argmax())
    return (*spans[best], round(float(scores[best]), 4))


def _is_heading(passage: PassageMatch, begin: int, end: int) -> bool:
    """Whether a span of a passage is a heading, the title, or the row of a table that names its columns."""
    text = passage.text[begin:end]
    if text.startswith("#") or not any(map(str.isalnum, text)):
        return True
    return text in (*passage.headings, passage.title, _columns(passage.text, begin))


def _with_columns(text: str, begin: int, end: int) -> str:
    """A span as it is compared with a question: the row of a table below the one that names its columns."""
    return f"{_columns(text, begin)}\n{text[begin:end]}".lstrip()


def _columns(text: str, place: int) -> str:
    """The row that names the columns of the table at a place; "" = there is none, or no table.

    It is the first, above a line of dashes, or without a number where the second has one.
    """
    table = next((x.group() for x in _TABLE.finditer(text) if x.start() <= place < x.end()), "")
    first, second = [*table.split("\n"), "", ""][:2]
    numbers = [any(map(str.isdigit, row)) for row in (first, second)]
    return first.strip() if second.startswith(("|-", "| -", "|:", "| :")) or numbers == [False, True] else ""


def _trimmed(text: str, begin: int, end: int) -> tuple[int, int]:
    """A span without the white space around it."""
    sentence = text[begin:end]
    return begin + len(sentence) - len(sentence.lstrip()), end - len(sentence) + len(sentence.rstrip())
