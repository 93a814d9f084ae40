"""Folders of Weights & Biases, `wandb/offline-run-…` and `wandb/run-…`: history and settings, without that package.

    run-ID.wandb                 a LevelDB log of protocol buffers: settings, a record for each step, the end
    files/config.yaml            settings, and files/wandb-summary.json, the last values: where there is no log

A log is in blocks of 32 KiB; a record that does not fit is cut into parts, each with a checksum. One that is cut at the
end is being written, and left out. Source: LevelDB, `doc/log_format.md`; wandb, `wandb_internal.proto`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import is_number, open_regular_file, read_json_object
from glassformer.files.protobuf import ProtobufError, as_bytes, parse_fields
from glassformer.runs.folder import WANDB_LOG, WANDB_SUMMARY, read_config
from glassformer.runs.scalars import Scalars

MAGIC, BLOCK, HEADER = b":W&B", 32 * 1024, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY, CONFIG_RECORD, RUN, EXIT = 2, 5, 17, 18  # fields of a Record
NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SETTINGS = Path("files", "config.yaml")


def read_wandb(folder: Path) -> Scalars:
    """Read the history of a run's folder.

    Raises: DataError: the log is damaged or another file, or its settings or its summary are.
    """
    scalars = Scalars()
    if (folder / SETTINGS).is_file():
        for name, value in read_config(folder / SETTINGS, DataError).items():
            if not name.startswith("_") and name != "wandb_version":
                scalars.options[name] = value.get("value") if isinstance(value, dict) else value
    logs = sorted(folder.glob(f"*{WANDB_LOG}"))
    for log in logs[:1]:
        for number, record in enumerate(_records(log), start=1):
            try:
                _add(scalars, record)
            except (ProtobufError, UnicodeDecodeError, ValueError, struct.error) as error:
                raise DataError(f"{log}: record {number} is none of Weights & Biases: {error}") from None
    if not logs:
        summary = read_json_object(folder / WANDB_SUMMARY, DataError, strict=False)
        _add_row(scalars, summary, int(summary["_step"]) if is_number(summary.get("_step")) else 0)
        scalars.ended = True
    return scalars


def _records(path: Path) -> Iterator[bytes]:
    """The records of a log. Raises: DataError: it is damaged."""
    stream, size = open_regular_file(path, DataError)
    with stream:
        content = stream.read(size)
    if not content.startswith(MAGIC):
        raise DataError(f"{path}: is no log of Weights & Biases: it must begin with {MAGIC.decode()}")
    position, parts = HEADER, b""
    while True:
        if BLOCK - position % BLOCK < HEADER:  # what is left of a block is filled with zeros
            position += BLOCK - position % BLOCK
        if position + HEADER > len(content):
            return
        checksum, length, kind = struct.unpack_from("<IHB", content, position)
        part = content[position + HEADER : position + HEADER + length]
        if len(part) < length:
            return
        if not FULL <= kind <= LAST or zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            raise DataError(
                f"{path}: is damaged at byte {position:,}: the checksum there does not match; copy the file again, or "
                "leave it out"
            )
        position += HEADER + length
        parts = part if kind in (FULL, FIRST) else parts + part
        if kind in (FULL, LAST):
            yield parts


def _add(scalars: Scalars, record: bytes) -> None:
    for number, value in parse_fields(record):
        if number == HISTORY:
            values, step = _items(as_bytes(value), 1), _step(as_bytes(value))
            _add_row(scalars, values, int(values["_step"]) if is_number(values.get("_step")) else step)
        elif number == CONFIG_RECORD:
            scalars.options |= _settings(as_bytes(value))
        elif number == RUN:
            for field, part in parse_fields(as_bytes(value)):
                if field == 4:
                    scalars.options |= _settings(as_bytes(part))
                elif field in (3, 8):
                    about = scalars.options.setdefault("wandb", {})
                    about[{3: "project", 8: "name"}[field]] = as_bytes(part).decode("utf-8")
        elif number == EXIT:
            scalars.ended = True


def _add_row(scalars: Scalars, values: Mapping[str, Any], step: int) -> None:
    time = values.get("_timestamp")
    for name, value in values.items():
        number = NONFINITE.get(value, value) if isinstance(value, str) else value
        if not name.startswith("_") and (is_number(number) or isinstance(number, float)):
            scalars.add(name, step, float(number), float(time) if is_number(time) else None)


def _items(content: bytes, wanted: int) -> dict[str, Any]:
    """Items of a history, a configuration or a summary: the key, or keys within keys, and the value as JSON."""
    items: dict[str, Any] = {}
    for number, item in parse_fields(content):
        if number != wanted:
            continue
        keys, value = [], None
        for field, part in parse_fields(as_bytes(item)):
            if field in (1, 2):
                keys.append(as_bytes(part).decode("utf-8"))
            elif field == 16:
                value = json.loads(as_bytes(part))
        items[".".join(filter(None, keys))] = value
    return items


def _settings(content: bytes) -> dict[str, Any]:
    return {name: value for name, value in _items(content, 1).items() if not name.startswith("_")}


def _step(content: bytes) -> int:
    """The step of a history record."""
    for number, value in parse_fields(content):
        if number == 2:
            return next((x for field, x in parse_fields(as_bytes(value)) if field == 1 and isinstance(x, int)), 0)
    return 0
