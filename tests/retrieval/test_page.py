"""The page of a store: its requests and answers, its errors, and late interaction by plain loops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.retrieval.evaluation import evaluate_retrieval
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.page import DocumentsPage
from glassformer.retrieval.passage import with_headings
from glassformer.retrieval.queries import read_queries
from glassformer.retrieval.retriever import Retriever
from tests.explorer.client import Client
from tests.retrieval.encoders import make_encoder, write_documents

QUESTION = "When was the lighthouse built?"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory, encoder: Model) -> Retriever:
    folder = tmp_path_factory.mktemp("made")
    index_folder(write_documents(folder / "documents"), folder / "store", encoder)
    return Retriever(open_store(folder / "store"), encoder)


@pytest.fixture
def page(retriever: Retriever) -> Iterator[DocumentsPage]:
    with DocumentsPage(retriever, name="notes", question="a question?") as served:
        served.serve()
        yield served


def cosines(model: Model, question: str, passage: str) -> np.ndarray:
    """Of each token of a question and a passage, read with their prompts, which have no cell themselves."""
    sides = []
    for prompt, text in (("fruit ", question), ("a ", passage)):
        encoding = model.tokenizer(prompt + text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            states = model(**encoding).last_hidden_state[0]
        first = 1 + len(model.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        sides.append(torch.nn.functional.normalize(states[first:-1], dim=-1).numpy())
    return np.asarray(sides[0] @ sides[1].T)


def test_late_interaction_is_its_formula(retriever: Retriever, encoder: Model) -> None:
    found = retriever.search(QUESTION, RetrievalOptions(top=50, late_interaction=3))
    order = [x.id for x in retriever.search(QUESTION, RetrievalOptions(top=50)).matches]
    ranked = [x for x in found.matches if "late" in x.scores]
    assert {x.id for x in ranked} == set(order[:3]) and [x.ranks["late"] for x in ranked] == [1, 2, 3]
    assert [x.id for x in found.matches[3:]] == order[3:], "those behind them stay in their order"
    for match in ranked:
        cells = cosines(encoder, QUESTION, with_headings(match.headings, match.text))
        assert match.scores["late"] == match.score == pytest.approx(float(cells.max(1).mean()), abs=1e-5)
    assert [stage.name for stage in found.stages][-1] == "late interaction"


def test_late_interaction_needs_a_model_and_no_other_ranking(retriever: Retriever) -> None:
    with pytest.raises(ConfigError, match="late_interaction is 3, which needs a sentence encoder"):
        Retriever(retriever.store).search(QUESTION, RetrievalOptions(late_interaction=3))
    with pytest.raises(ConfigError, match="give one of them"):
        RetrievalOptions(late_interaction=3, rerank="model")


def test_late_interaction_is_evaluated(retriever: Retriever) -> None:
    queries = read_queries([{"question": "which fruit is blue?", "answer": "Plums are blue"}])
    report = evaluate_retrieval(retriever, queries, RetrievalOptions(late_interaction=2), resamples=20)
    names = [x.name for x in report.methods]
    assert names == ["bm25", "dense", "fusion", "late"] and report.methods[-1].recall[-1].value == 1


def test_the_page_of_a_store(page: DocumentsPage, retriever: Retriever) -> None:
    client: Any = Client(page)  # type: ignore[arg-type] # it reads the address alone
    assert "q=a+question%3F" in page.url and b"/static/ask.js" in client.ask("/").body
    facts = client.view("store").fields
    counts = retriever.store.counts()
    assert (facts["name"], facts["document_count"], facts["passage_count"]) == (
        "notes",
        counts.documents,
        counts.passages,
    )
    answer = client.view("ask", question=QUESTION, top=3).fields
    expected = retriever.search(QUESTION, RetrievalOptions(top=3)).matches
    assert [x["id"] for x in answer["matches"]] == [x.id for x in expected] and answer["passage"] == 0
    assert client.view("ask", question=QUESTION, method="bm25", late_interaction=2).fields["matches"][0]["ranks"][
        "late"
    ]


def test_what_a_search_on_the_page_is_limited_to(page: DocumentsPage, retriever: Retriever) -> None:
    client: Any = Client(page)  # type: ignore[arg-type]
    facts = client.view("store").fields
    assert facts["folders"] == ["notes/", *sorted(retriever.store.documents())]
    assert facts["metadata"] == retriever.store.metadata_names()
    answer = client.view("ask", question="fruit", folder="notes/", where={"price": "4"}, diversity=0.3).fields
    options = RetrievalOptions(folder="notes", where={"price": "4"}, diversity=0.3)
    expected = retriever.search("fruit", options).matches
    assert [x["id"] for x in answer["matches"]] == [x.id for x in expected] and len(expected) == 1
    assert "diversity" in [stage["name"] for stage in answer["stages"]]


def test_a_passage_in_its_file(page: DocumentsPage, retriever: Retriever, encoder: Model) -> None:
    client: Any = Client(page)  # type: ignore[arg-type]
    ids = [x.id for x in retriever.search("ship", RetrievalOptions(top=50, folder="tower.md")).matches]
    for id in ids:
        frame = client.frame("passage", question=QUESTION, id=id)
        assert [x["id"] for x in frame.fields["before"]] == [x for x in sorted(ids) if x < id][-1:]
        assert [x["id"] for x in frame.fields["after"]] == [x for x in sorted(ids) if x > id][:1]
        (match,) = retriever.store.matches([id])
        expected = cosines(encoder, QUESTION, with_headings(match.headings, match.text))
        np.testing.assert_allclose(frame.arrays["cells"], expected, atol=1e-5)
        assert frame.arrays["cells"].shape == tuple(map(len, frame.fields["tokens"]))
        assert frame.fields["score"] == pytest.approx(float(expected.max(1).mean()), abs=1e-5)


@pytest.mark.parametrize(
    ("view", "fields", "error"),
    [
        ("ask", {"question": " "}, "the question is empty"),
        ("ask", {"question": QUESTION, "folder": "nowhere"}, "the store has no document there"),
        ("ask", {"question": QUESTION, "method": "magic"}, "method is 'magic'"),
        ("ask", {"question": QUESTION, "top": 0}, "top is 0"),
        ("ask", {"question": QUESTION, "where": {"prise": "4"}}, "nearest: 'price'"),
        ("ask", {"question": QUESTION, "diversity": 2}, "diversity is 2"),
        ("passage", {"question": QUESTION, "id": 10_000}, "this passage is gone"),
        ("lens", {}, "the page of a store has no view 'lens'"),
        ("nothing", {}, "there is no view 'nothing'"),
    ],
)
def test_a_request_that_cannot_be_answered(page: DocumentsPage, view: str, fields: dict[str, Any], error: str) -> None:
    client: Any = Client(page)  # type: ignore[arg-type]
    answer = client.view(view, **fields)
    assert answer.status == 400 and error in answer.error


def test_a_page_of_a_model_has_no_documents(page: DocumentsPage, tmp_path: Path, encoder: Model) -> None:
    with encoder.look("a b", browser=False, block=False) as look:
        assert "this page is of a model, and has no documents" in Client(look).view("ask", question="x").error
    client: Any = Client(page)  # type: ignore[arg-type]
    assert client.ask("/api/view/store", method="POST", body=b"{}", headers={"Authorization": None}).status == 401


def test_words_alone_have_no_tokens(retriever: Retriever) -> None:
    with DocumentsPage(Retriever(retriever.store)) as page:
        page.serve()
        client: Any = Client(page)  # type: ignore[arg-type]
        assert client.view("store").fields["model"] == ""
        frame = client.frame("passage", question=QUESTION, id=1)
        assert frame.arrays["cells"].size == 0 and frame.fields["tokens"] == [[], []]
