"""Examples by number, kept as ragged arrays: in memory, or in files that are mapped into it.

    {"input_ids": [5, 8, 2], "labels": 1}        FOLDER/3f9a…/   store.json
    {"input_ids": [9, 2],    "labels": 0}                        input_ids.values    5 8 2 9 2
                                                                 input_ids.offsets   0 3 5
                                                                 labels.values       1 0

A store in a folder is found again by its key. It is written beside its place and moved there when it is whole; the
digest of every file is compared when it is opened, and a damaged one is made anew.
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

from glassformer.data.ragged import Column, RaggedWriter
from glassformer.errors import DataError
from glassformer.files import reason

VERSION = 1
ABOUT = "store.json"
MEASURED = ("input_ids", "decoder_input_ids")
TOGETHER = 1_000  # examples that are written at once


class Store:
    """Examples by number, each a dict of arrays and numbers.

        store = Store.make(examples, path=folder, key=rows.fingerprint + " of tokenizer " + digest)
        store[0]        {"input_ids": array([5, 8, 2], dtype=int32), "labels": 1}

    lengths: tokens of each: of `input_ids` and `decoder_input_ids` together; the number `length` of an example where it
        has one; 1 where there is neither. [N] int64
    fingerprint: another for other content
    """

    lengths: np.ndarray
    fingerprint: str

    def __init__(
        self, columns: Iterable[Column], arrays: Mapping[str, np.ndarray], digests: Mapping[str, str]
    ) -> None:
        self.columns = tuple(columns)
        self._arrays = dict(arrays)
        first = self.columns[0]
        self._count = len(arrays[first.offsets]) - 1 if first.ragged else len(arrays[first.values])
        shape = json.dumps([[astuple(column) for column in self.columns], sorted(digests.items())])
        self.fingerprint = hashlib.sha256(shape.encode()).hexdigest()
        self.lengths = self._measured()

    @classmethod
    def make(cls, examples: Iterable[Mapping[str, Any]], path: Path | None = None, key: str = "") -> Store:
        """Examples, kept; where `path` holds those of this key already, they are not asked for again.

        Args:
            examples: their columns are those of the first: a number, or an array of which only the first axis may
                differ. Lists of whole numbers become int32, other lists float32; arrays keep their type.
            path: a folder for stores, each in a folder of its own; None = in memory
            key: everything the examples depend on, such as the fingerprint of rows and of a tokenizer
        Raises: DataError: no example; one that is not like the first; no key; no space.
        """
        if path is None:
            return cls._in_memory(examples)
        if not key:
            raise DataError(
                "a store in a folder is found again by its key: everything the examples depend on"
            )
        place = path / hashlib.sha256(key.encode()).hexdigest()[:32]
        if (kept := cls._opened(place, key)) is not None:
            return kept
        try:
            path.mkdir(parents=True, exist_ok=True)
            _sweep(place)
            part = place.with_name(f"{place.name}.part.{socket.gethostname()}.{os.getpid()}")
            part.mkdir()
        except OSError as problem:
            raise _full(path, problem) from problem
        try:
            _write(examples, part, key)
            if cls._opened(place, key) is None:  # another process may have been faster
                shutil.rmtree(place, ignore_errors=True)
                part.rename(place)
        except OSError as problem:
            raise _full(path, problem) from problem
        finally:
            shutil.rmtree(part, ignore_errors=True)
        made = cls._opened(place, key)
        if made is None:
            raise DataError(f"{place}: reads back as something else than was written; look at the disk")
        return made

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -self._count <= index < self._count:
            raise IndexError(f"there is no example {index} among {self._count:,}")
        place = index % self._count
        found: dict[str, Any] = {}
        for column in self.columns:
            values = self._arrays[column.values]
            if column.ragged:
                start, end = self._arrays[column.offsets][place : place + 2]
                found[column.name] = np.array(
                    values[start:end]
                )  # a copy: who varies it does not vary the store
            else:
                found[column.name] = values[place].item()
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(self._count))

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name} ({column.dtype})" for column in self.columns)
        return f"{self._count:,} examples of {int(self.lengths.sum()):,} tokens: {columns}"

    def _measured(self) -> np.ndarray:
        known = {column.name: column for column in self.columns}
        if "length" in known and not known["length"].ragged:
            return np.array(self._arrays[known["length"].values], dtype=np.int64)
        found = [
            np.diff(self._arrays[known[name].offsets])
            for name in MEASURED
            if name in known and known[name].ragged
        ]
        return (
            sum(found, np.zeros(self._count, dtype=np.int64))
            if found
            else np.ones(self._count, dtype=np.int64)
        )

    @classmethod
    def _in_memory(cls, examples: Iterable[Mapping[str, Any]]) -> Store:
        held: dict[str, io.BytesIO] = {}
        writer = _fed(examples, lambda name, data: held.setdefault(name, io.BytesIO()).write(data))
        arrays = {
            name: np.frombuffer(held[name].getbuffer(), dtype=dtype).reshape(shape)
            for name, dtype, shape in _files(writer.columns)
        }
        return cls(writer.columns, arrays, writer.digests())

    @classmethod
    def _opened(cls, place: Path, key: str) -> Store | None:
        """The store at a place, if it is there, whole, and of this key."""
        try:
            about = json.loads((place / ABOUT).read_bytes())
            if about["version"] != VERSION or about["key"] != key:
                return None
            columns = [
                Column(name, dtype, ragged, tuple(shape)) for name, dtype, ragged, shape in about["columns"]
            ]
            arrays: dict[str, np.ndarray] = {}
            for name, dtype, shape in _files(columns):
                with (place / name).open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != about["digests"][name]:
                        return None
                    empty = os.fstat(file.fileno()).st_size == 0  # which no system maps
                flat = np.empty(0, dtype) if empty else np.memmap(place / name, dtype, mode="r")
                arrays[name] = np.asarray(flat).reshape(shape)  # a plain array is faster to cut
            return cls(columns, arrays, about["digests"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _write(examples: Iterable[Mapping[str, Any]], folder: Path, key: str) -> None:
    """All files of a store, on the disk when this returns; what says that they are whole comes last."""
    with ExitStack() as files:
        opened: dict[str, Any] = {}

        def write(name: str, data: bytes) -> None:
            if name not in opened:
                opened[name] = files.enter_context((folder / name).open("wb"))
            opened[name].write(data)

        writer = _fed(examples, write)
        for file in opened.values():
            file.flush()
            os.fsync(file.fileno())
    about = {
        "version": VERSION,
        "key": key,
        "columns": [astuple(column) for column in writer.columns],
        "digests": writer.digests(),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")


def _fed(examples: Iterable[Mapping[str, Any]], write: Any) -> RaggedWriter:
    stream = iter(examples)
    first = next(stream, None)
    if first is None:
        raise DataError("there is no example to keep: no row made one")
    writer = RaggedWriter(first, write)
    stream = chain([first], stream)
    while batch := list(islice(stream, TOGETHER)):
        writer.add(batch)
    return writer


def _files(columns: Iterable[Column]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The name, type and shape of each file of a store."""
    for column in columns:
        yield column.values, column.dtype, (-1, *column.shape)
        if column.ragged:
            yield column.offsets, "int64", (-1,)


def _sweep(place: Path) -> None:
    """Take away what a process that was killed had begun to write for this place."""
    if os.name != "posix":
        return  # elsewhere a process cannot be asked whether it lives without harming it
    for part in place.parent.glob(f"{place.name}.part.{socket.gethostname()}.*"):
        number = int(part.suffix[1:])
        if number != os.getpid():
            try:
                os.kill(number, 0)  # asks whether it lives, and sends nothing
            except ProcessLookupError:
                shutil.rmtree(part)
            except PermissionError:
                continue  # another user's, and alive
        else:
            shutil.rmtree(part)


def _full(path: Path, problem: OSError) -> DataError:
    return DataError(
        f"{path}: examples cannot be kept there: {reason(problem)}; make room, or name another folder"
    )
