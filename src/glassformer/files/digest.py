"""SHA-256 digests of files, as `sha256sum` prints them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO


def file_sha256(file: Path | BinaryIO, *more: bytes) -> str:
    """SHA-256 of a file in hexadecimal, read in blocks.

    Args: file: a path, or a file open for reading in binary mode, from where it stands · more: bytes hashed after it
    Raises: OSError: it cannot be read.
    """
    if isinstance(file, Path):
        with file.open("rb") as stream:
            return file_sha256(stream, *more)
    digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    for part in more:
        digest.update(part)
    return digest.hexdigest()
