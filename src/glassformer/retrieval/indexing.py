"""Indexing: bring a store up to date with a folder.

    file ──hash──> known: its name points to that content          unchanged, renamed, copied: nothing is embedded
                   new:   read ──> split ──> embed ──> written     in batches, each a transaction
    names that the folder has no more go at the end

Killed at any time, it loses the batch at hand; the next run continues there.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, counted
from glassformer.files.schema import Schema, given
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.retrieval.document import Document
from glassformer.retrieval.embedder import PassageEmbedder, settings_of, unloadable
from glassformer.retrieval.folder import FolderFile, Skipped, content_hash, walk
from glassformer.retrieval.formats import read_document
from glassformer.retrieval.opening import open_store, store_exists, store_folder, writing_store
from glassformer.retrieval.options import (
    DEFAULT_MODEL,
    NO_MODEL,
    DocumentOptions,
    PassageOptions,
    StoreOptions,
    WorkerOptions,
)
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.postgres_database import shown_address
from glassformer.retrieval.splitter import Cutter, split
from glassformer.retrieval.store import ContentBatch, Store, StoreSettings
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer

Embed = Callable[[Iterable[list[str]]], Iterator[np.ndarray]]

BATCH_PASSAGES = 512
"""Passages that are embedded and written together: some seconds of work, and long enough batches for the encoder."""


@dataclass(frozen=True, kw_only=True)
class Unread(Schema):
    """A file that was not read, or not all of it."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreReport(Report, kind="store"):
    """What a store holds, and what the last indexing did.

    store: its folder, or its address
    document_count, passage_count: of those that can be searched
    model: that embedded them; None = search by words alone
    changes: files by what became of them: added, changed, renamed, unchanged, removed, made again
    embedded: passages that were embedded
    seconds: that it took; 0 = nothing was indexed
    replaced: why the passages of all files were made again, such as another size; "" = they were not
    warning: what may be wrong with the store as a whole; "" = nothing
    unread: files that were not read, or not all of them
    max_bytes, max_seconds: of a file, by which the last indexing read it; None = nothing was indexed
    """

    store: str
    document_count: int
    passage_count: int
    model: str | None
    changes: dict[str, int] = field(default_factory=dict)
    embedded: int = 0
    seconds: float = 0.0
    replaced: str = ""
    warning: str = ""
    unread: list[Unread] = field(default_factory=list)
    max_bytes: int | None = None
    max_seconds: float | None = None

    @property
    def caption(self) -> str:
        by = "words alone" if self.model is None else f"words, and meaning by {self.model}"
        size = f"{counted(self.document_count, 'document')}, {counted(self.passage_count, 'passage')}"
        return f"{self.store}: {size}; search by {by}"

    @property
    def notes(self) -> list[str]:
        again = f"all passages were made again: {self.replaced}" if self.replaced else ""
        limited = any("the limit" in unread.reason for unread in self.unread)
        limits = "max_bytes= N and seconds= N raise these limits" if limited else ""
        return [*filter(None, [self.warning]), *self._done(), *filter(None, [again, limits])]

    def _done(self) -> list[str]:
        """What the last indexing did, if there was one."""
        if not self.seconds:
            return []
        changes = ", ".join(f"{count:,} {what}" for what, count in self.changes.items() if count)
        if not changes and not self.unread:
            return [
                "there are no files in the folder, or all are left out: by .gitignore, or names that begin with a dot"
            ]
        embedded = "" if self.model is None else f"; {counted(self.embedded, 'passage')} embedded"
        return [f"files: {changes or 'none'}{embedded}; {self.seconds:.1f} s"]

    def tables(self) -> list[Table]:
        rows = [[unread.file, unread.reason] for unread in self.unread]
        return [Table(["not read, or not all of it", "reason"], rows, left=2)] if rows else []


