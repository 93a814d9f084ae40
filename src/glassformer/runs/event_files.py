"""Event files of TensorBoard, `events.out.tfevents.…`: their scalars, as PyTorch, TensorFlow and JAX write them.

    record    length (8 bytes) · its checksum (4) · Event · its checksum (4)
    Event     wall_time (1), step (2), summary (5) → values (1): tag (1), simple_value (2), tensor (8), metadata (9)

The package `tensorboard` reads them too, but needs nine others (gRPC, Werkzeug, Markdown, protobuf, …), and three
seconds to be imported. The two structures that are read here have not changed since 2015: no dependency for them.

A record that is cut at the end is being written, and left out. Source: TensorFlow, `tfrecord_writer.py`, `event.proto`,
`summary.proto`, `tensor.proto`; CRC-32C, RFC 3720, masked as in LevelDB.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from glassformer.errors import DataError
from glassformer.files import open_regular_file
from glassformer.files.protobuf import ProtobufError, as_bytes, parse_fields, parse_varint
from glassformer.runs.folder import EVENTS
from glassformer.runs.scalars import Scalars

MAX_RECORD_BYTES = 1 << 30  # an event with an image or a graph has megabytes
POLYNOMIAL, MASK = 0x82F63B78, 0xA282EAD8
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 14: "bfloat16", 19: "<f2"}
VALUE_FIELDS = {5: "<f4", 6: "<f8"}  # of a tensor, float_val and double_val: packed
INTEGER_FIELDS = (7, 10, 16, 17)  # int_val, int64_val, uint32_val, uint64_val: varints


def event_files(folder: Path) -> list[Path]:
    """The event files of a folder, in the order in which they were begun: their names have the time."""
    return sorted(folder.glob(f"{EVENTS}*"))


def read_events(folder: Path) -> Scalars:
    """Read the scalars of the event files of a folder; a file that begins at an earlier step takes its place.

    Raises: DataError: a file that is damaged: its checksums do not match, or it holds no events.
    """
    scalars = Scalars(ended=True)  # they have no end
    for path in event_files(folder):
        first = True
        for time, step, tag, value in _values(path):
            if first:
                scalars.drop_from(step)
                first = False
            scalars.add(tag, step, value, time)
    return scalars


def _values(path: Path) -> Iterator[tuple[float, int, str, float]]:
    """Time, step, tag and value of each scalar of a file."""
    for number, record in enumerate(_records(path), start=1):
        try:
            yield from _event_values(record)
        except (ProtobufError, UnicodeDecodeError, struct.error) as error:
            raise DataError(f"{path}: record {number} is no event of TensorBoard: {error}") from None


def _records(path: Path) -> list[bytes]:
    """The records of a file, checked. Raises: DataError: it is damaged."""
    stream, size = open_regular_file(path, DataError)
    with stream:
        content = stream.read(size)
    lengths, records, ends, position = [], [], [], 0
    while position + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        end = position + 12 + length + 4
        if end > len(content):  # cut, or a length that is damaged
            if length > MAX_RECORD_BYTES or not _intact([content[position : position + 12]]).all():
                raise _damaged(path, position)
            break
        lengths.append(content[position : position + 12])
        records.append(content[position + 12 : end])
        ends.append(position)
        position = end
    wrong = ~(_intact(lengths) & _intact(records))
    if wrong.any():
        raise _damaged(path, ends[int(wrong.argmax())])
    return [record[:-4] for record in records]


def _damaged(path: Path, position: int) -> DataError:
    return DataError(
        f"{path}: is damaged at byte {position:,}: the checksum there does not match; copy the file again, or leave it "
        "out"
    )


def _intact(parts: list[bytes]) -> np.ndarray:
    """Whether the last four bytes of each are the masked CRC-32C of those before. [N]"""
    intact = np.zeros(len(parts), bool)
    sizes = np.array([len(part) for part in parts], np.int64)
    for size in np.unique(sizes):  # all of one size at once, byte by byte: records of scalars have few sizes
        rows = np.flatnonzero(sizes == size)
        columns = np.frombuffer(b"".join(parts[i] for i in rows), np.uint8).reshape(len(rows), size)
        checksum = np.full(len(rows), 0xFFFFFFFF, np.uint32)
        for column in columns[:, : size - 4].T:
            checksum = TABLE[(checksum ^ column) & 0xFF] ^ (checksum >> np.uint32(8))
        checksum = ~checksum
        masked = ((checksum >> np.uint32(15)) | (checksum << np.uint32(17))) + np.uint32(MASK)
        intact[rows] = masked == columns[:, size - 4 :].copy().view("<u4")[:, 0]
    return intact


def _table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table


TABLE = _table()
"""CRC-32C of each byte."""


def _event_values(record: bytes) -> Iterator[tuple[float, int, str, float]]:
    time, step, summaries = math.nan, 0, []
    for number, value in parse_fields(record):
        if number == 1:
            (time,) = struct.unpack("<d", as_bytes(value))
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >= 1 << 63 else value
        elif number == 5:
            summaries.append(as_bytes(value))
    for summary in summaries:
        for number, value in parse_fields(summary):
            if number == 1 and (scalar := _scalar(as_bytes(value))) is not None:
                yield time, step, *scalar


def _scalar(content: bytes) -> tuple[str, float] | None:
    """Tag and value of a summary; None: it is no scalar."""
    tag, number = "", None
    for field, value in parse_fields(content):
        if field == 1:
            tag = as_bytes(value).decode("utf-8")
        elif field == 2:
            (number,) = struct.unpack("<f", as_bytes(value))
        elif field == 8:
            number = _tensor_value(as_bytes(value))
    return None if number is None else (tag, float(number))


def _tensor_value(content: bytes) -> float | None:
    """The value of a tensor of one number; None: it has several, or no numbers."""
    kind, sizes, number = 0, [], None
    for field, value in parse_fields(content):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2:
            sizes = [size for _, dimension in parse_fields(as_bytes(value)) for size in _dimension(as_bytes(dimension))]
        elif field == 4 and DTYPES.get(kind):
            number = _number(as_bytes(value), DTYPES[kind])
        elif field in VALUE_FIELDS:
            number = _number(as_bytes(value), VALUE_FIELDS[field])
        elif field in INTEGER_FIELDS:
            number = float(value if isinstance(value, int) else next(_varints(value), 0))
    return number if math.prod(sizes) == 1 else None


def _dimension(content: bytes) -> list[int]:
    return [value for number, value in parse_fields(content) if number == 1 and isinstance(value, int)]


def _varints(content: bytes) -> Iterator[int]:
    position = 0
    while position < len(content):
        value, position = parse_varint(content, position)
        yield value


def _number(content: bytes, dtype: str) -> float | None:
    if dtype == "bfloat16":  # the upper half of an fp32
        content, dtype = b"\0\0" + content[:2], "<f4"
    size = np.dtype(dtype).itemsize
    return float(np.frombuffer(content[:size], dtype)[0]) if len(content) >= size else None
