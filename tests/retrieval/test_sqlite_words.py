"""Full-text search of a SQLite store: by the inverted index as by FTS5, whatever came, went or is damaged."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.retrieval import sqlite_words
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.sqlite_store import SqliteStore, create_folder, open_folder
from glassformer.retrieval.store import EVERYTHING, ContentBatch, Filter, Scored, StoreSettings
from glassformer.retrieval.words import query_terms
from tests.retrieval.made import place_of

SHARES = 1 / np.arange(1, 301) ** 1.1
JAPANESE = "灯台岩島船海"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of as few passages as a test has."""
    monkeypatch.setattr(sqlite_words, "INDEXED_FROM", 100)


class Writer:
    """A store, and files of random texts written to it."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.draw = np.random.default_rng(seed)
        self.store = create_folder(folder, StoreSettings(language="none"))

    def text(self) -> str:
        words = [f"w{x}" for x in self.draw.choice(300, self.draw.integers(0, 50), p=SHARES / SHARES.sum())]
        words += ["".join(self.draw.choice(list(JAPANESE), self.draw.integers(1, 5)))] * int(self.draw.integers(2))
        return " ".join(words) + "."

    def add(self, name: str, count: int, content: str | None = None) -> None:
        passages = [Passage(text=text, start=0, stop=len(text), line=1) for text in (self.text() for _ in range(count))]
        about = {"names": [name], "metadata": {"kind": str(len(name) % 2)}}
        self.store.write([ContentBatch(content or name, passages, **about)])  # type: ignore[arg-type]

    def question(self) -> str:
        words = [f"w{x}" for x in self.draw.integers(0, 310, self.draw.integers(1, 7))]
        words += ["".join(self.draw.choice(list(JAPANESE), self.draw.integers(1, 3)))] * int(self.draw.integers(2))
        return " ".join([*words, "w0"] if self.draw.integers(2) else words)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "store")
    for number in range(6):
        made.add(f"{'ab'[number % 2]}/file{number}", 50)
    made.store.finish()
    yield made
    made.store.close()


def by_fts(store: SqliteStore, question: str, limit: int, only: Filter = EVERYTHING) -> Scored:
    """What FTS5 alone answers."""
    reader = open_folder(store.folder)
    reader._words.file.open = lambda name: None  # type: ignore[method-assign]
    found = reader.search_words(question, limit, only)
    reader.close()
    return found


def check(writer: Writer, *, index: bool = True, rounds: int = 12) -> None:
    """Both give the same passages with the same scores, in the same order."""
    reader = open_folder(writer.store.folder)
    filters = [EVERYTHING, EVERYTHING, Filter("a"), Filter(None, {"kind": "1"}), Filter("none")]
    for number in range(rounds):
        question, limit = writer.question(), int(writer.draw.choice([1, 5, 100, 1_000]))
        only = filters[number % len(filters)]
        expected = by_fts(writer.store, question, limit, only)
        for store in (writer.store, reader):
            assert store.search_words(question, limit, only) == expected
            assert (store._words.state().index is not None) == index
    reader.close()


def test_the_index_gives_what_fts5_gives(writer: Writer) -> None:
    assert len(writer.store._words.file.files()) == 1
    check(writer, rounds=40)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_came_and_went_since_it_was_made(writer: Writer, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_words, "STALE", 10.0)
    draw, files = np.random.default_rng(seed), writer.store._words.file.files()
    for step in range(6):
        name = f"{'ab'[step % 2]}/file{draw.integers(0, 9)}"
        if draw.integers(3) == 0:
            writer.store.remove([name])
        else:
            writer.add(name, int(draw.integers(1, 30)), content=f"{name} of step {step}")  # new, or changed
        check(writer, rounds=6)
        if draw.integers(2):
            writer.store.finish()
            check(writer, rounds=6)
    assert writer.store._words.file.files() == files


def test_a_stale_index_is_made_again(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_words, "STALE", 0.05)
    (first,) = writer.store._words.file.files()
    writer.add("c/few", 10)
    writer.store.finish()
    assert writer.store._words.file.files() == [first]
    check(writer)
    writer.add("c/more", 10)
    writer.store.finish()
    (second,) = writer.store._words.file.files()
    assert second != first
    check(writer)
    writer.store.remove(["c/few", "c/more"])
    writer.store.finish()
    assert writer.store._words.file.files() == [first]  # the same passages again
    check(writer)
    writer.store.remove([f"{'ab'[number % 2]}/file{number}" for number in range(5)])
    writer.store.finish()
    assert writer.store._words.file.files() == []
    check(writer, index=False)


def test_a_store_that_grows_gets_an_index_before_its_indexing_ends(tmp_path: Path) -> None:
    made = Writer(tmp_path / "store")
    counts = []
    for number in range(8):
        made.add(f"file{number}", 40)
        counts.append(len(made.store._words.file.files()))
        if number > 2:
            check(made, rounds=4)
    assert counts == [0, 0, 1, 1, 1, 1, 1, 1]
    assert len(made.store._words.state().index or ()) == 320  # made at 120, 200 and 320 passages: half as many more


def test_few_passages_need_no_file(tmp_path: Path) -> None:
    made = Writer(tmp_path / "store")
    made.add("file", 99)
    made.store.finish()
    assert made.store._words.file.files() == []
    check(made, index=False)


def test_an_open_reader_uses_the_index_that_an_indexing_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Writer(tmp_path / "store")
    monkeypatch.setattr(sqlite_words, "INDEXED_FROM", 1_000)
    made.add("file", 120)
    reader = open_folder(made.store.folder)
    reader.search_words("w1", 5)
    monkeypatch.setattr(sqlite_words, "INDEXED_FROM", 100)
    made.store.finish()
    assert reader.search_words("w1", 5) == by_fts(made.store, "w1", 5)
    assert reader._words.state().index is not None


def test_an_index_of_other_passages_is_not_taken_for_that_of_the_store(writer: Writer, tmp_path: Path) -> None:
    other = Writer(tmp_path / "other", seed=5)
    other.add("file", 130)
    other.store.finish()
    (own,), (theirs,) = writer.store._words.file.files(), other.store._words.file.files()
    os.replace(theirs, own)
    reader = open_folder(writer.store.folder)
    with pytest.warns(UserWarning, match="its passages are others than those in its name"):
        assert reader.search_words("w1 w2", 50) == by_fts(writer.store, "w1 w2", 50)


def test_an_older_copy_of_the_database_does_not_use_a_newer_index(writer: Writer) -> None:
    """Ids are used again there, by other passages."""
    database = writer.store.folder / writer.store.file
    before = database.read_bytes()
    writer.add("c/file", 50)
    writer.store.finish()
    writer.store.close()
    database.write_bytes(before)
    writer.store = open_folder(writer.store.folder)
    check(writer, index=False)
    writer.add("d/file", 50)
    check(writer)
    writer.store.finish()
    check(writer)


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "text", "header", "postings", "every"])
def test_a_damaged_index_is_warned_of_once_and_made_again(writer: Writer, damage: str) -> None:
    (path,) = writer.store._words.file.files()
    question = "w0 w1 w2 w3"
    expected = by_fts(writer.store, question, 100)
    whole = path.read_bytes()
    rows = place_of(path, "rows")
    path.unlink()  # a file that is mapped is not written to: the old one remains
    path.write_bytes(
        {
            "cut": whole[: len(whole) // 2], "empty": b"", "zeros": bytes(len(whole)), "text": b"hello" * 1_000,
            "header": whole[:20] + b"\xff" + whole[21:],
            "postings": whole[: rows.start] + bytes(rows.stop - rows.start) + whole[rows.stop :],
            "every": bytes(byte ^ 1 for byte in whole),
        }[damage]
    )  # fmt: skip
    reader = open_folder(writer.store.folder)
    with pytest.warns(
        UserWarning, match="index is damaged.*until `glassformer index` makes it again, search by words takes longer"
    ) as caught:
        assert reader.search_words(question, 100) == expected
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert reader.search_words(question, 100) == expected
    reader.close()
    again = open_folder(writer.store.folder)
    with pytest.warns(UserWarning, match="index is damaged"):
        again.finish()
    assert path.read_bytes() == whole
    again.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(writer)


def test_a_missing_index_is_made_again(writer: Writer) -> None:
    (path,) = writer.store._words.file.files()
    path.unlink()
    reader = open_folder(writer.store.folder)
    assert reader.search_words("w1 w2", 9) == by_fts(writer.store, "w1 w2", 9)
    writer.store.finish()
    assert writer.store._words.file.files() == [path]


def test_what_a_killed_process_left_half_written_goes(writer: Writer) -> None:
    left = writer.store.folder / ".5f0c-9be1.bm25.3fa1.partial"
    left.write_bytes(b"half")
    writer.store.finish()
    assert not left.exists()


def test_an_index_that_a_killed_process_wrote_and_did_not_name_is_written_again(writer: Writer) -> None:
    files = writer.store._words.file.files()
    writer.add("c/more", 60)
    with writer.store._reading():
        name = writer.store._words.write_index()
    check(writer)
    assert [path.name for path in writer.store._words.file.files()] == sorted([name, *(path.name for path in files)])
    writer.store.finish()
    assert [path.name for path in writer.store._words.file.files()] == [name]
    check(writer)


def test_a_reader_answers_from_one_state_while_another_process_writes(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_words, "STALE", 0.1)

    def write() -> None:
        draw = np.random.default_rng(3)
        for step in range(25):
            if step % 5 == 4:
                writer.store.remove([f"c/{step - 3}"])
            else:
                writer.add(f"c/{step}", int(draw.integers(1, 12)))
            if step % 3 == 0:
                writer.store.finish()

    thread, reader, editions = threading.Thread(target=write), open_folder(writer.store.folder), set()
    draw = np.random.default_rng(4)
    thread.start()
    while thread.is_alive() or len(editions) < 2:
        question = " ".join(f"w{x}" for x in draw.integers(0, 300, 4))
        with reader._errors(), reader._reading():
            found = reader.search_words(question, 20)
            state = reader._words.state()
            editions.add(state.edition)
            alone = sqlite_words.WordState(state.edition, state.passages, state.mean_length)
            assert found == reader._words._by_fts(alone, query_terms(question, "none"), 20, "", [])
    thread.join()
    reader.close()
    assert len(editions) > 5


def test_a_full_disk_leaves_the_store_and_its_old_index(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = writer.store._words.file.files()

    def full(*args: object) -> None:
        raise DataError("the index cannot be written: no space left on device")

    monkeypatch.setattr(sqlite_words, "write_inverted_index", full)
    writer.add("c/more", 60)
    with pytest.raises(DataError, match="no space left"):
        writer.store.finish()
    assert writer.store._words.file.files() == files
    check(writer)


def test_passages_that_share_frequent_words_alone_are_left_out_where_others_share_more(writer: Writer) -> None:
    """w0 is in more than half of the passages: its idf is the least."""
    writer.add("c/one", 1)
    writer.store.write([ContentBatch("c/two", [Passage(text="w0 rare", start=0, stop=7, line=1)], names=["c/two"])])
    for finished in (False, True):
        if finished:
            writer.store.finish()
        ((_, score),) = writer.store.search_words("w0 rare", 100)
        assert score > 1 and by_fts(writer.store, "w0 rare", 100) == writer.store.search_words("w0 rare", 100)
        alone = writer.store.search_words("w0 nowhere", 1_000)
        assert len(alone) > 150 and max(score for _, score in alone) < 3e-6
        assert alone == by_fts(writer.store, "w0 nowhere", 1_000)


def test_long_questions_and_odd_ones(writer: Writer) -> None:
    question = " ".join(f"w{x % 307}" for x in range(10_000))
    assert writer.store.search_words(question, 20) == by_fts(writer.store, question, 20) != []
    for odd in ("", "?!", 'NEAR("', "\udcff", "w" * 100_000, "ж" * 40_000):
        assert writer.store.search_words(odd, 5) == []