def report_of(store: Store, where: str | Path, **done: object) -> StoreReport:
    """What a store holds."""
    counts = store.counts()
    unread = [Unread(file=name, reason=reason) for name, reason in store.problems()]
    return StoreReport(
        store=shown_address(where), document_count=counts.documents, passage_count=counts.passages,
        model=store.settings.model, unread=unread, **done,  # type: ignore[arg-type] # the fields that say what was done
    )  # fmt: skip


def index_folder(
    folder: str | Path,
    store: str | Path,
    model: Model | None = None,
    *,
    options: StoreOptions | None = None,
    files: DocumentOptions | None = None,
    revision: str | None = None,
    workers: WorkerOptions | None = None,
    loading: Mapping[str, Any] | None = None,
    bar: Bar = no_bar,
) -> StoreReport:
    """Index the documents of a folder into a store, or bring a store up to date with it.

    Args:
        folder: of the documents
        store: a folder, made where it is not there; or the address of a PostgreSQL database
        model: embeds passages; None = search by words alone
        options: of passages; `options.model`: how the model is called in the store
        files: which are read
        revision: of the model on the Hub, for those who search
        workers: embed instead of this process
        loading: keywords of `load` with which workers load the model
        bar: shows progress by files
    Raises:
        DataError: there is no such folder, no file in it while the store has documents, or the disk is full
        ConfigError: another process is indexing
    """
    root = as_path(folder).expanduser()
    if not root.is_dir():
        kind = "not a folder" if root.exists() else "no such folder"
        raise DataError(f"{folder}: {kind}; give the folder of your documents")
    own = store_folder(store)
    if own is not None and root.resolve().is_relative_to(own.resolve()):
        raise DataError(
            f"{store}: the documents are in this folder; give the store one of its own, such as {folder}.store"
        )
    options, files = options or StoreOptions(), files or DocumentOptions()
    settings = _as_the_store_names_it(settings_of(options, model, revision), options, store)
    tokenizer = counting_words() if model is None else model.tokenizer
    Cutter(tokenizer, options, settings.prompt)  # a size that cannot be is refused before anything is written
    with writing_store(store, settings) as opened:
        embed: Embed | None = None if model is None else PassageEmbedder(model, settings).groups
        if embed is not None and workers is not None and (workers.workers or workers.ray):
            from glassformer.retrieval.ray_embedding import RayEmbedder

            how = {"revision": settings.revision, **(loading or {})}
            embed = RayEmbedder(settings, workers, settings.model or "", how)
        with closing(open_store(store)) as answering:
            same = answering.settings.continues(opened.settings)
            replaced = "" if same else opened.settings.differences(answering.settings)
            documents = {} if same else answering.documents()
        indexing = Indexing(opened, tokenizer, embed, files, documents)
        start = time.perf_counter()
        indexing.run(root, bar, leave_out=own)
        return report_of(
            opened, store, changes=dict(indexing.changes), embedded=indexing.embedded,
            seconds=time.perf_counter() - start, replaced=replaced, warning=opened.settings.stems_note(),
            max_bytes=files.max_bytes, max_seconds=files.seconds,
        )  # fmt: skip


def _as_the_store_names_it(settings: StoreSettings, options: StoreOptions, store: str | Path) -> StoreSettings:
    """Settings with the name that a store has for their model, where no other is given: a Hub name rather than the
    folder on this machine that it was loaded from; a folder that is gone gets the new name."""
    if settings.model is None or options.model is not None or not store_exists(store):
        return settings
    with closing(open_store(store)) as opened:
        there = opened.settings
    gone = there.model is None or (as_path(there.model).is_absolute() and not as_path(there.model).is_dir())
    if gone or not settings.continues(there):
        return settings
    return replace(settings, model=there.model, revision=settings.revision or there.revision)


