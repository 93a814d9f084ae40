"""Read untrusted small files of a model folder: size-limited, strict UTF-8, strict JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from glassformer.errors import DataError

MAX_FILE_BYTES = 64 * 2**20
"""No tokenizer file in use comes near this; a larger one is a mistake or an attack."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path) -> bytes:
    """The content of a file of at most `MAX_FILE_BYTES`.

    Raises: DataError: the file is missing, not readable, not a plain file, or too large.
    """
    try:
        if not path.is_file():
            raise DataError(f"{path} is not a file; give a folder that holds one")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)  # not stat(): the size on disk may change before the read
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise DataError(
            f"{path} has more than {MAX_FILE_BYTES // 2**20} MB, the limit of a tokenizer file; "
            "check that it is the right file"
        )
    return content


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, line ends as they stand.

    Raises: DataError: as `read_bytes`, or the bytes are not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, split at line feeds alone: vocabularies hold other line separators as entries.

    Raises: DataError: as `read_text`.
    """
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a file that holds a JSON object.

    Raises: DataError: as `read_text`, or the text is not JSON, nests too deep, is no object, or escapes half of
        a surrogate pair, which the engine cannot take.
    """
    text = read_text(path)
    try:
        value = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise DataError(f"{path} is not usable JSON: it nests too deep") from error
    except UnicodeEncodeError as error:
        raise DataError(f"{path} holds {error.object[error.start]!r}, half of a surrogate pair") from error
    except ValueError as error:  # JSONDecodeError, and integers of thousands of digits
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold a JSON object, got {type(value).__name__}")
    return value


def read_optional_json_object(path: Path) -> dict[str, Any]:
    """As `read_json_object`, but an absent file counts as an empty object."""
    return read_json_object(path) if path.exists() else {}
