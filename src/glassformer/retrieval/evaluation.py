"""Evaluation of retrieval: recall@k, MRR@10 and nDCG@10 of each method of a store, with 95% bootstrap intervals.

    relevant to a query      a   b            ranked      b  x  a  y
    ranks                    3   1            recall@1 = 1/2,  recall@3 = 1
    MRR@10  = 1 / 1          nDCG@10 = (1/log2(1 + 1) + 1/log2(1 + 3)) / (1/log2(1 + 1) + 1/log2(1 + 2))

All methods are ranked in one pass over the queries, so their differences are paired, and each query is embedded
once. Of several passages that are relevant in the same way, such as those of one document, the first one counts.

Sources: Bajaj et al. 2016, "MS MARCO", section 5 (MRR@10); Järvelin and Kekäläinen 2002, "Cumulated Gain-Based
Evaluation of IR Techniques" (nDCG); Efron 1979 (bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.rows import Source
from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, is_int
from glassformer.files.schema import Schema, given
from glassformer.progress import Bar, no_bar
from glassformer.reports.charts import Chart, Series, SeriesLine
from glassformer.reports.page import shown_place
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent
from glassformer.retrieval.answer import load_reader
from glassformer.retrieval.answer_evaluation import METRICS as ANSWER_METRICS
from glassformer.retrieval.answer_evaluation import ReaderEvaluation, evaluate_answers
from glassformer.retrieval.options import DENSE_WEIGHT, AskOptions, RetrievalOptions
from glassformer.retrieval.queries import LabelledQuery, Relevant, read_queries
from glassformer.retrieval.retriever import Retriever, fused, total_ms
from glassformer.retrieval.store import Scored
from glassformer.tasks.metrics.metric import RESAMPLES, BootstrapMeans, Interval, ResampledScore, resampled

KS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Depths of the curves."""
DEPTH = 10
"""Of MRR and nDCG in tables, as they are published."""
MAIN = f"ndcg@{DEPTH}"
WEIGHTS = tuple(round(0.1 * i, 1) for i in range(11))
"""Of dense search, tried for the fusion."""
PARTS = {
    "bm25": ("bm25",),
    "dense": ("embed the question", "dense"),
    "fusion": ("bm25", "embed the question", "dense"),
}
"""Stages of a search that a method needs."""
METHODS = {
    "recall": "share of what is relevant to a query that is among the first k passages, mean over queries",
    "mrr": "1 / rank of the first relevant passage, 0 beyond k, mean over queries",
    "ndcg": "Σ 1 / log2(1 + rank) of what is relevant within the first k, divided by that of the best ranking, "
    "mean over queries",
}
"""Metric → how it is computed."""
SHOWN = 10
"""Queries without a relevant passage that a terminal lists."""


@dataclass(frozen=True, kw_only=True)
class MethodScores(Schema):
    """How well and how fast a method ranks.

    recall, ndcg: by k
    mrr_10, ndcg_10: MRR@10 and nDCG@10
    mean_ms, median_ms: milliseconds a query, without reading the passages
    """

    name: str
    recall: list[Interval]
    ndcg: list[Interval]
    mrr_10: Interval
    ndcg_10: Interval
    mean_ms: float
    median_ms: float


@dataclass(frozen=True, kw_only=True)
class MethodDifference(Schema):
    """How much higher nDCG@10 of a method is than that of another, paired over queries."""

    method: str
    other: str
    difference: Interval


