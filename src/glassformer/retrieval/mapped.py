"""Files of arrays that are mapped into memory: a header, then each array at a multiple of 64 bytes, with checksums.

    magic · length and checksum of the header · header (JSON) · array · array · …

Sizes are in the header, and the place of each array follows from them. What such a file holds is derived: one that is
cut, damaged or of another version is refused in a sentence, and is made again.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

import numpy as np

from glassformer.errors import ConfigError, DataError, warn_caller
from glassformer.files import open_regular_file, parse_json_object
from glassformer.files.schema import Schema, parse

ALIGNED, MAX_HEADER = 64, 4_096
PREFIX = struct.Struct("<8sII")
"""The magic, and the length and the checksum of the header."""


@dataclass(frozen=True, kw_only=True)
class ArraysHeader(Schema):
    """What all headers have.

    crc32: of each array, but those whose parts have their own checksums
    """

    crc32: dict[str, int] = field(default_factory=dict)

    def arrays(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each array, in the order of the file."""
        raise NotImplementedError

    def places(self) -> dict[str, slice]:
        """Which bytes of the file each array has."""
        place, places = MAX_HEADER, dict[str, slice]()
        for name, (kind, shape) in self.arrays().items():
            size = math.prod(shape) * np.dtype(kind).itemsize
            places[name] = slice(place, place + size)
            place += -(-size // ALIGNED) * ALIGNED
        return places


Header = TypeVar("Header", bound=ArraysHeader)


def write_arrays(stream: BinaryIO, magic: bytes, header: ArraysHeader, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to their places, and then the header with their checksums; others are written by the caller."""
    places, kinds = header.places(), header.arrays()
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, kinds[name][0]).tobytes()
        header.crc32[name] = zlib.crc32(data)
        stream.seek(places[name].start)
        stream.write(data)
    text = json.dumps(asdict(header)).encode()
    stream.seek(0)
    stream.write(PREFIX.pack(magic, len(text), zlib.crc32(text)) + text)
    stream.truncate(max([MAX_HEADER, *(place.stop for place in places.values())]))


def map_arrays(
    path: Path, magic: bytes, kind: type[Header], unchecked: tuple[str, ...] = ()
) -> tuple[Header, dict[str, np.ndarray]]:
    """Map a file: its header and its arrays, which may be written to in memory alone.

    Args:
        unchecked: arrays whose parts have their own checksums
    Raises: DataError: no such file, or one that is cut, damaged, or of another version.
    """
    stream, size = open_regular_file(path, DataError)
    with stream:
        header = _read_header(path, stream, size, magic, kind)
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)  # torch takes arrays that can be written
    arrays, places = dict[str, np.ndarray](), header.places()
    for name, (type_, shape) in header.arrays().items():
        arrays[name] = np.frombuffer(mapped, type_, math.prod(shape), places[name].start).reshape(shape)
        if name not in unchecked and zlib.crc32(arrays[name].data) != header.crc32.get(name):
            raise damaged(path, f"its {name} differ from their checksum")
    return header, arrays


def _read_header(path: Path, stream: BinaryIO, size: int, magic: bytes, kind: type[Header]) -> Header:
    """Raises: DataError: it is no such file, of another version, cut or damaged."""
    start = stream.read(MAX_HEADER)
    if len(start) < MAX_HEADER or not start.startswith(magic):
        raise damaged(path, f"of its {size} bytes, the first are not those of an index")
    _, length, checksum = PREFIX.unpack_from(start)
    text = start[PREFIX.size : PREFIX.size + length]
    if zlib.crc32(text) != checksum:
        raise damaged(path, "its header differs from its checksum")
    try:
        header = parse(kind, parse_json_object(text, f"{path}: header", DataError))
    except ConfigError as error:  # of another version
        raise DataError(f"{path}: cannot be searched: {error}; make the index again") from error
    whole = max([MAX_HEADER, *(place.stop for place in header.places().values())])
    if size != whole:
        raise damaged(path, f"it has {size} bytes, and was written with {whole}")
    return header


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