class Indexing:
    """One run over a folder.

    Args:
        tokenizer: by whose tokens passages are cut
        embed: gives the vectors of each group of passages, which may be read far ahead; None = passages get no vectors
        replaced: documents of a store of other settings that answers until this one is complete, with their contents
    """

    def __init__(
        self, store: Store, tokenizer: Tokenizer, embed: Embed | None, files: DocumentOptions, replaced: dict[str, str]
    ) -> None:
        self.store, self.tokenizer, self.embed, self.files, self.replaced = store, tokenizer, embed, files, replaced
        self.changes: Counter[str] = Counter()
        self.embedded = 0
        self._moved: Counter[str] = Counter()  # contents of names that are gone

    def run(self, root: Path, bar: Bar = no_bar, *, leave_out: Path | None = None) -> None:
        """Bring the store up to date with a folder."""
        before, contents = self.store.documents(), self.store.contents()
        listed = list(_files(root, self.files, leave_out))
        problems: list[tuple[str, str]] = [(x.name, x.reason) for x in listed if isinstance(x, Skipped)]
        present = [x for x in listed if isinstance(x, FolderFile)]
        known = {**self.replaced, **before}
        if known and not present:
            raise DataError(
                f"{root}: there is no file to read in it, and the store has {counted(len(known), 'document')} of it, "
                "which stay: is its disk there, does no pattern leave all out? Remove the store where they are to go"
            )
        gone = set(known) - {file.name for file in present} - _unknown(listed, known)
        self._moved = Counter(known[name] for name in gone)
        with bar("indexing", len(present)) as advance:
            batches = self._batches(present, before, contents, problems, gone, advance)
            for group in self._with_vectors(_grouped(batches)):
                self.store.write(group)
        self.store.remove(sorted(gone & set(before)))
        self.changes["removed"] += len(gone) - self.changes["renamed"]
        self.store.set_problems(problems)
        self.store.finish()

    def _batches(
        self,
        present: Iterable[FolderFile],
        before: Mapping[str, str],
        contents: dict[str, int],
        problems: list[tuple[str, str]],
        gone: set[str],
        advance: Callable[[int], None],
    ) -> Iterator[ContentBatch]:
        """What is to be written of each file; those that were not read are added to `problems`, and to `gone`."""
        for file in present:
            try:
                content = content_hash(file.path) + Path(file.name).suffix.lower()
            except DataError as problem:
                problems.append((file.name, reason_of(problem, file)))
            else:
                if reason := (yield from self._placed(file, content, before.get(file.name), contents)):
                    problems.append((file.name, reason))
                    gone |= {file.name} & {*before, *self.replaced}  # what it was before is not what it is
            advance(1)

    def _placed(
        self, file: FolderFile, content: str, was: str | None, contents: dict[str, int]
    ) -> Generator[ContentBatch, None, str]:
        """A name that points to its content, which is read if it is new. Returns: why it cannot be read, or nothing."""
        if was == content:
            self.changes["unchanged"] += 1
            return ""
        if contents.get(content) == -1:
            yield ContentBatch(content, names=[file.name])
        else:
            try:
                document = read_document(file.path, self.files)
            except DataError as error:
                return reason_of(error, file)
            yield from self._split(document, file, content, already=contents.get(content, 0))
            contents[content] = -1
        was = was or self.replaced.get(file.name)
        moved = was is None and self._moved[content] > 0
        self._moved[content] -= moved
        same = was == content  # and another size or model
        self.changes["renamed" if moved else "made again" if same else "changed" if was else "added"] += 1
        return ""

    def _split(self, document: Document, file: FolderFile, content: str, already: int) -> Iterator[ContentBatch]:
        """The passages of a document.

        Args:
            already: passages of it that the store has
        """
        settings = self.store.settings
        options = PassageOptions(size=settings.size, overlap=settings.overlap, language=settings.language)
        passages = split(document, self.tokenizer, options, prompt=settings.prompt)
        about = {"title": document.title, "metadata": document.metadata, "problem": " ".join(document.notes)}
        batch: list[Passage] = []
        for number, passage in enumerate(passages):
            if number < already:
                continue
            batch.append(passage)
            if len(batch) >= BATCH_PASSAGES:
                yield ContentBatch(content, batch, complete=False, **about)  # type: ignore[arg-type]
                batch = []
        yield ContentBatch(content, batch, names=[file.name], **about)  # type: ignore[arg-type]

    def _with_vectors(self, groups: Iterable[list[ContentBatch]]) -> Iterator[list[ContentBatch]]:
        """The same groups, with the vectors of their passages."""
        if self.embed is None:
            yield from groups
            return
        waiting: deque[list[ContentBatch]] = deque()

        def texts() -> Iterator[list[str]]:
            for group in groups:
                waiting.append(group)
                yield [passage.embedded() for batch in group for passage in batch.passages]

        for vectors in self.embed(texts()):
            start, group = 0, waiting.popleft()
            for number, batch in enumerate(group):
                if batch.passages:
                    group[number] = batch._replace(vectors=vectors[start : start + len(batch.passages)])
                    start += len(batch.passages)
            self.embedded += start
            yield group


