"""Retrieval: the passages of a store that answer a question, by words (BM25), by meaning (dense), or both.

    question ─┬─ BM25 ──────────┐
              └─ embed ─ dense ─┴─ fusion ─ re-rank ─ diversity ─ top

    fusion        score = Σ over methods    weight / (60 + rank)         reciprocal ranks: no scale of scores matters
    late          MaxSim over token vectors of question and candidate (`inspect/token_match.py`)
    re-ranking    a cross-encoder reads the question with each candidate
    diversity     next = argmax (1 − λ) · relevance − λ · largest cosine with one that is taken already

Sources: Cormack et al. 2009, "Reciprocal Rank Fusion"; Nogueira and Cho 2019, "Passage Re-ranking with BERT";
Carbonell and Goldstein 1998, "The Use of MMR" (maximal marginal relevance).
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from glassformer.errors import ConfigError, DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Schema
from glassformer.inspect.token_match import max_similarity
from glassformer.model import Model, load
from glassformer.reports.charts import Passages
from glassformer.reports.report import Display, Report
from glassformer.reports.table import Table
from glassformer.retrieval.embedder import PassageEmbedder, unloadable
from glassformer.retrieval.explanation import marked_passages, matrix_of_words, table_of_words, with_words
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import DENSE_WEIGHT, RetrievalOptions
from glassformer.retrieval.passage import PassageMatch, with_headings
from glassformer.retrieval.store import Filter, Scored, Store, best_first
from glassformer.retrieval.vectors import unit

T = TypeVar("T")

RANK_CONSTANT = 60
"""Of reciprocal rank fusion, as in its paper: the first rank is worth 1/61."""
METHODS = ("bm25", "dense", "late", "rerank")
EMPTY_STORE = "The store is empty: `glassformer index FOLDER --output STORE` reads documents into it."
LISTED_NAMES = 10
"""Of metadata that a store has, in an error."""
EXCERPT = 200
"""Characters of a passage, or of a question, on a terminal."""
BEFORE = 60
"""Of these, before the word of the question that tells most, where that is far from the beginning."""


@dataclass(frozen=True, kw_only=True)
class Stage(Schema):
    """A step of a search.

    milliseconds: that it took
    results: how many it gave
    meanwhile: whether others took longer at the same time
    """

    name: str
    milliseconds: float
    results: int
    meanwhile: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class RetrievalResult(Report, kind="passages"):
    """The passages of a store that answer a question, the best first.

    question: as it was asked
    method: bm25, dense or fusion
    matches: passages with their scores and places
    stages: of the search, with their times
    notes: what a reader of the result should know
    """

    question: str
    method: str
    matches: list[PassageMatch]
    stages: list[Stage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return excerpt(self.question)

    @property
    def caption(self) -> str:
        return excerpt(self.question) if self.matches else f"no passage for: {excerpt(self.question)}"

    def tables(self) -> list[Table]:
        return passage_tables(self.matches)

    def page_tables(self) -> list[Table]:
        return [*matrix_of_words(self.matches), stages_table(self.stages, folded=True)]

    def passages(self) -> list[Passages]:
        return marked_passages(self.matches)

    def trace(self) -> list[Table]:
        """The stages of the search, with their times; and the words of the question that each passage has."""
        return [stages_table(self.stages), *table_of_words(self.matches)]


def passage_tables(passages: Sequence[PassageMatch]) -> list[Table]:
    """The table of passages with their places, their scores, and a part of each."""
    methods = [name for name in METHODS if any(name in x.scores for x in passages)]
    scores = methods if len(methods) > 1 else []
    rows = [
        [x.place, f"{x.score:.3f}", *(f"{x.scores[n]:.3f}" if n in x.scores else "" for n in scores), _part(x)]
        for x in passages
    ]
    return [Table(["place", "score", *scores, "passage"], rows, longest=EXCERPT + 1)] if rows else []


def stages_table(stages: Sequence[Stage], *, folded: bool = False) -> Table:
    """The stages of a search, with their times; folded: as a page has them, opened by a click."""
    rows = [
        [f"{x.name} (meanwhile)" if x.meanwhile else x.name, f"{x.milliseconds:.1f}", str(x.results)] for x in stages
    ]
    return Table(["stage", "ms", "results"], rows, "stages, with their times" if folded else "", folded=folded)


def _part(match: PassageMatch) -> str:
    """The part of a passage that has the word of the question that tells most, without marks of tables and headings."""
    place = next((word.places[0][0] for word in match.words if word.places), 0)
    start = match.text.rfind(" ", 0, place - BEFORE) + 1 if place > EXCERPT - BEFORE else 0
    return "… " * (start > 0) + excerpt(" ".join(re.sub(r"[|#*]+|-{3,}", " ", match.text[start:]).split()))


def excerpt(text: str) -> str:
    """The beginning of a text, to the end of a word."""
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT].rsplit(' ', 1)[0]} …"


class Rankings(NamedTuple):
    """The candidates for a question, by each method of a search.

    method: bm25, dense or fusion
    scores: those methods that it needs, late and rerank: passages with their scores, the best first
    passages: by id
    stages: of the search, with their times
    """

    method: str
    scores: dict[str, Scored]
    passages: dict[int, PassageMatch]
    stages: list[Stage]

    def ranking(self, name: str) -> Scored:
        """All candidates by a method; those that late interaction did not rank are behind the others, as before."""
        own = self.scores[name]
        ranked = {id for id, _ in own} if name == "late" else set()
        return [*own, *(x for x in self.scores[self.method] if name == "late" and x[0] not in ranked)]

    @property
    def best(self) -> Scored:
        """All candidates by the last method."""
        return self.ranking(next((name for name in ("rerank", "late") if name in self.scores), self.method))


class Retriever(Display):
    """Searches a store.

    store: that is searched
    embedder: embeds questions; None = search by words alone
    reranker: a cross-encoder; None = results are ranked by fusion

    Args:
        model: the sentence encoder of the store; None = search by words alone
        reranker: a classifier of pairs, with one label
    Raises: ConfigError: another model than that of the store.
    """

    def __init__(self, store: Store, model: Model | None = None, *, reranker: Model | None = None) -> None:
        labels = 0 if reranker is None else len(reranker.config.get("id2label") or ())
        if reranker is not None and (reranker.task != "text-classification" or labels != 1):
            raise UnsupportedError(
                "a re-ranker is a cross-encoder: a classifier of pairs of texts with one label; this model is for "
                f"{reranker.task}, with {labels} labels"
            )
        self.store, self.reranker = store, reranker
        self.embedder = (
            None if model is None or store.settings.model is None else PassageEmbedder(model, store.settings)
        )

    def __repr__(self) -> str:
        return f"Retriever({self.store!r}" + (")" if self.reranker is None else ", with a re-ranker)")

    def tables(self) -> list[Table]:
        """How much its store holds, and what its passages were made with."""
        return self.store.tables()

    @classmethod
    def open(
        cls,
        store: str | Path,
        *,
        model: str | None = None,
        method: str | None = None,
        reranker: str | None = None,
        **loading: Any,
    ) -> Retriever:
        """Open a store with the model that it was made with.

        Args:
            model: where that model is now: a folder or Hub name; None = where it was
            method: of all searches: "bm25" needs no model, and none is loaded; None = any
            reranker: a cross-encoder: a folder or Hub name
            loading: keywords of `load`, for both models
        Raises: DataError: there is no such store, or a model cannot be loaded. ConfigError: another model.
        """
        opened = open_store(store)
        settings = opened.settings
        if model is not None and settings.model is None:
            raise ConfigError(f"model is {model!r}, and this store has no vectors: index the folder with a model")
        encoder = None
        if settings.model is not None and method != "bm25":
            try:
                encoder = load(model or settings.model, **{"revision": settings.revision, **loading})
            except (DataError, ConfigError) as error:
                if model is not None:
                    raise
                raise unloadable(settings.model, error, "method= bm25") from error
        of_reranker = {**loading, "revision": None}  # a revision is that of the encoder
        return cls(opened, encoder, reranker=None if reranker is None else load(reranker, **of_reranker))

    @cached_property
    def _stems_note(self) -> str:  # reads the files of a package
        return self.store.settings.stems_note()

    def search(self, question: str, options: RetrievalOptions | None = None) -> RetrievalResult:
        """Find passages for a question.

        Raises: DataError: the question is empty. ConfigError: the method needs a model, and there is none.
        """
        options = options or RetrievalOptions()
        all_of_them = self.reranker is not None or options.diversity > 0
        first = max(options.top, options.late_interaction)
        ranked = self.rankings(question, options, first=None if all_of_them else first)
        scores, passages, timer = dict(ranked.scores), ranked.passages, StageTimer(ranked.stages)
        order = ranked.best
        if options.diversity and self.store.settings.model is not None:
            order = timer("diversity", lambda: self._diverse(ranked.best, options))
        by_method = {name: dict(of_method) for name, of_method in scores.items()}
        ranks = {name: {id: rank for rank, (id, _) in enumerate(ranking, 1)} for name, ranking in scores.items()}
        matches = [
            replace(
                passages[id],
                score=score,
                scores={name: own[id] for name, own in by_method.items() if id in own},
                ranks={name: own[id] for name, own in ranks.items() if id in own},
            )
            for id, score in order[: options.top]
            if id in passages
        ]
        if "bm25" in scores:
            matches = with_words(question, matches, self.store)
        notes = [
            self._stems_note if "bm25" in scores else "",
            self.embedder.cut_note(question) if self.embedder is not None and "dense" in scores else "",
            "" if matches or self.store.documents() else EMPTY_STORE,
            *([] if matches else self._values_notes(options)),
        ]
        return RetrievalResult(
            question=question,
            method=ranked.method,
            matches=matches,
            stages=timer.stages,
            notes=list(filter(None, notes)),
        )

    def rankings(self, question: str, options: RetrievalOptions, *, first: int | None = None) -> Rankings:
        """Rank the candidates of each method for a question.

        Args:
            first: how many passages are read from the store; None = all candidates
        Raises: as `search`.
        """
        if not isinstance(question, str) or not question.strip():
            raise DataError("the question is empty; ask something, such as: When was the lighthouse built?")
        if all(unicodedata.category(char)[0] in "PZC" for char in question):  # marks, white space, control characters
            raise DataError(f"the question {safe_repr(excerpt(question))} has no word; ask with words")
        method = options.method or ("bm25" if self.embedder is None else "fusion")
        timer = StageTimer()
        scores = self._scores(question, method, options, timer)
        if not any(scores.values()):
            self._check_filter(options)
        if method == "fusion":
            scores["fusion"] = fused(scores, self.dense_weight(options))
        passages = {x.id: x for x in self.store.matches([id for id, _ in scores[method][:first]])}
        if first is None:  # another process may have removed some since they were searched
            scores = {name: [x for x in ranking if x[0] in passages] for name, ranking in scores.items()}
        if options.late_interaction:
            there = [x for x in scores[method] if x[0] in passages]
            scores["late"] = timer("late interaction", lambda: self._late(question, there, passages, options))
        if self.reranker is not None:
            scores["rerank"] = timer("rerank", lambda: self._reranked(question, scores[method], passages))
        return Rankings(method, scores, passages, timer.stages)

    def _reranked(self, question: str, order: Scored, passages: Mapping[int, PassageMatch]) -> Scored:
        """Candidates by the score of the cross-encoder."""
        assert self.reranker is not None
        scores = np.atleast_1d(self.reranker.score([(question, passages[id].text) for id, _ in order]))
        return sorted(((id, float(score)) for (id, _), score in zip(order, scores, strict=True)), key=lambda x: -x[1])

    def dense_weight(self, options: RetrievalOptions) -> float:
        """The weight of dense search in the fusion: that of the options, else of the store, else the default."""
        if options.dense_weight is not None:
            return options.dense_weight
        stored = self.store.dense_weight()
        return DENSE_WEIGHT if stored is None else stored

    def _check_filter(self, options: RetrievalOptions) -> None:
        """Raises: DataError: no document is in the folder, or has metadata of the names that a search is limited to."""
        if options.where:
            names = self.store.metadata_names()
            more = f" and {len(names) - LISTED_NAMES:,} more" if len(names) > LISTED_NAMES else ""
            for name in options.where.keys() - set(names):
                raise DataError(
                    f"where is {safe_repr(f'{name}={options.where[name]}')}{nearest(name, names)}; no document of the "
                    f"store has metadata of this name; it has: {', '.join(names[:LISTED_NAMES]) or 'none'}{more}"
                )
        if options.folder is not None:
            self._check_folder(options.folder)

    def _values_notes(self, options: RetrievalOptions) -> list[str]:
        """Of each value that a search is limited to and no document has: which values there are, the nearest first."""
        notes = []
        for name, value in (options.where or {}).items():
            values = self.store.metadata_values(name)
            if values and value not in values:
                alike = sorted(values, key=lambda x: -SequenceMatcher(None, value, x).ratio())
                more = f" and {len(values) - LISTED_NAMES:,} more" if len(values) > LISTED_NAMES else ""
                notes.append(
                    f"no document has {safe_repr(f'{name}={value}')}; {name} is: "
                    f"{', '.join(excerpt(x) for x in alike[:LISTED_NAMES])}{more}"
                )
        return notes

    def _check_folder(self, folder: str) -> None:
        """Raises: DataError: no document of the store is in this folder."""
        name = folder.removeprefix("./").strip("/")
        documents = self.store.documents()
        if not any(document == name or document.startswith(f"{name}/") for document in documents):
            places = {*documents, *(parent.as_posix() for document in documents for parent in Path(document).parents)}
            raise DataError(f"folder is {safe_repr(folder)}{nearest(name, places)}; the store has no document there")

    def _scores(self, question: str, method: str, options: RetrievalOptions, timer: StageTimer) -> dict[str, Scored]:
        """What each method finds."""
        only = Filter(options.folder, options.where or {})
        limit = max(options.candidates, options.top)
        scores: dict[str, Scored] = {}
        embedder = None if method == "bm25" else self._encoder(f"method is {method!r}")
        words = StageTimer()
        with ThreadPoolExecutor(1) as pool:  # words are searched while the question is embedded, on another core
            search = partial(words, "bm25", lambda: self.store.search_words(question, limit, only))
            by_words = None if method == "dense" else pool.submit(search)
            if embedder is not None:
                query = timer("embed the question", lambda: embedder.query(question), lambda vector: 1)
                scores["dense"] = timer("dense", lambda: self.store.search_vectors(query, limit, only))
        if by_words is not None:
            scores = {"bm25": by_words.result(), **scores}
            timer.stages[:] = at_once(words.stages, timer.stages)
        return scores

    def _late(
        self, question: str, order: Scored, passages: Mapping[int, PassageMatch], options: RetrievalOptions
    ) -> Scored:
        """The best candidates by MaxSim."""
        embedder = self._encoder(f"late_interaction is {options.late_interaction}")
        ids = [id for id, _ in order[: options.late_interaction]]
        asked = embedder.question_tokens(question).vectors
        read = embedder.passage_tokens([with_headings(passages[id].headings, passages[id].text) for id in ids])
        scores = [max_similarity(asked @ own.vectors.T) for own in read]
        return best_first(zip(ids, scores, strict=True))

    def _encoder(self, because: str) -> PassageEmbedder:
        """Raises: ConfigError: there is none."""
        if self.embedder is None:
            raise ConfigError(
                f"{because}, which needs a sentence encoder; "
                + ("this store has no vectors: index the folder with a model" if self.store.settings.model is None
                   else "give the model of the store")
            )  # fmt: skip
        return self.embedder

    def _diverse(self, order: Scored, options: RetrievalOptions) -> Scored:
        """The best by maximal marginal relevance; relevance is scaled to 0 to 1."""
        vectors = unit(np.nan_to_num(self.store.vectors([id for id, _ in order]).astype(np.float32)))
        relevance = np.array([score for _, score in order])
        relevance = (relevance - relevance.min(initial=0)) / max(float(np.ptp(relevance)) if len(order) else 0, 1e-12)
        nearest = np.zeros(len(order))
        taken: list[int] = []
        while len(taken) < min(options.top, len(order)):
            gain = (1 - options.diversity) * relevance - options.diversity * nearest
            gain[taken] = -np.inf
            taken.append(int(gain.argmax()))
            nearest = np.maximum(nearest, vectors @ vectors[taken[-1]])
        return [order[i] for i in taken]


def fused(scores: Mapping[str, Scored], dense_weight: float) -> Scored:
    """Reciprocal rank fusion; weights sum to 1, of equal scores the lowest id is first."""
    weights = {"bm25": 1 - dense_weight, "dense": dense_weight}
    total: dict[int, float] = {}
    for method, ranking in scores.items():
        for rank, (id, _) in enumerate(ranking, 1):
            total[id] = total.get(id, 0.0) + weights[method] / (RANK_CONSTANT + rank)
    return best_first(total.items())


def at_once(some: list[Stage], others: list[Stage]) -> list[Stage]:
    """The stages of two threads: those of the faster one took no time of their own."""
    slower = total_ms(others) > total_ms(some)
    return [*(replace(x, meanwhile=slower) for x in some), *(replace(x, meanwhile=not slower) for x in others)]


def total_ms(stages: Sequence[Stage]) -> float:
    """The milliseconds that stages took together, where not all ran one after the other."""
    return sum(x.milliseconds for x in [x for x in stages if not x.meanwhile] or stages)


class StageTimer:
    """Stages with their times."""

    def __init__(self, stages: Sequence[Stage] = ()) -> None:
        self.stages = list(stages)

    def __call__(self, name: str, work: Callable[[], T], count: Callable[[T], int] = len) -> T:  # type: ignore[assignment]
        """Do the work of a stage. Returns: its results, of which there are `count(results)`."""
        start = time.perf_counter()
        results = work()
        took = 1000 * (time.perf_counter() - start)
        self.stages.append(Stage(name=name, milliseconds=round(took, 2), results=count(results)))
        return results
