"""Embedding look-ups over HTTP and in files: those of the function, of tokens that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer
from glassformer.explorer import views
from glassformer.explorer.views import lookup as lookup_of
from glassformer.model import Model
from tests.explorer.client import Client
from tests.explorer.reader import Reader

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> Model:
    return glassformer.load(minilm)


@pytest.fixture(scope="module")
def client(encoder: Model) -> Iterator[Client]:
    with encoder.look(TEXTS, browser=False, block=False) as look:
        yield Client(look)


def test_a_tokens_look_up_is_that_of_the_function(client: Client, encoder: Model) -> None:
    session = client.session()
    assert session["lookups"] == ["text"]
    answer = client.view("lookup", s=session["id"], stream="text", token=1).fields
    expected = lookup_of(encoder.inspect(*TEXTS), stream="text", token=1)
    assert answer["equal"] and answer["equal_gradients"] and answer["id"] == session["streams"]["text"][1]["id"]
    assert answer["rows"] == {str(row): values for row, values in expected.rows.items()}
    assert (answer["vocabulary"], answer["width"]) == (30_522, 384)


@pytest.mark.parametrize(("stream", "token"), [("text", 99), ("picture", 0)])
def test_a_token_that_is_not_there(client: Client, stream: str, token: int) -> None:
    answer = client.view("lookup", s=client.session()["id"], stream=stream, token=token)
    assert answer.status == 400 and f"there is no token {token}" in answer.error


def test_a_file_has_the_first_different_tokens(encoder: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder.look(TEXTS, html=tmp_path / "page.html")
    stored = Reader((tmp_path / "page.html").read_text("utf-8")).json("lookups")
    ids = list(dict.fromkeys(token.id for token in encoder.inspect(*TEXTS).streams["text"]))
    assert [each["id"] for each in stored["text"]] == ids and all(each["equal"] for each in stored["text"])
    monkeypatch.setattr(views, "MAX_TABLE_NUMBERS", 1_000)
    encoder.look(TEXTS, html=tmp_path / "small.html")
    assert 'id="lookups"' not in (tmp_path / "small.html").read_text("utf-8")
