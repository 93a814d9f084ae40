"""Stores of passages: what an index writes and a search reads, in a SQL database.

    documents   tower.md ──┐
                copy.md ───┴─> content 3fa1…md ──> passages ──> vectors, words

A document is a name, and a content is the bytes that it has, named by their hash. So a renamed file moves and files of
one content are embedded once; a changed file is a name that points to another content, switched in one transaction when
all of its passages are there. Its tables, in every database:

    settings(name, value)                             contents(id, hash, title, metadata, problem, complete)
    problems(name, reason)                            documents(name, content)
    passages(id, content, start, stop, line, page, page_starts, verbatim, headings, metadata, text)
    vectors(passage, vector)

What databases do in different ways is abstract: running a statement, storing and searching vectors and words.
"""

from __future__ import annotations

import hashlib
import json
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from glassformer.files.schema import Schema
from glassformer.reports.report import Display, plain
from glassformer.reports.table import Table
from glassformer.retrieval.bm25 import scores_by_term, term_weights
from glassformer.retrieval.passage import Passage, PassageMatch, WordScore
from glassformer.retrieval.words import query_terms, stemmer_version, terms

VERSION = 1
"""Of what a store holds; raised where a table or key gets another meaning."""
TOGETHER = 500
"""Values of a statement: SQLite has a limit of them."""
DESCRIBED = ("model", "revision", "size", "overlap", "language", "prompt")
"""Settings that say in words what differs between stores."""
COLUMNS = tuple("id title start stop line page page_starts verbatim headings text".split())
"""Of the tables: fields of a `PassageMatch`."""
SAME_COSINE = 0.9999
"""Least cosine of two probes of one model: 32-bit numbers differ by some 1e-6, a precision of 8 bits by 1e-3."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings(Schema):
    """What all passages of a store were made with.

    model: a folder or a name on the Hub; None = passages have no vectors
    revision: of the Hub's model
    width: dimensions of a vector
    similarity: how vectors are compared; those compared by cosine are stored with unit length
    prompt: put before a passage
    probe: the vector of a fixed sentence: another model, revision, pooling or prompt gives another one
    size, overlap, language: of `PassageOptions`
    stemmer: version of the package that made the stems of the words; "" = there are none
    """

    model: str | None = None
    revision: str | None = None
    width: int = 0
    similarity: Literal["cosine", "dot"] = "cosine"
    prompt: str = ""
    probe: list[float] = field(default_factory=list)
    size: int = 256
    overlap: int = 32
    language: str = "en"
    stemmer: str = ""

    def continues(self, other: StoreSettings) -> bool:
        """Whether passages of both may be in one store: those of one model, wherever its folder is now.

        The probe tells models apart; of one model it differs by rounding between machines. Few stems differ between
        versions of a stemmer, and embedding all passages again may take hours, so that is a note (`stems_note`).
        """
        of_other = replace(self, model=other.model, revision=other.revision, probe=other.probe, stemmer=other.stemmer)
        if of_other != other:
            return False
        if self.model is None or other.model is None:
            return self.model is other.model
        one, two = np.array(self.probe), np.array(other.probe)
        lengths = float(np.linalg.norm(one) * np.linalg.norm(two))
        return one.shape == two.shape and float(one @ two) >= SAME_COSINE * lengths

    def digest(self) -> str:
        """What passages of these settings are named by."""
        return hashlib.sha256(json.dumps(plain(self), sort_keys=True).encode()).hexdigest()[:12]

    def differences(self, other: StoreSettings) -> str:
        """What of these settings is not as in others, in words."""
        pairs = {name: (getattr(self, name) or "none", getattr(other, name) or "none") for name in DESCRIBED}
        listed = [f"{name} {new} instead of {old}" for name, (new, old) in pairs.items() if new != old]
        return ", ".join(listed) or "the model embeds texts in another way than it did"

    def stems_note(self) -> str:
        """That the words of a store have other stems than those of questions may be; "" = both are of one version."""
        if self.stemmer == (now := stemmer_version(self.language)):
            return ""
        return (
            f"the stems of this store are those of PyStemmer {self.stemmer}, and those of questions of {now}: search "
            "by words may miss some passages; index the folder into a new store"
        )


class ContentBatch(NamedTuple):
    """Passages of a content, or the last of them, that are written together.

    content: its hash and the suffix of its files
    passages: behind those that were written before
    vectors: of the passages; None = the store has none. [n, D] float16
    complete: these are the last: the content can be searched
    names: documents that have this content, from when it is complete
    title, metadata: of the document
    problem: why the file could not be read, or a part of it; "" = all of it was
    """

    content: str
    passages: Sequence[Passage] = ()
    vectors: np.ndarray | None = None
    complete: bool = True
    names: Sequence[str] = ()
    title: str = ""
    metadata: Mapping[str, Any] = {}
    problem: str = ""


class Filter(NamedTuple):
    """Which passages are searched.

    folder: of the store, or one file
    where: metadata of the document or the passage: name → value as text
    """

    folder: str | None = None
    where: Mapping[str, str] = {}


EVERYTHING = Filter()


class Counts(NamedTuple):
    """How much a store holds."""

    documents: int
    passages: int
    vectors: int


Scored = list[tuple[int, float]]
"""Ids of passages with their scores, the best first."""


def best_first(scored: Iterable[tuple[int, float]]) -> Scored:
    """Of equal scores, the lowest id is first."""
    return sorted(scored, key=lambda x: (-x[1], x[0]))


class Store(Display):
    """Passages with their places, words and vectors. Many may read while one writes.

    settings: what its passages were made with
    place: its folder, or the address of its database without the password
    """

    NUMBERS: ClassVar[str]
    """Type of the numbers of stored vectors."""

    settings: StoreSettings
    place: str

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place!r}, model={self.settings.model!r})"

    def tables(self) -> list[Table]:
        """How much it holds, and what its passages were made with."""
        made = {name: getattr(self.settings, name) for name in ("model", "size", "overlap", "language")}
        facts = {**self.counts()._asdict(), **made}
        return [Table([self.place, ""], [[name, str(value or "none")] for name, value in facts.items()], left=1)]

    @abstractmethod
    def close(self) -> None:
        """Close the database."""

    @abstractmethod
    def switch(self) -> None:
        """Make these the passages that answer, where another model or size makes those of a store again."""

    @abstractmethod
    def search_words(self, question: str, limit: int, only: Filter = EVERYTHING) -> Scored:
        """BM25: passages by the words that they share with a question."""

    @abstractmethod
    def search_vectors(self, query: np.ndarray, limit: int, only: Filter = EVERYTHING) -> Scored:
        """Dense search: passages by the similarity of their vectors with that of a question. [D]"""

    # ------------------------------------------------------------------------------------------------- a database

    @abstractmethod
    def _run(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, with `?` where its values go. Returns: its rows."""

    @abstractmethod
    def _run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement without a result once for each row of values."""

    @abstractmethod
    def _new_ids(self, table: str, count: int) -> range:
        """Ids of new rows, which no row of the table ever had."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Statements that all happen, or none of them."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[None]:
        """Several statements that read one state of the database, whatever another process writes meanwhile."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Raise errors of the database as ours, with what to do."""

    @abstractmethod
    def _add_vectors(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        """Store the vectors of new passages. [n, D] float16"""

    @abstractmethod
    def _index_terms(self, listed: Sequence[tuple[int, list[str]]], remove: bool) -> None:
        """Add passages with their terms to the full-text index, or remove them."""

    @abstractmethod
    def _term_counts(self, asked: Sequence[str]) -> dict[str, int]:
        """In how many passages each of some terms is."""

    @abstractmethod
    def _stored_vectors(self, ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """Vectors as they are stored, each with its id; those that are gone are left out."""

    @abstractmethod
    def _has_metadata(self, column: str) -> str:
        """The condition that metadata in a column of JSON have a name (first value), and it this text (second)."""

    @abstractmethod
    def _names_in(self, column: str) -> str:
        """The rows, each with a `key`, of the names of metadata in a column of JSON."""

    @abstractmethod
    def _values_in(self, table: str) -> str:
        """The statement that gives different values, as texts, of a name in the metadata of a table; 10,000 at most."""

    @abstractmethod
    def _renew_index(self) -> None:
        """Make the approximate index, where there are enough vectors and it is missing or stale."""

    # ------------------------------------------------------------------------------------------------- writing

    def write(self, batches: Sequence[ContentBatch]) -> None:
        """Add passages, complete contents and point documents to them, in one transaction.

        A content to which no document points any more is not shown, and goes with `finish`.
        """
        with self._errors(), self._transaction():
            for batch in batches:
                self._write(batch)
            self._set(edition=self.edition + 1)

    def _write(self, batch: ContentBatch) -> None:
        key = storable(batch.content)
        rows = self._run("SELECT id, complete FROM contents WHERE hash = ?", (key,))
        if not rows:
            (content,), complete = self._new_ids("contents", 1), 0
            self._run(
                "INSERT INTO contents(id, hash, title, metadata, problem, complete) VALUES(?, ?, ?, ?, ?, 0)",
                (content, key, storable(batch.title), _json(batch.metadata), storable(batch.problem)),
            )
        else:
            content, complete = rows[0]
        if batch.passages:
            ids = self._new_ids("passages", len(batch.passages))
            self._run_many(
                "INSERT INTO passages"
                "(id, content, start, stop, line, page, page_starts, verbatim, headings, metadata, text) "
                "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (id, content, x.start, x.stop, x.line, x.page, _json(x.page_starts), int(x.verbatim), *texts)
                    for id, x in zip(ids, batch.passages, strict=True)
                    for texts in [(_json(x.headings), _json(x.metadata), storable(x.text))]
                ],
            )
            if batch.vectors is not None:
                self._add_vectors(ids, batch.vectors)
        if batch.complete and not complete:
            self._index_words(content)
            self._run("UPDATE contents SET complete = 1 WHERE id = ?", (content,))
        # The content that a name had stays until `finish`: another may get it, where files were renamed or swapped.
        self._run_many(
            "INSERT INTO documents(name, content) VALUES(?, ?) "
            "ON CONFLICT(name) DO UPDATE SET content = excluded.content",
            [(storable(name), content) for name in batch.names],
        )

    def _index_words(self, content: int, *, remove: bool = False) -> None:
        """Add the words of a content to the full-text index, which counts complete contents alone; or remove them."""
        last, passages, count = 0, self._get("passages"), self._get("terms")
        query = f"SELECT id, headings, text FROM passages WHERE content = ? AND id > ? ORDER BY id LIMIT {TOGETHER}"
        while rows := self._run(query, (content, last)):
            last = rows[-1][0]
            listed = [(id, self._terms(headings, text)) for id, headings, text in rows]
            self._index_terms(listed, remove)
            sign = -1 if remove else 1
            passages, count = passages + sign * len(rows), count + sign * sum(len(own) for _, own in listed)
        self._set(passages=passages, terms=count)

    def _drop_if_unused(self, content: int) -> None:
        if self._run("SELECT 1 FROM documents WHERE content = ? LIMIT 1", (content,)):
            return
        if self._run("SELECT complete FROM contents WHERE id = ?", (content,))[0][0]:
            self._index_words(content, remove=True)
        self._run("DELETE FROM vectors WHERE passage IN (SELECT id FROM passages WHERE content = ?)", (content,))
        self._run("DELETE FROM passages WHERE content = ?", (content,))
        self._run("DELETE FROM contents WHERE id = ?", (content,))

    def remove(self, names: Iterable[str]) -> None:
        """Remove documents, and the contents that only they had, in one transaction."""
        with self._errors(), self._transaction():
            for name in names:
                for (content,) in self._run("SELECT content FROM documents WHERE name = ?", (storable(name),)):
                    self._run("DELETE FROM documents WHERE name = ?", (storable(name),))
                    self._drop_if_unused(content)
            self._set(edition=self.edition + 1)

    def set_problems(self, problems: Iterable[tuple[str, str]]) -> None:
        """Replace the list of names that were not read, each with the reason."""
        rows = [(storable(name), storable(reason)) for name, reason in problems]
        with self._errors(), self._transaction():
            self._run("DELETE FROM problems")
            self._run_many("INSERT INTO problems(name, reason) VALUES(?, ?)", rows)

    def finish(self) -> None:
        """Make what is derived from the passages again where it is stale, such as an approximate index."""
        with self._errors(), self._transaction():  # of files that changed, or went before all passages were there
            unused = "SELECT id FROM contents WHERE id NOT IN (SELECT content FROM documents)"
            for (content,) in (gone := self._run(unused)):
                self._drop_if_unused(content)
            if gone:
                self._set(edition=self.edition + 1)
        self._renew_index()
        self.switch()

    def rename_model(self, settings: StoreSettings) -> None:
        """Note where the model of the store is now.

        Args:
            settings: that differ from those of the store in the name of the model, and rounding
        """
        if (settings.model, settings.revision) == (self.settings.model, self.settings.revision):
            return
        self.settings = replace(self.settings, model=settings.model, revision=settings.revision)
        with self._errors(), self._transaction():
            self._set(settings=plain(self.settings))

    # ------------------------------------------------------------------------------------------------- reading

    @property
    def edition(self) -> int:
        """A number that is another one after each change of passages."""
        return int(self._get("edition"))

    def dense_weight(self) -> float | None:
        """The weight of dense search in the fusion that was chosen for this store on queries; None = none was."""
        rows = self._all("SELECT value FROM settings WHERE name = ?", ("dense_weight",))
        return float(json.loads(rows[0][0])) if rows else None

    def set_dense_weight(self, weight: float) -> None:
        """Store the weight of dense search that the fusion has by default."""
        with self._errors(), self._transaction():
            self._set(dense_weight=weight)

    def documents(self) -> dict[str, str]:
        """Each document and its content."""
        rows = self._all("SELECT name, hash FROM documents JOIN contents ON contents.id = content")
        return dict(rows)

    def contents(self) -> dict[str, int]:
        """Contents, with how many passages of an incomplete one are there; -1 = it is complete."""
        rows = self._all(
            "SELECT hash, CASE WHEN complete = 1 THEN -1 ELSE "
            "(SELECT COUNT(*) FROM passages WHERE content = contents.id) END FROM contents"
        )
        return dict(rows)

    def problems(self) -> list[tuple[str, str]]:
        """Names that were not read, or not all of them, each with the reason."""
        rows = self._all("SELECT name, reason FROM problems")
        rows += self._all(
            "SELECT name, problem FROM documents JOIN contents ON contents.id = content WHERE problem != ''"
        )
        return sorted((name, reason) for name, reason in rows)

    def counts(self) -> Counts:
        """How much there is to search."""
        with_text = "SELECT COUNT(*) FROM documents WHERE content IN (SELECT content FROM passages)"
        documents, vectors = self._all(f"SELECT ({with_text}), (SELECT COUNT(*) FROM vectors)")[0]
        return Counts(documents, int(self._get("passages")), vectors)

    def matches(self, ids: Sequence[int]) -> list[PassageMatch]:
        """Passages by id, with their documents; without those that are gone. Scores are to be set."""
        with self._errors(), self._reading():
            rows = self._for_each(
                f"SELECT content, c.metadata, p.metadata, p.{', '.join(COLUMNS)}, CASE WHEN line = 0 AND page = 0 "
                "AND EXISTS (SELECT 1 FROM passages o WHERE o.content = p.content AND o.id <> p.id) "
                "THEN (SELECT COUNT(*) FROM passages n WHERE n.content = p.content AND n.id <= p.id) ELSE 0 END "
                "FROM passages p JOIN contents c ON c.id = content WHERE p.id IN ({})",
                ids,
            )
            names: dict[int, list[str]] = {}
            of_contents = "SELECT name, content FROM documents WHERE content IN ({}) ORDER BY name"
            for name, content in self._for_each(of_contents, [row[0] for row in rows]):
                names.setdefault(content, []).append(name)
        listed = {}
        for content, of_document, of_passage, *values in rows:
            if content in names:
                stored = dict(zip((*COLUMNS, "number"), values, strict=True))
                stored["page_starts"], stored["headings"] = map(json.loads, (stored["page_starts"], stored["headings"]))
                stored["verbatim"] = bool(stored["verbatim"])
                metadata = {**json.loads(of_document), **json.loads(of_passage)}
                file, *also = names[content]
                listed[stored["id"]] = PassageMatch(score=0.0, file=file, also=also, metadata=metadata, **stored)
        return [listed[id] for id in map(int, ids) if id in listed]

    def vectors(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Vectors of passages; a row of NaN = it is gone. [n, D] float16"""
        read = np.full((len(ids), self.settings.width), np.nan, np.float16)
        places = {int(id): place for place, id in enumerate(ids)}
        with self._errors(), self._reading():
            rows = self._stored_vectors(list(places))
        if rows:
            read[[places[id] for id, _ in rows]] = self._vectors_in([data for _, data in rows])
        return read

    def _vectors_in(self, stored: Sequence[bytes]) -> np.ndarray:
        """[n, D] float16, or that of the other byte order"""
        return np.frombuffer(b"".join(stored), self.NUMBERS).reshape(len(stored), self.settings.width)

    def term_scores(self, question: str, ids: Sequence[int]) -> list[list[WordScore]]:
        """Which terms of a question each of these passages has, and what they add to its score by `search_words`.

        Their words are the terms, without places in the text.
        """
        with self._errors(), self._reading():
            passages, total = self._get("passages"), self._get("terms")
            counts = self._term_counts(query_terms(question, self.settings.language))
            rows = self._for_each("SELECT id, headings, text FROM passages WHERE id IN ({})", ids)
            texts = {id: self._terms(headings, text) for id, headings, text in rows}
        weights = term_weights(passages, counts)
        return [
            [
                WordScore(word=x, term=x, passages=counts[x], idf=weights[x], count=tf, score=score)
                for x, tf, score in scores_by_term(texts.get(int(id), []), weights, total / max(1, passages))
            ]
            for id in ids
        ]

    def metadata_names(self) -> list[str]:
        """The names of the metadata that some document or passage has."""
        rows = self._all(
            f"SELECT key FROM contents c, {self._names_in('c.metadata')} "
            f"UNION SELECT key FROM passages p, {self._names_in('p.metadata')}"
        )
        return sorted(name for (name,) in rows)

    def metadata_values(self, name: str) -> list[str]:
        """Different values of a name of metadata, as a filter compares them: all of up to 10,000 of documents, and of
        passages."""
        rows = [row for table in ("contents", "passages") for row in self._all(self._values_in(table), (name,))]
        return sorted({value for (value,) in rows if value is not None})

    def neighbours(self, id: int, count: int = 1) -> tuple[list[PassageMatch], list[PassageMatch]]:
        """The passages before and after a passage in its document, in their order; none where it is gone."""
        sides = []
        for compared, order in (("<", "DESC"), (">", "ASC")):
            rows = self._all(
                "SELECT n.id FROM passages p JOIN passages n ON n.content = p.content "
                f"WHERE p.id = ? AND n.id {compared} p.id ORDER BY n.id {order} LIMIT ?",
                (id, count),
            )
            sides.append(self.matches(sorted(row[0] for row in rows)))
        return sides[0], sides[1]

    # ------------------------------------------------------------------------------------------------- below

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._errors(), self._lock:
            return self._run(query, values)

    def _for_each(self, query: str, ids: Sequence[int]) -> list[Any]:
        """The rows of a query for each of any number of ids, which go where it has `{}`."""
        distinct, rows = list(dict.fromkeys(map(int, ids))), []
        for start in range(0, len(distinct), TOGETHER):
            some = distinct[start : start + TOGETHER]
            rows += self._run(query.format(", ".join("?" * len(some))), some)
        return rows

    def _get(self, name: str) -> Any:
        return json.loads(self._all("SELECT value FROM settings WHERE name = ?", (name,))[0][0])

    def _set(self, **values: Any) -> None:
        self._run_many(
            "INSERT INTO settings(name, value) VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value",
            [(name, json.dumps(value)) for name, value in values.items()],
        )

    def _terms(self, headings: str, text: str) -> list[str]:
        """What the full-text index has of a passage: the terms of its headings and its text."""
        return terms(" ".join([*json.loads(headings), text]), self.settings.language)

    def _condition(self, only: Filter) -> tuple[str, list[Any]]:
        """The condition on passages `p` of a filter in SQL, and its values; "" = all."""
        parts, values = [], []
        if only.folder is not None:
            name = storable(only.folder).removeprefix("./").strip("/")
            if name not in ("", "."):
                parts.append("p.content IN (SELECT content FROM documents WHERE name = ? OR (name >= ? AND name < ?))")
                values += [name, f"{name}/", f"{name}0"]  # "0" follows "/"
        for key, value in only.where.items():
            of_passage = self._has_metadata("p.metadata")
            of_document = self._has_metadata("(SELECT metadata FROM contents WHERE id = p.content)")
            parts.append(f"({of_passage} OR {of_document})")
            values += [storable(key), storable(value)] * 2
        return " AND ".join(parts), values


def storable(text: str) -> str:
    """A text as any database takes it, and as long: without NUL and halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _json(value: Any) -> str:
    return json.dumps(_storable_all(plain(value)))


def _storable_all(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _storable_all(x) for name, x in value.items()}
    return [_storable_all(x) for x in value] if isinstance(value, list) else value
