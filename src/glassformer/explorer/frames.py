"""Frames: arrays with their names, in one piece of bytes that a browser reads without parsing numbers.

    ┌────────┬─────────┬──────┬─────────────┬────────────┬──────┬─────────┬───────┬─────────┬───────┐
    │ "GLAS" │ version │ kind │ JSON length │ body length │ JSON │ padding │ array │ padding │ array │ …
    └────────┴─────────┴──────┴─────────────┴────────────┴──────┴─────────┴───────┴─────────┴───────┘
        4         2       2         4             4               to 8              to 8

All little-endian. The JSON is `{"arrays": [{"name", "dtype", "shape"}, …], …fields}`; every array begins at a multiple
of 8 bytes, so that a typed array can look at it in place. The body is all that follows the JSON's padding.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.errors import DataError

MAGIC, VERSION = b"GLAS", 1
KINDS = {"overview": 1, "lines": 2, "tile": 3, "row": 4, "neuron": 5, "layer": 6, "distribution": 7}
DTYPES = {"u8": "<u1", "u32": "<u4", "f32": "<f4", "f64": "<f8"}

_START = struct.Struct("<4sHHII")
_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame holds: its kind, its arrays by name, and its other fields."""

    kind: str
    arrays: dict[str, np.ndarray]
    fields: dict[str, Any]


def encode(kind: str, arrays: Mapping[str, Tensor | np.ndarray], fields: Mapping[str, Any]) -> bytes:
    """Put arrays (u8, u32, f32, f64) and fields that JSON can say into one frame."""
    body, entries = [], []
    for name, given in arrays.items():
        array = given.numpy(force=True) if isinstance(given, Tensor) else given
        array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        entries.append({"name": name, "dtype": _NAMES[array.dtype], "shape": list(array.shape)})
        body.append(_padded(array.tobytes()))
    words = {"arrays": entries, **fields}
    header = json.dumps(words, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    start = _START.pack(MAGIC, VERSION, KINDS[kind], len(header), sum(map(len, body)))
    return b"".join([_padded(start + header), *body])


def decode(frame: bytes) -> Frame:
    """Take a frame apart, strictly.

    Raises: DataError: it is no whole frame of this version.
    """
    if len(frame) < _START.size:
        raise DataError(f"a frame has at least {_START.size} bytes, this has {len(frame)}")
    magic, version, number, header_bytes, body_bytes = _START.unpack_from(frame)
    kind = next((name for name, value in KINDS.items() if value == number), None)
    if magic != MAGIC or version != VERSION or kind is None:
        raise DataError(f"this is no frame of version {VERSION}: it begins with {frame[:8]!r}")
    at = _up(_START.size + header_bytes)
    if len(frame) != at + body_bytes:
        raise DataError(f"the frame says that it has {at + body_bytes} bytes, and it has {len(frame)}")
    fields = json.loads(frame[_START.size : _START.size + header_bytes])
    arrays = {}
    for entry in fields.pop("arrays"):
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if at + size > len(frame):
            raise DataError(f"array {entry['name']!r} goes beyond the end of the frame")
        arrays[entry["name"]] = np.frombuffer(frame[at : at + size], dtype).reshape(shape)
        at += _up(size)
    if at != len(frame):
        raise DataError(f"{len(frame) - at} bytes of the frame belong to no array")
    return Frame(kind, arrays, fields)


def _up(size: int) -> int:
    return -(-size // 8) * 8


def _padded(content: bytes) -> bytes:
    return content.ljust(_up(len(content)), b"\0")
