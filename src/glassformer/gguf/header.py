"""The header of a GGUF file: metadata, and where each tensor is.

    "GGUF" · version · number of tensors · number of keys
    key · type · value                                    strings have their length before them, arrays type and length
    tensor name · dimensions, fastest first · type · offset
    padding · data

Nothing in it is trusted: every length is checked against the bytes that are left before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import open_regular_file, safe_repr

MAX_TENSORS = 100_000  # these bound the work for a damaged or hostile header
MAX_KEYS = 10_000
"""Files have 20 to 60."""
MAX_ENTRIES = 2**21
"""Entries of all arrays together: the largest vocabulary in use, with its scores, kinds and merges, has 1.3 million."""
MAX_METADATA_BYTES = 2**27
"""128 MiB, ten times the largest tokenizers in use."""
MAX_DIMENSIONS = 4
"""That of the format."""

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of the file.

    shape: slowest dimension first
    kind: number of its quantization
    offset: in the file
    """

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """Metadata and tensors of a file."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]

    @property
    def architecture(self) -> str:
        """The name of the model's architecture in llama.cpp."""
        return str(self.metadata.get("general.architecture"))

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value of the metadata; {arch} in its key is the architecture.

        Raises: ConfigError: a value of another type, or none where there is no default.
        """
        key = key.replace("{arch}", self.architecture)
        value = self.metadata.get(key, default)
        if value is None or not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            names = " or ".join(each.__name__ for each in kinds)
            raise ConfigError(f"{self.path}: metadata {key} is {safe_repr(value)}; it must be of type {names}")
        return value


class _Reader:
    """Values one after the other, of bytes that are not trusted."""

    def __init__(self, data: mmap, path: Path) -> None:
        self.data, self.path, self.at = data, path, 0
        self.entries = 0  # of arrays, so far

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise WeightsError(f"{self.path}: is cut off, or damaged: {count} bytes are missing at byte {self.at}")
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, limit: int, what: str) -> int:
        count: int = self.number("<Q")
        if count > limit:
            raise WeightsError(f"{self.path}: says that it has {count} {what}; at most {limit} are read")
        return count

    def string(self) -> str:
        return self.take(self.count(2**26, "bytes in a text")).decode("utf-8", "replace")

    def value(self, kind: int, *, within: bool = False) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY or within:
            raise WeightsError(f"{self.path}: holds a value of type {kind}, which the format does not know here")
        inner, count = self.number("<I"), self.count(MAX_ENTRIES - self.entries, "more entries in arrays")
        self.entries += count
        if inner in SCALARS:
            form = f"<{count}{SCALARS[inner][1:]}"
            return list(struct.unpack(form, self.take(struct.calcsize(form))))
        return [self.value(inner, within=True) for _ in range(count)]

    def key_value(self) -> tuple[str, Any]:
        key = self.string()
        value = self.value(self.number("<I"))
        if self.at > MAX_METADATA_BYTES:
            raise WeightsError(f"{self.path}: has more than {MAX_METADATA_BYTES >> 20} MiB of metadata; is it damaged?")
        return key, value


def read_header(path: Path, check_architecture: Callable[[object], None] = lambda value: None) -> GGUFHeader:
    """Read the header of a GGUF file.

    Args:
        check_architecture: called with the architecture as soon as it is read; it raises for one to refuse
    Raises: WeightsError: it is none, cut off, of another version or byte order, or its tensors are misplaced.
    """
    stream, size = open_regular_file(path)
    with stream:
        if size < 24 or stream.read(4) != b"GGUF":
            raise WeightsError(f"{path}: is no GGUF file; it does not begin with GGUF")
        with mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            return _parse(_Reader(data, path), size, check_architecture)


def _parse(reader: _Reader, size: int, check_architecture: Callable[[object], None]) -> GGUFHeader:
    path = reader.path
    reader.take(4)
    version = reader.number("<I")
    if version not in (2, 3):
        raise WeightsError(f"{path}: is of GGUF version {version}; supported: 2 and 3, little-endian")
    tensor_count, key_count = reader.count(MAX_TENSORS, "tensors"), reader.count(MAX_KEYS, "keys")
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key, value = reader.key_value()
        if key in metadata:
            raise WeightsError(f"{path}: the key {safe_repr(key)} is duplicated")
        metadata[key] = value
        if key == "general.architecture":  # first in most files: others are refused before their vocabulary is read
            check_architecture(value)
    stored: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(tensor_count):
        name, dimensions = reader.string(), reader.number("<I")
        if dimensions > MAX_DIMENSIONS or name in stored:
            raise WeightsError(f"{path}: tensor {safe_repr(name)} has {dimensions} dimensions, or is duplicated")
        shape = tuple(reader.number("<Q") for _ in range(dimensions))[::-1]
        stored[name] = shape, reader.number("<I"), reader.number("<Q")
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 8 <= alignment <= 2**20 or alignment & (alignment - 1):
        raise WeightsError(f"{path}: general.alignment is {safe_repr(alignment)}; it must be a power of two from 8 up")
    _check_places(path, stored, alignment)
    start = -(-reader.at // alignment) * alignment
    tensors = {name: StoredTensor(shape, kind, start + offset) for name, (shape, kind, offset) in stored.items()}
    for name, tensor in tensors.items():
        if tensor.offset > size:
            raise WeightsError(f"{path}: tensor {safe_repr(name)} begins behind the end of the file; it is cut off")
    return GGUFHeader(path, metadata, tensors)


def _check_places(path: Path, stored: Mapping[str, tuple[tuple[int, ...], int, int]], alignment: int) -> None:
    """Check that tensors begin at aligned offsets, no two at one: such a file would be read with other numbers.

    Raises: WeightsError: the tensor that is misplaced.
    """
    at: dict[int, str] = {}
    for name, (shape, _, offset) in stored.items():
        if offset % alignment:
            raise WeightsError(
                f"{path}: tensor {safe_repr(name)} begins at offset {offset}, which is no multiple of the alignment, "
                f"{alignment}; the file is damaged"
            )
        if 0 not in shape and (other := at.setdefault(offset, name)) != name:
            raise WeightsError(
                f"{path}: tensors {safe_repr(other)} and {safe_repr(name)} both begin at offset {offset}; the file is "
                "damaged"
            )
