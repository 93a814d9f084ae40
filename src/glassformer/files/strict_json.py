"""Strict JSON parsing of untrusted files: the header of a tensor file, an index, a config.

Python's parser accepts more than the standard (`NaN`, duplicate keys) and more than RAM may hold (a few megabytes
of `[[[[`). Here the size is bounded before parsing, and every violation is an error that names the file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from glassformer.errors import GlassformerError, WeightsError
from glassformer.files import error_reason, open_regular_file, safe_repr

MAX_JSON_BYTES = 64 << 20
# Parsed values are up to 200 times larger than their text, so the count is bounded as well as the bytes.
# A file of 100,000 tensors, the most that is read, has about half as many.
MAX_JSON_VALUES = 2_000_000


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with these keys and values. Raises: ValueError: a duplicate key, with its name."""
    value = dict(pairs)
    if len(value) < len(pairs):
        earlier: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in earlier or earlier.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {safe_repr(duplicate)}; which one counts is undefined")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; null is how JSON writes a missing one")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {safe_repr(number)} is too large")
    return value


STRICT: dict[str, Any] = {"object_pairs_hook": _unique_keys, "parse_constant": _refuse_constant}
"""Options of Python's JSON decoder that refuse what RFC 8259 does not define: duplicate keys, NaN and infinities."""


def parse_json_object(data: bytes, where: str, error: type[GlassformerError] = WeightsError) -> dict[str, Any]:
    """Parse one JSON object, strictly.

    Args:
        data: UTF-8 text, already bounded in size by the caller.
        where: what the text is, for messages: `model.safetensors: header`.
        error: the class of error to raise.

    Returns: the object; keys are unique, numbers finite.

    Raises: `error`: not UTF-8, not JSON, not an object, a duplicate key, `NaN`, nested too deeply, or too many values.

    Source: RFC 8259; section 4 leaves duplicate keys undefined, hence refused.
    """
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > MAX_JSON_VALUES:
        raise error(f"{where} holds about {values} JSON values; at most {MAX_JSON_VALUES} are read")

    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_float=_finite, **STRICT)
    except UnicodeDecodeError as problem:
        raise error(f"{where} is not UTF-8 text ({problem.reason} at byte {problem.start})") from None
    except RecursionError:
        raise error(f"{where} is nested too deeply to be read") from None
    except ValueError as problem:  # a JSONDecodeError, ours, or a number of more digits than Python converts
        raise error(f"{where} is not valid JSON: {problem}") from None
    if not isinstance(value, dict):
        raise error(f"{where} must be a JSON object, got {type(value).__name__}")
    return value


def read_json_object(
    path: Path, error: type[GlassformerError] = WeightsError, max_bytes: int = MAX_JSON_BYTES
) -> dict[str, Any]:
    """Read and parse a JSON file with the strictness of `parse_json_object`.

    Args:
        path: the file.
        error: the class of error to raise: `ConfigError` for a config.
        max_bytes: the largest file that is read.

    Raises: `error`: missing, unreadable, too large, or not a strict JSON object.
    """
    stream, file_bytes = open_regular_file(path, error)
    with stream:
        if file_bytes > max_bytes:
            raise error(f"{path}: has {file_bytes} bytes; a file of this kind may have {max_bytes}")
        try:
            data = stream.read(max_bytes)
        except OSError as problem:
            raise error(f"{path}: cannot be read: {error_reason(problem)}") from problem
    return parse_json_object(data, str(path), error)
