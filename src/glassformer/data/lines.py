"""The lines of a file, decoded, numbered and none longer than allowed; a .gz is read like what it holds.

place 0   name,age\\n      number 1           start, line    where the row under way began
place 9   Ann,31\\n        number 2           place, number  what has been read so far
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NoReturn, cast

from glassformer.errors import DataError
from glassformer.files import open_regular, reason

LIMIT = 1_000_000
"""Bytes a row may have unless said otherwise: beyond it, a quote was left open more often than a text is so long."""

BROKEN = (OSError, EOFError, zlib.error)
"""What reading a disk or an archive may come to."""


def opened(path: Path) -> BinaryIO:
    """A regular file from its beginning, unpacked on the way where its name ends in .gz."""
    stream, _ = open_regular(path, DataError)
    if path.suffix.lower() != ".gz":
        return stream
    stream.close()
    return cast(BinaryIO, gzip.open(path))


class File:
    """The bytes of a file by place, for any number of readers at once; an archive is unpacked to a temporary file.

    Raises: DataError: it cannot be opened or unpacked.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._stream = opened(path)
        if path.suffix.lower() == ".gz":
            packed = self._stream
            self._stream = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (it lives as long as we)
            try:
                with packed:
                    shutil.copyfileobj(packed, self._stream, 1 << 20)
                self._stream.flush()
            except BROKEN as problem:
                raise DataError(
                    f"{path}: cannot be unpacked into {tempfile.gettempdir()}: {reason(problem)}; "
                    "look at the archive and at the free space"
                ) from problem
        self._lock = Lock()
        self._stamp = self._seen()

    def at(self, place: int, size: int) -> bytes:
        """So many bytes from a place. Raises: DataError: the file is no longer what it was."""
        if self._seen() != self._stamp:
            raise DataError(f"{self.name}: was changed after it had been read; read it again")
        if hasattr(os, "pread"):
            return os.pread(self._stream.fileno(), size, place)
        with self._lock:  # Windows knows no reading at a place, nor processes that share a file's
            self._stream.seek(place)
            return self._stream.read(size)

    def stream(self) -> BinaryIO:
        """A reader of its own place, at the beginning."""
        return cast(BinaryIO, io.BufferedReader(_Reader(self), 1 << 16))

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()

    def _seen(self) -> tuple[int, int]:
        status = os.fstat(self._stream.fileno())
        return status.st_size, status.st_mtime_ns


class _Reader(io.RawIOBase):
    """One of several readers of a file: threads and forked processes do not move each other's place."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._place = offset
        return offset

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        found = self._file.at(self._place, len(buffer))
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)


class Lines:
    """The lines of a stream of bytes, with their ends, as text.

    Args:
        name: of the file, for messages · limit: bytes of the longest row · number: lines that lie before the stream
        digest: takes in every byte that is read
    Raises: DataError: bytes that are no UTF-8, a row beyond the limit, a broken disk or archive.
    """

    def __init__(
        self, stream: BinaryIO, name: str, *, limit: int = LIMIT, number: int = 0, digest: Any = None
    ) -> None:
        self._stream = stream
        self._digest = digest
        self.name = name
        self.limit = limit
        self.place = self.start = 0
        self.number = number
        self.line = number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        room = self.limit - (self.place - self.start)
        data = self._read(self._stream.readline, room + 3)  # the line's end is no part of the row
        if not data:
            raise StopIteration
        self.number += 1
        if len(data.rstrip(b"\r\n")) > room:
            self.refuse_long()
        self.place += len(data)
        try:
            return data.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}: line {self.number} is not UTF-8 text; save the file as UTF-8"
            ) from error

    def begin(self) -> None:
        """What is read next is the beginning of a row."""
        self.start, self.line = self.place, self.number + 1

    def piece(self, size: int) -> bytes:
        """Bytes as they come, for a format whose rows are no lines; the caller counts line ends."""
        data = self._read(self._stream.read, size)
        self.place += len(data)
        return data

    def go(self, place: int, number: int) -> None:
        """Go on from a place at which so many lines lie behind."""
        try:
            self._stream.seek(place)
        except BROKEN as problem:
            raise DataError(f"{self.name}: cannot be read at byte {place}: {reason(problem)}") from problem
        self.place, self.number = place, number
        self.begin()

    def refuse(self, what: str) -> NoReturn:
        """Raises: DataError: what is wrong with the row under way."""
        raise DataError(f"{self.name}: line {self.line} {what}")

    def refuse_long(self, hint: str = "") -> NoReturn:
        """Raises: DataError: the row under way has too many bytes."""
        self.refuse(
            f"begins a row of more than {self.limit:,} bytes, which is the limit{hint}; "
            "look for a quote or bracket that is not closed there, or give a larger limit="
        )

    def _read(self, how: Any, size: int) -> bytes:
        try:
            data: bytes = how(size)
        except BROKEN as problem:
            raise DataError(
                f"{self.name}: cannot be read behind line {self.number}: {reason(problem)}"
            ) from problem
        if self._digest is not None:
            self._digest.update(data)
        return data
