"""A store in a folder: one SQLite file, with full-text search by FTS5.

    STORE/store.json             which file answers: {"version": 1, "file": "passages-3fa1….sqlite"}
          passages-3fa1….sqlite  named by the settings; those of a new model are written to a second file, which answers
                                 when it is complete, and the first goes
          lock                   of the one writer
          5f0c…-9be1….ann        the approximate index of 100,000 vectors or more: derived, and made again when stale
          5f0c…-07d2….bm25       the inverted index of 1,000 passages or more: derived too, see `sqlite_words.py`

BM25 is that of FTS5, with k₁ = 1.2 and b = 0.75 (`bm25.py` has the formula).
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason, nearest_path, read_json_object
from glassformer.files.atomic import write_json
from glassformer.files.lock import FolderLock
from glassformer.files.schema import parse
from glassformer.reports.report import plain
from glassformer.retrieval.approximate import ApproximateVectors, write_approximate
from glassformer.retrieval.mapped import DerivedFile
from glassformer.retrieval.options import DATABASES, INDEX_FILE, is_store_folder
from glassformer.retrieval.sqlite_words import WordSearch
from glassformer.retrieval.store import (
    EVERYTHING,
    VERSION,
    ContentBatch,
    Filter,
    Scored,
    Store,
    StoreSettings,
    best_first,
)
from glassformer.retrieval.vectors import ExactVectors, VectorSearch

APPROXIMATE_FROM = 100_000
"""Vectors from which a search asks the approximate index; fewer are compared with each question in some 10 ms."""
LOADED_TOGETHER = 8_192
STALE = 0.1
"""Share of the vectors that came or went since an index was made, from which it is made again."""

COPIED_IN_PART = "copy the whole folder of the store again, or remove it and index the files again"

SCHEMA = """
CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE contents(id INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT UNIQUE NOT NULL, title TEXT NOT NULL,
                      metadata TEXT NOT NULL, problem TEXT NOT NULL, complete INTEGER NOT NULL);
