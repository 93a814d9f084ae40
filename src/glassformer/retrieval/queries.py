"""Queries with relevance judgements: questions, and which passages of a store are relevant to each.

    question, file                 any passage of the document
    question, answer               any passage that contains the text; of a list, one of them
    question, file, answer         a passage of the document that contains the text
    question, context, answers     as in SQuAD: a passage with the answer and what is around it in its sentence

Texts are compared without regard to case, white space and compatible characters (NFKC), such as ligatures of a PDF.
Source: relevance by the text of an answer: Karpukhin et al. 2020, "Dense Passage Retrieval", section 5.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from glassformer.data.rows import Source, read_rows
from glassformer.data.sequence import check_column
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.store import EVERYTHING, Filter, Store
from glassformer.tasks.columns import placed
from glassformer.tasks.span import located_answers
from glassformer.text.sentences import rules_for, sentence_spans

ROLES = ("question", "file", "answer", "context", "answers")
AROUND = 60
"""Characters on either side of an answer of SQuAD, by which its place is recognised."""
LOOKED_AT = 1_000
"""Passages that share words with a relevant text, of which one must contain it for the store to have it."""


class Relevant(NamedTuple):
    """Passages of which a search should give one.

    file: a document's name; "" = any
    texts: of which the passage contains one, as `folded` writes them; () = any passage of the document
    """

    file: str = ""
    texts: tuple[str, ...] = ()

    def matches(self, passage: PassageMatch) -> bool:
        """Is it one of them?"""
        if self.file and self.file not in (passage.file, *passage.also):
            return False
        return not self.texts or any(text in folded(passage.text) for text in self.texts)

    def is_in(self, store: Store) -> bool:
        """Has a store one of them?"""
        if self.file and self.file not in store.documents():
            return False
        return not self.texts or any(True for _ in self.passages_in(store))

    def passages_in(self, store: Store) -> Iterator[PassageMatch]:
        """Those of a store that contain a text: they share its words, so BM25 looks them up."""
        only = Filter(folder=self.file) if self.file else EVERYTHING
        for text in self.texts:
            passages = store.matches([id for id, _ in store.search_words(text, LOOKED_AT, only)])
            yield from (passage for passage in passages if self.matches(passage))

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.file, " or ".join(self.texts)]))


class LabelledQuery(NamedTuple):
    """A question, and what is relevant to it.

    where: its place in the file, for messages
    relevant: several where several documents are; () = the data says that there is no answer
    answers: true ones, of which any is right; () = the row has none
    context: the text that has the answer; "" = the row has none
    """

    question: str
    relevant: tuple[Relevant, ...]
    where: str
    answers: tuple[str, ...] = ()
    context: str = ""


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """A text as it is compared: case-folded, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def read_queries(
    source: Source, *, columns: Mapping[str, str] | None = None, language: str = "en", **reading: Any
) -> list[LabelledQuery]:
    """Read queries from a file or a list of dicts.

    Args:
        columns: role → column where it has another name; roles are question, file, answer, context and answers
        language: of the contexts, by whose rules their sentences end
        reading: keywords of `read_rows`
    Raises: DataError: no rows, a row without a question, or one that does not say what is relevant.
    """
    names = {role: (columns or {}).get(role, role) for role in ROLES}
    for role in columns or {}:
        if role not in ROLES:
            raise DataError(f"columns names {safe_repr(role)}, which queries do not have; allowed: {', '.join(ROLES)}")
    rows, language = read_rows(source, **reading), rules_for(language)
    queries = []
    for number, row in enumerate(rows):
        where = rows.where(number)
        check_column(where, names["question"], row, "question")
        values = {role: row.get(name) for role, name in names.items()}
        question = values["question"]
        with placed(rows, number):
            if not isinstance(question, str) or not question.strip():
                raise DataError(f"the question is {safe_repr(question)}; it must be a text")
            located = _located(values)
            texts = _texts(values["answer"], "answer")
            answers = tuple(dict.fromkeys([*texts, *(text for text, _ in located)]))
            relevant = tuple(_relevant(values, texts, located, language))
        context = values["context"] if isinstance(values["context"], str) else ""
        queries.append(LabelledQuery(question, relevant, where, answers, context))
    return queries


def _relevant(
    values: Mapping[str, Any], texts: list[str], located: list[tuple[str, int]], language: str
) -> Iterator[Relevant]:
    """What is relevant to the question of a row.

    Args:
        texts, located: its answers, and those of SQuAD with where they begin
    """
    files, answers = _texts(values["file"], "file"), [folded(text) for text in texts]
    if values["answers"] is not None and values["context"] is not None:
        if not located and not files and not answers:
            return  # SQuAD 2.0: the context has no answer
        answers += [folded(_around(str(values["context"]), start, text, language)) for text, start in located]
    if not files and not answers:
        raise DataError(
            "nothing says which passages are relevant; give the row a file (a document's name), an answer (a text that "
            "the passage contains), or a context with answers, as SQuAD has them"
        )
    yield from (Relevant(file, tuple(dict.fromkeys(answers))) for file in files or [""])


def _texts(value: Any, role: str) -> list[str]:
    """The texts of a cell that holds one, several, or none."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value
    if listed is None or listed in ([], [""]):
        return []
    if not isinstance(listed, list) or not all(isinstance(text, str) and text.strip() for text in listed):
        raise DataError(f"the {role} is {safe_repr(value)}; it must be a text or a list of texts")
    return listed


def _located(values: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The answers of SQuAD, each with where it begins."""
    listed = []
    for text, start in located_answers(values, {"answers": "answers", "start": "answer_start"}):
        if not isinstance(start, int) or not isinstance(text, str):
            raise DataError(f"an answer is {safe_repr(text)}; it must be {{'text': …, 'answer_start': …}}")
        listed.append((text, start))
    return listed


@lru_cache(maxsize=256)
def _spans(context: str, language: str) -> list[tuple[int, int]]:
    return sentence_spans(context, language)


def _around(context: str, start: int, answer: str, language: str) -> str:
    """An answer with what is around it in its sentence: passages end where sentences do, but for very long ones."""
    begin, end = next(((x, y) for x, y in _spans(context, language) if x <= start < y), (0, len(context)))
    return context[max(begin, start - AROUND) : min(end, start + len(answer) + AROUND)]
