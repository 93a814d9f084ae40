"""Why a passage was retrieved: words with what they add to BM25, ranks by each method, where an answer may begin."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer.reports.page import report_data
from glassformer.retrieval.answer import ask
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import AskOptions, RetrievalOptions
from glassformer.retrieval.reader import Reader
from glassformer.retrieval.retriever import Retriever
from glassformer.retrieval.words import term_places, terms
from tests.e2e.tiny_models import make_folder
from tests.retrieval.encoders import make_encoder, write_documents

QUESTION = "Which lighthouses were built in the year 1874, and which ships saw the light?"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("made")
    model = glassformer.load(make_encoder(folder / "encoder"))
    index_folder(write_documents(folder / "documents"), folder / "store", model)
    return Retriever(open_store(folder / "store"), model)


@pytest.mark.parametrize("method", ["bm25", "fusion"])
def test_the_words_of_a_passage_sum_to_its_score(retriever: Retriever, method: str) -> None:
    matches = retriever.search(QUESTION, RetrievalOptions(top=50, method=method)).matches  # type: ignore[arg-type]
    assert any(x.words for x in matches)
    for match in matches:
        assert sum(word.score for word in match.words) == pytest.approx(match.scores.get("bm25", 0.0), abs=1e-9)
        assert [w.score for w in match.words] == sorted((w.score for w in match.words), reverse=True)


def test_each_word_is_its_formula(retriever: Retriever) -> None:
    store = retriever.store
    listed = store.matches(range(1, store.counts().passages + 1))
    texts = [terms(f"{' '.join(x.headings)}\n{x.text}", "en") for x in listed]
    mean = np.mean([len(own) for own in texts])
    match = next(x for x in retriever.search(QUESTION).matches if len(x.words) > 2)
    own = texts[[x.id for x in listed].index(match.id)]
    for word in match.words:
        having = sum(word.term in each for each in texts)
        idf = max(math.log((len(texts) - having + 0.5) / (having + 0.5)), 1e-6)
        tf = own.count(word.term)
        assert (word.passages, word.count) == (having, tf) and word.idf == pytest.approx(idf)
        assert word.score == pytest.approx(idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(own) / mean)))
        assert word.word in QUESTION


def test_ranks_by_each_method(retriever: Retriever) -> None:
    matches = retriever.search(QUESTION, RetrievalOptions(top=50)).matches
    for method in ("bm25", "dense", "fusion"):
        alone = retriever.search(QUESTION, RetrievalOptions(top=50, method=method)).matches  # type: ignore[arg-type]
        expected = {x.id: rank for rank, x in enumerate(alone, 1)}
        assert {x.id: x.ranks[method] for x in matches if method in x.ranks} == expected
        assert all((method in x.ranks) is (method in x.scores) for x in matches)


def test_dense_search_alone_counts_no_words(retriever: Retriever) -> None:
    assert not any(x.words for x in retriever.search(QUESTION, RetrievalOptions(method="dense")).matches)


@pytest.mark.parametrize(
    ("text", "language", "term", "words"),
    [
        ("Lighthouses! A LIGHT, lighthouse's", "en", "lighthous", ["Lighthouses", "lighthouse's"]),
        ("灯台は1874年、灯台", "ja", "灯台", ["灯台", "灯台"]),
        ("灯台", "ja", "台*", ["台"]),
        ("dont don’t", "none", "dont", ["dont", "don’t"]),
        ("Straße STRASSE", "none", "strasse", ["Straße", "STRASSE"]),
        ("", "en", "x", []),
    ],
)  # fmt: skip
def test_the_places_of_a_term(text: str, language: str, term: str, words: list[str]) -> None:
    assert [text[start:stop] for start, stop in term_places(text, language, ["other", term])[term]] == words


def test_a_passage_that_is_gone_has_no_words(retriever: Retriever) -> None:
    assert retriever.store.term_scores(QUESTION, [10_000]) == [[]]


def test_where_an_answer_begins_and_ends(retriever: Retriever, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="question-answering", max_position_embeddings=64)
    reader = Reader(glassformer.load(folder))
    matches = retriever.search("fruit flies", RetrievalOptions(top=3)).matches
    spans, boundaries = reader.read_with_boundaries("fruit flies", matches)
    assert spans == reader.read("fruit flies", matches)
    logits = []
    for match in matches:
        encoding = reader.model.tokenizer("fruit flies", match.text, return_tensors="pt")
        inside = [i for i, side in enumerate(reader.model.tokenizer("fruit flies", match.text).sequence_ids(0)) if side]
        with torch.no_grad():
            logits.append(reader.model(**encoding).start_logits[0, inside])
    chances = torch.cat(logits).softmax(0)
    words = [word for own in boundaries for word in own]
    assert [x.begins for x in words] == pytest.approx(chances.tolist(), abs=1e-4)  # each word is one token here
    assert sum(x.ends for x in words) == pytest.approx(1.0, abs=0.01)
    for match, own in zip(matches, boundaries, strict=True):
        assert [match.text[x.start : x.stop] for x in own] == [x.text for x in own]
        assert [x.start for x in own] == sorted(x.start for x in own)


def test_a_page_has_the_words_and_marks_them(retriever: Retriever, tmp_path: Path) -> None:
    reader = Reader(
        glassformer.load(make_folder(tmp_path, "bert", task="question-answering", max_position_embeddings=64))
    )
    answer = ask(QUESTION, retriever, AskOptions(method="bm25", top=2), reader=reader)
    data = report_data(answer)
    captions = [table["caption"] for table in data["tables"]]
    assert any(x.startswith("where the answer begins") for x in captions)
    table = next(x for x in data["tables"] if x["caption"].startswith("what each word"))
    assert table["rows"][-1][0] == "BM25"
    assert table["rows"][-1][3:] == [f"{x.scores['bm25']:.3f}" for x in answer.matches]
    for match, passage in zip(answer.matches, data["passages"], strict=True):
        (text,) = passage["texts"]
        assert "".join(part[0] for part in text["parts"]) == text["text"] == match.text
        marked = {part[0] for part in text["parts"] if len(part) > 1}
        expected = {match.text[a:b] for word in match.words if word.score > 0.01 for a, b in word.places}
        assert all(any(word in part or part in word for part in marked) for word in expected)


def test_the_trace_has_a_line_a_passage(retriever: Retriever) -> None:
    result = retriever.search(QUESTION, RetrievalOptions(method="bm25", top=2))
    stages, words = result.trace()
    assert stages.headings[0] == "stage" and [row[0] for row in words.rows] == [x.place for x in result.matches]
    best = result.matches[0].words[0]
    assert words.rows[0][2].startswith(f"{best.word} {best.score:.3f}")
