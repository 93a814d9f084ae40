"""Text files of rows: lines with offsets, the interface of a format, and random access through an index of offsets.

offset 0   name,age\\n      lines_read 1       row_start, row_line     where the current row began
offset 9   Ann,31\\n        lines_read 2       offset, lines_read      how far the stream has been read

Files of another encoding are read as UTF-8; .gz files are decompressed. Lines end in LF or CR LF; in files that mostly
end in CR alone, as some programs for the Mac write them, each CR is read as LF. Of each row 16 bytes stay in memory.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import os
import re
import shutil
import tempfile
import warnings
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn, Self, cast, get_type_hints

from glassformer.data.sequence import ColumnNames, Row, RowSchema, RowSequence, RowSource, ScannedRow
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import disk_reason, error_reason, max_unpacked_bytes, open_regular_file, safe_repr
from glassformer.files.schema import convert

MAX_ROW_BYTES = 1_000_000
"""Default limit on the bytes of a row: beyond it, an unclosed quote is likelier than so long a text."""

READ_ERRORS = (OSError, EOFError, zlib.error)
"""Exceptions raised by reading a file or a gzip archive."""


FIRST_BYTES = 1 << 16
"""Bytes at the beginning of a file that show how its lines end."""


NOT_UTF_8 = "is not UTF-8 text; save the file as UTF-8, or give its encoding: encoding= cp1252"
"""What is wrong with a line; encoding= is an option of `read_rows`."""


def encoding_of(options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The encoding among options of `read_rows`, None = UTF-8, and the others. Raises: ConfigError: no encoding."""
    others = dict(options)
    encoding = others.pop("encoding", None)
    try:
        if encoding is not None:
            "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise ConfigError(
            f"encoding is {safe_repr(encoding)}; it must be a text encoding of Python, such as latin-1, cp1252 or gbk"
        ) from None
    return encoding, others


def open_decompressed(path: Path, encoding: str | None = None) -> BinaryIO:
    """Open a regular file of lines for reading as UTF-8, decompressed where its name ends in .gz.

    Args:
        encoding: of the file; None = UTF-8, or UTF-16 where it begins with the mark of that
    """
    return line_feeds(_open(path, encoding))


def _open(path: Path, encoding: str | None) -> BinaryIO:
    stream = _unpacked(path)
    if encoding is None:
        try:
            utf_16 = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            stream.seek(0)
        except READ_ERRORS:  # of a damaged archive: its rows, which are read next, say so
            utf_16, stream = False, _unpacked(path)
        if not utf_16:
            return stream
    return cast(BinaryIO, io.BufferedReader(_RecodedStream(stream, encoding or "utf-16", path), FIRST_BYTES))


def _unpacked(path: Path) -> BinaryIO:
    stream: BinaryIO = open_regular_file(path, DataError)[0]
    if path.suffix.lower() != ".gz":
        return stream
    stream.close()
    return cast(BinaryIO, io.BufferedReader(_GzipStream(path), FIRST_BYTES))


def line_feeds(stream: BinaryIO) -> BinaryIO:
    """The stream itself, or where its lines end in CR alone, one that reads each CR as LF; offsets are the same."""
    if stream.seekable():
        start = stream.tell()
        try:
            first = stream.read(FIRST_BYTES)
        except READ_ERRORS:  # of a damaged archive: reading the rows meets it again, and says at which line
            first = b""
        stream.seek(start)
    else:  # a pipe
        first = stream.peek(FIRST_BYTES) if isinstance(stream, io.BufferedReader) else b""
    return cast(BinaryIO, io.BufferedReader(_LineFeedStream(stream), FIRST_BYTES)) if ends_in_cr(first) else stream


def ends_in_cr(first: bytes) -> bool:
    """Whether lines end in CR alone: the first one does, and more do than end in LF, which a quoted field may hold."""
    line = _LINE_END.search(first)
    return line is not None and line[0] == b"\r" and len(_LONE_CR.findall(first)) > first.count(b"\n")


_LINE_END = re.compile(rb"\r?\n|\r(?=.)", re.DOTALL)  # whether LF follows the last CR is not known
_LONE_CR = re.compile(rb"\r(?!\n)")