CREATE TABLE documents(name TEXT PRIMARY KEY, content INTEGER NOT NULL REFERENCES contents) WITHOUT ROWID;
CREATE INDEX documents_of ON documents(content);
CREATE TABLE problems(name TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE passages(id INTEGER PRIMARY KEY AUTOINCREMENT, content INTEGER NOT NULL REFERENCES contents,
                      start INTEGER NOT NULL, stop INTEGER NOT NULL, line INTEGER NOT NULL, page INTEGER NOT NULL,
                      page_starts TEXT NOT NULL, verbatim INTEGER NOT NULL,
                      headings TEXT NOT NULL, metadata TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX passages_of ON passages(content);
CREATE TABLE vectors(passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(terms, content='', tokenize='ascii');
CREATE VIRTUAL TABLE frequencies USING fts5vocab(words, row);
"""


def open_folder(folder: Path) -> SqliteStore:
    """Open the store in a folder. Raises: DataError: there is none, or it is damaged or of another version."""
    return SqliteStore(folder, _answering(folder))


def _answering(folder: Path) -> str:
    """The name of the database that answers in a folder: that of its index, or the only one, where that is missing."""
    index = folder / INDEX_FILE
    if not index.is_file():
        databases = [path.name for path in folder.glob(DATABASES)]
        if len(databases) == 1:
            return databases[0]
        if databases:
            raise DataError(
                f"{index}: is missing, which says which of {', '.join(sorted(databases))} answers; {COPIED_IN_PART}"
            )
        raise _no_store(folder)
    try:
        stored = read_json_object(index, DataError)
    except DataError as problem:
        raise DataError(f"{problem}; {COPIED_IN_PART}") from problem
    if stored.get("version") != VERSION:
        raise DataError(
            f"{folder}: the store has version {stored.get('version')!r}; supported: {VERSION}; index the folder into a "
            "new store"
        )
    file = stored.get("file")
    if not isinstance(file, str) or os.path.basename(file) != file or not (folder / file).is_file():
        raise DataError(f"{index}: its database {file!r} is missing; {COPIED_IN_PART}")
    return file


def _no_store(folder: Path) -> DataError:
    """The error where a folder is no store, or is not there."""
    shown = quote(str(folder))
    if folder.is_dir():
        return DataError(f"{folder}: not a store of documents; `glassformer index {shown} --output STORE` makes one")
    if folder.exists():
        return DataError(f"{folder}: not a store of documents, but a file; a store is a folder")
    stores = nearest_path(folder, is_store_folder)
    return DataError(
        f"{folder}: no such folder{stores}; `glassformer index FOLDER --output {shown}` makes a store there"
    )


@contextmanager
def writing_folder(folder: Path, settings: StoreSettings) -> Iterator[SqliteStore]:
    """A store in a folder to write to, as the one writer from before it is opened until it is closed.

    Raises: DataError: the folder cannot be made. ConfigError: another process writes; which one, and since when.
    """
    make_folder(folder)
    with FolderLock(folder / "lock"):
        store = create_folder(folder, settings)
        try:
            yield store
        finally:
            store.close()


def make_folder(folder: Path) -> None:
    """Make the folder of a store, where it is not there. Raises: DataError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as problem:
        raise DataError(
            f"{folder}: a file of this name is there, and a store is a folder; give another name"
        ) from problem
    except OSError as problem:
        raise DataError(f"{folder}: the folder of the store cannot be made: {error_reason(problem)}") from problem


def create_folder(folder: Path, settings: StoreSettings) -> SqliteStore:
    """Make a store in a folder, or go on with one of the same settings.

    Where another one answers there, it does so until `finish` of the new one. Where that one is of the same model in
    another folder, it continues with the new name.

    Raises: DataError: the folder cannot be made.
    """
    make_folder(folder)
    file = f"passages-{settings.digest()}.sqlite"
    if is_store_folder(folder):
        answering = _answering(folder)
        there = SqliteStore(folder, answering, settings if answering == file else None)  # empty: its writer was killed
        if not (folder / INDEX_FILE).exists():
            there.switch()
        if settings.continues(there.settings):
            there.rename_model(settings)
            return there
        there.close()
    store = SqliteStore(folder, file, settings)
    if not (folder / INDEX_FILE).exists():
        store.switch()
    return store


_VALUE_AS_TEXT = "CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(value AS TEXT) END"
"""Of a row of SQLite's json_each."""


class SqliteStore(Store):
    """A store in a SQLite file in a folder.

    folder: of the store
    file: name of the database in it

    Args:
        settings: of a new database; None = it is there
    """

    NUMBERS = "<f2"

    def __init__(self, folder: Path, file: str, settings: StoreSettings | None = None) -> None:
        super().__init__()
        self.folder, self.file, self.place = folder, file, str(folder)
        self._searched: tuple[int, list[VectorSearch]] | None = None
        with self._errors():
            self._database = sqlite3.connect(
                folder / file, isolation_level=None, check_same_thread=False, timeout=60, cached_statements=64
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and settings is not None:
                with self._transaction():
                    for statement in SCHEMA.strip().removesuffix(";").split(";\n"):
                        self._database.execute(statement)
                    self._set(settings=plain(settings), edition=0, passages=0, terms=0)
                    self._set(key=secrets.token_hex(6), words="")
                    self._database.execute(f"PRAGMA user_version = {VERSION}")
            elif version == 0:  # no file of ours is without a version
                raise sqlite3.DatabaseError("it is empty")
            elif version != VERSION:
                raise DataError(
                    f"{folder}: {file} has version {version}; supported: {VERSION}; index the folder into a new store"
                )
            self.settings = parse(StoreSettings, self._get("settings"))
            path = folder / self._get("key")
            self._words = WordSearch(self._database, path, self.settings.language, self._terms)
            self._near = DerivedFile(path, ".ann", lambda path: ApproximateVectors(path, self.vectors), "dense search")

    def close(self) -> None:
        with self._lock:
            self._database.close()

    # ------------------------------------------------------------------------------------------------- writing

    def write(self, batches: Sequence[ContentBatch]) -> None:
        super().write(batches)
        self._renew_words(self._words.has_grown)

    def _add_vectors(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        rows = zip(ids, (vector.tobytes() for vector in vectors.astype("<f2")), strict=True)
        self._run_many("INSERT INTO vectors(passage, vector) VALUES(?, ?)", rows)

    def _index_terms(self, listed: Sequence[tuple[int, list[str]]], remove: bool) -> None:
        first, second = ("words, ", "'delete', ") if remove else ("", "")
        rows = ((id, " ".join(terms)) for id, terms in listed)
        self._run_many(f"INSERT INTO words({first}rowid, terms) VALUES({second}?, ?)", rows)

    def finish(self) -> None:
        super().finish()
        with self._errors():
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _renew_index(self) -> None:
        for path in self.folder.glob(".*.partial"):  # of a process that was killed
            path.unlink(missing_ok=True)
        self._renew_vectors()
        self._renew_words(self._words.is_stale)

    def _renew_words(self, needed: Callable[[], bool]) -> None:
        """Write the inverted index, where it is needed, and then let other processes look for it."""
        with self._errors():
            with self._reading():
                name = self._words.write_index() if needed() else ""
            if name:
                with self._transaction():
                    self._set(words=name, edition=self.edition + 1)
            self._words.remove_others()

    def _renew_vectors(self) -> None:
        (count,) = self._all("SELECT COUNT(*) FROM vectors")[0]
        name = self._index_name() if count >= APPROXIMATE_FROM else None
        if count >= APPROXIMATE_FROM and self._lacks(self._near.verified(name)) > STALE * count:
            ids, vectors = self._load()
            # Ids are not used again and vectors do not change, so the ids say what an index was made from.
            path = self._near.path(ids)
            write_approximate(path, ids, vectors, measure=self.settings.similarity)
            name = path.name
        self._near.remove_others(name)

    def _index_name(self) -> str | None:
        return next((path.name for path in self._near.files()), None)

    def _lacks(self, index: ApproximateVectors | None) -> float:
        """How many vectors came and went since an index was made; all where there is none."""
        if index is None:
            return math.inf
        query = "SELECT COUNT(*), COALESCE(SUM(passage <= ?), 0) FROM vectors"
        ((count, same),) = self._all(query, (index.newest,))
        return float((count - same) + (len(index) - same))

    def switch(self) -> None:
        write_json(self.folder / INDEX_FILE, {"version": VERSION, "file": self.file}, DataError)
        for path in self.folder.glob(f"{DATABASES}*"):
            if not path.name.startswith(self.file):
                with suppress(OSError):  # another process has it open, and its system keeps it
                    path.unlink()

    # ------------------------------------------------------------------------------------------------- reading

    def search_words(self, question: str, limit: int, only: Filter = EVERYTHING) -> Scored:
        with self._errors(), self._reading():
            return self._words.search(question, limit, *self._condition(only))

    def search_vectors(self, query: np.ndarray, limit: int, only: Filter = EVERYTHING) -> Scored:
        condition, values = self._condition(only)
        if condition:
            condition = f"AND v.passage IN (SELECT p.id FROM passages p WHERE {condition})"
            searches: list[VectorSearch] = [self._exact(condition, values)]
        else:
            searches = self._all_vectors()
        queries = np.asarray(query, np.float32)[None]
        try:
            best = [search.search(queries, limit) for search in searches]
        except DataError as error:
            if not isinstance(searches[0], ApproximateVectors):
                raise
            self._near.refuse(searches[0].path, error)
            self._searched = None
            best = [search.search(queries, limit) for search in self._all_vectors()]
        pairs = (zip(part.ids[0].tolist(), part.scores[0].tolist(), strict=True) for part in best)
        return best_first(x for part in pairs for x in part if x[0] >= 0)[:limit]

    def _all_vectors(self) -> list[VectorSearch]:
        """The searches that together cover all vectors: the approximate index, and the vectors that it lacks."""
        with self._errors(), self._reading():
            edition = self.edition
            if self._searched is None or self._searched[0] != edition:
                if index := self._near.open(self._index_name()):
                    self._searched = (edition, [index, self._exact("AND v.passage > ?", (index.newest,))])
                else:
                    self._searched = (edition, [self._exact()])
            return self._searched[1]

    def _exact(self, condition: str = "", values: Sequence[Any] = ()) -> ExactVectors:
        return ExactVectors(*self._load(condition, values), self.settings.similarity)

    def _load(self, condition: str = "", values: Sequence[Any] = ()) -> tuple[np.ndarray, np.ndarray]:
        """Ids and vectors of the passages of complete contents. [N] int64, [N, D] float16"""
        incomplete = "SELECT p.id FROM passages p JOIN contents c ON c.id = p.content WHERE NOT c.complete"
        chosen = f"FROM vectors v WHERE v.passage NOT IN ({incomplete}) {condition}"
        with self._errors(), self._reading():
            (count,) = self._database.execute(f"SELECT COUNT(*) {chosen}", tuple(values)).fetchone()
            ids, vectors = np.empty(count, np.int64), np.empty((count, self.settings.width), np.float16)
            rows = self._database.execute(f"SELECT v.passage, v.vector {chosen} ORDER BY v.passage", tuple(values))
            start = 0
            while some := rows.fetchmany(LOADED_TOGETHER):
                stop = start + len(some)
                ids[start:stop] = [id for id, _ in some]
                vectors[start:stop] = self._vectors_in([blob for _, blob in some])
                start = stop
        return ids, vectors

    def _term_counts(self, asked: Sequence[str]) -> dict[str, int]:
        return self._words.counts(asked)

    def _stored_vectors(self, ids: Sequence[int]) -> list[tuple[int, bytes]]:
        return self._for_each("SELECT passage, vector FROM vectors WHERE passage IN ({})", ids)

    # ------------------------------------------------------------------------------------------------- database

    def _run(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._database.execute(query, tuple(values)).fetchall()

    def _run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        self._database.executemany(query, rows)

    def _new_ids(self, table: str, count: int) -> range:
        rows = self._run("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))  # it keeps those that are gone
        first = rows[0][0] + 1 if rows else 1
        return range(first, first + count)

    def _has_metadata(self, column: str) -> str:
        return f"EXISTS(SELECT 1 FROM json_each({column}) WHERE key = ? AND {_VALUE_AS_TEXT} = ?)"

    def _values_in(self, table: str) -> str:
        return f"SELECT DISTINCT {_VALUE_AS_TEXT} FROM {table} t, json_each(t.metadata) WHERE key = ? LIMIT 10000"

    def _names_in(self, column: str) -> str:
        return f"json_each({column})"

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            if self._database.in_transaction:
                yield
                return
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                with suppress(sqlite3.Error):
                    self._database.execute("COMMIT")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk may have ended it already
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason, where = str(error), self.folder / self.file
            if "full" in reason or "disk I/O" in reason:
                raise DataError(
                    f"{where}: cannot be written: {reason}; make room, and index again: what was indexed is there"
                ) from error
            if "locked" in reason or "busy" in reason:
                raise ConfigError(f"{where}: another program has it locked; try again when that is done") from error
            if "readonly" in reason or "unable to open" in reason:
                raise DataError(f"{where}: cannot be opened for writing: {reason}; check its permissions") from error
            raise DataError(
                f"{where}: the database is damaged, or was copied in part: {reason}; {COPIED_IN_PART}"
            ) from error
