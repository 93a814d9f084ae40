"""A store in a PostgreSQL database, with vectors by pgvector: where several machines search, or one disk is not enough.

    glassformer.store       which tables answer: version, tables
    passages_3fa1….*        tables, in a schema that is named by the settings; those of a new model are written to a
                            second schema, which answers when it is complete; the next indexing removes the first

Terms are ours (`words.py`), in an inverted index, `postings(term, passage, tf, length)`, and scores those of a store in
SQLite (`bm25.py`). The ranks of PostgreSQL's own full-text search know neither how rare a term is nor how long passages
are. Rare terms choose the passages, as far as the others together cannot bring one more among the best (MaxScore);
frequent ones are looked up one after the other, each for the passages that can still be among the best.

Vectors are `halfvec`, compared exactly with a question in 32 bits; from 100,000 an HNSW index chooses those that are.

Sources: Turtle and Flood 1995, "Query evaluation: strategies and optimizations" (MaxScore); Malkov and Yashunin 2018,
"Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small World graphs".
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.files.schema import parse
from glassformer.reports.report import plain
from glassformer.retrieval.bm25 import K1, B, frequent_score, telling, term_weights
from glassformer.retrieval.postgres_database import PostgresDatabase
from glassformer.retrieval.store import EVERYTHING, VERSION, Filter, Scored, Store, StoreSettings
from glassformer.retrieval.vectors import unit
from glassformer.retrieval.words import query_terms

APPROXIMATE_FROM = 100_000
"""Vectors from which a search asks an HNSW index; fewer are compared with each question in some 50 ms."""
NEIGHBOURS, BUILD_CANDIDATES = 24, 128
"""Of the index, `m` and `ef_construction`: with pgvector's defaults, 16 and 64, recall@10 was 0.97 even with
1,000 neighbours looked at (100,000 vectors made from MiniLM's)."""
SEARCHED = 400
"""Neighbours that a search looks at, `hnsw.ef_search`: a recall@10 of 0.996; with 200 it is 0.988, with 100 0.966."""
MAX_WIDTH = 4_000
"""Dimensions that an HNSW index takes."""
MAX_PLAIN_WIDTH = 3_500
"""Dimensions of vectors that are kept in their row, which has to fit into a page of 8 kB."""
MAX_SCORED = 10_000
"""Postings of rare terms that choose passages in the first attempt: some 25 ms."""
LONGEST_TERM = 200
"""Characters of a term; PostgreSQL's index has a limit. Of a longer one the rest is a hash."""
OLDEST_VECTOR = (0, 8)
"""Of pgvector: with searches in an index that go on until there are enough results which may be shown."""

SCHEMA = """
CREATE TABLE settings(name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE newest(name text PRIMARY KEY, id bigint NOT NULL);
CREATE TABLE contents(id bigint PRIMARY KEY, hash text COLLATE "C" UNIQUE NOT NULL, title text NOT NULL,
                      metadata text NOT NULL, problem text NOT NULL, complete integer NOT NULL);
CREATE TABLE documents(name text COLLATE "C" PRIMARY KEY, content bigint NOT NULL REFERENCES contents);
CREATE INDEX documents_of ON documents(content);
CREATE TABLE problems(name text NOT NULL, reason text NOT NULL);
CREATE TABLE passages(id bigint PRIMARY KEY, content bigint NOT NULL REFERENCES contents, start bigint NOT NULL,
                      stop bigint NOT NULL, line bigint NOT NULL, page bigint NOT NULL,
                      page_starts text NOT NULL, verbatim integer NOT NULL, headings text NOT NULL,
                      metadata text NOT NULL, text text NOT NULL);
CREATE INDEX passages_of ON passages(content, id);
CREATE TABLE vectors(passage bigint PRIMARY KEY, vector {vector} NOT NULL);
CREATE TABLE postings(term text COLLATE "C", passage bigint, tf integer NOT NULL, length integer NOT NULL,
                      PRIMARY KEY(term, passage) INCLUDE (tf, length));
CREATE TABLE frequencies(term text COLLATE "C" PRIMARY KEY, passages bigint NOT NULL);
"""

# A term that ends with `*` stands for those between it and `high`; its tf is theirs together.
RANKED = """
WITH chosen AS (
    SELECT passage, weight, length, sum(tf)::float8 AS tf
    FROM unnest(?::text[], ?::text[], ?::float8[]) AS t(low, high, weight) JOIN postings ON {same} {within}
    GROUP BY passage, low, weight, length),
scored AS MATERIALIZED (
    SELECT passage, length, sum(weight * (tf * {k} / (tf + {norm}))) AS score FROM chosen GROUP BY passage, length)
SELECT passage, length, score FROM scored
WHERE score + ? >= coalesce((SELECT score FROM scored ORDER BY score DESC OFFSET ? LIMIT 1), 0)
"""
LOOKED_UP = "SELECT passage, sum(tf)::float8 FROM postings WHERE {same} AND passage = ANY(?) GROUP BY passage"
ONE, SEVERAL = "term = ? AND ?::text IS NOT NULL", "term BETWEEN ? AND ?"


def open_database(address: str) -> PostgresStore:
    """Open the store in a database.

    Raises: DataError: there is none, it is of another version, or the server does not answer. ConfigError: the address.
    """
    database = PostgresDatabase(address)
    tables = _answering(database)
    if tables is None:
        raise DataError(
            f"{database.shown}: no store of documents; `glassformer index FOLDER --output {database.shown}` makes one"
        )
    return PostgresStore(database, tables)


@contextmanager
def writing_database(address: str, settings: StoreSettings) -> Iterator[PostgresStore]:
    """A store in a database to write to, as the one writer, until it is closed.

    Raises: DataError: the server does not answer, or refuses. ConfigError: another process writes; or the address.
    """
    store = create_tables(PostgresDatabase(address, is_writer=True), settings)
    try:
        yield store
    finally:
        store.close()


def database_has_store(address: str) -> bool:
    """Whether a store is in a database. Raises: DataError: the server does not answer. ConfigError: the address."""
    database = PostgresDatabase(address)
    try:
        return _answering(database) is not None
    finally:
        database.close()


def create_tables(database: PostgresDatabase, settings: StoreSettings) -> PostgresStore:
    """Make a store in a database, or go on with one of the same settings.

    Where another one answers there, it does so until `finish` of the new one. Where that one is of the same model in
    another folder, it continues with the new name.
    """
    if (tables := _answering(database)) is not None:
        there = PostgresStore(database, tables)
        if settings.continues(there.settings):
            there.rename_model(settings)
            _remove_tables(database, {tables})
            return there
    store = PostgresStore(database, f"passages_{settings.digest()}", settings)
    if tables is None:
        store.switch()
    _remove_tables(database, {tables, store.schema})
    return store


def _answering(database: PostgresDatabase) -> str | None:
    """The schema of the tables that answer; None = there is no store. Raises: DataError: it is of another version."""
    if database.run("SELECT to_regclass('glassformer.store')")[0][0] is None:
        return None
    rows = database.run("SELECT version, tables FROM glassformer.store")
    if not rows:
        return None
    version, tables = rows[0]
    if version != VERSION:
        raise DataError(
            f"{database.shown}: the store has version {version}; supported: {VERSION}; index the folder into a new "
            "database"
        )
    return str(tables)


def _remove_tables(database: PostgresDatabase, used: set[str | None]) -> None:
    """Remove tables of other settings: those that answered until the last indexing, or were never complete."""
    # Not as soon as they are replaced: processes that have the store open go on with them.
    for (name,) in database.run("SELECT nspname FROM pg_namespace WHERE nspname ~ '^passages_[0-9a-f]{12}$'"):
        if name not in used:
            database.run(f'DROP SCHEMA "{name}" CASCADE')


class PostgresStore(Store):
    """A store in a schema of a PostgreSQL database.

    database: its connection
    schema: its tables are in it

    Args:
        settings: of a new store; None = it is there
    """

    NUMBERS = ">f2"

    def __init__(self, database: PostgresDatabase, schema: str, settings: StoreSettings | None = None) -> None:
        super().__init__()
        self.database, self.schema, self._lock = database, schema, database.lock
        self.place = database.shown
        if settings is not None:
            with self._transaction():
                self._create(settings)
        database.search_in(schema, *self._places_of_vector())
        self.settings = parse(StoreSettings, self._get("settings"))

    def _create(self, settings: StoreSettings) -> None:
        run = self.database.run
        if run("SELECT to_regclass(?)", (f"{self.schema}.settings",))[0][0] is not None:
            return
        if (encoding := run("SHOW server_encoding")[0][0]) != "UTF8":
            raise DataError(f"{self.database.shown}: the database is in {encoding}; make one in UTF8: createdb -E UTF8")
        kind = f"{self._vector_schema()}.halfvec({settings.width})" if settings.width else "bytea"
        run(f"CREATE SCHEMA {self.schema}")
        run(f"SET LOCAL search_path TO {self.schema}")
        for statement in SCHEMA.strip().removesuffix(";").split(";\n"):
            run(statement.replace("{vector}", kind))
        storage = "PLAIN" if settings.width <= MAX_PLAIN_WIDTH else "EXTERNAL"
        run(f"ALTER TABLE vectors ALTER COLUMN vector SET STORAGE {storage}")
        self._set(settings=plain(settings), edition=0, passages=0, terms=0)

    def _vector_schema(self) -> str:
        """The schema of pgvector's types, which are installed where they are not. Raises: DataError: they cannot be."""
        run = self.database.run
        try:
            if not self._places_of_vector():
                run("CREATE EXTENSION vector")
        except DataError as error:
            raise DataError(
                f"{error}; a store with vectors needs the extension pgvector on the server: an administrator installs "
                "its package, and runs CREATE EXTENSION vector in the database"
            ) from error
        version = run("SELECT extversion FROM pg_extension WHERE extname = 'vector'")[0][0]
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_VECTOR:
            raise DataError(
                f"{self.database.shown}: pgvector is {version}, and a store needs {'.'.join(map(str, OLDEST_VECTOR))} "
                "or newer; an administrator installs it, and runs ALTER EXTENSION vector UPDATE"
            )
        (place,) = self._places_of_vector()
        return str(run("SELECT quote_ident(?)", (place,))[0][0])

    def _places_of_vector(self) -> list[str]:
        rows = self.database.run(
            "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
        )
        return [name for (name,) in rows]

    def close(self) -> None:
        self.database.close()

    # ------------------------------------------------------------------------------------------------- writing

    def _add_vectors(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        width = vectors.shape[1]
        row = zip("fields size_of_id id size width unused".split(), ">i2 >i4 >i8 >i4 >i2 >i2".split(), strict=True)
        rows = np.zeros(len(ids), np.dtype([*row, ("vector", ">f2", (width,))]))
        rows["fields"], rows["size_of_id"], rows["id"] = 2, 8, ids
        rows["size"], rows["width"], rows["vector"] = 4 + 2 * width, width, vectors
        with self.database.copying("vectors(passage, vector) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff")

    def _index_terms(self, listed: Sequence[tuple[int, list[str]]], remove: bool) -> None:
        counted = [(id, len(terms), Counter(map(_short, terms))) for id, terms in listed]
        postings = [(term, id, tf, length) for id, length, counts in counted for term, tf in counts.items()]
        if remove:
            self._run(
                "DELETE FROM postings WHERE (term, passage) IN (SELECT * FROM unnest(?::text[], ?::bigint[]))",
                ([x[0] for x in postings], [x[1] for x in postings]),
            )
        else:
            with self.database.copying("postings(term, passage, tf, length) FROM STDIN") as copy:
                for posting in postings:
                    copy.write_row(posting)
        passages = sorted(Counter(x[0] for x in postings).items())
        self._run(
            "INSERT INTO frequencies(term, passages) SELECT * FROM unnest(?::text[], ?::bigint[]) "
            "ON CONFLICT(term) DO UPDATE SET passages = frequencies.passages + excluded.passages",
            ([term for term, _ in passages], [-count if remove else count for _, count in passages]),
        )

    def _renew_index(self) -> None:
        with self._errors():
            self._run("DELETE FROM frequencies WHERE passages = 0")
            for table in ("passages", "vectors", "postings", "documents", "contents"):
                self._run(f"ANALYZE {table}")  # or the server would guess how to search new tables
            if not 0 < self.settings.width <= MAX_WIDTH:
                return
            (count,) = self._run("SELECT COUNT(*) FROM vectors")[0]
            if count < APPROXIMATE_FROM:
                self._run("DROP INDEX IF EXISTS nearest")
            else:  # the server keeps it up to date
                self._run(
                    "CREATE INDEX IF NOT EXISTS nearest ON vectors USING hnsw (vector halfvec_ip_ops) "
                    f"WITH (m = {NEIGHBOURS}, ef_construction = {BUILD_CANDIDATES})"
                )

    def switch(self) -> None:
        with self._errors(), self._transaction():
            self._run("CREATE SCHEMA IF NOT EXISTS glassformer")
            self._run("CREATE TABLE IF NOT EXISTS glassformer.store(version integer NOT NULL, tables text NOT NULL)")
            self._run("DELETE FROM glassformer.store")
            self._run("INSERT INTO glassformer.store(version, tables) VALUES(?, ?)", (VERSION, self.schema))

    # ------------------------------------------------------------------------------------------------- reading

    def search_words(self, question: str, limit: int, only: Filter = EVERYTHING) -> Scored:
        with self._errors(), self._reading():
            total, terms = self._get("passages"), self._get("terms")
            asked = map(_short, query_terms(question, self.settings.language))
            counts = {term: self._frequency(term) for term in asked}
            weights = term_weights(total, counts)
            if not weights:
                return []
            # Passages that share frequent terms alone are left out where others share more.
            least = frequent_score(total, weights.values())
            ids, scores = self._best(weights, counts, terms / total, least, limit, only)
        order = np.lexsort((ids, -scores.round(10)))[:limit]  # sums differ in their last digits by the order of terms
        return telling([(int(ids[i]), float(scores[i])) for i in order], total, weights.values())

    def _best(
        self,
        weights: Mapping[str, float],
        counts: Mapping[str, int],
        mean_length: float,
        least: float,
        limit: int,
        only: Filter,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Passages among which the best are, and their scores: MaxScore, term by term. [n] int64, [n] float64"""
        listed, rest = list(weights), np.append((K1 + 1) * np.cumsum(list(weights.values())[::-1])[::-1], 0.0)
        # The rarest terms choose passages, as many as the time of a first attempt allows.
        postings = np.cumsum([counts[term] for term in listed])
        chosen = max(1, int(np.searchsorted(postings, MAX_SCORED, side="right")))
        while True:
            rows = self._ranked(listed[:chosen], weights, mean_length, rest[chosen], limit, only)
            columns = np.array(rows, float).reshape(-1, 3).T
            ids, lengths, scores = columns[0].astype(np.int64), columns[1], columns[2]
            reached = _reached(scores, limit)
            last = rest[chosen] <= least * (1 + 1e-9) and len(scores) and scores.max() > least
            if chosen == len(listed) or reached >= rest[chosen] or last:
                break
            chosen += 1  # and as many more as it takes until the others cannot reach that score
            while chosen < len(listed) and rest[chosen] > reached > 0:
                chosen += 1
        norms = K1 * (1 - B + B * lengths / mean_length)
        for number in range(chosen, len(listed)):  # frequent terms bring no more passages among the best
            same = LOOKED_UP.format(same=SEVERAL if listed[number].endswith("*") else ONE)
            counted = dict(self._run(same, (*_bounds(listed[number]), ids.tolist())))
            tf = np.array([counted.get(id, 0.0) for id in ids.tolist()])
            scores = scores + weights[listed[number]] * (tf * (K1 + 1) / (tf + norms))
            near = scores + rest[number + 1] * (1 + 1e-9) >= _reached(scores, limit)
            ids, norms, scores = ids[near], norms[near], scores[near]
        return ids, scores

    def _ranked(
        self,
        chosen: Sequence[str],
        weights: Mapping[str, float],
        mean_length: float,
        rest: float,
        limit: int,
        only: Filter,
    ) -> list[Any]:
        """Passages that have one of some terms, with their length and score, as far as others may bring them up."""
        condition, values = self._condition(only)
        within = f"AND passage IN (SELECT p.id FROM passages p WHERE {condition})" if condition else ""
        norm = f"{K1}::float8 * ({1 - B}::float8 + {B}::float8 * length / {mean_length}::float8)"
        same = "term BETWEEN low AND high" if any(term.endswith("*") for term in chosen) else "term = low"
        lows, highs = zip(*map(_bounds, chosen), strict=True)
        given = (list(lows), list(highs), [weights[term] for term in chosen])
        ranked = RANKED.format(k=f"{K1 + 1}::float8", norm=norm, within=within, same=same)
        return self._run(ranked, (*given, *values, float(rest) * (1 + 1e-9), limit - 1))

    def _term_counts(self, asked: Sequence[str]) -> dict[str, int]:
        return {term: self._frequency(_short(term)) for term in asked}

    def _frequency(self, term: str) -> int:
        """In how many passages a term is."""
        if term.endswith("*"):
            query = "SELECT COUNT(DISTINCT passage) FROM postings WHERE term BETWEEN ? AND ?"
            return int(self._run(query, _bounds(term))[0][0])
        return int(sum(x for (x,) in self._run("SELECT passages FROM frequencies WHERE term = ?", (term,))))

    def search_vectors(self, query: np.ndarray, limit: int, only: Filter = EVERYTHING) -> Scored:
        given = np.asarray(query, np.float32)
        if self.settings.similarity == "cosine":
            given = unit(given)
        text = "[" + ",".join(map(str, given.tolist())) + "]"
        condition, values = self._condition(only)
        complete = (
            "passage NOT IN (SELECT p.id FROM passages p JOIN contents c ON c.id = p.content WHERE c.complete = 0)"
        )
        near, asked = "vectors", []
        with self._errors(), self._reading():
            if condition:
                complete += f" AND passage IN (SELECT p.id FROM passages p WHERE {condition})"
            elif self._run("SELECT to_regclass('nearest')")[0][0] is not None:
                self._run(f"SET LOCAL hnsw.ef_search = {SEARCHED}")
                self._run("SET LOCAL hnsw.iterative_scan = strict_order")
                near = (
                    f"(SELECT passage, vector FROM vectors WHERE {complete} ORDER BY vector <#> ?::halfvec LIMIT ?) v"
                )
                complete, asked = "true", [text, 2 * limit]
            rows = self._run(
                f"SELECT passage, -(vector::vector <#> ?::vector) AS score FROM {near} WHERE {complete} "
                "ORDER BY score DESC, passage LIMIT ?",
                (text, *asked, *values, limit),
            )
        return [(int(id), float(score)) for id, score in rows]

    def _stored_vectors(self, ids: Sequence[int]) -> list[tuple[int, bytes]]:
        rows = self.database.run(
            "SELECT passage, vector FROM vectors WHERE passage = ANY(?)", (list(ids),), binary=True
        )
        return [(id, data[4:]) for id, data in rows]  # the first 4 bytes are the width

    # ------------------------------------------------------------------------------------------------- database

    def _run(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.database.run(query, values)

    def _run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        self.database.run_many(query, rows)

    def _new_ids(self, table: str, count: int) -> range:
        # Not a sequence, which would count what was rolled back.
        ((last,),) = self._run(
            "INSERT INTO newest(name, id) VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET id = newest.id + excluded.id "
            "RETURNING id",
            (table, count),
        )
        return range(last - count + 1, last + 1)

    def _has_metadata(self, column: str) -> str:
        return f"({column}::json ->> ?) = ?"

    def _values_in(self, table: str) -> str:
        return f"SELECT DISTINCT metadata::json ->> ? FROM {table} LIMIT 10000"

    def _names_in(self, column: str) -> str:
        return f"json_object_keys({column}::json) key"

    def _transaction(self) -> AbstractContextManager[None]:
        return self.database.block("BEGIN")

    def _reading(self) -> AbstractContextManager[None]:
        return self.database.block("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _errors(self) -> AbstractContextManager[None]:
        return self.database.errors()


def _bounds(term: str) -> tuple[str, str]:
    """The first and the last of the stored terms that a term of a question stands for."""
    return (term[:-1], f"{term[:-1]}\U0010ffff") if term.endswith("*") else (term, term)


def _reached(scores: np.ndarray, limit: int) -> float:
    """The score that a passage needs to be among the best; 0 = there are fewer."""
    return float(np.partition(scores, -limit)[-limit]) if len(scores) >= limit else 0.0


def _short(term: str) -> str:
    """A term as it is stored: the end of a very long one is a hash."""
    if len(term) <= LONGEST_TERM:
        return term
    return f"{term[:LONGEST_TERM]} {hashlib.sha256(term.encode()).hexdigest()}"
