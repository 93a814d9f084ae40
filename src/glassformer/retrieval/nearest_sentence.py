"""The sentence of a passage that is nearest to a question, by meaning and words: the answer where there is no reader.

    similarity = cos(question, sentence)
    word share = Σ idf(t), t of question and sentence / Σ idf(t), t of question and passage
    score      = (similarity + word share) / 2                 without a sentence encoder: score = word share

Terms are stems, with their idf in the store (`bm25.py`). Where a word of a passage is rare, the question's word is the
reason that it was found; embeddings alone often prefer a sentence that is short, or names only the subject.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from glassformer.retrieval.embedder import PassageEmbedder
from glassformer.retrieval.passage import PassageMatch
from glassformer.retrieval.store import Store
from glassformer.retrieval.support import WordOverlap
from glassformer.retrieval.vectors import unit
from glassformer.retrieval.words import terms
from glassformer.text.sentences import rules_for, sentence_spans, unwrapped

LITTLE = 0.35
"""Cosine below which question and sentence have little in common: of XQuAD's questions 0.9% are below it in their own
paragraph, and 86% in the nearest of other articles (docs/retrieval.md)."""
_TABLE = re.compile(r"(?:^\|.*\n?)+", re.M)
"""The rows of a table, one below the other."""


class NearestSentence(NamedTuple):
    """A sentence of a passage, and how near it is to a question.

    start, stop: its characters in the passage
    score: of the sentence, by the formula of this module
    similarity: cosine with the question; None = there is no sentence encoder
    word_share: of the question's words in the passage, those of the sentence, by their idf
    has_little_in_common: the passage has no content word of the question, and the cosine is below `LITTLE`, if any
    """

    start: int
    stop: int
    score: float
    similarity: float | None
    word_share: float
    has_little_in_common: bool


def nearest_sentence(
    question: str, passage: PassageMatch, store: Store, embedder: PassageEmbedder | None
) -> NearestSentence:
    """The sentence of a passage that is nearest to a question.

    Args:
        store: has the passage, and the idf of words
        embedder: of the store; None = words alone are compared
    """
    language = store.settings.language
    prose = unwrapped(passage.text)
    spans = [_trimmed(passage.text, *span) for span in sentence_spans(prose, rules_for(language))]
    if all(line.partition(":")[0] in passage.metadata for line in passage.text.splitlines()):
        spans = [_trimmed(passage.text, 0, len(passage.text))]  # a row of a table, a column a line, is one statement
    spans = [span for span in spans if not _is_heading(passage, *span)] or spans
    sentences = [_with_columns(passage.text, *span) for span in spans]
    weights = {word.term: word.idf for word in store.term_scores(question, [passage.id])[0]}
    shares = scores = _word_shares(sentences, weights, language)
    similarities = None
    if embedder is not None:
        similarities = unit(embedder.passages(sentences).astype(np.float32)) @ unit(embedder.query(question))
        scores = (similarities + shares) / 2
    best = int(scores.argmax())
    similarity = None if similarities is None else float(similarities[best])
    little = not WordOverlap(language).content(weights) and (similarity is None or similarity < LITTLE)
    return NearestSentence(*spans[best], float(scores[best]), similarity, float(shares[best]), little)


def _word_shares(sentences: list[str], weights: dict[str, float], language: str) -> np.ndarray:
    """The share of the weight of some terms that each sentence has; one that ends with `*` is a prefix. [S]"""
    shares = []
    for sentence in sentences:
        has = terms(sentence, language)
        shared = [
            weight for term, weight in weights.items()
            if any(x == term or (term.endswith("*") and x.startswith(term[:-1])) for x in has)
        ]  # fmt: skip
        shares.append(sum(shared) / sum(weights.values()) if shared else 0.0)
    return np.array(shares)


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
