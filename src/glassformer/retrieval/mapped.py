"""Files of arrays that are mapped into memory: a header, then each array at a multiple of 64 bytes, with checksums.

    magic · length and checksum of the header · header (JSON) · array · array · …

Sizes are in the header, and the place of each array follows from them. What such a file holds is derived: one that is
cut, damaged or of another version is refused in a sentence, and is made again.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

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


def warn_of_damage(error: DataError, search: str) -> None:
    """Warn that an index cannot be used: what it was made from is whole, and is searched instead."""
    warn_caller(f"{error}; until `glassformer index` makes it again, {search} takes longer")
