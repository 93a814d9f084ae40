"""Similarity and contexts over HTTP and in files: the numbers of the functions, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.binary_frames import decode
from glassformer.inspect.corpus import CorpusSearch, index_corpus
from glassformer.model import Model
from tests.explorer.client import Client
from tests.explorer.reader import Reader

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> Model:
    return glassformer.load(minilm)


@pytest.fixture(scope="module")
def corpus(encoder: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "corpus.txt").write_text("the pilot flies to Paris\ntime flies so fast\nfruit flies eat bananas\n")
    index_corpus(encoder, folder / "corpus.txt", folder / "index", layers=[6], heads=[(4, 9)])
    return folder / "index"


@pytest.fixture(scope="module")
def client(encoder: Model, corpus: Path) -> Iterator[Client]:
    with encoder.look(TEXTS, browser=False, block=False, corpus=corpus) as look:
        yield Client(look)


LAYER = {"by": "layer", "layer": 6, "token": 2, "head": [4, 9], "count": 5}


def test_the_similarity_is_that_of_the_function(client: Client, encoder: Model) -> None:
    frame = decode(client.view("similarity", s=client.session()["id"]).body)
    expected = encoder.explain_similarity(*TEXTS)
    np.testing.assert_array_equal(frame.arrays["cells"], expected.cells)
    assert frame.fields["similarity"] == expected.similarity
    assert [len(tokens) for tokens in frame.fields["tokens"]] == list(expected.cells.shape)


def test_one_text_has_no_similarity(client: Client) -> None:
    answer = client.view("similarity", s=client.session("time flies")["id"])
    assert answer.status == 400
    assert "write a second text" in answer.error


def test_contexts_are_those_of_the_function(client: Client, encoder: Model, corpus: Path) -> None:
    session = client.session()
    assert session["model"]["corpus"] == {
        "source": "corpus.txt",
        "rows": 3,
        "tokens": 19,
        "layers": [6],
        "heads": [[4, 9]],
        "neurons": list(range(6)),
        "neuron_width": 1536,
    }
    search, own = CorpusSearch(encoder, corpus), encoder.inspect(*TEXTS)
    for asked, expected in (
        (LAYER, search.contexts(own, 2, layer=6, attention=(4, 9), count=5)),
        ({**LAYER, "by": "head", "layer": 4, "number": 9}, search.contexts(own, 2, head=(4, 9), count=5)),
        ({"by": "neuron", "layer": 3, "number": 17, "head": [4, 9]}, search.neuron(3, 17, attention=(4, 9))),
    ):
        told = client.view("contexts", s=session["id"], **asked).fields
        wanted = expected.to_dict()
        assert [match["texts"] for match in told["matches"]] == [match["texts"] for match in wanted["matches"]]
        np.testing.assert_allclose(
            [match["score"] for match in told["matches"]], [match["score"] for match in wanted["matches"]], atol=1e-6
        )
        assert told["counts"].keys() == wanted["counts"].keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "magic"}, "by is 'magic'; allowed: layer, head, neuron"),
        ({"layer": 5}, "layer 5 is not in this index; its layers: 6"),
        ({"by": "head", "number": 9, "layer": 3}, "head 3.9 is not in this index; its heads: 4.9"),
        ({"by": "head"}, "number is missing: which head?"),
        ({"by": "neuron", "layer": 3, "number": 4000, "token": None}, "there is no neuron 4000"),
        ({"token": 999}, "there is no token 999"),
        ({"head": [4]}, "head is [4]; it must be a pair [layer, head]"),
        ({"head": [9, 9]}, "there is no layer 9"),
        ({"count": 5000}, "count is 5000; it must be a whole number from 1 to 200"),
        ({"colour": "red"}, "'colour' is no option"),
    ],
)
def test_what_a_request_gets_wrong_is_said(client: Client, change: dict[str, Any], message: str) -> None:
    asked = {name: value for name, value in {**LAYER, **change}.items() if value is not None}
    answer = client.view("contexts", s=client.session()["id"], **asked)
    assert answer.status == 400
    assert message in answer.error


def test_a_saved_page_holds_both(client: Client) -> None:
    session = client.session()
    similarity, contexts = client.view("similarity", s=session["id"]), client.view("contexts", s=session["id"], **LAYER)
    page = Reader(client.get("page", s=session["id"]).body.decode())
    stored = {each["view"]: each for each in page.json("session")["readings"]}
    assert page.frames()[f"view/{stored['similarity']['key']}"] == similarity.body
    assert stored["contexts"]["request"] == {**LAYER, "number": None}
    assert page.frames()[f"view/{stored['contexts']['key']}"] == contexts.body
    assert len(contexts.fields["matches"]) == 5


def test_a_page_without_a_corpus_says_so(encoder: Model) -> None:
    with encoder.look(TEXTS[0], browser=False, block=False) as look:
        client = Client(look)
        session = client.session()
        assert session["model"]["corpus"] is None
        assert "--corpus INDEX" in client.view("contexts", s=session["id"], **LAYER).error


def test_views_that_are_not_there_are_refused(encoder: Model, shared: Path, corpus: Path) -> None:
    with pytest.raises(UnsupportedError, match="view is 'similarity', which compares two texts"):
        encoder.look(TEXTS[0], view="similarity", browser=False, block=False)
    with pytest.raises(UnsupportedError, match="view is 'contexts', which searches a corpus"):
        encoder.look(TEXTS, view="contexts", browser=False, block=False)
    stories = glassformer.load(shared / "models" / "stories260k")
    with pytest.raises(UnsupportedError, match="view is 'similarity'"):
        stories.look(TEXTS, view="similarity", browser=False, block=False)
    with pytest.raises(DataError, match="was made by another model"):
        stories.look(TEXTS, corpus=corpus, browser=False, block=False)


def test_a_token_knows_its_characters(encoder: Model) -> None:
    tokens = encoder.inspect("Time 🙂 unbelievably", "b").streams["text"]
    spans = [(token.segment, token.span) for token in tokens]
    assert spans[0] == (None, None)
    assert (0, (0, 4)) in spans
    assert all("Time 🙂 unbelievably"[slice(*t.span)] == t.text for t in tokens if t.span and t.segment == 0)
