"""The store in SQLite: damage, full disks, the approximate index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import glassformer.retrieval.sqlite_store as sqlite_store
from glassformer.errors import DataError
from glassformer.retrieval.sqlite_store import SqliteStore, create_folder, open_folder
from glassformer.retrieval.store import ContentBatch, Counts, StoreSettings
from tests.retrieval.made import TEXTS, passages, place_of, vectors


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = create_folder(tmp_path / "store", StoreSettings(model="m", width=4))
    made.write(
        [ContentBatch("h1.md", passages(*TEXTS), vectors(3), names=["a/tower.md", "copy.md"], metadata={"year": 1874})]
    )
    made.finish()
    yield made
    made.close()


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; `glassformer index"):
        open_folder(tmp_path / "none")
    with pytest.raises(DataError, match="not a store of documents"):
        open_folder(tmp_path)
    (tmp_path / "store.json").write_text(json.dumps({"version": 99, "file": "x"}))
    with pytest.raises(DataError, match="has version 99; supported: 1"):
        open_folder(tmp_path)
    (tmp_path / "store.json").write_text(json.dumps({"version": 1, "file": "../x"}))
    remedy = "copy the whole folder of the store again, or remove it and index the files again"
    with pytest.raises(DataError, match=f"is missing; {remedy}"):
        open_folder(tmp_path)
    (tmp_path / "store.json").write_text('{"version": 1, "fi')
    with pytest.raises(DataError, match=f"not valid JSON.*; {remedy}"):
        open_folder(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "zeros", "text", "empty"])
def test_a_damaged_database(store: SqliteStore, damage: str) -> None:
    store.close()
    file = store.folder / store.file
    data = file.read_bytes()
    file.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "zeros": data[:100] + bytes(len(data) - 100),
            "text": b"hello" * 99,
            "empty": b"",
        }[damage]
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


@pytest.mark.parametrize("part", ["header", "ids", "codes"])
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
    start = 40 if part == "header" else place_of(path, part).start
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
