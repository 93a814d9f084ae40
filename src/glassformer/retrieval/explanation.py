"""Why a search gave a passage: the words that it shares with the question, and what each adds to the BM25 score.

The numbers are those of the search (`Store.term_scores`), so the words of a passage sum to its score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from glassformer.reports.charts import Passages, TextMark
from glassformer.reports.table import Table
from glassformer.retrieval.passage import PassageMatch, WordScore
from glassformer.retrieval.store import Store
from glassformer.retrieval.words import query_terms, term_places

LEAST = 0.0005
"""Contributions below it are 0.000 in three digits: words that almost every passage has."""
LINE = 200
"""Characters of the words of a passage on a terminal."""
LISTED_WORDS = 12
"""Of a long question, in a table: those that add most."""


def with_words(question: str, matches: Sequence[PassageMatch], store: Store) -> list[PassageMatch]:
    """Passages with the words of the question that they have."""
    language = store.settings.language
    as_asked = {
        term: word for word in reversed(re.findall(r"[\w'’]+", question)) for term in query_terms(word, language)
    }
    listed = store.term_scores(question, [x.id for x in matches])
    return [
        replace(
            match,
            words=[
                replace(x, word=as_asked.get(x.term, x.term), places=list(map(list, places[x.term])))
                for x in sorted(own, key=lambda x: -x.score)
            ],
        )
        for match, own in zip(matches, listed, strict=True)
        for places in [term_places(match.text, language, [x.term for x in own])]
    ]


def table_of_words(matches: Sequence[PassageMatch]) -> list[Table]:
    """A line a passage: the words of the question that it has, with what they add to its BM25 score."""
    rows = [
        [x.place, f"{x.scores['bm25']:.3f}", ", ".join(f"{w.word} {w.score:.3f}" for w in x.words if w.score >= LEAST)]
        for x in matches
        if x.words and "bm25" in x.scores
    ]
    return [Table(["place", "bm25", "words of the question"], rows, left=3, longest=LINE)] if rows else []


def matrix_of_words(matches: Sequence[PassageMatch]) -> list[Table]:
    """Words × passages: what each word adds to the BM25 score of each passage, and their sum."""
    shown = [(number, x) for number, x in enumerate(matches, 1) if x.words]
    best: dict[str, WordScore] = {}
    for _, match in shown:
        for word in match.words:
            if word.score > best.get(word.term, word).score or word.term not in best:
                best[word.term] = word
    words = sorted(best.values(), key=lambda x: -x.score)
    if not words:
        return []
    scores = [{word.term: word.score for word in match.words} for _, match in shown]
    most = words[0].score
    rows, shades = [], []
    for word in words[:LISTED_WORDS]:
        own = [each.get(word.term) for each in scores]
        rows.append(
            [word.word, f"{word.passages:,}", f"{word.idf:.3f}", *("" if x is None else f"{x:.3f}" for x in own)]
        )
        shades.append([0.0, 0.0, *((x or 0.0) / most for x in own)])
    rows.append(["BM25", "", "", *(f"{sum(each.values()):.3f}" for each in scores)])
    shades.append([0.0] * (len(shown) + 2))
    headings = ["word", "passages with it", "idf", *(f"{number}. {match.place}" for number, match in shown)]
    left_out = f"; the {LISTED_WORDS} that add most of {len(words)}" if len(words) > LISTED_WORDS else ""
    caption = f"what each word of the question adds to the BM25 score of a passage{left_out}"
    return [Table(headings, rows, caption, shades=shades)]


def marked_passages(matches: Sequence[PassageMatch], answer: tuple[int, int, int] | None = None) -> list[Passages]:
    """The whole texts of passages for a page, with the words of the question marked, and the answer.

    Args:
        answer: number of its passage, and its first and last character there
    """
    listed = []
    for number, match in enumerate(matches):
        ranks = ", ".join(f"{name} {match.scores[name]:.3f} (rank {rank})" for name, rank in match.ranks.items())
        marks = [
            TextMark(start, stop, f"{word.word}: {word.score:.3f} of the BM25 score")
            for word in match.words
            if word.score >= LEAST
            for start, stop in word.places
        ]
        if answer is not None and answer[0] == number:
            marks.append(TextMark(*answer[1:], "the answer", strong=True))
        listed.append(Passages(match.place, [(ranks, match.text)], marks=[marks]))
    return listed
