"""What every store promises, in SQLite and in PostgreSQL: contents and documents, BM25 by its formula, exact search."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.errors import ConfigError
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store, writing_store
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.postgres_database import PostgresDatabase
from glassformer.retrieval.postgres_store import create_tables
from glassformer.retrieval.retriever import Retriever
from glassformer.retrieval.sqlite_store import create_folder
from glassformer.retrieval.store import ContentBatch, Counts, Filter, Store, StoreSettings
from tests.retrieval.encoders import make_encoder, write_documents
from tests.retrieval.made import TEXTS, dump, formula, passages, vectors


class Place:
    """Where a store is made, and who has it open."""

    def __init__(self, where: str | Path) -> None:
        self.where = where
        self.opened: list[Store] = []

    def create(self, settings: StoreSettings) -> Store:
        """Without the lock of the one writer, so that a test may have several."""
        if isinstance(self.where, Path):
            return self._closed_later(create_folder(self.where, settings))
        return self._closed_later(create_tables(PostgresDatabase(self.where), settings))

    def open(self) -> Store:
        return self._closed_later(open_store(self.where))

    def writing(self, settings: StoreSettings) -> AbstractContextManager[Store]:
        return writing_store(self.where, settings)

    def _closed_later(self, store: Store) -> Store:
        self.opened.append(store)
        return store


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        made = Place(tmp_path / "store")
    else:
        new_database: Callable[[], str] = request.getfixturevalue("new_database")
        made = Place(new_database())
    yield made
    for store in made.opened:
        store.close()


@pytest.fixture
def store(place: Place) -> Store:
    made = place.create(StoreSettings(model="m", width=4))
    made.write(
        [ContentBatch("h1.md", passages(*TEXTS), vectors(3), names=["a/tower.md", "copy.md"], metadata={"year": 1874})]
    )
    made.finish()
    return made


def test_bm25_is_its_formula(store: Store) -> None:
    question = "When did the ship see the lighthouses?"
    assert dict(store.search_words(question, 10)) == pytest.approx(formula(question, TEXTS), rel=1e-9)


def test_scores_of_terms_sum_to_those_of_the_search(store: Store) -> None:
    question = "When did the ship see the lighthouses?"
    listed = store.search_words(question, 10)
    ids = [*(id for id, _ in listed), 99]
    *by_term, gone = store.term_scores(question, ids)
    assert [sum(x.score for x in terms) for terms in by_term] == pytest.approx([score for _, score in listed], rel=1e-9)
    assert gone == [] and {x.term: (x.passages, x.count) for x in by_term[0]}["ship"] == (1, 2)


def test_dense_search_is_exact(store: Store) -> None:
    query = np.array([1, 2, -1, 0.5], np.float32)
    expected = vectors(3).astype(np.float32) @ (query / np.linalg.norm(query))
    found = store.search_vectors(query, 3)
    assert [id for id, _ in found] == (np.argsort(-expected) + 1).tolist()
    assert [score for _, score in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-6)
    assert np.array_equal(store.vectors([2, 99])[0], vectors(3)[1]) and np.isnan(store.vectors([2, 99])[1]).all()


def test_two_names_of_one_content(store: Store) -> None:
    assert store.counts() == Counts(documents=2, passages=3, vectors=3)
    (match,) = store.matches([1])
    assert (match.file, match.also, match.place, match.metadata) == (
        "a/tower.md",
        ["copy.md"],
        "a/tower.md:1",
        {"year": 1874},
    )
    store.remove(["a/tower.md"])
    assert store.counts() == Counts(documents=1, passages=3, vectors=3)
    store.remove(["copy.md"])
    assert store.counts() == Counts(0, 0, 0)
    assert store.search_words("lighthouse", 5) == [] and store.search_vectors(np.ones(4), 5) == []


def test_it_shows_itself_in_a_notebook(store: Store) -> None:
    assert repr(store) == f"{type(store).__name__}({store.place!r}, model={store.settings.model!r})"
    shown = store._repr_html_()
    assert ">3</td>" in shown and f">{store.settings.model}</td>" in shown and escape(store.place) in shown


def test_a_changed_document_is_switched_when_its_content_is_complete(store: Store) -> None:
    store.write([ContentBatch("h2.md", passages("A fort of 1900."), vectors(1), complete=False)])
    assert store.contents() == {"h1.md": -1, "h2.md": 1}
    assert store.search_words("fort", 5) == [] and len(store.search_vectors(np.ones(4), 9)) == 3
    store.write(
        [ContentBatch("h2.md", passages("It was a prison."), vectors(1, seed=1), names=["copy.md", "a/tower.md"])]
    )
    assert store.documents() == {"copy.md": "h2.md", "a/tower.md": "h2.md"}
    assert [x.file for x in store.matches(range(1, 9))] == ["a/tower.md", "a/tower.md"]
    store.finish()
    assert store.contents() == {"h2.md": -1} and store.counts() == Counts(2, 2, 2)
    assert sorted(id for id, _ in store.search_words("prison fort", 5)) == [4, 5]
    assert store.search_words("lighthouse", 5) == [] and len(store.search_vectors(np.ones(4), 9)) == 2


def test_a_content_that_no_document_got_goes_at_the_end(store: Store) -> None:
    store.write([ContentBatch("h2.md", passages("A fort."), vectors(1), complete=False)])
    store.finish()
    assert store.contents() == {"h1.md": -1}


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (Filter("a"), 3), (Filter("./a/"), 3), (Filter("a/tower.md"), 3), (Filter("b"), 0), (Filter("a/tow"), 0),
        (Filter(""), 3), (Filter(None, {"year": "1874"}), 3), (Filter(None, {"year": "1875"}), 0),
        (Filter(None, {"it's \"": "1"}), 0), (Filter("a", {"year": "1874"}), 3), (Filter("%"), 0),
    ],
)  # fmt: skip
def test_filters(store: Store, only: Filter, count: int) -> None:
    assert len(store.search_vectors(np.ones(4), 9, only)) == count
    assert len(store.search_words("lighthouse rock", 9, only)) == count


def test_another_connection_sees_each_transaction(place: Place, store: Store) -> None:
    reader = place.open()
    assert len(reader.search_vectors(np.ones(4), 9)) == 3 and reader.settings == store.settings
    store.write([ContentBatch("h2.md", passages("A fort."), vectors(1), names=["fort.md"])])
    assert len(reader.search_vectors(np.ones(4), 9)) == 4 and len(reader.search_words("fort", 9)) == 1
    reader.close()


def test_one_writer_at_a_time(place: Place, store: Store) -> None:
    with (
        place.writing(store.settings),
        pytest.raises(ConfigError, match=f"is in use by process {os.getpid()} on .* since 2"),
        place.writing(StoreSettings(size=99)),
    ):
        pass
    with place.writing(store.settings) as again:
        assert again.documents() == store.documents()


def test_other_settings_are_another_database_until_it_is_complete(place: Place, store: Store) -> None:
    new = place.create(StoreSettings(model="n", width=2))
    new.write([ContentBatch("h1.md", passages("A fort."), vectors(1, 2), names=["fort.md"])])
    assert place.open().settings.model == "m"
    new.finish()
    now = place.open()
    assert now.settings.model == "n" and now.counts().passages == 1
    assert [id for id, _ in store.search_words("rock", 5)] == [2]  # who has the old one open goes on with it


def test_a_model_that_has_another_name(place: Place, store: Store) -> None:
    place.create(StoreSettings(model="elsewhere", width=4)).close()
    assert place.open().settings.model == "elsewhere" and place.open().counts() == store.counts()


def test_texts_that_databases_refuse(store: Store) -> None:
    hostile = "a\0b \ud800 '; DROP TABLE passages; -- ? %s {} \U0001f600"
    metadata = {hostile: hostile, "list": [hostile]}
    passage = Passage(text=f"Walrus {hostile}", start=0, stop=9, headings=(hostile,), metadata=metadata)
    store.write([ContentBatch("h2.\udcff", [passage], vectors(1), names=[hostile], title=hostile, problem=hostile)])
    store.set_problems([(hostile, hostile)])
    kept = hostile.replace("\0", "\ufffd").replace("\ud800", "?")
    ((id, _),) = store.search_words("walrus", 5, Filter(hostile, {hostile: hostile}))
    (match,) = store.matches([id])
    assert (match.text, match.file, match.title, match.headings) == (f"Walrus {kept}", kept, kept, [kept])
    assert match.metadata == {kept: kept, "list": [kept]} and len(match.text) == len(passage.text)
    assert (kept, kept) in store.problems() and store.search_words(hostile, 5, Filter(f"{hostile}/x")) == []
    store.remove([hostile])
    assert store.contents() == {"h1.md": -1}


@pytest.mark.parametrize("language", ["none", "en", "ja"])
def test_bm25_of_any_text_is_its_formula(place: Place, language: str) -> None:
    long_word = "x" * 9_000
    texts = [
        *(
            "灯台は1874年",
            "The lighthouse's keepers",
            "café CAFÉ ﬁre",
            "a" * 30_000,
            f"{long_word}y {long_word}z",
            "%s ? {}",
        ),
        *(
            "x' OR 1=1; --",
            "\\ \t tab",
            "naïve naïveté",
            "🙂 smile",
            "don't dont",
            "7 7 7 7",
            "灯 台",
            "... !!!",
            "end",
        ),
        *["filler words of no interest"] * 20,
    ]
    made = place.create(StoreSettings(language=language))
    made.write([ContentBatch("h", passages(*texts), names=["a"])])
    for question in (*texts[:15], "灯", "lighthouse naïve 7"):
        expected = formula(question, texts, language)
        listed = dict(made.search_words(question, 99))
        assert listed == pytest.approx({id: expected[id] for id in listed}, rel=1e-9)
        assert [id for id, score in expected.items() if score > 1e-3 and id not in listed] == []


def test_metadata_of_any_kind(place: Place) -> None:
    made = place.create(StoreSettings())
    values = {
        "text": "it's",
        "number": 3,
        "half": 1.5,
        "yes": True,
        "no": False,
        "none": None,
        "list": ["a"],
        "é\\u0000": "ü",
    }
    passage = Passage(text="A fort.", start=0, stop=7, metadata={**values, "nan": math.nan})
    made.write([ContentBatch("h", [passage], names=["a"])])
    asked = {"text": "it's", "number": "3", "half": "1.5", "yes": "true", "no": "false", "é\\u0000": "ü"}
    for name, value in asked.items():
        assert made.search_words("fort", 5, Filter(None, {name: value})) != [], name
        assert made.search_words("fort", 5, Filter(None, {name: f"{value} "})) == [], name
    for name in ("none", "nan", "missing"):
        assert made.search_words("fort", 5, Filter(None, {name: "None"})) == []
    (match,) = made.matches([1])
    assert match.metadata == {**values, "nan": None}


def test_a_large_content(place: Place) -> None:
    """More passages and values than a statement takes; ids are those that were written, whatever was rolled back."""
    made = place.create(StoreSettings(model="m", width=4))
    with pytest.raises(AttributeError):
        made.write([ContentBatch("bad", passages("a"), vectors(1), names=["bad"]), ContentBatch("worse", [None])])  # type: ignore[list-item]
    for start in range(0, 3_000, 500):
        texts = [f"number{n} of many" for n in range(start, start + 500)]
        made.write([ContentBatch("h", passages(*texts), vectors(500, seed=start), complete=False)])
    made.write([ContentBatch("h", names=["a"])])
    assert made.counts() == Counts(1, 3_000, 3_000) and made.contents() == {"h": -1}
    assert [id for id, _ in made.search_words("number2718", 5)] == [2_719]
    assert [x.text for x in made.matches(range(2_000, 4_000))] == [f"number{n} of many" for n in range(1_999, 3_000)]
    assert np.array_equal(made.vectors(range(501, 3_001))[:500], vectors(500, seed=500))
    made.remove(["a"])
    assert made.counts() == Counts(0, 0, 0) and made.search_words("number2718 many", 5) == []
    made.write([ContentBatch("h2", passages("A fort."), vectors(1), names=["b"])])
    assert [id for id, _ in made.search_words("fort", 5)] == [3_001]  # ids are not used again


def test_indexing_ends_the_same_as_in_another_kind_of_store(place: Place, tmp_path: Path) -> None:
    folder, encoder = write_documents(tmp_path / "documents"), glassformer.load(make_encoder(tmp_path / "encoder"))
    first = index_folder(folder, place.where, encoder)
    assert {x: n for x, n in first.changes.items() if n} == {"added": 3} and first.embedded == first.passage_count
    (folder / "tower.md").rename(folder / "beacon.md")
    (folder / "notes/garden.txt").write_text("Figs are purple.\n")
    again = index_folder(folder, place.where, encoder)
    assert {x: n for x, n in again.changes.items() if n} == {"renamed": 1, "changed": 1, "unchanged": 1}
    index_folder(folder, tmp_path / "fresh", encoder)
    assert dump(place.where) == dump(tmp_path / "fresh")
    questions = ("When was the lighthouse built?", "price of apples", "figs", 'it\'s "NEAR(" ; DROP')
    for question in questions:
        for method in ("bm25", "dense", "fusion"):
            options = RetrievalOptions(method=method, top=9, diversity=0.1)  # type: ignore[arg-type]
            one, two = (Retriever.open(x).search(question, options) for x in (place.where, tmp_path / "fresh"))
            assert [(x.file, x.text, x.headings, x.place) for x in one.matches] == [
                (x.file, x.text, x.headings, x.place) for x in two.matches
            ]
            assert [x.score for x in one.matches] == pytest.approx([x.score for x in two.matches], rel=1e-6)


def test_values_of_metadata(store: Store) -> None:
    assert store.metadata_values("year") == ["1874"] and store.metadata_values("topic") == []
