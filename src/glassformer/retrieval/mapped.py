"""Files of arrays that are mapped into memory: safetensors, with what kind they are and their checksum as metadata.

What such a file holds is derived: one that is cut, damaged or of another version is refused in a sentence, and is made
again.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from glassformer.errors import DataError, WeightsError, warn_caller
from glassformer.files import safe_repr
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors


def write_arrays(path: Path, kind: str, arrays: Mapping[str, np.ndarray], unchecked: Collection[str] = ()) -> None:
    """Write arrays, atomically: readers see the old file or the new one; one that has it open keeps it.

    Args:
        kind: of file, and its version
        unchecked: arrays whose parts have their own checksums
    Raises: DataError: the disk refuses.
    """
    metadata = {"kind": kind, "crc32": _checksum(kind, arrays, unchecked)}
    with disk_errors(path, DataError, "the index"), atomic_file(path) as stream:
        write_tensors(stream, {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata)


def map_arrays(
    path: Path, kinds: Collection[str], unchecked: Collection[str] = ()
) -> tuple[str, dict[str, np.ndarray]]:
    """Map a file: its kind and its arrays, which may be written to in memory alone.

    Args:
        kinds: that are allowed
        unchecked: arrays whose parts have their own checksums
    Raises: DataError: no such file, or one that is cut, damaged, or of another kind or version.
    """
    try:
        with open_file(path) as file:
            kind, stored = (file.metadata.get(name, "") for name in ("kind", "crc32"))
            arrays = {name: file.read(name).numpy() for name in file.tensors}
    except WeightsError as error:
        raise damaged(path, str(error).removeprefix(f"{path}: ")) from error
    if stored != _checksum(kind, arrays, unchecked):
        raise damaged(path, "its arrays differ from their checksum")
    if kind not in kinds:
        raise DataError(f"{path}: cannot be searched: it is of the kind {safe_repr(kind)}; make the index again")
    return kind, arrays


def _checksum(kind: str, arrays: Mapping[str, np.ndarray], unchecked: Collection[str]) -> str:
    """Of the kind, and of the name, type, shape and numbers of each array."""
    checksum = zlib.crc32(kind.encode())
    for name, array in sorted(arrays.items()):
        checksum = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), checksum)
        checksum = checksum if name in unchecked else zlib.crc32(array.data, checksum)
    return str(checksum)


def damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path}: the index is damaged: {what}; make the index again")


class Verified(Protocol):
    """An index that can compare all of its file with its checksums. Raises: DataError."""

    def verify(self) -> None: ...


Index = TypeVar("Index", bound=Verified)


class DerivedFile(Generic[Index]):
    """The file of an index next to the database that it is derived from, named by the hash of what it was made from.

    Args:
        path: of all such files, without hash and suffix
        read: opens one; raises DataError where it is damaged
        search: what takes longer without an index
    """

    def __init__(self, path: Path, suffix: str, read: Callable[[Path], Index], search: str) -> None:
        self._path, self._suffix, self._read, self._search = path, suffix, read, search
        self._opened: tuple[str, Index] | None = None
        self._refused: set[tuple[str, int]] = set()

    def path(self, *made_from: np.ndarray) -> Path:
        digest = hashlib.sha256(b"".join(array.tobytes() for array in made_from)).hexdigest()[:12]
        return self._path.with_name(f"{self._path.name}-{digest}{self._suffix}")

    def files(self) -> list[Path]:
        """One, but while another replaces it."""
        return sorted(self._path.parent.glob(f"{self._path.name}-*{self._suffix}"))

    def open(self, name: str | None) -> Index | None:
        """The index of this name, opened once; None = there is none, or it is damaged."""
        if self._opened is None or self._opened[0] != name:
            self._opened = None
            for path in self.files():
                with suppress(FileNotFoundError):  # another process replaced it
                    if path.name == name and (name, path.stat().st_mtime_ns) not in self._refused:
                        try:
                            self._opened = name, self._read(path)
                        except DataError as error:
                            self.refuse(path, error)
        return None if self._opened is None else self._opened[1]

    def verified(self, name: str | None) -> Index | None:
        """The same, with all of its file read now, rather than what a search reads."""
        index = self.open(name)
        try:
            if index is not None:
                index.verify()
        except DataError as error:
            self.refuse(self._path.with_name(name or ""), error)
            return None
        return index

    def refuse(self, path: Path, error: DataError) -> None:
        """Do without a file from now on, and warn once: what it was made from is whole, and is searched instead."""
        self._opened = None
        with suppress(OSError):
            self._refused.add((path.name, path.stat().st_mtime_ns))
        warn_caller(f"{error}; until `glassformer index` makes it again, {self._search} takes longer")

    def remove_others(self, name: str | None) -> None:
        """Remove the files of earlier states, all but that of this name."""
        for path in self.files():
            if path.name != name:
                with suppress(OSError):  # another process has it open, and its system keeps it
                    path.unlink()
