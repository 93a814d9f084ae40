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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from glassformer.data.sequence import type_name
from glassformer.errors import DataError
from glassformer.files import (
    check_link,
    error_reason,
    file_sha256,
    open_regular_file,
    read_json_object,
    safe_repr,
)
from glassformer.files.atomic import remove_folder

VERSION = 1
METADATA = "store.json"
LENGTH_COLUMNS = ("input_ids", "decoder_input_ids")
WRITE_BATCH = 1_000  # examples
NUMBERS = "biuf"  # dtype kinds: boolean, signed and unsigned integer, float


class ExampleStore:
    """A sequence of examples, each a dict of arrays and numbers.

        store = ExampleStore.make(examples, path=folder, key=rows.fingerprint + " of tokenizer " + digest)
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
    def make(cls, examples: Iterable[Mapping[str, Any]], path: Path | None = None, key: str = "") -> ExampleStore:
        """Store examples; where `path` holds those of this key already, the iterable is not consumed.

        Args:
            examples: their columns are those of the first: a number, or an array of which only the first axis may
                differ. Lists of whole numbers become int32, other lists float32; arrays keep their type.
            path: a cache folder, with a subfolder for each store; None = in memory
            key: everything the examples depend on, such as the fingerprint of rows and of a tokenizer
        Raises: DataError: no example; one with other columns than the first; no key; disk full.
        """
        if path is None:
            buffers: dict[str, io.BytesIO] = {}
            columns, digests = _write(examples, lambda name: buffers.setdefault(name, io.BytesIO()))
            return cls(columns, _arrays(columns, lambda name, _: buffers[name].getbuffer()), digests)
        if not key:
            raise DataError("a store in a folder is found again by its key: everything the examples depend on")
        folder = path / hashlib.sha256(key.encode()).hexdigest()[:32]
        if (cached := cls._open(folder, key)) is not None:
            return cached
        part = folder.with_name(f"{folder.name}.part.{socket.gethostname()}.{os.getpid()}")
        try:
            path.mkdir(parents=True, exist_ok=True)
            _remove_stale(folder)
            part.mkdir()
            _write_folder(examples, part, key)
            if cls._open(folder, key) is None:  # another process may have been faster
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
        except OSError as problem:
            raise DataError(
                f"{path}: examples cannot be stored there: {error_reason(problem)}; make room, or name another folder"
            ) from problem
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
                # a copy: callers may change it, the store is shared
                example[column.name] = np.array(values[start:end])
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
        ragged = [known[name].offsets for name in LENGTH_COLUMNS if name in known and known[name].ragged]
        lengths = np.zeros(self._count, dtype=np.int64) if ragged else np.ones(self._count, dtype=np.int64)
        for offsets in ragged:
            lengths += np.diff(self._arrays[offsets])
        return lengths

    @classmethod
    def _open(cls, folder: Path, key: str) -> ExampleStore | None:
        """Open the store in a folder; None if it is missing, damaged or of another key."""

        def mapped(name: str, dtype: str) -> Any:
            check_link(folder, folder / name, DataError)
            file, size = open_regular_file(folder / name, DataError)
            with file:
                if file_sha256(file) != metadata["digests"][name]:
                    raise ValueError("damaged")
                return np.memmap(file, dtype, mode="r") if size else b""  # an empty file cannot be mapped

        try:
            metadata = read_json_object(folder / METADATA, DataError)
            if metadata["version"] != VERSION or metadata["key"] != key:
                return None
            columns = [RaggedColumn.read(*column) for column in metadata["columns"]]
            return cls(columns, _arrays(columns, mapped), metadata["digests"])
        except (DataError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None


@dataclass(frozen=True)
class RaggedColumn:
    """A column of examples: a number each, or (`ragged`) an array each, of which only the first axis may differ.

    Arrays are stored end to end, [5 8 2] [9 2] as values 5 8 2 9 2 and offsets 0 3 5.

    shape: of the other axes
    """

    name: str
    dtype: str
    ragged: bool
    shape: tuple[int, ...] = ()

    @property
    def values(self) -> str:
        """The file of all values."""
        return f"{self.name}.values"

    @property
    def offsets(self) -> str:
        """The file of the offsets at which arrays begin."""
        return f"{self.name}.offsets"

    @classmethod
    def read(cls, name: str, dtype: str, ragged: bool, shape: Sequence[int]) -> RaggedColumn:
        """A column as the metadata of a store describes it.

        Raises: TypeError, ValueError: something else than was written, such as a type that is not numeric: bytes of a
            file that are taken for Python's objects would be anything.
        """
        if np.dtype(dtype).kind not in NUMBERS or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"no column of numbers: {safe_repr([name, dtype, shape])}")
        return cls(str(name), dtype, bool(ragged), tuple(shape))

    @classmethod
    def of(cls, name: str, value: Any) -> RaggedColumn:
        """Infer a column from its first value. Raises: DataError: it is not numeric."""
        array = _numbers(value, name, "the first example")
        typed = isinstance(value, (np.ndarray, np.generic))
        if array.ndim and not typed:  # a list has no dtype: whole numbers are ids, others weights
            dtype = {"b": "bool", "f": "float32"}.get(array.dtype.kind if array.size else "i", "int32")
        else:
            dtype = array.dtype.newbyteorder("=").name
        return cls(name, dtype, array.ndim > 0, array.shape[1:])

    def array(self, value: Any, where: str) -> np.ndarray:
        """A value as an array of this column. Raises: DataError: another rank, shape or dtype, or overflow."""
        array = _numbers(value, self.name, where)
        if (array.ndim > 0) != self.ragged or array.shape[1:] != self.shape:
            expected = _shape("n", *self.shape) if self.ragged else _shape()
            raise DataError(
                f"{where}: {self.name!r} has shape {_shape(*array.shape)}, and before it {expected}; "
                "only the first axis may differ"
            )
        cast = array.astype(self.dtype)
        if array.size and array.dtype != cast.dtype:
            fits = np.can_cast(array.dtype, cast.dtype, "same_kind")
            if not fits or (cast.dtype.kind in "iu" and bool((cast != array).any())):
                raise DataError(
                    f"{where}: {self.name!r} is {safe_repr(value)}, which is no {self.dtype}, as the first "
                    "example's is; give arrays of one type"
                )
        return cast


def _checked(example: Any, number: int) -> Mapping[str, Any]:
    """An example as it is. Raises: DataError: it is none, with its number."""
    if isinstance(example, Mapping) and all(isinstance(name, str) for name in example):
        return example
    raise DataError(
        f"example {number} is {safe_repr(example)}, {type_name(example)}; an example is a dict of names and arrays or "
        "numbers, such as {'input_ids': [5, 8, 2]}"
    )


def _write(
    examples: Iterable[Mapping[str, Any]], open_file: Callable[[str], BinaryIO]
) -> tuple[list[RaggedColumn], dict[str, str]]:
    """Write examples column by column, a batch at a time. Returns: the columns, and file → digest of its bytes."""
    stream = map(_checked, examples, count())
    if (first := next(stream, None)) is None:
        raise DataError("there is no example to store: no row made one")
    if not first:
        raise DataError("the first example is empty; it needs at least one array or number")
    columns = [RaggedColumn.of(name, value) for name, value in first.items()]
    files: dict[str, BinaryIO] = {}
    digests: dict[str, Any] = {}

    def append(name: str, array: np.ndarray) -> None:
        if name not in files:
            files[name], digests[name] = open_file(name), hashlib.sha256()
        data = array.tobytes()
        digests[name].update(data)
        files[name].write(data)

    ends = {column.name: 0 for column in columns if column.ragged}
    for column in columns:
        if column.ragged:
            append(column.offsets, np.zeros(1, dtype=np.int64))
    numbered = enumerate(chain([first], stream))
    while batch := list(islice(numbered, WRITE_BATCH)):
        for number, example in batch:
            if example.keys() != first.keys():
                raise DataError(
                    f"example {number} has {', '.join(example)}, and the first has {', '.join(first)}; "
                    "all must have the same"
                )
        for column in columns:
            arrays = [column.array(example[column.name], f"example {number}") for number, example in batch]
            append(column.values, np.concatenate(arrays) if column.ragged else np.stack(arrays))
            if column.ragged:
                offsets = ends[column.name] + np.cumsum([len(array) for array in arrays], dtype=np.int64)
                ends[column.name] = int(offsets[-1])
                append(column.offsets, offsets)
    return columns, {name: digest.hexdigest() for name, digest in digests.items()}


def _write_folder(examples: Iterable[Mapping[str, Any]], folder: Path, key: str) -> None:
    """Write all files of a store, flushed to disk; the metadata file comes last, as it marks the store as complete."""
    files: list[BinaryIO] = []
    with ExitStack() as stack:

        def open_file(name: str) -> BinaryIO:
            files.append(stack.enter_context((folder / name).open("wb")))
            return files[-1]

        columns, digests = _write(examples, open_file)
        # Flushed before the rename: after a power loss, a folder of that name could else hold empty files.
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    metadata = {"version": VERSION, "key": key, "columns": [astuple(column) for column in columns]}
    (folder / METADATA).write_text(json.dumps({**metadata, "digests": digests}, indent=1), encoding="utf-8")


def _arrays(columns: Iterable[RaggedColumn], read: Callable[[str, str], Any]) -> dict[str, np.ndarray]:
    """File → its array. A plain array, as it slices faster than a memmap."""
    arrays: dict[str, np.ndarray] = {}
    for column in columns:
        values = np.frombuffer(read(column.values, column.dtype), column.dtype)
        arrays[column.values] = values.reshape(-1, *column.shape)
        if column.ragged:
            offsets = arrays[column.offsets] = np.frombuffer(read(column.offsets, "int64"), "int64")
            if offsets[0] != 0 or offsets[-1] != len(arrays[column.values]) or (np.diff(offsets) < 0).any():
                raise ValueError(f"{column.offsets} does not divide its values")
    if len({len(arrays[x.offsets]) - 1 if x.ragged else len(arrays[x.values]) for x in columns}) != 1:
        raise ValueError("columns of different lengths")
    return arrays


def _remove_stale(folder: Path) -> None:
    """Remove temporary folders that killed processes left for this store."""
    if os.name != "posix":
        return  # on Windows os.kill(pid, 0) would end the process
    for part in folder.parent.glob(f"{folder.name}.part.{socket.gethostname()}.*"):
        pid = part.suffix[1:]
        if pid.isdecimal() and (int(pid) == os.getpid() or not _is_running(int(pid))):
            remove_folder(part)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def _numbers(value: Any, name: str, where: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in NUMBERS:
        raise DataError(f"{where}: {name!r} is {safe_repr(value)}; it must be a number, or an array of numbers")
    return array


def _shape(*sizes: object) -> str:
    return f"[{', '.join(map(str, sizes))}]" if sizes else "of a number"
