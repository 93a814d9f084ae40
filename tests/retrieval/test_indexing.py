"""Indexing: a store is brought up to date, and only what changed is embedded; stopped anywhere, it goes on."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer
import glassformer.retrieval.folder as folder_module
import glassformer.retrieval.indexing as indexing
import glassformer.retrieval.words as words
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.retrieval.document import Document
from glassformer.retrieval.folder import Skipped
from glassformer.retrieval.indexing import StoreReport, index_folder, model_and_options
from glassformer.retrieval.opening import open_store, writing_store
from glassformer.retrieval.options import DocumentOptions, StoreOptions
from glassformer.retrieval.retriever import Retriever
from glassformer.retrieval.sqlite_store import SqliteStore, open_folder
from glassformer.retrieval.store import StoreSettings
from tests.retrieval.encoders import make_encoder, write_documents
from tests.retrieval.made import dump


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "documents")


def changes(report: StoreReport) -> dict[str, int]:
    return {what: count for what, count in report.changes.items() if count}


def test_what_changed_is_embedded_and_nothing_else(folder: Path, tmp_path: Path, encoder: Model) -> None:
    store = tmp_path / "store"
    first = index_folder(folder, store, encoder)
    assert changes(first) == {"added": 3} and first.document_count == 3 and first.embedded == first.passage_count >= 3
    again = index_folder(folder, store, encoder)
    assert changes(again) == {"unchanged": 3} and again.embedded == 0
    (folder / "notes/garden.txt").write_text("Figs are purple.\n")
    (folder / "tower.md").rename(folder / "beacon.md")
    (folder / "copy.csv").write_bytes((folder / "notes/prices.csv").read_bytes())
    (folder / "notes/prices.csv").unlink()
    (folder / "new.txt").write_text("A new file.")
    later = index_folder(folder, store, encoder)
    assert changes(later) == {"renamed": 2, "changed": 1, "added": 1} and later.embedded == 2
    index_folder(folder, tmp_path / "fresh", encoder)
    assert dump(store) == dump(tmp_path / "fresh")
    opened = open_folder(store)
    assert opened.search_words("apples pears", 5) == [] or all(
        "copy.csv" in [match.file, *match.also]
        for match in opened.matches([i for i, _ in opened.search_words("apple pear", 5)])
    )
    for name in ("beacon.md", "copy.csv", "notes/garden.txt"):
        (folder / name).unlink()
    last = index_folder(folder, store, encoder)
    assert (last.document_count, last.passage_count, changes(last)) == (1, 1, {"removed": 3, "unchanged": 1})


def test_an_emptied_folder_does_not_empty_the_store(folder: Path, tmp_path: Path) -> None:
    """As an unmounted disk looks: nothing is there, or nothing that can be read."""
    store = tmp_path / "store"
    index_folder(folder, store)
    before = dump(store)
    (tmp_path / "none").mkdir()
    refused = r"there is no file to read in it, and the store has 3 documents of it, which stay.*Remove the store where"
    with pytest.raises(DataError, match=refused):
        index_folder(tmp_path / "none", store)
    with pytest.raises(DataError, match=refused):
        index_folder(folder, store, files=DocumentOptions(max_bytes=1))
    assert dump(store) == before
    assert changes(index_folder(folder, store)) == {"unchanged": 3}


@pytest.mark.parametrize("refused", ["stat", "open"])
def test_a_file_that_the_system_refuses_to_show_stays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    index_folder(folder, tmp_path / "store")
    before = dump(tmp_path / "store")

    def refuse(path: Path, *arguments: object, **keywords: object) -> object:
        if path.name == "tower.md":
            problem = OSError(errno.EIO, os.strerror(errno.EIO))
            raise problem if refused == "stat" else DataError(f"{path}: cannot be opened: {problem.strerror}")
        return real(path, *arguments, **keywords)

    if refused == "stat":
        real = Path.stat
        monkeypatch.setattr(Path, "stat", refuse)
    else:
        real = folder_module.open_regular_file
        monkeypatch.setattr(folder_module, "open_regular_file", refuse)
    report = index_folder(folder, tmp_path / "store")
    assert changes(report) == {"unchanged": 2} and report.document_count == 3
    (unread,) = report.unread
    assert unread.file == "tower.md" and "Input/output error" in unread.reason
    assert dump(tmp_path / "store") == before
    (folder / "tower.md").unlink()
    monkeypatch.undo()
    assert changes(index_folder(folder, tmp_path / "store")) == {"removed": 1, "unchanged": 2}


def test_passages_have_their_places_and_the_prompt_of_documents(folder: Path, tmp_path: Path, encoder: Model) -> None:
    index_folder(folder, tmp_path / "store", encoder)
    opened = open_folder(tmp_path / "store")
    (match,) = [x for x in opened.matches(range(1, 20)) if "built in 1874" in x.text]
    text = (folder / "tower.md").read_text()
    assert text[match.start : match.stop] == match.text and match.file == "tower.md"
    assert text.split("\n")[match.line - 1] in match.text and match.headings == ["The tower"]
    assert match.metadata["year"] == 1874
    (ships,) = [x for x in opened.matches(range(1, 20)) if "A ship" in x.text]
    for x, text in ((match, match.text), (ships, f"The tower\n{ships.text}")):
        vector = encoder.encode(f"a {text}")
        assert opened.vectors([x.id])[0] == pytest.approx(vector / np.linalg.norm(vector), abs=1e-3)


def test_what_is_not_read_is_listed(folder: Path, tmp_path: Path, encoder: Model) -> None:
    (folder / "noise.txt").write_bytes(bytes(range(256)) * 9)
    (folder / "large.txt").write_text("word " * 9_000)
    (folder / "empty.txt").write_text("")
    report = index_folder(folder, tmp_path / "store", encoder, files=DocumentOptions(max_bytes=20_000))
    assert {x.file for x in report.unread} == {"noise.txt", "large.txt", "empty.txt"}
    assert all(x.reason for x in report.unread) and (report.max_bytes, report.max_seconds) == (20_000, 60.0)
    assert [x.file for x in indexing.report_of(open_folder(tmp_path / "store"), "s").unread] == sorted(
        x.file for x in report.unread
    )
    (folder / "noise.txt").write_text("Quiet words.")
    assert {x.file for x in index_folder(folder, tmp_path / "store", encoder).unread} == {"empty.txt"}


def test_the_store_may_lie_in_the_folder(folder: Path, encoder: Model) -> None:
    for _ in range(2):
        assert index_folder(folder, folder / "store", encoder).document_count == 3


def test_a_file_is_continued_where_it_stopped(
    folder: Path, tmp_path: Path, encoder: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "long.txt").write_text(" ".join(f"Sentence number {n} is here." for n in range(200)))
    index_folder(folder, tmp_path / "whole", encoder)
    monkeypatch.setattr(indexing, "BATCH_PASSAGES", 4)
    written = 0

    def stop(store: object, batches: object) -> None:
        nonlocal written
        written += 1
        if written % 3 == 0:
            raise KeyboardInterrupt
        write(store, batches)

    write = SqliteStore.write
    monkeypatch.setattr("glassformer.retrieval.sqlite_store.SqliteStore.write", stop)
    embedded = 0
    for _ in range(100):
        try:
            embedded += index_folder(folder, tmp_path / "store", encoder).embedded
            break
        except KeyboardInterrupt:
            continue
    assert dump(tmp_path / "store") == dump(tmp_path / "whole")


def test_another_model_answers_when_it_is_done(folder: Path, tmp_path: Path, encoder: Model) -> None:
    other = glassformer.load(make_encoder(tmp_path / "other", hidden_size=16))
    store = tmp_path / "store"
    index_folder(folder, store, encoder)
    index_folder(folder, store, other)
    assert open_folder(store).settings.width == 16 and len(list(store.glob("passages-*.sqlite"))) == 1
    _, options, _ = model_and_options(store, StoreOptions())
    assert options.model == str(tmp_path / "other")
    _, options, _ = model_and_options(store, StoreOptions(model="none", overlap=4))
    assert (options.model, options.overlap) == (None, 4)


def test_who_writes_is_alone(folder: Path, tmp_path: Path) -> None:
    index_folder(folder, tmp_path / "store")
    settings = open_folder(tmp_path / "store").settings
    with writing_store(tmp_path / "store", settings), pytest.raises(ConfigError, match=str(os.getpid())):
        index_folder(folder, tmp_path / "store")


def test_a_name_that_is_not_utf8(folder: Path, tmp_path: Path) -> None:
    (folder / os.fsdecode(b"sea.t\xff")).write_text("Whales sing.")
    report = index_folder(folder, tmp_path / "store")
    assert changes(report) == {"added": 4}
    (match,) = Retriever.open(tmp_path / "store").search("whales").matches
    assert match.file == r"sea.t\xff"


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; give the folder of your documents"):
        index_folder(tmp_path / "none", tmp_path / "store")
    (tmp_path / "empty").mkdir()
    assert index_folder(tmp_path / "empty", tmp_path / "store").document_count == 0


def test_a_model_that_was_moved(folder: Path, tmp_path: Path) -> None:
    """The store of a model is updated by the same model in another folder, and nothing is embedded again."""
    store, place = tmp_path / "store", make_encoder(tmp_path / "before")
    index_folder(folder, store, glassformer.load(place))
    place.rename(tmp_path / "after")
    with pytest.raises(DataError, match=r"cannot be loaded.*model= FOLDER; model= none searches by words alone"):
        model_and_options(store, StoreOptions())
    with pytest.raises(DataError, match=r"cannot be loaded.*method= bm25 searches by words alone"):
        Retriever.open(store)
    assert Retriever.open(store, method="bm25").search("lighthouse").matches
    assert Retriever.open(store, model=str(tmp_path / "after")).search("lighthouse").method == "fusion"
    model, options, _ = model_and_options(store, StoreOptions(model=str(tmp_path / "after")))
    report = index_folder(folder, store, model, options=options)
    assert (changes(report), report.embedded, report.model) == ({"unchanged": 3}, 0, str(tmp_path / "after"))
    assert Retriever.open(store).search("lighthouse").method == "fusion"


def test_a_loaded_model_keeps_the_name_that_the_store_has_for_it(folder: Path, tmp_path: Path) -> None:
    store, model = tmp_path / "store", glassformer.load(make_encoder(tmp_path / "encoder"))
    index_folder(folder, store, model, options=StoreOptions(model="org/encoder"), revision="main")
    report = index_folder(folder, store, model)
    assert (changes(report), report.model) == ({"unchanged": 3}, "org/encoder")
    settings = open_store(store).settings
    assert (settings.model, settings.revision) == ("org/encoder", "main")


def test_settings_of_one_model() -> None:
    one = StoreSettings(model="here", width=2, probe=[0.6, 0.8])
    assert one.continues(replace(one, model="there", probe=[0.60001, 0.79999]))
    assert not one.continues(replace(one, probe=[0.8, 0.6]))
    assert not one.continues(replace(one, width=3, probe=[0.6, 0.8, 0.0]))
    assert not one.continues(replace(one, size=100))
    assert not one.continues(StoreSettings(width=2, probe=[0.6, 0.8]))
    assert StoreSettings().continues(StoreSettings())


def test_names_may_be_exchanged(folder: Path, tmp_path: Path) -> None:
    """A file that is renamed while another takes its name: the content that both had or get is there afterwards."""
    store = tmp_path / "store"
    (folder / "a.txt").write_text("Apples grow here.")
    (folder / "b.txt").write_text("Boats sail there.")
    index_folder(folder, store)
    (folder / "a.txt").rename(folder / "c.txt")
    (folder / "b.txt").rename(folder / "a.txt")
    (folder / "c.txt").rename(folder / "b.txt")
    (folder / "tower.md").rename(folder / "z.md")
    (folder / "tower.md").write_text("Another tower.")
    report = index_folder(folder, store)
    assert changes(report) == {"changed": 3, "added": 1, "unchanged": 2}
    index_folder(folder, tmp_path / "fresh")
    assert dump(store) == dump(tmp_path / "fresh")


def test_one_file_becomes_two(folder: Path, tmp_path: Path) -> None:
    index_folder(folder, tmp_path / "store")
    text = (folder / "tower.md").read_text()
    (folder / "tower.md").unlink()
    for name in ("b.md", "c.md"):
        (folder / name).write_text(text)
    assert changes(index_folder(folder, tmp_path / "store")) == {"renamed": 1, "added": 1, "unchanged": 2}


def test_what_could_not_be_read_is_tried_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, options: object) -> Document:
        if path.name == "tower.md":
            raise DataError("it takes too long")
        return read(path, options)

    read = indexing.read_document
    monkeypatch.setattr(indexing, "read_document", refuse)
    first = index_folder(folder, tmp_path / "store")
    assert [(x.file, x.reason) for x in first.unread] == [("tower.md", "it takes too long")]
    monkeypatch.setattr(indexing, "read_document", read)
    assert changes(index_folder(folder, tmp_path / "store")) == {"added": 1, "unchanged": 2}
    monkeypatch.setattr(indexing, "read_document", refuse)
    (folder / "tower.md").write_text("Changed, and not to be read.")
    later = index_folder(folder, tmp_path / "store")
    assert changes(later) == {"removed": 1, "unchanged": 2} and len(later.unread) == 1
    assert open_folder(tmp_path / "store").search_words("lighthouse", 5) == []


def test_below_a_folder_that_cannot_be_listed_nothing_is_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folder(folder, tmp_path / "store")
    walk = indexing.walk
    monkeypatch.setattr(
        indexing,
        "walk",
        lambda root, options: [
            *(x for x in walk(root, options) if not x.name.startswith("notes/")),
            Skipped("notes", "it cannot be listed: permission denied", unknown=True),
        ],
    )
    report = index_folder(folder, tmp_path / "store")
    assert changes(report) == {"unchanged": 1} and report.document_count == 3


def test_an_unknown_language_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a code such as en"):
        index_folder(folder, tmp_path / "store", options=StoreOptions(language="english!"))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("size", "limit"), [(50, 40), (1_000, None), (3, None)])
def test_a_size_that_the_model_does_not_embed_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, encoder: Model, monkeypatch: pytest.MonkeyPatch, size: int, limit: int | None
) -> None:
    if limit is not None:  # it embeds fewer tokens than its tokenizer and its positions allow
        monkeypatch.setattr(encoder.embedder, "max_seq_length", limit)
    with pytest.raises(ConfigError, match=rf"size={size} (is more than the {limit or 64} tokens|leaves).*; give "):
        index_folder(folder, tmp_path / "store", encoder, options=StoreOptions(size=size, overlap=0))
    assert not (tmp_path / "store").exists()


def test_stems_of_another_version_are_noticed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is neither refused nor made again, for its vectors are worth more; both sides of a search say it."""
    store = tmp_path / "store"
    assert index_folder(folder, store).warning == ""
    assert Retriever.open(store).search("ships").notes == []
    monkeypatch.setattr(words, "version", lambda package: f"another {package}")
    report = index_folder(folder, store)
    assert changes(report) == {"unchanged": 3}
    assert "of another PyStemmer: search by words may miss some" in report.notes[0]
    assert Retriever.open(store).search("ships").notes == [report.warning]
    other = index_folder(folder, tmp_path / "other", options=StoreOptions(language="none"))
    assert other.warning == "" and open_folder(tmp_path / "other").settings.stemmer == ""