def _grouped(batches: Iterable[ContentBatch]) -> Iterator[list[ContentBatch]]:
    """Batches that are embedded together, and written in one transaction."""
    group: list[ContentBatch] = []
    passages = 0
    for batch in batches:
        group.append(batch)
        passages += len(batch.passages)
        if passages >= BATCH_PASSAGES or len(group) >= BATCH_PASSAGES:
            yield group
            group, passages = [], 0
    if group:
        yield group


def counting_words() -> Tokenizer:
    """A tokenizer whose tokens are words, for passages that no model reads."""
    return train_tokenizer(["words"], kind="words", at_most=True)


def reason_of(problem: DataError, file: FolderFile) -> str:
    """Why a file was not read, without its path, which is listed with it."""
    return str(problem).removeprefix(f"{file.path}: ")


def _files(root: Path, options: DocumentOptions, leave_out: Path | None) -> Iterator[FolderFile | Skipped]:
    """The files of a folder, without those of the store, which may lie in it."""
    inside = None if leave_out is None else Path(os.path.realpath(leave_out))
    for entry in walk(root, options):
        # `Path.resolve` raises where links lead in a circle, before Python 3.13.
        if inside is None or not Path(os.path.realpath(root / entry.name)).is_relative_to(inside):
            yield entry


def _unknown(listed: Iterable[FolderFile | Skipped], names: Iterable[str]) -> set[str]:
    """The names of files that the system refused to show, or whose folder it refused to list: are they gone?"""
    places = [x.name for x in listed if isinstance(x, Skipped) and x.unknown]
    folders = tuple("" if place == "." else f"{place}/" for place in places)
    return {name for name in names if name in places or name.startswith(folders)}


def model_and_options(
    store: str | Path, options: StoreOptions, **loading: Any
) -> tuple[Model | None, StoreOptions, str]:
    """The model of an index and its options: what is not given is as in a store that is there already.

    Args:
        options: `model`: NO_MODEL = search by words alone; None = that of the store, or the default model
        loading: keywords of `load`
    Returns: the model, the options, and a note where the default model cannot be had.
    Raises: DataError, ConfigError: the model cannot be loaded.
    """
    wanted = options.model
    if store_exists(store):
        with closing(open_store(store)) as opened:
            settings = opened.settings
        there = {name: getattr(settings, name) for name in ("size", "overlap", "language")}
        options = StoreOptions(**{**there, "model": settings.model or NO_MODEL, **given(options)})
    if options.model == NO_MODEL:
        return None, replace(options, model=None), ""
    name = options.model or DEFAULT_MODEL
    try:
        model = load(name, **loading)
        if as_path(name).expanduser().is_dir():  # so that a search in another folder has it
            name = str(as_path(name).expanduser().resolve())
        return model, replace(options, model=name), ""
    except (DataError, ConfigError) as error:
        if wanted is not None:
            raise
        if options.model is not None:
            raise unloadable(name, error, f"model= {NO_MODEL}") from error
        remark = (
            f"search is by words alone: the model {DEFAULT_MODEL} is not on this machine ({error}); for search by "
            "meaning give a sentence encoder: model= FOLDER"
        )
        return None, options, remark