class _LineFeedStream(io.RawIOBase):
    """A raw stream that reads each CR of another stream as LF."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _GzipStream(io.RawIOBase):
    """A raw stream over a gzip archive that ends with an error where the archive swells beyond any text."""

    def __init__(self, path: Path) -> None:
        self._path, self._limit = path, max_unpacked_bytes(path)
        self._gzip = gzip.open(path)  # noqa: SIM115 (closed in close)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._gzip.seek(offset, whence)

    def tell(self) -> int:
        return self._gzip.tell()

    def readinto(self, buffer: Any) -> int:
        count = self._gzip.readinto(buffer)
        if self._gzip.tell() > self._limit:
            raise DataError(
                f"{self._path}: unpacks to more than {self._limit:,} bytes, far more than text does of so small an "
                "archive; if you trust it, unpack it yourself and give the file"
            )
        return count

    def close(self) -> None:
        self._gzip.close()
        super().close()


class _RecodedStream(io.RawIOBase):
    """A raw stream that reads a text file in another encoding as UTF-8; offsets are those of the UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, path: Path) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Continue from an offset: a file of another encoding is read again up to there."""
        assert whence == io.SEEK_SET
        self._stream.seek(0)
        self._decoder, self._data, self._offset = codecs.getincrementaldecoder(self._encoding)(), b"", 0
        while self._offset < offset and self.readinto(bytearray(min(offset - self._offset, FIRST_BYTES))):
            pass
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        ended = False
        while not self._data and not ended:
            data = self._stream.read(FIRST_BYTES)
            ended = not data
            try:
                self._data = self._decoder.decode(data, ended).encode("utf-8")
            except UnicodeError as problem:
                raise DataError(f"{self._path}: is not {self._encoding} text: {problem}") from problem
        count = min(len(buffer), len(self._data))
        buffer[:count], self._data = self._data[:count], self._data[count:]
        self._offset += count
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def data_extension(path: Path) -> str:
    """The file extension in lower case without .gz: `.csv`, of `Train.CSV.gz` too."""
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def strip_newline(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


class DataFile:
    """Random access to the bytes of a file, as UTF-8, for any number of readers.

    An archive, and a file of another encoding, is unpacked to a temporary file.

    Raises: DataError: it cannot be opened or unpacked.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.name = str(path)
        self._stream = _open(path, encoding)
        if isinstance(getattr(self._stream, "raw", None), (_GzipStream, _RecodedStream)):
            packed = self._stream
            self._stream = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (closed in __del__)
            try:
                with packed:
                    shutil.copyfileobj(packed, self._stream, 1 << 20)
                self._stream.flush()
            except READ_ERRORS as problem:
                if disk_reason(problem) is None:
                    raise DataError(
                        f"{path}: cannot be unpacked: {error_reason(problem)}; the archive is damaged, get it again"
                    ) from problem
                raise DataError(
                    f"{path}: cannot be unpacked into {tempfile.gettempdir()}: {error_reason(problem)}; make room "
                    "there, or set TMPDIR to another folder"
                ) from problem
        self._lock = Lock()
        self._stamp = self._size_and_time()
        self._ends_in_cr = False
        self._ends_in_cr = ends_in_cr(self.read_at(0, FIRST_BYTES))

    def read_at(self, offset: int, size: int) -> bytes:
        """Read `size` bytes at an offset. Raises: DataError: the file has changed since it was opened."""
        if self._size_and_time() != self._stamp:
            raise DataError(f"{self.name}: was changed after it had been read; read it again")
        if hasattr(os, "pread"):
            data = os.pread(self._stream.fileno(), size, offset)
        else:
            with self._lock:  # Windows has no pread, and does not fork, so a lock between threads is enough
                self._stream.seek(offset)
                data = self._stream.read(size)
        return data.replace(b"\r", b"\n") if self._ends_in_cr else data

    def stream(self) -> BinaryIO:
        """An independent stream over the file, at its beginning."""
        return cast(BinaryIO, io.BufferedReader(_FileStream(self), 1 << 16))

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()

    def _size_and_time(self) -> tuple[int, int]:
        status = os.fstat(self._stream.fileno())
        return status.st_size, status.st_mtime_ns


class _FileStream(io.RawIOBase):
    """A raw stream with an offset of its own: threads and forked processes do not move each other's."""

    def __init__(self, file: DataFile) -> None:
        self._file, self._offset = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._offset = offset
        return offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        data = self._file.read_at(self._offset, len(buffer))
        buffer[: len(data)] = data
        self._offset += len(data)
        return len(data)


class ParsedRow(NamedTuple):
    """A parsed row with its location.

    line: number of its first line
    start, end: byte offsets
    lines_read: how many lines lie before `end`
    """

    line: int
    start: int
    end: int
    lines_read: int
    row: Row