@dataclass(frozen=True, kw_only=True)
class UnmatchedQuery(Schema):
    """A query of which something relevant is not in the store.

    where: its place in the file
    relevant: what is missing
    """

    question: str
    where: str
    relevant: list[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class RetrievalEvaluation(Report, kind="retrieval-evaluation"):
    """How well each method finds what is relevant to queries, with 95% bootstrap intervals over queries.

    query_count, document_count, passage_count: how many there are
    ks: depths of the curves
    methods: bm25, dense, fusion, late, rerank, as far as they apply
    differences: of the best method to each other one
    dense_weight: of the fusion
    tuned: the best weight on these queries is that of the store from now on
    weights: dense weights that were tried; by_weight: nDCG@10 of the fusion with each
    unmatched: queries with something relevant that is not in the store; they count as misses
    unanswerable: queries that have no answer by the data; they are left out
    computed: metric → how
    answers: of a reader, where one was given
    """

    query_count: int
    document_count: int
    passage_count: int
    ks: list[int]
    methods: list[MethodScores]
    differences: list[MethodDifference] = field(default_factory=list)
    dense_weight: float = DENSE_WEIGHT
    tuned: bool = False
    weights: list[float] = field(default_factory=list)
    by_weight: list[Interval] = field(default_factory=list)
    unmatched: list[UnmatchedQuery] = field(default_factory=list)
    unanswerable: int = 0
    computed: dict[str, str] = field(default_factory=lambda: dict(METHODS))
    answers: ReaderEvaluation | None = None

    @property
    def caption(self) -> str:
        held = f"{counted(self.passage_count, 'passage')} of {counted(self.document_count, 'document')}"
        return f"{_queries(self.query_count)} over {held}; in brackets 95% intervals"

    @property
    def best(self) -> MethodScores:
        """The method with the highest nDCG@10; of equal ones the faster."""
        return max(self.methods, key=lambda x: (x.ndcg_10.value, -x.mean_ms))

    @property
    def finding(self) -> str:
        best = self.best
        if not self.differences:
            return f"{best.name}: nDCG@{DEPTH} {best.ndcg_10}."
        tied = [x.name for x in self.methods if x.ndcg_10.value == best.ndcg_10.value and x is not best]
        compared = ", ".join(
            f"{x.difference.comparison} {x.other} ({x.difference.written(3, signed=True)})"
            for x in self.differences
            if x.other not in tied
        )
        first = f"{best.name} has the highest nDCG@{DEPTH}, {best.ndcg_10.value:.3f}"
        if tied:
            have = "have the same" if len(tied) + 1 == len(self.methods) else "share the highest"
            names = f"{', '.join([best.name, *tied[:-1]])} and {tied[-1]}"
            first = f"{names} {have} nDCG@{DEPTH}, {best.ndcg_10.value:.3f}"
        return f"{first}: {compared}." if compared else f"{first}."

    @property
    def best_weight(self) -> float | None:
        """The dense weight of the highest nDCG@10; None = there is no fusion."""
        scores = {weight: x.value for weight, x in zip(self.weights, self.by_weight, strict=True)}
        return max(scores, key=lambda weight: (round(scores[weight], 9), -abs(weight - 0.5)), default=None)

    @property
    def notes(self) -> list[str]:
        listed = []
        if self.unmatched:
            verb = "has" if len(self.unmatched) == 1 else "have"
            listed.append(
                f"{len(self.unmatched)} of {_queries(self.query_count)} "
                f"({percent(len(self.unmatched) / self.query_count, 1)}) {verb} something relevant that no passage of "
                "the store holds; for every method that counts as a miss"
            )
        if self.unanswerable:
            listed.append(f"{_queries(self.unanswerable)} without an answer by the data: left out")
        if self.answers is not None:
            listed.append(self.answers.note)
        if (weight := self.best_weight) is not None and (self.tuned or weight != self.dense_weight):
            stored = "; it is that of the store now, for find and ask" if self.tuned else ""
            highest = self.by_weight[self.weights.index(weight)]
            tied = [f"{x:g}" for x, own in zip(self.weights, self.by_weight, strict=True) if own.value == highest.value]
            how = f"the highest nDCG@{DEPTH} of the fusion on these queries, {highest}"
            chosen = f"dense_weight= {weight:g} has {how}"
            if len(tied) > 1:
                chosen = f"each dense_weight= of {', '.join(tied)} has {how}; of these {weight:g} is chosen"
            listed.append(f"{chosen}{stored}; report it on other queries than those that chose it")
        return listed

    # --------------------------------------------------------------------------------------- tables and charts

    def page_tables(self) -> list[Table]:
        return self.tables(len(self.unmatched))

    def tables(self, shown: int = SHOWN) -> list[Table]:
        main = [
            [x.name, x.ndcg_10.cell(), x.mrr_10.cell(), f"{x.mean_ms:.1f}", f"{x.median_ms:.1f}"] for x in self.methods
        ]
        headings = ["method", f"nDCG@{DEPTH}", f"MRR@{DEPTH}", "mean ms a query", "median ms"]
        by_k = [[str(k), *(x.recall[i].cell() for x in self.methods)] for i, k in enumerate(self.ks)]
        tables = [Table(headings, main), Table(["k", *(x.name for x in self.methods)], by_k, "recall@k")]
        if self.answers is not None:
            tables.append(self.answers.table())
        if self.differences:
            rows = [[f"{x.method} instead of {x.other}", x.difference.cell(signed=True)] for x in self.differences]
            tables.append(Table(["change", f"nDCG@{DEPTH}"], rows, "Paired differences over queries, 95% intervals"))
        if self.unmatched:
            rows = [[x.question, "; ".join(x.relevant), shown_place(x.where)] for x in self.unmatched[:shown]]
            first = f", the first {shown}" if shown < len(self.unmatched) else ""
            about = f"Not in the store{first}"
            tables.append(Table(["query", "relevant", "where"], rows, about, left=3, folded=True))
        return tables

    def charts(self) -> list[Chart]:
        charts: list[Chart] = [
            Series(
                title=f"{title}@k", x_label="k", y_label=title, log_x=self.ks[-1] > DEPTH,
                lines=[_line(x.name, self.ks, getattr(x, title.lower())) for x in self.methods],
            )
            for title in ("recall", "nDCG")
        ]  # fmt: skip
        if self.weights:
            line = replace(_line("fusion", self.weights, self.by_weight), best=self.best_weight)
            title = f"nDCG@{DEPTH} of the fusion"
            charts.append(Series(title=title, x_label="weight of dense search", y_label=f"nDCG@{DEPTH}", lines=[line]))
        return charts


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"


def _line(name: str, x: Sequence[float], values: Sequence[Interval]) -> SeriesLine:
    low, high = ([v.value if end is None else end for v, end in zip(values, ends, strict=True)]
                 for ends in ([v.low for v in values], [v.high for v in values]))  # fmt: skip
    return SeriesLine(name, x, [v.value for v in values], low=low, high=high, group=name, markers=True)


# --------------------------------------------------------------------------------------------------- evaluation


class _Ranked(NamedTuple):
    """A query that was searched.

    scores: method → ranking
    relevance: passage → numbers of what it is relevant by, in the query's `relevant`
    milliseconds: by method
    """

    query: LabelledQuery
    scores: Mapping[str, Scored]
    relevance: Mapping[int, Sequence[int]]
    milliseconds: Mapping[str, float]

    def ranks(self, ranking: Scored) -> list[float]:
        """The rank of the first passage for each that is relevant, from 1; ∞ = not among the candidates."""
        ranks = [math.inf] * len(self.query.relevant)
        for rank, (id, _) in enumerate(ranking, 1):
            for i in self.relevance.get(id, ()):
                ranks[i] = min(ranks[i], rank)
        return ranks


def evaluate_retrieval(
    retriever: Retriever,
    queries: Sequence[LabelledQuery],
    options: RetrievalOptions | None = None,
    *,
    ks: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
    bar: Bar = no_bar,
) -> RetrievalEvaluation:
    """Evaluate every method of a retriever on queries whose relevant passages are known.

    Args:
        queries: as `read_queries` gives them
        options: of the search; method=None = bm25, dense and fusion, as far as the store has them
        ks: depths of the curves; None = 1 to 100, as deep as `candidates`
        resamples: of the bootstrap
        bar: shows progress by queries
    Raises: DataError: no query with an answer. ConfigError: a depth beyond the candidates.
    """
    options = options or RetrievalOptions()
    ks = [k for k in KS if k <= options.candidates] if ks is None else sorted(set(ks))
    if not ks or not all(is_int(k, 1, options.candidates + 1) for k in ks):
        raise ConfigError(f"ks is {list(ks)}; it must hold whole numbers from 1 to candidates={options.candidates}")
    searched = _search(retriever, queries, options, bar)
    names = [name for name in (*PARTS, "late", "rerank") if name in searched[0].scores]
    scores = {name: _scores([x.ranks(x.scores[name]) for x in searched], ks, resamples) for name in names}
    best = max(scores, key=lambda name: scores[name][MAIN].value)
    by_weight = _by_weight(searched, WEIGHTS, resamples) if "fusion" in scores else {}
    counts = retriever.store.counts()
    return RetrievalEvaluation(
        query_count=len(searched),
        document_count=counts.documents,
        passage_count=counts.passages,
        ks=list(ks),
        methods=[_method(name, own, ks, searched) for name, own in scores.items()],
        differences=[
            MethodDifference(method=best, other=name, difference=scores[best][MAIN].minus(own[MAIN]).interval)
            for name, own in scores.items()
            if name != best
        ],
        dense_weight=retriever.dense_weight(options),
        weights=list(by_weight),
        by_weight=[x.interval for x in by_weight.values()],
        unmatched=_unmatched(searched, retriever),
        unanswerable=len(queries) - len(searched),
    )


def evaluate_store(
    store: str | Path,
    queries: Source,
    options: RetrievalOptions | None = None,
    *,
    tune: bool = False,
    columns: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    loading: Mapping[str, Any] | None = None,
    reader: str | None = None,
    bar: Bar = no_bar,
) -> RetrievalEvaluation:
    """Evaluate the search of a store on a file of queries.

    Args:
        options: of the search, with the name of a cross-encoder
        tune: store the weight of dense search that is best on these queries; searches use it by default
        columns, reading: as of `read_queries`
        loading: keywords of `load`
        reader: whose answers are evaluated too: a folder or Hub name
    Raises:
        DataError: there is no store; and as `read_queries`, `evaluate_retrieval` and `evaluate_answers`
        ConfigError: there is no fusion whose weight could be chosen, or `top` and no reader
    """
    options = options or RetrievalOptions()
    if reader is None and "top" in given(options):
        raise ConfigError(
            f"top is {options.top}, the number of passages that a reader reads, and there is none; give reader= MODEL, "
            "or leave it out: the search is evaluated at all depths"
        )
    retriever = Retriever.open(
        store, model=options.model, method=options.method, reranker=options.rerank, **(loading or {})
    )
    language = retriever.store.settings.language
    listed = read_queries(queries, columns=columns, language=language, **(reading or {}))
    if tune and (retriever.embedder is None or options.method not in (None, "fusion")):
        raise ConfigError(
            "tune chooses the weight of dense search in the fusion: give it a store that has vectors, and no other "
            "method"
        )
    loaded = None if reader is None else load_reader(AskOptions(reader=reader), language, **(loading or {}))
    report = evaluate_retrieval(retriever, listed, options, bar=bar)
    if tune and report.best_weight is not None:
        retriever.store.set_dense_weight(report.best_weight)
        report = replace(report, tuned=True)
    if loaded is None:
        return report
    answers = evaluate_answers(retriever, listed, loaded, options, bar=bar)
    return replace(report, answers=answers, computed={**report.computed, **ANSWER_METRICS})


def _search(
    retriever: Retriever, queries: Sequence[LabelledQuery], options: RetrievalOptions, bar: Bar
) -> list[_Ranked]:
    """Search each query once, by all methods."""
    contents = retriever.store.documents()
    answerable = [query._replace(relevant=_distinct(query.relevant, contents)) for query in queries if query.relevant]
    if not answerable:
        raise DataError("there is no query with something relevant; give at least one question with its file or answer")
    retriever.rankings(answerable[0].question, options)  # untimed: the first search reads the vectors into memory
    searched = []
    with bar("searching", len(answerable)) as advance:
        for query in answerable:
            ranked = retriever.rankings(query.question, options)
            relevance = {
                id: own
                for id, passage in ranked.passages.items()
                if (own := [i for i, relevant in enumerate(query.relevant) if relevant.matches(passage)])
            }
            again = {"late": "late interaction", "rerank": "rerank"}
            needed = {**PARTS, **{name: (*PARTS[ranked.method], stage) for name, stage in again.items()}}
            milliseconds = {
                name: total_ms([x for x in ranked.stages if x.name in needed[name]]) for name in ranked.scores
            }
            searched.append(
                _Ranked(query, {name: ranked.ranking(name) for name in ranked.scores}, relevance, milliseconds)
            )
            advance(1)
    return searched


def _distinct(relevant: Sequence[Relevant], contents: Mapping[str, str]) -> tuple[Relevant, ...]:
    """What is relevant, without copies: files of one content have the same passages, which a search gives once.

    Args:
        contents: of each document of the store
    """
    listed: dict[tuple[str, tuple[str, ...]], Relevant] = {}
    for x in relevant:
        listed.setdefault((contents.get(x.file, x.file), x.texts), x)
    return tuple(listed.values())


def _by_weight(searched: Sequence[_Ranked], weights: Sequence[float], resamples: int) -> dict[float, ResampledScore]:
    """nDCG@10 of the fusion for each dense weight, from the rankings that are there."""
    parts = [{name: x.scores[name] for name in ("bm25", "dense")} for x in searched]
    return {
        weight: _scores(
            [x.ranks(fused(own, weight)) for x, own in zip(searched, parts, strict=True)], [DEPTH], resamples
        )[MAIN]
        for weight in weights
    }


def _scores(ranks: Sequence[Sequence[float]], ks: Sequence[int], resamples: int) -> dict[str, ResampledScore]:
    """All metrics of a method, resampled over queries.

    Args:
        ranks: of what is relevant to each query
    """
    depths = sorted({*ks, DEPTH})
    of = {"recall": recall, "ndcg": ndcg, "mrr": reciprocal_rank}
    values = {
        f"{name}@{k}": np.array(list(map(partial(score, k=k), ranks)), float)
        for name, score in of.items()
        for k in depths
    }
    methods = {name: METHODS[name.partition("@")[0]] for name in values}
    return resampled(BootstrapMeans(values, methods), resamples)


def recall(ranks: Sequence[float], k: int) -> float:
    """The share of what is relevant that is among the first k."""
    return sum(rank <= k for rank in ranks) / len(ranks)


def reciprocal_rank(ranks: Sequence[float], k: int) -> float:
    """1 / rank of the first that is relevant, 0 beyond k."""
    return 1 / min(ranks) if min(ranks) <= k else 0.0


def ndcg(ranks: Sequence[float], k: int) -> float:
    """Normalised discounted cumulative gain, with gains of 1; a passage that is relevant in two ways gains once."""
    gain = sum(1 / math.log2(1 + rank) for rank in set(ranks) if rank <= k)
    return gain / sum(1 / math.log2(1 + rank) for rank in range(1, min(k, len(ranks)) + 1))


def _method(
    name: str, scores: Mapping[str, ResampledScore], ks: Sequence[int], searched: Sequence[_Ranked]
) -> MethodScores:
    took = np.array([x.milliseconds[name] for x in searched])
    return MethodScores(
        name=name,
        recall=[scores[f"recall@{k}"].interval for k in ks],
        ndcg=[scores[f"ndcg@{k}"].interval for k in ks],
        mrr_10=scores[f"mrr@{DEPTH}"].interval,
        ndcg_10=scores[MAIN].interval,
        mean_ms=round(float(took.mean()), 2),
        median_ms=round(float(np.median(took)), 2),
    )


def _unmatched(searched: Sequence[_Ranked], retriever: Retriever) -> list[UnmatchedQuery]:
    """Queries with something relevant that is in no passage; only what no method returned is looked up."""
    listed = []
    for x in searched:
        returned = {i for numbers in x.relevance.values() for i in numbers}
        left = [relevant for i, relevant in enumerate(x.query.relevant) if i not in returned]
        if missing := [str(relevant) for relevant in left if not relevant.is_in(retriever.store)]:
            listed.append(UnmatchedQuery(question=x.query.question, where=x.query.where, relevant=missing))
    return listed
