"""Full-text search of a SQLite store: BM25 by FTS5, and from 1,000 passages by an inverted index that is made from it.

    passages up to the newest of the index      by the index, without those that are gone
    passages that came later                    FTS5 lists those with a term that can bring them among the best; they
                                                are scored from their texts

FTS5 scores each passage that has a term of the question, a microsecond each, and counts those of each term again for
each question. An index has the same results and scores: idf and mean length are those of the store as it is. It is
derived data: named by the passages that it was made from, made again when too many came or went, and where it is
missing or damaged FTS5 answers alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.retrieval.bm25 import K1, frequent_score, scores_by_term, telling, term_weights
from glassformer.retrieval.inverted_index import InvertedIndex, write_inverted_index
from glassformer.retrieval.mapped import DerivedFile, damaged
from glassformer.retrieval.store import Scored, best_first
from glassformer.retrieval.words import match_expression, query_terms

INDEXED_FROM = 1_000
"""Passages from which an inverted index is made: FTS5 takes a millisecond for so many, and the index half of one."""
STALE = 0.02
"""Share of the passages that came or went since an index was made, from which it is made again."""
GROWN = 0.5
"""This share is too much to wait for the end of an indexing."""


@dataclass
class WordState:
    """What searches of one edition of a store have in common.

    edition: of the store
    passages: of the store
    mean_length: of a passage, in terms
    index: None = FTS5 answers alone
    present: rows of the index whose passages are still there; None = all. [N] bool
    newer: passages that came after those of the index
    counts: in how many passages each term is that was asked for
    filters: the last filter that was asked for, and the ids of its passages
    """

    edition: int = -1
    passages: int = 0
    mean_length: float = 1.0
    index: InvertedIndex | None = None
    present: np.ndarray | None = None
    newer: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    filters: dict[tuple[Any, ...], np.ndarray] = field(default_factory=dict)


class WordSearch:
    """Search by BM25 in a database that has the tables of `SqliteStore`. The caller holds a transaction.

    Args:
        database: its connection
        path: of indices, without the hash and the suffix
        language: of the terms
        terms_of: headings and text of a passage → its terms
    """

    def __init__(
        self, database: sqlite3.Connection, path: Path, language: str, terms_of: Callable[[str, str], list[str]]
    ) -> None:
        self._database, self._language, self._terms_of = database, language, terms_of
        self._state = WordState()
        self.file = DerivedFile(path, ".bm25", self._read, "search by words")

    # --------------------------------------------------------------------------------------------------- index

    def state(self) -> WordState:
        """What there is to search, read once an edition."""
        edition = self._setting("edition")
        if self._state.edition != edition:
            passages = self._setting("passages")
            state = WordState(edition, passages, self._setting("terms") / max(1, passages))
            index = self.file.open(self._setting("words")) if passages >= INDEXED_FROM else None
            if index is not None:
                self._compare(state, index)
            self._state = state
        return self._state

    def _setting(self, name: str) -> Any:
        rows = self._database.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchall()
        return json.loads(rows[0][0]) if rows else None

    def _one(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()[0]

    def _read(self, path: Path) -> InvertedIndex:
        """Open an index. Raises: DataError: it is damaged, or of other passages."""
        index = InvertedIndex(path)
        if self.file.path(index.ids, index.lengths) != path:
            raise damaged(path, "its passages are others than those in its name")
        return index

    def _compare(self, state: WordState, index: InvertedIndex) -> None:
        """Note what came and what went since the index was made."""
        state.newer = self._one("SELECT COUNT(*) FROM words WHERE rowid > ?", index.newest)
        if len(index) + state.newer != state.passages:
            rows = self._database.execute("SELECT rowid FROM words WHERE rowid <= ? ORDER BY rowid", (index.newest,))
            there = np.fromiter((id for (id,) in rows), np.int64)
            state.present = index.holds(there)
            if state.present.sum() != len(there):
                return  # passages that are older than its newest came later
        state.index = index

    def has_grown(self) -> bool:
        """Whether so many passages came since the index was made that searches would wait for them."""
        index = self.file.open(self._setting("words"))
        passages: int = self._setting("passages")
        return passages >= max(INDEXED_FROM, (1 + GROWN) * (0 if index is None else len(index)))

    def is_stale(self) -> bool:
        """Whether there are enough passages, and no index of almost all of them. All of its file is read."""
        state = self.state()
        if state.passages < INDEXED_FROM or state.index is None:
            return state.passages >= INDEXED_FROM
        if self.file.verified(state.index.path.name) is None:
            self._state = WordState()
            return True
        gone = 0 if state.present is None else len(state.present) - int(state.present.sum())
        return state.newer + gone > STALE * state.passages

    def write_index(self) -> str:
        """Write an index of all passages.

        Returns: its name, for the database: one of an older copy of it names an older index.
        Raises: DataError: the disk refuses.
        """
        run = self._database.execute
        rows = run("SELECT id, sz FROM words_docsize ORDER BY id").fetchall()
        ids = np.fromiter((id for id, _ in rows), np.int64, len(rows))
        lengths = np.fromiter((_variable_int(size) for _, size in rows), np.int32, len(rows))
        path = self.file.path(ids, lengths)
        run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.occurrences USING fts5vocab(main, words, instance)")
        words = run("SELECT CAST(term AS BLOB), doc, cnt FROM frequencies")
        write_inverted_index(path, ids, lengths, words, (id for (id,) in run("SELECT doc FROM occurrences")))
        self._state = WordState()
        return path.name

    def remove_others(self) -> None:
        """Remove indices of earlier states, and that of a store which has too few passages."""
        self.file.remove_others(self._setting("words") if self._setting("passages") >= INDEXED_FROM else None)

    # -------------------------------------------------------------------------------------------------- search

    def search(self, question: str, limit: int, condition: str, values: Sequence[Any]) -> Scored:
        """The best passages by BM25; of equal scores, those with the lowest ids.

        Of 100 passages or more, those that share only terms with the question which half of all passages have, such as
        "the", are left out where others share more.

        Args:
            condition: on passages `p`, in SQL; "" = all
            values: of its parameters
        """
        asked = query_terms(question, self._language)
        state = self.state()
        if state.index is not None:
            allowed = self._allowed(state, condition, values)
            try:
                return self._by_index(state, state.index, asked, limit, allowed)
            except DataError as error:
                self.file.refuse(state.index.path, error)
                self._state = WordState()
                state = self.state()
        return self._by_fts(state, asked, limit, condition, values)

    def counts(self, asked: Sequence[str], counting: Callable[[str], int] | None = None) -> dict[str, int]:
        """In how many passages each of some terms is, counted once an edition, by FTS5 or as `counting` does."""
        known, counting = self.state().counts, counting or self._count
        return {term: known[term] if term in known else known.setdefault(term, counting(term)) for term in asked}

    def _by_fts(self, state: WordState, asked: list[str], limit: int, condition: str, values: Sequence[Any]) -> Scored:
        weights = term_weights(state.passages, self.counts(asked))
        if not weights:
            return []
        within = f" AND rowid IN (SELECT p.id FROM passages p WHERE {condition})" if condition else ""
        rows = self._database.execute(
            f"SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ?{within} "
            "ORDER BY score DESC, rowid LIMIT ?",
            (match_expression(list(weights)), *values, limit),
        ).fetchall()
        return telling([(int(id), float(score)) for id, score in rows], state.passages, weights.values())

    def _count(self, term: str, after: int = 0) -> int:
        """In how many passages a term is, of those after an id."""
        query = "SELECT COUNT(*) FROM words WHERE words MATCH ? AND rowid > ?"
        return int(self._one(query, match_expression([term]), after))

    def _allowed(self, state: WordState, condition: str, values: Sequence[Any]) -> np.ndarray | None:
        """Ids of the passages of a filter, rising; None = all."""
        if not condition:
            return None
        key = (condition, *values)
        if key not in state.filters:  # a condition on metadata takes a microsecond a passage
            rows = self._database.execute(f"SELECT p.id FROM passages p WHERE {condition}", tuple(values))
            state.filters = {key: np.sort(np.fromiter((id for (id,) in rows), np.int64))}
        return state.filters[key]

    def _by_index(
        self, state: WordState, index: InvertedIndex, asked: list[str], limit: int, allowed: np.ndarray | None
    ) -> Scored:
        lists = {term: index.postings(term) for term in asked}

        def count(term: str) -> int:
            rows = lists[term].rows
            there = len(rows) if state.present is None else int(state.present[rows].sum())
            return there + (self._count(term, index.newest) if state.newer else 0)

        weights = term_weights(state.passages, self.counts(asked, count))
        rows_allowed = state.present
        if allowed is not None:
            within = index.holds(allowed)
            rows_allowed = within if rows_allowed is None else within & rows_allowed
        with_weights = {term: (lists[term], weight) for term, weight in weights.items()}
        for least in dict.fromkeys((frequent_score(state.passages, weights.values()), 0.0)):
            rows, scores = index.best(with_weights, limit, state.mean_length, rows_allowed, least)
            best = list(zip(index.ids[rows].tolist(), scores.tolist(), strict=True))
            if state.newer:
                best = best_first(best + self._newer(state, index, weights, limit, best, allowed, least))
            if best:
                break
        return best[:limit]

    def _newer(
        self,
        state: WordState,
        index: InvertedIndex,
        weights: Mapping[str, float],
        limit: int,
        best: Scored,
        allowed: np.ndarray | None,
        least: float,
    ) -> Scored:
        """The passages that came after those of the index, and may be among the best.

        Args:
            best: passages of the index
            least: passages at this score or below are left out
        """
        if len(best) >= limit:  # of equal scores, the one with the lower id is better
            least = max(least, best[limit - 1][1])
        bounds: dict[int, float] = {}
        rest = (K1 + 1) * sum(weights.values())
        for term, weight in weights.items():  # the rare ones first: the heaviest
            if rest <= least:
                break
            rows = self._database.execute(
                "SELECT rowid FROM words WHERE words MATCH ? AND rowid > ?", (match_expression([term]), index.newest)
            )
            for (id,) in rows:
                bounds[id] = bounds.get(id, 0.0) + (K1 + 1) * weight
            rest -= (K1 + 1) * weight
        inside = None if allowed is None else set(allowed[allowed > index.newest].tolist())
        scored: Scored = []
        reached: list[float] = []
        for id in sorted(bounds, key=bounds.__getitem__, reverse=True):
            if bounds[id] + rest <= least or (len(reached) == limit and bounds[id] + rest < reached[0]):
                break
            if inside is None or id in inside:
                score = self._score(id, weights, state.mean_length)
                if score > least:
                    scored.append((id, score))
                    (heappush if len(reached) < limit else heappushpop)(reached, score)
        return scored

    def _score(self, id: int, weights: Mapping[str, float], mean_length: float) -> float:
        """The BM25 score of a passage, from its text."""
        (row,) = self._database.execute("SELECT headings, text FROM passages WHERE id = ?", (id,))
        return sum(score for *_, score in scores_by_term(self._terms_of(*row), weights, mean_length))


def _variable_int(data: bytes) -> int:
    """A number as SQLite writes it: seven bits a byte, the first bit of all but the last is set."""
    if len(data) == 1:
        return data[0]
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
    return number
