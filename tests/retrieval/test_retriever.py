"""Retrieval: fusion by its formula, re-ranking, diversity, filters; answers with their sentence and place."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import glassformer
import glassformer.retrieval
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.retrieval.answer import Answer, ask
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import AskOptions, RetrievalOptions
from glassformer.retrieval.reader import Reader
from glassformer.retrieval.retriever import Retriever, total_ms
from tests.e2e.tiny_models import make_folder
from tests.retrieval.encoders import make_encoder, write_documents


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory, encoder: Model) -> Retriever:
    folder = tmp_path_factory.mktemp("made")
    index_folder(write_documents(folder / "documents"), folder / "store", encoder)
    return Retriever(open_store(folder / "store"), encoder)


QUESTION = "When was the lighthouse built?"


def test_it_shows_itself_in_a_notebook(retriever: Retriever) -> None:
    assert repr(retriever) == f"Retriever({retriever.store!r})"
    assert retriever._repr_html_() == retriever.store._repr_html_() and "documents" in retriever._repr_html_()


def test_a_table_shows_the_part_of_a_passage_that_has_the_words(tmp_path: Path) -> None:
    text = "Nothing happened on this day by the sea. " * 12 + "Then a whale came. " + "It rained all night. " * 12
    index_folder(write_documents(tmp_path / "documents", {"a.txt": text}), tmp_path / "store")
    (table,) = Retriever.open(tmp_path / "store").search("whale").tables()
    assert table.rows[0][-1].startswith("… ") and "Then a whale came." in table.rows[0][-1]


def test_fusion_is_its_formula(retriever: Retriever) -> None:
    options = RetrievalOptions(top=50, dense_weight=0.25)
    words = [x.id for x in retriever.search(QUESTION, RetrievalOptions(top=50, method="bm25")).matches]
    dense = [x.id for x in retriever.search(QUESTION, RetrievalOptions(top=50, method="dense")).matches]
    found = retriever.search(QUESTION, options).matches
    expected = {
        id: (0.75 / (61 + words.index(id)) if id in words else 0.0) + (0.25 / (61 + dense.index(id)))
        for id in dense
    }  # fmt: skip
    assert {x.id: x.score for x in found} == pytest.approx(expected)
    assert [x.score for x in found] == sorted((x.score for x in found), reverse=True)
    assert set(found[0].scores) == {"bm25", "dense", "fusion"} and found[0].scores["bm25"] > 0


def test_words_are_searched_while_the_question_is_embedded(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ends before the other has begun; the time of both is that of the slower."""
    both = Barrier(2, timeout=300)
    embedder = retriever.embedder
    assert embedder is not None
    search_words, query = retriever.store.search_words, embedder.query
    monkeypatch.setattr(retriever.store, "search_words", lambda *asked: both.wait() >= 0 and search_words(*asked))
    monkeypatch.setattr(embedder, "query", lambda question: both.wait() >= 0 and query(question))
    stages = retriever.search(QUESTION).stages
    assert [x.name for x in stages] == ["bm25", "embed the question", "dense"]
    words, *meaning = stages
    assert words.meanwhile != meaning[0].meanwhile == meaning[1].meanwhile
    assert total_ms(stages) == max(words.milliseconds, sum(x.milliseconds for x in meaning))
    assert total_ms([words]) == words.milliseconds and total_ms(meaning) == sum(x.milliseconds for x in meaning)


def test_dense_scores_are_cosines_with_the_prompt_of_queries(retriever: Retriever, encoder: Model) -> None:
    best = retriever.search(QUESTION, RetrievalOptions(method="dense", top=1)).matches[0]
    vectors = retriever.store.vectors([best.id])[0].astype(np.float32)
    query = encoder.encode_query(QUESTION)
    assert best.score == pytest.approx(float(vectors @ query / np.linalg.norm(query)), abs=1e-5)


def test_a_cross_encoder_ranks_the_candidates_again(retriever: Retriever, tmp_path: Path) -> None:
    reranker = glassformer.load(make_folder(tmp_path, "bert", task="text-classification", id2label={"0": "score"}))
    found = Retriever(retriever.store, retriever.embedder and retriever.embedder.model, reranker=reranker).search(
        QUESTION, RetrievalOptions(top=3)
    )
    scores = reranker.score([(QUESTION, x.text) for x in found.matches])
    assert [x.scores["rerank"] for x in found.matches] == pytest.approx(list(map(float, scores)), abs=1e-5)
    assert [stage.name for stage in found.stages] == ["bm25", "embed the question", "dense", "rerank"]


def test_diversity(retriever: Retriever) -> None:
    alike = retriever.search("apples", RetrievalOptions(top=3, method="dense"))
    mixed = retriever.search("apples", RetrievalOptions(top=3, method="dense", diversity=1.0))
    assert mixed.matches[0].id == alike.matches[0].id

    vectors = retriever.store.vectors(range(1, 6)).astype(np.float32)
    cosines = vectors @ vectors[alike.matches[0].id - 1]
    assert mixed.matches[1].id == int(cosines.argmin()) + 1


