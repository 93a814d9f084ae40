"""Example store: tokenised examples as ragged arrays, in memory or in memory-mapped files.

    {"input_ids": [5, 8, 2], "labels": 1}        FOLDER/3f9a…/   store.json
    {"input_ids": [9, 2],    "labels": 0}                        input_ids.values    5 8 2 9 2
                                                                 input_ids.offsets   0 3 5
                                                                 labels.values       1 0

A store in a folder is a cache entry, found by its key. It is written to a temporary folder and renamed when complete;
the digest of every file is checked when it is opened, and a damaged store is written again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.ragged import RaggedColumn, RaggedWriter
from glassformer.errors import DataError
from glassformer.files import error_reason

VERSION = 1
METADATA = "store.json"
LENGTH_COLUMNS = ("input_ids", "decoder_input_ids")
WRITE_BATCH = 1_000  # examples


class ExampleStore:
    """A sequence of examples, each a dict of arrays and numbers.

        store = Store.make(examples, path=folder, key=rows.fingerprint + " of tokenizer " + digest)
        store[0]        {"input_ids": array([5, 8, 2], dtype=int32), "labels": 1}

    lengths: tokens of each: of `input_ids` and `decoder_input_ids` together; the number `length` of an example where it
        has one; 1 where there is neither. [N] int64
    fingerprint: a hash of the content
    """

    lengths: np.ndarray
    fingerprint: str

    def __init__(
        self, columns: Iterable[RaggedColumn], arrays: Mapping[str, np.ndarray], digests: Mapping[str, str]
    ) -> None:
        self.columns = tuple(columns)
        self._arrays = dict(arrays)
        first = self.columns[0]
        self._count = len(arrays[first.offsets]) - 1 if first.ragged else len(arrays[first.values])
        shape = json.dumps([[astuple(column) for column in self.columns], sorted(digests.items())])
        self.fingerprint = hashlib.sha256(shape.encode()).hexdigest()
        self.lengths = self._example_lengths()

    @classmethod
    def make(
        cls, examples: Iterable[Mapping[str, Any]], path: Path | None = None, key: str = ""
    ) -> ExampleStore:
        """Store examples; where `path` holds those of this key already, the iterable is not consumed.

        Args:
            examples: their columns are those of the first: a number, or an array of which only the first axis may
                differ. Lists of whole numbers become int32, other lists float32; arrays keep their type.
            path: a cache folder, with a subfolder for each store; None = in memory
            key: everything the examples depend on, such as the fingerprint of rows and of a tokenizer
        Raises: DataError: no example; one with other columns than the first; no key; disk full.
        """
        if path is None:
            return cls._in_memory(examples)
        if not key:
            raise DataError(
                "a store in a folder is found again by its key: everything the examples depend on"
            )
        folder = path / hashlib.sha256(key.encode()).hexdigest()[:32]
        if (cached := cls._open(folder, key)) is not None:
            return cached
        try:
            path.mkdir(parents=True, exist_ok=True)
            _remove_stale(folder)
            part = folder.with_name(f"{folder.name}.part.{socket.gethostname()}.{os.getpid()}")
            part.mkdir()
        except OSError as problem:
            raise _write_error(path, problem) from problem
        try:
            _write(examples, part, key)
            if cls._open(folder, key) is None:  # another process may have been faster
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
        except OSError as problem:
            raise _write_error(path, problem) from problem
        finally:
            shutil.rmtree(part, ignore_errors=True)
        store = cls._open(folder, key)
        if store is None:
            raise DataError(f"{folder}: reads back as something else than was written; look at the disk")
        return store

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -self._count <= index < self._count:
            raise IndexError(f"there is no example {index} among {self._count:,}")
        position = index % self._count
        example: dict[str, Any] = {}
        for column in self.columns:
            values = self._arrays[column.values]
            if column.ragged:
                start, end = self._arrays[column.offsets][position : position + 2]
                example[column.name] = np.array(
                    values[start:end]
                )  # a copy: callers may change it, the store is shared
            else:
                example[column.name] = values[position].item()
        return example

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(self._count))

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name} ({column.dtype})" for column in self.columns)
        return f"{self._count:,} examples of {int(self.lengths.sum()):,} tokens: {columns}"

    def _example_lengths(self) -> np.ndarray:
        known = {column.name: column for column in self.columns}
        if "length" in known and not known["length"].ragged:
            return np.array(self._arrays[known["length"].values], dtype=np.int64)
        lengths = [
            np.diff(self._arrays[known[name].offsets])
            for name in LENGTH_COLUMNS
            if name in known and known[name].ragged
        ]
        return (
            sum(lengths, np.zeros(self._count, dtype=np.int64))
            if lengths
            else np.ones(self._count, dtype=np.int64)
        )

    @classmethod
    def _in_memory(cls, examples: Iterable[Mapping[str, Any]]) -> ExampleStore:
        buffers: dict[str, io.BytesIO] = {}
        writer = _write_columns(
            examples, lambda name, data: buffers.setdefault(name, io.BytesIO()).write(data)
        )
        arrays = {
            name: np.frombuffer(buffers[name].getbuffer(), dtype=dtype).reshape(shape)
            for name, dtype, shape in _files(writer.columns)
        }
        return cls(writer.columns, arrays, writer.digests())

    @classmethod
    def _open(cls, folder: Path, key: str) -> ExampleStore | None:
        """Open the store in a folder; None if it is missing, damaged or of another key."""
        try:
            metadata = json.loads((folder / METADATA).read_bytes())
            if metadata["version"] != VERSION or metadata["key"] != key:
                return None
            columns = [
                RaggedColumn(name, dtype, ragged, tuple(shape))
                for name, dtype, ragged, shape in metadata["columns"]
            ]
            arrays: dict[str, np.ndarray] = {}
            for name, dtype, shape in _files(columns):
                with (folder / name).open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != metadata["digests"][name]:
                        return None
                    empty = os.fstat(file.fileno()).st_size == 0  # an empty file cannot be mapped
                flat = np.empty(0, dtype) if empty else np.memmap(folder / name, dtype, mode="r")
                arrays[name] = np.asarray(flat).reshape(shape)  # a plain array slices faster than a memmap
            return cls(columns, arrays, metadata["digests"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _write(examples: Iterable[Mapping[str, Any]], folder: Path, key: str) -> None:
    """Write all files of a store, flushed to disk; the metadata file comes last, as it marks the store as complete."""
    with ExitStack() as files:
        opened: dict[str, Any] = {}

        def write(name: str, data: bytes) -> None:
            if name not in opened:
                opened[name] = files.enter_context((folder / name).open("wb"))
            opened[name].write(data)

        writer = _write_columns(examples, write)
        for file in opened.values():
            file.flush()
            os.fsync(file.fileno())
    metadata = {
        "version": VERSION,
        "key": key,
        "columns": [astuple(column) for column in writer.columns],
        "digests": writer.digests(),
    }
    (folder / METADATA).write_text(json.dumps(metadata, indent=1), encoding="utf-8")


def _write_columns(examples: Iterable[Mapping[str, Any]], write: Any) -> RaggedWriter:
    stream = iter(examples)
    first = next(stream, None)
    if first is None:
        raise DataError("there is no example to store: no row made one")
    writer = RaggedWriter(first, write)
    stream = chain([first], stream)
    while batch := list(islice(stream, WRITE_BATCH)):
        writer.add(batch)
    return writer


def _files(columns: Iterable[RaggedColumn]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The name, type and shape of each file of a store."""
    for column in columns:
        yield column.values, column.dtype, (-1, *column.shape)
        if column.ragged:
            yield column.offsets, "int64", (-1,)


def _remove_stale(folder: Path) -> None:
    """Remove temporary folders that killed processes left for this store."""
    if os.name != "posix":
        return  # on Windows os.kill(pid, 0) would end the process
    for part in folder.parent.glob(f"{folder.name}.part.{socket.gethostname()}.*"):
        pid = int(part.suffix[1:])
        if pid != os.getpid():
            try:
                os.kill(pid, 0)  # signal 0 only checks that the process exists
            except ProcessLookupError:
                shutil.rmtree(part)
            except PermissionError:
                continue  # another user's, and alive
        else:
            shutil.rmtree(part)


def _write_error(path: Path, problem: OSError) -> DataError:
    return DataError(
        f"{path}: examples cannot be stored there: {error_reason(problem)}; make room, or name another folder"
    )
