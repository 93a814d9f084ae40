"""Binary frame format: named arrays and a JSON header in one message, which a browser reads without parsing numbers.

    ┌────────┬─────────┬──────┬─────────────┬────────────┬──────┬─────────┬───────┬─────────┬───────┐
    │ "GLAS" │ version │ 0    │ JSON length │ body length │ JSON │ padding │ array │ padding │ array │ …
    └────────┴─────────┴──────┴─────────────┴────────────┴──────┴─────────┴───────┴─────────┴───────┘
        4         2       2         4             4               to 8              to 8

All little-endian. The JSON is `{"frame": kind, "arrays": [{"name", "dtype", "shape"}, …], …fields}`; an array begins at
a multiple of 8 bytes, so that a typed array can look at it in place. The body is all that follows the JSON's padding.
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

MAGIC, VERSION = b"GLAS", 2
DTYPES = {"u8": "<u1", "u32": "<u4", "f32": "<f4", "f64": "<f8"}

_PREFIX = struct.Struct("<4sHHII")
_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class BinaryFrame:
    """A decoded frame: its kind, its arrays by name, and its other fields."""

    kind: str
    arrays: dict[str, np.ndarray]
    fields: dict[str, Any]


def encode(kind: str, arrays: Mapping[str, Tensor | np.ndarray], fields: Mapping[str, Any]) -> bytes:
    """Serialise arrays (u8, u32, f32, f64) and JSON fields into one binary frame."""
    body, entries = [], []
    for name, values in arrays.items():
        array = values.numpy(force=True) if isinstance(values, Tensor) else values
        array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        entries.append({"name": name, "dtype": _NAMES[array.dtype], "shape": list(array.shape)})
        body.append(_padded(array.tobytes()))
    header_fields = {"frame": kind, "arrays": entries, **fields}
    text = json.dumps(header_fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    header = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair as JSON escapes it
    prefix = _PREFIX.pack(MAGIC, VERSION, 0, len(header), sum(map(len, body)))
    return b"".join([_padded(prefix + header), *body])


def as_frame_array(values: Tensor | np.ndarray) -> np.ndarray:
    """Numbers of any type as one that a frame has: f64 and u8 as they are, other floats f32, whole numbers u32."""
    array = (
        values.float().numpy(force=True)
        if isinstance(values, Tensor) and values.is_floating_point() and (values.element_size() < 4)
        else values.numpy(force=True)
        if isinstance(values, Tensor)
        else values
    )
    if array.dtype in _NAMES:
        return array
    return array.astype("<f4" if array.dtype.kind == "f" else "<u4")


def decode(frame: bytes) -> BinaryFrame:
    """Parse a binary frame, strictly.

    Raises: DataError: truncated, of another version, or with bytes that belong to no array.
    """
    if len(frame) < _PREFIX.size:
        raise DataError(f"a frame has at least {_PREFIX.size} bytes, this has {len(frame)}")
    magic, version, _, header_bytes, body_bytes = _PREFIX.unpack_from(frame)
    if magic != MAGIC or version != VERSION:
        raise DataError(f"this is no frame of version {VERSION}: it begins with {frame[:8]!r}")
    offset = _round_up(_PREFIX.size + header_bytes)
    if len(frame) != offset + body_bytes:
        raise DataError(f"the frame says that it has {offset + body_bytes} bytes, and it has {len(frame)}")
    fields = json.loads(frame[_PREFIX.size : _PREFIX.size + header_bytes])
    kind, arrays = fields.pop("frame"), {}
    for entry in fields.pop("arrays"):
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if offset + size > len(frame):
            raise DataError(f"array {entry['name']!r} goes beyond the end of the frame")
        arrays[entry["name"]] = np.frombuffer(frame[offset : offset + size], dtype).reshape(shape)
        offset += _round_up(size)
    if offset != len(frame):
        raise DataError(f"{len(frame) - offset} bytes of the frame belong to no array")
    return BinaryFrame(kind, arrays, fields)


def _round_up(size: int) -> int:
    return -(-size // 8) * 8


def _padded(content: bytes) -> bytes:
    return content.ljust(_round_up(len(content)), b"\0")
