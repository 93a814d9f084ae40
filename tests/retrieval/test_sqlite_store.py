"""The store: contents and the documents that point to them, BM25 by its formula, exact search, filters."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import glassformer.retrieval.sqlite_store as sqlite_store
from glassformer.errors import ConfigError, DataError
from glassformer.retrieval.approximate import ApproximateVectors
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.sqlite_store import SqliteStore, create_folder, open_folder, writing_folder
from glassformer.retrieval.store import ContentBatch, Counts, Filter, StoreSettings
from glassformer.retrieval.words import query_terms, terms

TEXTS = ["The lighthouse was built in 1874.", "It stands on a rock.", "A ship saw the lighthouse. The ship turned."]


def passages(*texts: str) -> list[Passage]:
    return [Passage(text=text, start=0, stop=len(text), line=1) for text in texts]


def vectors(count: int, width: int = 4, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, width))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = create_folder(tmp_path / "store", StoreSettings(model="m", width=4))
    made.write(
        [ContentBatch("h1.md", passages(*TEXTS), vectors(3), names=["a/tower.md", "copy.md"], metadata={"year": 1874})]
    )
    made.finish()
    yield made
    made.close()


def formula(question: str, texts: list[str], language: str = "en") -> dict[int, float]:
    """BM25 as the module states it."""
    listed = [terms(text, language) for text in texts]
    mean = sum(map(len, listed)) / len(listed)
    scores = {}
    for number, own in enumerate(listed, 1):
        score, counts = 0.0, Counter(own)
        for term in query_terms(question, language):
            n = sum(term in other for other in listed)
            idf = max(math.log((len(texts) - n + 0.5) / (n + 0.5)), 1e-6)
            score += idf * counts[term] * 2.2 / (counts[term] + 1.2 * (1 - 0.75 + 0.75 * len(own) / mean))
        if score:
            scores[number] = score
    return scores


def test_bm25_is_its_formula(store: SqliteStore) -> None:
    question = "When did the ship see the lighthouses?"
    assert dict(store.search_words(question, 10)) == pytest.approx(formula(question, TEXTS), rel=1e-9)


def test_dense_search_is_exact(store: SqliteStore) -> None:
    query = np.array([1, 2, -1, 0.5], np.float32)
    expected = vectors(3).astype(np.float32) @ (query / np.linalg.norm(query))
    found = store.search_vectors(query, 3)
    assert [id for id, _ in found] == (np.argsort(-expected) + 1).tolist()
    assert [score for _, score in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-6)
    assert np.array_equal(store.vectors([2, 99])[0], vectors(3)[1]) and np.isnan(store.vectors([2, 99])[1]).all()


def test_two_names_of_one_content(store: SqliteStore) -> None:
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


def test_a_changed_document_is_switched_when_its_content_is_complete(store: SqliteStore) -> None:
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


def test_a_content_that_no_document_got_goes_at_the_end(store: SqliteStore) -> None:
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
def test_filters(store: SqliteStore, only: Filter, count: int) -> None:
    assert len(store.search_vectors(np.ones(4), 9, only)) == count
    assert len(store.search_words("lighthouse rock", 9, only)) == count


def test_another_connection_sees_each_transaction(store: SqliteStore) -> None:
    reader = open_folder(store.folder)
    assert len(reader.search_vectors(np.ones(4), 9)) == 3 and reader.settings == store.settings
    store.write([ContentBatch("h2.md", passages("A fort."), vectors(1), names=["fort.md"])])
    assert len(reader.search_vectors(np.ones(4), 9)) == 4 and len(reader.search_words("fort", 9)) == 1
    reader.close()


def test_one_writer_at_a_time(store: SqliteStore) -> None:
    with (
        writing_folder(store.folder, store.settings),
        pytest.raises(ConfigError, match="process"),
        writing_folder(store.folder, StoreSettings(size=99)),
    ):
        pass


def test_other_settings_are_another_database_until_it_is_complete(store: SqliteStore) -> None:
    new = create_folder(store.folder, StoreSettings(model="n", width=2))
    new.write([ContentBatch("h1.md", passages("A fort."), vectors(1, 2), names=["fort.md"])])
    assert open_folder(store.folder).settings.model == "m"
    new.finish()
    now = open_folder(store.folder)
    assert now.settings.model == "n" and now.counts().passages == 1
    assert [path.name for path in store.folder.glob("*.sqlite")] == [new.file]


def test_texts_that_databases_refuse(store: SqliteStore) -> None:
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


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; `glassformer index"):
        open_folder(tmp_path / "none")
    with pytest.raises(DataError, match="not a store of documents"):
        open_folder(tmp_path)
    (tmp_path / "store.json").write_text(json.dumps({"version": 99, "file": "x"}))
    with pytest.raises(DataError, match="has version 99; supported: 1"):
        open_folder(tmp_path)
    (tmp_path / "store.json").write_text(json.dumps({"version": 1, "file": "../x"}))
    with pytest.raises(DataError, match="is missing"):
        open_folder(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "zeros", "text"])
def test_a_damaged_database(store: SqliteStore, damage: str) -> None:
    store.close()
    file = store.folder / store.file
    data = file.read_bytes()
    file.write_bytes(
        {"cut": data[: len(data) // 2], "zeros": data[:100] + bytes(len(data) - 100), "text": b"hello" * 99}[damage]
    )
    with pytest.raises(DataError, match="damaged, or was copied in part"):
        opened = open_folder(store.folder)
        opened.search_words("lighthouse", 5)
        opened.search_vectors(np.ones(4), 5)
        opened.matches([1, 2, 3])


def test_a_full_disk_loses_the_batch_at_hand_alone(store: SqliteStore) -> None:
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DataError, match="full; make room"):
        store.write([ContentBatch("h9.md", passages(*["words " * 900] * 50), vectors(50), names=["big.md"])])
    store._database.execute("PRAGMA max_page_count = 1000000")
    assert store.counts() == Counts(2, 3, 3) and len(store.search_words("lighthouse", 5)) == 2
    assert sqlite3.connect(store.folder / store.file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_vectors_are_searched_by_an_index_that_is_made_again_when_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "APPROXIMATE_FROM", 500)
    made = create_folder(tmp_path, StoreSettings(model="m", width=8))

    def add(name: str, count: int) -> None:
        made.write(
            [
                ContentBatch(
                    name, passages(*[f"{name} {i}" for i in range(count)]), vectors(count, 8, len(name)), names=[name]
                )
            ]
        )
        made.finish()

    add("first", 600)
    (index,) = tmp_path.glob("*.ann")
    query = np.random.default_rng(9).standard_normal(8).astype(np.float32)

    def exact() -> list[int]:
        ids, all_vectors = made._load()
        scores = all_vectors.astype(np.float32) @ (query / np.linalg.norm(query))
        return [int(ids[i]) for i in np.argsort(-scores, kind="stable")[:10]]

    assert [id for id, _ in made.search_vectors(query, 10)] == exact()
    add("second", 20)  # not in the index, and searched exactly
    assert list(tmp_path.glob("*.ann")) == [index] and max(exact()) <= 620
    assert [id for id, _ in made.search_vectors(query, 10)] == exact()
    made.remove(["second"])
    assert [id for id, _ in made.search_vectors(query, 10)] == exact() and max(exact()) <= 600
    add("third one", 300)
    (renewed,) = tmp_path.glob("*.ann")
    assert renewed != index and [id for id, _ in made.search_vectors(query, 10)] == exact()
    made.remove(["first"])
    assert [id for id, _ in made.search_vectors(query, 10)] == exact() and min(exact()) > 620


@pytest.mark.parametrize("part", ["crc32", "ids", "codes"])
def test_a_damaged_index_of_vectors_is_warned_of_once_and_made_again(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "APPROXIMATE_FROM", 500)
    made = create_folder(tmp_path, StoreSettings(model="m", width=8))
    made.write([ContentBatch("h", passages(*["text"] * 600), vectors(600, 8), names=["a"])])
    made.finish()
    query = np.random.default_rng(9).standard_normal(8).astype(np.float32)
    expected = made.search_vectors(query, 10)
    made.close()
    (path,) = tmp_path.glob("*.ann")
    whole = path.read_bytes()
    start = 100 if part == "crc32" else ApproximateVectors(path, made.vectors).header.places()[part].start
    path.unlink()
    path.write_bytes(whole[:start] + bytes(64) + whole[start + 64 :])
    opened = open_folder(tmp_path)
    with pytest.warns(UserWarning, match="index is damaged.*until `glassformer index` makes it again, dense") as caught:
        for _ in range(3):
            assert opened.search_vectors(query, 10) == expected
    assert len(caught) == 1
    opened.finish()
    assert path.read_bytes() == whole and opened.search_vectors(query, 10) == expected
    opened.close()
    again = open_folder(tmp_path)  # of a damage that no search has read
    path.unlink()
    path.write_bytes(whole[:start] + bytes(64) + whole[start + 64 :])
    with pytest.warns(UserWarning, match="index is damaged"):
        again.finish()
    assert path.read_bytes() == whole