class LineReader:
    """Iterates over the lines of a byte stream as text, line ends included.

    Args:
        name: of the file, for messages
        limit: bytes of the longest row
        lines_read: lines before the stream
        digest: a hash that is updated with every byte read
    Raises: DataError: invalid UTF-8, a row beyond the limit, a read error.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        limit: int = MAX_ROW_BYTES,
        lines_read: int = 0,
        digest: Any = None,
    ) -> None:
        self._stream, self._digest = stream, digest
        self.name, self.limit = name, limit
        self.offset, self.lines_read = 0, lines_read
        self.first_line, self.line = "", ""  # of the file, where it was read; and the last one read
        self._skipped, self._first_skipped = 0, ""
        self.begin_row()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        room = self.limit - (self.offset - self.row_start)
        # 2 bytes for the line end, which does not count, and 1 that shows that the row is too long.
        data = self._read(self._stream.readline, room + 3)
        if not data:
            raise StopIteration
        self.lines_read += 1
        if len(data.rstrip(b"\r\n")) > room:
            self.fail_too_long()
        self.offset += len(data)
        try:
            self.line = data.decode("utf-8-sig" if self.lines_read == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.name}: line {self.lines_read} {NOT_UTF_8}") from error
        if self.lines_read == 1:
            self.first_line = self.line
        return self.line

    def begin_row(self) -> None:
        """Mark the current position as the beginning of a row."""
        self.row_start, self.row_line = self.offset, self.lines_read + 1

    def parsed(self, row: Row) -> ParsedRow:
        """The row that the lines since `begin_row()` hold."""
        return ParsedRow(self.row_line, self.row_start, self.offset, self.lines_read, row)

    def read_bytes(self, size: int) -> bytes:
        """Read raw bytes, for a format whose rows are not lines; the caller counts line ends."""
        data = self._read(self._stream.read, size)
        self.offset += len(data)
        return data

    def seek(self, offset: int, lines_read: int) -> None:
        """Continue from an offset that this many lines lie before."""
        try:
            self._stream.seek(offset)
        except READ_ERRORS as problem:
            raise DataError(f"{self.name}: cannot be read at byte {offset}: {error_reason(problem)}") from problem
        self.offset, self.lines_read = offset, lines_read
        self.begin_row()

    def fail(self, what: str) -> NoReturn:
        """Raises: DataError: what is wrong with the current row, with its line."""
        raise DataError(f"{self.name}: line {self.row_line} {what}")

    def row_or_skip(self, on_bad_rows: str, parse: Callable[..., Row | None], *arguments: Any) -> Row | None:
        """A row parsed of its arguments; None = there is none, or a bad one, which is counted for `warn_of_skipped`.

        Raises: DataError: it is bad, and `on_bad_rows` is "error", not "skip".
        """
        try:
            return parse(*arguments)
        except DataError as problem:
            if on_bad_rows == "error":
                raise
            self._skipped += 1
            self._first_skipped = self._first_skipped or str(problem).removeprefix(f"{self.name}: ")
            return None

    def warn_of_skipped(self, rows: int) -> None:
        """Warn of rows that were left out, at the end of a file.

        Args:
            rows: the others
        """
        if self._skipped:
            warnings.warn(
                f"{self.name}: {self._skipped:,} of {self._skipped + rows:,} rows were left out as they are damaged; "
                f"the first: {self._first_skipped}",
                stacklevel=4,
            )

    def fail_too_long(self, hint: str = "") -> NoReturn:
        """Raises: DataError: the current row has too many bytes."""
        self.fail(
            f"begins a row of more than {self.limit:,} bytes, which is the limit{hint}; "
            "look for a quote or bracket that is not closed there, or give a larger limit="
        )

    def _read(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            data = read(size)
        except READ_ERRORS as problem:
            raise DataError(
                f"{self.name}: cannot be read after line {self.lines_read}: {error_reason(problem)}"
            ) from problem
        if self._digest is not None:
            self._digest.update(data)
        return data


OnBadRows = Literal["error", "skip"]


class Format(ABC):
    """A file format; its dataclass fields are the options of `read_rows` for it.

    `rows` parses whole files, and again the bytes of a single row.
    """

    def read_header(self, lines: LineReader) -> Any:
        """Read what precedes the first row and is needed to parse each: the column names of a table."""
        return None

    @abstractmethod
    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        """Parse rows from here to the end."""


class LineFile(RowSource):
    """A text file in a line-based format."""

    def __init__(self, path: Path, format: Format, encoding: str | None = None) -> None:
        self.name, self.path, self.format, self.encoding = str(path), path, format, encoding

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return IndexedRows(self.path, self.format, columns=columns, limit=limit, encoding=self.encoding)

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        for item in self.parse(position, limit):
            yield ScannedRow(item.row, f"{self.name}: line {item.line}", [item.end, item.lines_read])

    def parse(self, position: Any = None, limit: int = MAX_ROW_BYTES) -> Iterator[ParsedRow]:
        """Its rows in order from a position on, None = from the first, not validated."""
        with open_decompressed(self.path, self.encoding) as stream:
            lines = LineReader(stream, self.name, limit=limit)
            header = self.format.read_header(lines)
            if position is not None:
                lines.seek(*position)
            count = 0
            for count, item in enumerate(self.format.rows(lines, header), 1):  # noqa: B007 (counted to the end)
                yield item
            lines.warn_of_skipped(count)

    def stamp(self) -> list[Any]:
        return [*super().stamp(), repr(self.format), self.encoding]


class IndexedRows(RowSequence):
    """Rows of a file that is parsed once to build the index, and then read row by row.

    Raises: DataError: what is wrong with a row, with the file and its line.
    """

    def __init__(
        self,
        path: Path,
        format: Format,
        *,
        columns: ColumnNames = None,
        limit: int = MAX_ROW_BYTES,
        encoding: str | None = None,
    ) -> None:
        self.name, self._file, self._format, self._limit = str(path), DataFile(path, encoding), format, limit
        schema, digest = RowSchema(columns), hashlib.sha256(repr((format, columns)).encode())
        self._starts, self._sizes, self._lines = array("q"), array("I"), array("I")
        lines = LineReader(self._file.stream(), self.name, limit=limit, digest=digest)
        self._header = format.read_header(lines)
        for item in format.rows(lines, self._header):
            schema.validate(item.row, self.name, item.line)
            self._starts.append(item.start)
            self._sizes.append(item.end - item.start)
            self._lines.append(item.line)
        lines.warn_of_skipped(len(self._starts))
        if not self._starts:
            raise DataError(f"{path}: holds no row")
        self._project = schema.project
        self.columns, self.kinds, self.fingerprint = schema.columns, schema.kinds, digest.hexdigest()

    def row(self, index: int) -> Row:
        data = io.BytesIO(self._file.read_at(self._starts[index], self._sizes[index]))
        lines = LineReader(data, self.name, limit=self._limit, lines_read=self._lines[index] - 1)
        return self._project(next(self._format.rows(lines, self._header)).row)

    def __iter__(self) -> Iterator[Row]:
        lines = LineReader(self._file.stream(), self.name, limit=self._limit)
        lines.seek(self._starts[0], self._lines[0] - 1)
        return (self._project(item.row) for item in self._format.rows(lines, self._header))

    def where(self, index: int) -> str:
        return f"{self.name}: line {self._lines[index]}"

    def __len__(self) -> int:
        return len(self._starts)


PLAIN_TYPES = (bool, str, str | None, int | None, OnBadRows)
"""Types of options that are checked for every format; formats check those of other types themselves."""


@dataclass(frozen=True, kw_only=True)
class DataFormat:
    """A kind of data, as `read_rows(path, kind=NAME)` reads it.

    open: path and options of the format → source of rows. Raises: DataError: the path cannot be read. ConfigError: an
        unknown option
    extensions: of files that are read so without `kind`, such as ".csv"; each may be followed by .gz
    any_path: `open` also takes folders, patterns, and names of nothing on disk, such as a set that is made up
    """

    open: Callable[[Path, Mapping[str, Any]], RowSource]
    extensions: tuple[str, ...] = ()
    any_path: bool = False

    @classmethod
    def of_lines(cls, name: str, lines: type[Format], *extensions: str, **defaults: Any) -> Self:
        """A format of text files, whose options are the fields of a dataclass.

        Args:
            name: as in `kind`, for messages
            defaults: of these options, where they are not those of the class
        """
        return cls(open=partial(_line_source, name, lines, defaults), extensions=extensions)


def _line_source(
    name: str, lines: type[Format], defaults: Mapping[str, Any], path: Path, options: Mapping[str, Any]
) -> RowSource:
    encoding, options = encoding_of(options)
    return LineFile(path, format_of(name, lines, options, **defaults), encoding)


def format_of(kind: str, cls: type[Format], options: Mapping[str, Any], **defaults: Any) -> Format:
    """Make a line-based format from its options. Raises: ConfigError: an unknown option, or a value of another type."""
    known, hints = [field.name for field in fields(cls)], get_type_hints(cls)  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{safe_repr(name)} is no option of {kind}{nearest(name, known)}; {has}")
        if hints[name] in PLAIN_TYPES:
            convert(hints[name], options[name], name)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return cls(**{**defaults, **values})
