"""Safetensors headers: parsed and validated before a single tensor is allocated.

    ┌─────────────┬──────────────────────────────┬──────────────────────────────┐
    │ n: 8 bytes, │ n bytes of JSON: name →      │ the numbers, one tensor      │
    │ little end  │ dtype, shape, data_offsets   │ after the other, no gaps     │
    └─────────────┴──────────────────────────────┴──────────────────────────────┘

A file that passes holds exactly the bytes it declares: truncated, padded or edited files are detected here, and
nothing a header claims can make a reader allocate more than the file has.

Source: the safetensors format, https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import torch

from glassformer.errors import WeightsError
from glassformer.files import error_reason, open_regular_file, parse_json_object, safe_repr

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
MAX_TENSORS = 100_000  # bounds the work for a damaged or hostile header
MAX_DIMENSIONS = 64  # torch's own limit for most operations
_MAX_INT64 = 2**63 - 1  # torch counts elements and bytes in 64 bits with a sign

# Widest first: the order in which writers lay tensors out, so that each is aligned to its element size.
DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "I64": torch.int64,
        "F64": torch.float64,
        "F32": torch.float32,
        "I32": torch.int32,
        "BF16": torch.bfloat16,
        "F16": torch.float16,
        "I16": torch.int16,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
        "I8": torch.int8,
        "U8": torch.uint8,
        "BOOL": torch.bool,
    }
)
DTYPE_NAMES: Mapping[torch.dtype, str] = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape, dtype, size in bytes, file and offset in it of a stored tensor, known without allocating it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bytes: int
    file: Path
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """The header of one file: its tensors by name, and its metadata."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]


def read_file_header(path: Path) -> Header:
    """Read and check the header of the safetensors file at `path`.

    Raises: WeightsError: it cannot be opened, or is not a whole and consistent safetensors file.
    """
    stream, file_bytes = open_regular_file(path)
    with stream:
        try:
            return read_header(stream, file_bytes, path)
        except OSError as problem:
            raise WeightsError(f"{path}: cannot be read: {error_reason(problem)}") from problem


def read_header(stream: BinaryIO, file_bytes: int, path: Path) -> Header:
    """Check the header at the start of `stream` against the size of the file.

    Args:
        stream: at byte 0 of the file.
        file_bytes: size of the whole file.
        path: the file's name, for messages and for `TensorInfo.file`.

    Raises: WeightsError: what is wrong, with the file and, where there is one, the tensor.
    """
    start = stream.read(8)
    if len(start) < 8:
        raise WeightsError(f"{path}: has {file_bytes} bytes, too few for a safetensors file; fetch it again")
    if start == b"version ":
        raise WeightsError(f"{path}: is a Git LFS pointer, not the weights themselves; fetch them with: git lfs pull")
    header_bytes = int.from_bytes(start, "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise WeightsError(
            f"{path}: declares a header of {header_bytes} bytes, at most {MAX_HEADER_BYTES} are allowed; "
            "it is damaged or not a safetensors file"
        )
    if 8 + header_bytes > file_bytes:
        raise WeightsError(
            f"{path}: is cut short: its header needs {8 + header_bytes} bytes, the file has {file_bytes}; "
            "fetch it again"
        )
    text = stream.read(header_bytes)
    if not text.startswith(b"{"):
        raise WeightsError(f"{path}: its header does not start with '{{'; it is damaged or another format")
    entries = parse_json_object(text, f"{path}: header")
    metadata = _metadata(entries.pop("__metadata__", {}), path)
    return Header(_tensors(entries, 8 + header_bytes, file_bytes, path), metadata)


def _metadata(value: object, path: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise WeightsError(f"{path}: header: __metadata__ must map names to texts")
    return value


def _tensors(entries: dict[str, Any], data_begin: int, file_bytes: int, path: Path) -> dict[str, TensorInfo]:
    if len(entries) > MAX_TENSORS:
        raise WeightsError(f"{path}: declares {len(entries)} tensors; at most {MAX_TENSORS} are read")
    tensors: dict[str, TensorInfo] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in entries.items():
        info = _tensor(name, entry, data_begin, path)
        tensors[name] = info
        begin = info.begin - data_begin
        spans.append((begin, begin + info.bytes, name))
    _check_spans(sorted(spans), file_bytes - data_begin, path)
    return tensors


def _tensor(name: str, entry: object, data_begin: int, path: Path) -> TensorInfo:
    """Validate one entry by itself. Returns: what it declares; its offsets count from `data_begin` in the file."""

    def refuse(what: str) -> WeightsError:
        return WeightsError(f"{path}: tensor {safe_repr(name)}: {what}")

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise refuse("its entry must have dtype, shape and data_offsets, and nothing else")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse("its name is not valid Unicode") from None
    dtype_name, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        raise refuse(f"dtype {safe_repr(dtype_name)} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise refuse(f"shape {safe_repr(shape)} must be at most {MAX_DIMENSIONS} whole numbers from 0 to 2^63 - 1")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise refuse(f"data_offsets {safe_repr(offsets)} must be two whole numbers from 0 to 2^63 - 1")
    # Zeros are left out here: strides are products of sizes, and overflow next to a zero just the same.
    if math.prod(size for size in shape if size) * dtype.itemsize > _MAX_INT64:
        raise refuse(f"shape {safe_repr(shape)} has more bytes than can be counted")
    needed, begin, end = math.prod(shape) * dtype.itemsize, offsets[0], offsets[1]
    if end - begin != needed:
        raise refuse(
            f"shape {safe_repr(shape)} of {dtype_name} needs {needed} bytes, "
            f"data_offsets [{begin}, {end}] give {end - begin}"
        )
    return TensorInfo(tuple(shape), dtype, needed, path, data_begin + begin)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_INT64  # `type`, since True is an int as well


def _check_spans(spans: list[tuple[int, int, str]], data_bytes: int, path: Path) -> None:
    """Check that the tensors lie one after the other, and fill the file to its last byte."""
    filled, previous = 0, ""
    for begin, end, name in spans:
        if begin < filled:
            raise WeightsError(f"{path}: tensor {safe_repr(name)} overlaps tensor {safe_repr(previous)}")
        if begin > filled:
            raise WeightsError(f"{path}: {begin - filled} bytes before tensor {safe_repr(name)} belong to no tensor")
        filled, previous = end, name
    if filled > data_bytes:
        raise WeightsError(
            f"{path}: is cut short: the tensors need {filled} bytes, the file has {data_bytes}; fetch it again"
        )
    if filled < data_bytes:
        raise WeightsError(f"{path}: has {data_bytes - filled} bytes at its end that belong to no tensor")