def test_folder_and_metadata(retriever: Retriever) -> None:
    assert {x.file for x in retriever.search("fruit", RetrievalOptions(folder="notes")).matches} == {
        "notes/garden.txt", "notes/prices.csv",
    }  # fmt: skip
    assert {x.file for x in retriever.search("fruit", RetrievalOptions(where={"year": "1874"})).matches} == {"tower.md"}


def test_a_value_that_no_document_has(retriever: Retriever) -> None:
    found = retriever.search("fruit", RetrievalOptions(where={"fruit": "aple"}))
    assert not found.matches and "no document has 'fruit=aple'; fruit is: apple, pear" in found.notes
    assert not retriever.search("fruit", RetrievalOptions(where={"fruit": "pear"})).notes
    year = retriever.search("fruit", RetrievalOptions(where={"year": "1847"}))
    assert year.notes == ["no document has 'year=1847'; year is: 1874"]


@pytest.mark.parametrize("folder", ["note", "notes/gardens.txt", "\udce9"])
def test_a_folder_without_documents(retriever: Retriever, folder: str) -> None:
    with pytest.raises(DataError, match="the store has no document there"):
        retriever.search("fruit", RetrievalOptions(folder=folder))


def test_words_alone(retriever: Retriever) -> None:
    alone = Retriever(retriever.store)
    assert alone.search("lighthouses").method == "bm25"
    with pytest.raises(ConfigError, match="method is 'dense', which needs a sentence encoder; give the model"):
        alone.search("lighthouses", RetrievalOptions(method="dense"))


def test_another_model_is_refused(retriever: Retriever, tmp_path: Path) -> None:
    other = glassformer.load(make_encoder(tmp_path, hidden_size=16))
    with pytest.raises(ConfigError, match="the store was made with"):
        Retriever(retriever.store, other)


def test_half_of_a_surrogate_pair(retriever: Retriever) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        retriever.search("a \ud800")


@pytest.mark.parametrize("question", ['"' * 13, "?", "\x00", "… – …"])
def test_a_question_of_marks_alone(retriever: Retriever, question: str) -> None:
    with pytest.raises(DataError, match="has no word"):
        retriever.search(question)


@pytest.mark.parametrize("question", ["", "   ", "\n"])
def test_an_empty_question(retriever: Retriever, question: str) -> None:
    with pytest.raises(DataError, match="the question is empty"):
        retriever.search(question)


@pytest.mark.parametrize(
    "question",
    ['NEAR("', "word " * 10_000, "a AND OR NOT", "🦆", "灯台", "'; DROP TABLE passages"],
)
def test_any_question_is_a_question(retriever: Retriever, question: str) -> None:
    assert isinstance(ask(question, retriever), Answer)


def test_an_answer_is_a_sentence_with_its_place(retriever: Retriever) -> None:
    answer = ask(QUESTION, Retriever(retriever.store), AskOptions(method="bm25"))
    assert answer.answer == "The lighthouse was built in 1874." and answer.source is not None
    assert answer.source.place == "tower.md:4" and answer.score == 1.0
    assert answer.source.text[answer.start - answer.source.start : answer.stop - answer.source.start] == answer.answer
    assert "question-answering model" in answer.notes[0] and "tower.md:4" in str(answer)
    assert Answer.from_dict(answer.to_dict()) == answer
    assert ask("zebra", Retriever(retriever.store)).answer == ""


def test_one_line_of_python(retriever: Retriever, tmp_path: Path) -> None:
    folder = write_documents(tmp_path / "documents")
    glassformer.retrieval.index_folder(folder, tmp_path / "store")
    found = glassformer.retrieval.Retriever.open(tmp_path / "store").search("plums")
    assert found.matches[0].file == "notes/garden.txt"


def test_a_reader_answers_with_words_and_their_place(retriever: Retriever, tmp_path: Path) -> None:
    reader = Reader(glassformer.load(make_folder(tmp_path, "bert", task="question-answering")))
    answer = ask(QUESTION, retriever, reader=reader)
    read = reader.read(QUESTION, answer.matches, top=3)
    assert (answer.answer, answer.passage) == (read[0].text, read[0].passage)
    if answer.source is not None:
        assert (
            answer.source.text[answer.start - answer.source.start : answer.stop - answer.source.start] == answer.answer
        )
        assert (answer.start, answer.stop) == (read[0].file_start, read[0].file_stop)
    assert [x.text for x in answer.others] == [x.text for x in read[1:] if x.answered]
    assert answer.stages[-1].name == "read" and Answer.from_dict(answer.to_dict()) == answer
