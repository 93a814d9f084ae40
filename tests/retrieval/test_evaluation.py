"""Evaluation of retrieval: metrics by their formulas, what is relevant to a query, and what a report says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer
import glassformer.retrieval.evaluation as evaluation
from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.reports.charts import Series
from glassformer.reports.page import report_page
from glassformer.reports.table import IntervalCell
from glassformer.retrieval.evaluation import (
    KS,
    RetrievalEvaluation,
    evaluate_retrieval,
    evaluate_store,
    ndcg,
    recall,
    reciprocal_rank,
)
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.queries import Relevant, read_queries
from glassformer.retrieval.retriever import Retriever
from tests.e2e.tiny_models import make_folder
from tests.retrieval.encoders import make_encoder, write_documents

ROWS = [
    {"question": "When was the lighthouse built?", "answer": "BUILT in\n1874", "file": None},
    {"question": "Are plums blue?", "answer": None, "file": "notes/garden.txt"},
    {"question": "What does a pear cost?", "answer": None, "file": "notes/prices.csv"},
    {"question": "What did the ship see?", "answer": "saw the light", "file": "tower.md"},
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, encoder: Model) -> Path:
    made = tmp_path_factory.mktemp("made")
    index_folder(write_documents(made / "documents"), made / "store", encoder)
    index_folder(made / "documents", made / "words")
    return made


@pytest.fixture(scope="module")
def retriever(folder: Path, encoder: Model) -> Retriever:
    return Retriever(open_store(folder / "store"), encoder)


@pytest.fixture(scope="module")
def report(retriever: Retriever) -> RetrievalEvaluation:
    return evaluate_retrieval(retriever, read_queries(ROWS), resamples=200)


# ----------------------------------------------------------------------------------------------------- metrics


@pytest.mark.parametrize(
    ("ranks", "k", "expected"),
    [
        ([1], 10, (1, 1, 1)),
        ([3], 10, (1, 1 / 3, 1 / 2)),  # 1 / log2(1 + 3)
        ([3], 2, (0, 0, 0)),
        ([math.inf], 100, (0, 0, 0)),
        ([3, 1], 1, (1 / 2, 1, 1)),
        ([3, 1], 10, (1, 1, 1.5 / (1 + 1 / math.log2(3)))),
        ([11, math.inf], 10, (0, 0, 0)),
    ],
)
def test_metrics_by_hand(ranks: list[float], k: int, expected: tuple[float, float, float]) -> None:
    assert (recall(ranks, k), reciprocal_rank(ranks, k), ndcg(ranks, k)) == pytest.approx(expected)


def test_ndcg_is_that_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    ranks = [2, 5, 7]
    true = np.array([[rank in ranks for rank in range(1, 21)]], float)
    for k in (1, 3, 5, 10, 20):
        expected = sklearn.ndcg_score(true, -np.arange(20.0)[None], k=k)
        assert ndcg(ranks, k) == pytest.approx(expected), k


def test_metrics_of_a_store_by_its_rankings(retriever: Retriever, report: RetrievalEvaluation) -> None:
    queries = read_queries(ROWS)
    assert [x.name for x in report.methods] == ["bm25", "dense", "fusion"] and report.ks == list(KS)
    for method in report.methods:
        ranks = []
        for query in queries:
            options = RetrievalOptions(method=method.name, top=100)  # type: ignore[arg-type] # one of its values
            found = retriever.search(query.question, options).matches
            relevant = (n for n, x in enumerate(found, 1) if query.relevant[0].matches(x))
            ranks.append([next(relevant, math.inf)])
        for k, interval in zip(report.ks, method.recall, strict=True):
            assert interval.value == pytest.approx(np.mean([x[0] <= k for x in ranks]))
            assert interval.low is not None and interval.high is not None
            assert interval.low <= interval.value <= interval.high
        assert method.ndcg_10.value == pytest.approx(np.mean([ndcg(x, 10) for x in ranks]))
        assert method.mrr_10.value == pytest.approx(np.mean([reciprocal_rank(x, 10) for x in ranks]))
        assert method.mean_ms > 0 and method.median_ms > 0
    words, dense, fusion = report.methods
    assert words.recall[0].value == 1.0  # every question shares its words with its passage
    least, most = max(words.mean_ms, dense.mean_ms), words.mean_ms + dense.mean_ms  # of each, both ran at once
    assert least - 0.02 <= fusion.mean_ms <= most


def test_a_query_is_embedded_once(retriever: Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    assert retriever.embedder is not None
    asked: list[str] = []
    embed = retriever.embedder.query
    monkeypatch.setattr(retriever.embedder, "query", lambda text: (asked.append(text), embed(text))[1])
    evaluate_retrieval(retriever, read_queries(ROWS), resamples=10)
    assert asked == [ROWS[0]["question"], *(row["question"] for row in ROWS)]  # the first is searched untimed before


def test_a_cross_encoder_is_a_method_of_its_own(retriever: Retriever, tmp_path: Path) -> None:
    assert retriever.embedder is not None
    reranker = glassformer.load(make_folder(tmp_path, "bert", task="text-classification", id2label={"0": "score"}))
    both = Retriever(retriever.store, retriever.embedder.model, reranker=reranker)
    report = evaluate_retrieval(both, read_queries(ROWS), resamples=10)
    times = {x.name: x.mean_ms for x in report.methods}
    assert list(times) == ["bm25", "dense", "fusion", "rerank"] and times["rerank"] > times["fusion"]
    assert [x.other for x in report.differences] == [name for name in times if name != report.differences[0].method]


# ----------------------------------------------------------------------------------------------------- relevance


def test_squad(retriever: Retriever) -> None:
    context = "# The tower\n\nThe lighthouse was built in 1874. It stands on a rock."
    row = {"question": "When?", "context": context}
    answer = {"text": "1874", "answer_start": context.index("1874")}
    hub = {"text": ["1874"], "answer_start": [answer["answer_start"]]}
    for answers in ([answer], hub, [answer, answer]):
        (query,) = read_queries([{**row, "answers": answers}])
        assert len(query.relevant) == 1 and query.relevant[0].is_in(retriever.store)
        assert query.relevant[0].texts[-1].endswith("the lighthouse was built in 1874.")
    far = {
        "question": "When?",
        "context": "x " * 100 + "1874" + " y" * 100,
        "answers": [{"text": "1874", "answer_start": 200}],
    }
    assert read_queries([far])[0].relevant[0].texts == (("x " * 30 + "1874" + " y" * 30),)
    with pytest.raises(DataError, match="there is no query with something relevant"):
        evaluate_retrieval(retriever, read_queries([{**row, "answers": []}]))
    report = evaluate_retrieval(retriever, read_queries([{**row, "answers": x} for x in ([answer], [])]), resamples=10)
    assert (report.query_count, report.unanswerable) == (1, 1)
    assert "1 query without an answer by the data: left out" in report.notes


def test_several_documents(retriever: Retriever) -> None:
    (query,) = read_queries([{"question": "pears", "file": ["notes/garden.txt", "notes/prices.csv"]}])
    assert query.relevant == (Relevant("notes/garden.txt"), Relevant("notes/prices.csv"))
    (words, *_) = evaluate_retrieval(retriever, [query], resamples=10).methods
    assert [x.value for x in words.recall[:2]] == [0.5, 1.0]


def test_documents_of_one_content(tmp_path: Path) -> None:
    """Their passages are stored once, under both names."""
    write_documents(tmp_path / "documents", {"a.txt": "Plums are blue.", "b.txt": "Plums are blue."})
    index_folder(tmp_path / "documents", tmp_path / "store")
    queries = read_queries([{"question": "plums", "file": name} for name in ("a.txt", "b.txt")])
    report = evaluate_retrieval(Retriever.open(tmp_path / "store"), queries, resamples=10)
    assert report.methods[0].ndcg_10.value == 1.0 and not report.unmatched
    both = read_queries([{"question": "plums", "file": ["a.txt", "b.txt"]}])
    (words,) = evaluate_retrieval(Retriever.open(tmp_path / "store"), both, resamples=10).methods
    assert words.ndcg_10.value == words.recall[0].value == 1.0  # one passage is all that there is
    both = read_queries([{"question": "plums", "file": ["a.txt", "none.txt", "b.txt"]}])
    report = evaluate_retrieval(Retriever.open(tmp_path / "store"), both, resamples=10)
    assert report.methods[0].recall[0].value == 0.5 and report.unmatched[0].relevant == ["none.txt"]
    report = evaluate_retrieval(Retriever.open(tmp_path / "store"), queries, resamples=10)
    assert (report.document_count, report.passage_count) == (2, 1)


def test_what_is_not_in_the_store_counts_as_a_miss(retriever: Retriever) -> None:
    missing = [
        {"question": "ships?", "file": "notes/ships.txt", "answer": None},
        {"question": "ships?", "file": None, "answer": "built in 1875"},
        {"question": "ships?", "file": "notes/garden.txt", "answer": "built in 1874"},
    ]
    report = evaluate_retrieval(retriever, read_queries([*ROWS, *missing]), resamples=50)
    assert [x.relevant for x in report.unmatched] == [
        ["notes/ships.txt"], ["built in 1875"], ["notes/garden.txt: built in 1874"],
    ]  # fmt: skip
    assert [x.where for x in report.unmatched] == ["the list: row 4", "the list: row 5", "the list: row 6"]
    assert report.query_count == 7 and report.methods[0].recall[-1].value == pytest.approx(4 / 7)
    assert "3 of 7 queries (42.9%) have something relevant that no passage" in report.notes[0]
    assert "built in 1875" in str(report)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("query,file\nwhere?,tower.md\n", "queries.csv: line 2: no column 'question'"),
        ("question,file\n", "queries.csv"),
        ("", "queries.csv"),
        ("question,file,answer\nwhere?,tower.md,\nwhen?,,\n", "line 3: nothing says which passages are relevant"),
        ("question,file\n  ,tower.md\n", "line 2: the question is '  '; it must be a text"),
        ("question,title\nwhere?,tower.md\n", "line 2: nothing says which passages are relevant"),
    ],
)
def test_bad_queries(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "queries.csv").write_text(rows)
    with pytest.raises(DataError, match=message):
        read_queries(tmp_path / "queries.csv")


def test_columns_of_other_names() -> None:
    rows = [{"q": "Where?", "document": "tower.md"}]
    assert read_queries(rows, columns={"question": "q", "file": "document"})[0].relevant == (Relevant("tower.md"),)
    with pytest.raises(DataError, match="columns names 'text', which queries do not have; allowed: question, file"):
        read_queries(rows, columns={"text": "q"})
    with pytest.raises(DataError, match="an answer is 'no'; it must be"):
        read_queries([{"question": "Where?", "context": "Here.", "answers": ["no"]}])
    with pytest.raises(DataError, match=r"the file is \[3\]; it must be a text or a list of texts"):
        read_queries([{"question": "Where?", "file": [3]}])


# -------------------------------------------------------------------------------------------------------- report


def test_the_report(report: RetrievalEvaluation, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    assert RetrievalEvaluation.load(tmp_path / "report.json") == report
    main, by_k, differences = report.tables()
    assert main.headings[:3] == ["method", "nDCG@10", "MRR@10"] and isinstance(main.rows[0][1], IntervalCell)
    assert [row[0] for row in by_k.rows] == list(map(str, KS)) and len(differences.rows) == 2
    assert report.finding.startswith("bm25 and fusion share the highest nDCG@10, 1.000: better than dense (+")
    assert "fusion (" not in report.finding
    charts = [chart for chart in report.charts() if isinstance(chart, Series)]
    assert [chart.title for chart in charts] == ["recall@k", "nDCG@k", "nDCG@10 of the fusion"]
    assert charts[0].lines[0].low is not None and list(charts[0].lines[0].x) == list(KS)
    assert report.finding in report_page(report)


def test_the_weight_of_the_fusion(retriever: Retriever, report: RetrievalEvaluation) -> None:
    scores = dict(zip(report.weights, (x.value for x in report.by_weight), strict=True))
    assert scores[0.5] == pytest.approx(report.methods[2].ndcg_10.value)
    assert scores[0.0] == pytest.approx(report.methods[0].ndcg_10.value)  # words alone, which find every passage
    assert scores[report.best_weight or 0.0] == max(scores.values())
    # all of these rank alike by words alone: of equally good weights the one nearest to 0.5
    only = evaluate_retrieval(retriever, read_queries(ROWS[:1]), resamples=10)
    best = {w for w, x in zip(only.weights, only.by_weight, strict=True) if x.value == 1.0}
    assert only.best_weight == min(best, key=lambda weight: abs(weight - 0.5)) and 0.0 in best


def test_the_best_weight_is_stored_for_later_searches(
    folder: Path, encoder: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, question = tmp_path / "store", ROWS[0]["question"]
    index_folder(folder / "documents", store, encoder)
    retriever = Retriever(open_store(store), encoder)
    assert retriever.store.dense_weight() is None and retriever.dense_weight(RetrievalOptions()) == 0.5
    before = retriever.search(str(question)).matches
    monkeypatch.setattr(evaluation, "WEIGHTS", (0.0, 0.1))
    tuned = evaluate_store(store, ROWS, tune=True)
    assert tuned.tuned and tuned.best_weight == retriever.store.dense_weight() == 0.1
    assert any("it is that of the store now, for find and ask" in note for note in tuned.notes)
    (note,) = [note for note in tuned.notes if "dense_weight=" in note]
    assert (
        note.startswith("each dense_weight= of 0, 0.1 has the highest nDCG@10") and "; of these 0.1 is chosen" in note
    )
    alone = replace(tuned, weights=[0.1], by_weight=tuned.by_weight[1:])
    assert any(note.startswith("dense_weight= 0.1 has the highest nDCG@10") for note in alone.notes)
    after = retriever.search(str(question)).matches
    given = retriever.search(str(question), RetrievalOptions(dense_weight=0.1)).matches
    assert [x.score for x in after] == [x.score for x in given] != [x.score for x in before]
    assert retriever.search(str(question), RetrievalOptions(dense_weight=0.5)).matches == before
    again = evaluate_store(store, ROWS)
    assert again.dense_weight == 0.1 and not again.tuned
    with pytest.raises(ConfigError, match="a store that has vectors, and no other method"):
        evaluate_store(store, ROWS, RetrievalOptions(method="bm25"), tune=True)


def test_depths(retriever: Retriever) -> None:
    queries = read_queries(ROWS)
    report = evaluate_retrieval(retriever, queries, RetrievalOptions(candidates=4), ks=[3, 1, 3], resamples=10)
    assert report.ks == [1, 3]
    assert evaluate_retrieval(retriever, queries, RetrievalOptions(candidates=4), resamples=10).ks == [1, 2, 3]
    for ks in ([0], [5], [], [2.5]):
        with pytest.raises(ConfigError, match="it must hold whole numbers from 1 to candidates=4"):
            evaluate_retrieval(retriever, queries, RetrievalOptions(candidates=4), ks=ks)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- command


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, " ".join(captured.err.split())


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = tmp_path / "queries.csv"
    queries.write_text("asked,file\nAre plums blue?,notes/garden.txt\nship,tower.md\n")
    words = ("evaluate", folder / "words", "--queries", queries, "-c", "question=asked")
    code, out, err = run(capsys, *words, "--html", tmp_path / "page.html")
    assert code == 0, err
    assert "bm25: nDCG@10 1.000 [1.000, 1.000]." in out and "recall@k" in out
    assert str(tmp_path) not in (tmp_path / "page.html").read_text()
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0 and json.loads(out)["kind"] == "retrieval-evaluation"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["STORE"], "is a store of documents; give --queries FILE"),
        (["STORE", "--queries", "QUERIES", "--data", "x.csv"], "--data is for the evaluation of a model"),
        (["FOLDER", "--queries", "QUERIES"], "store"),
        (["FOLDER", "--html", "page.html"], "--html is for a store of documents, with --queries FILE"),
    ],
)
def test_options_that_do_not_go_together(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    queries = tmp_path / "queries.csv"
    queries.write_text("question,file\nAre plums blue?,notes/garden.txt\n")
    names = {"STORE": folder / "words", "QUERIES": queries, "FOLDER": tmp_path}
    code, _, err = run(capsys, "evaluate", *(names.get(word, word) for word in words))
    assert code != 0 and message in err and "bug" not in err
