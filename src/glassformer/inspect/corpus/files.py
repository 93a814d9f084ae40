"""Files of a corpus index: columns that grow chunk by chunk, and one file that says how far they are complete.

    index.json          what was indexed, by which model, how many bytes of each column are complete, their CRC-32
    tokens.bin          int32 [N]: ids, special tokens included           offsets.bin   int32 [N, 2]: start, end
    flags.bin           uint8 [N]: 1 = special, 2 = continues a word      texts.bin     UTF-8 of the windows' texts
    windows.bin         int64 [W, 3]: first token, first byte of the text, row of the file
    layer.6.bin         float16 [N, D]: unit vectors of the states        head.4.9.bin  float16 [N, E]: of a head
    neurons.12.bin      the top activations of each neuron, up to chunk 12
    lock                held by the process that writes

A chunk is appended to every column, flushed to disk, and only then recorded in index.json, which is replaced
atomically. So a process may be killed at any point: what is longer than recorded is cut off when the work is resumed.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from glassformer.errors import DataError
from glassformer.files import append_handle, is_int, open_regular_file, read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, disk_errors, flush_folder
from glassformer.files.lock import FolderLock

FORMAT, VERSION = "glassformer corpus index", 1
METADATA = "index.json"
LOCK = "lock"
SPECIAL, CONTINUES = 1, 2
BLOCK_BYTES = 1 << 24  # of a file, read at a time for its checksum
ENTRY = np.dtype([("value", "<f4"), ("token", "<i8")])
"""Of the top activations of a neuron."""

Head = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """What an index holds; two runs with the same settings make the same index.

    fingerprint, model: of the weights; the model's family
    source, rows_fingerprint: of the text file
    layers: of the states, 0 = the embeddings, as in `Session.states`
    heads: layer and head of each output
    neurons: layers whose neurons have their top activations here
    top: how many of each
    width, head_width, neuron_width: D, E, F
    max_tokens: of a window, special tokens included
    """

    fingerprint: str
    model: str
    source: str
    rows: int
    rows_fingerprint: str
    layers: tuple[int, ...]
    heads: tuple[Head, ...]
    neurons: tuple[int, ...]
    top: int
    width: int
    head_width: int
    neuron_width: int
    max_tokens: int

    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """File → the type and the shape of its entries."""
        return {
            "tokens.bin": ("<i4", ()),
            "offsets.bin": ("<i4", (2,)),
            "flags.bin": ("u1", ()),
            "windows.bin": ("<i8", (3,)),
            "texts.bin": ("u1", ()),
            **{layer_file(layer): ("<f2", (self.width,)) for layer in self.layers},
            **{head_file(head): ("<f2", (self.head_width,)) for head in self.heads},
        }

    @property
    def bytes_per_token(self) -> int:
        """Of the columns with an entry for each token."""
        return 13 + 2 * (len(self.layers) * self.width + len(self.heads) * self.head_width)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Raises: KeyError, TypeError, ValueError: something else than the fields in JSON."""
        given = {x.name: values[x.name] for x in fields(cls)}
        for name in ("layers", "neurons"):
            given[name] = tuple(_count(name, number) for number in given[name])
        given["heads"] = tuple((_count("heads", layer), _count("heads", head)) for layer, head in given["heads"])
        for name in ("rows", "top", "width", "head_width", "neuron_width", "max_tokens"):
            _count(name, given[name])
        for name in ("fingerprint", "model", "source", "rows_fingerprint"):
            if not isinstance(given[name], str):
                raise TypeError(f"{name} is {safe_repr(given[name])}")
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class IndexProgress:
    """How far an index is.

    rows, row_windows: done, of the file and of its next row
    files: name → bytes and CRC-32
    """

    rows: int = 0
    row_windows: int = 0
    chunks: int = 0
    tokens: int = 0
    windows: int = 0
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    complete: bool = False

    @classmethod
    def read(cls, values: Mapping[str, Any], settings: IndexSettings) -> Self:
        """What index.json says of an index with these settings, which decide its files and their sizes.

        Raises: KeyError, TypeError, ValueError, AttributeError: something else than was written.
        """
        files = {name: (_count(name, size), _count(name, crc)) for name, (size, crc) in values["files"].items()}
        progress = cls(**{**values, "files": files})
        for name in ("rows", "row_windows", "chunks", "tokens", "windows"):
            _count(name, getattr(progress, name))
        if not isinstance(progress.complete, bool) or progress.rows > settings.rows:
            raise ValueError(f"complete is {safe_repr(progress.complete)}, with {progress.rows} rows")
        sizes = progress.file_sizes(settings)
        if files.keys() != sizes.keys():
            other = sorted(files.keys() ^ sizes.keys())
            raise ValueError(f"the files of these settings do not include {safe_repr(other[0])}, or it is missing")
        for name, size in sizes.items():
            if size not in (None, files[name][0]):
                raise ValueError(f"{name} has {files[name][0]} bytes, which should be {size}")
        return progress

    def file_sizes(self, settings: IndexSettings) -> dict[str, int | None]:
        """File → its bytes at this point; None = of the texts, which settings do not tell."""
        sizes: dict[str, int | None] = {}
        for name, (dtype, shape) in settings.columns.items():
            count = {"texts.bin": None, "windows.bin": self.windows}.get(name, self.tokens)
            sizes[name] = None if count is None else count * np.dtype(dtype).itemsize * math.prod(shape)
        if self.chunks:
            entries = len(settings.neurons) * settings.neuron_width * settings.top
            sizes[neurons_file(self.chunks)] = entries * ENTRY.itemsize
        return sizes


def _count(name: str, value: object) -> int:
    """Raises: ValueError: no whole number from 0 up."""
    if not is_int(value):
        raise ValueError(f"{name} is {safe_repr(value)}")
    return value


def layer_file(layer: int) -> str:
    return f"layer.{layer}.bin"


def head_file(head: Head) -> str:
    return f"head.{head[0]}.{head[1]}.bin"


def neurons_file(chunks: int) -> str:
    return f"neurons.{chunks}.bin"


def read_metadata(folder: Path) -> tuple[IndexSettings, IndexProgress]:
    """What index.json says. Raises: DataError: there is none, it is damaged, or of another version."""
    path = folder / METADATA
    if not path.is_file():
        raise DataError(f"{folder}: holds no corpus index ({METADATA}); make one: glassformer corpus index")
    values = read_json_object(path, DataError)
    if values.get("format") != FORMAT or values.get("version") != VERSION:
        raise DataError(f"{path}: is no corpus index of version {VERSION}; make it again: glassformer corpus index")
    try:
        settings = IndexSettings.read(values["settings"])
        progress = IndexProgress.read(values["progress"], settings)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: is damaged ({safe_repr(error)}); delete the folder and index the text again"
        ) from error
    return settings, progress


class IndexWriter:
    """Appends chunks to an index, and resumes a stopped one; within its block no other process does.

    Raises: DataError: the folder holds an index of something else; on entering, a file is shorter than was recorded.
        ConfigError: on entering: another process writes to it.
    """

    def __init__(self, folder: Path, settings: IndexSettings) -> None:
        self.folder, self.settings = folder, settings
        self.progress = IndexProgress(files=dict.fromkeys(settings.columns, (0, 0)))
        self._lock = FolderLock(folder / LOCK)
        if (folder / METADATA).exists():
            self._read()
            return
        with disk_errors(folder, DataError):
            folder.mkdir(parents=True, exist_ok=True)
        if {path.name for path in folder.iterdir()} - {path.name for path in self._leftovers()} - {LOCK, f"{LOCK}.d"}:
            raise DataError(f"{folder}: is not empty and holds no corpus index; name another folder")

    def __enter__(self) -> Self:
        with disk_errors(self.folder, DataError), ExitStack() as stack:
            stack.enter_context(self._lock)
            if (self.folder / METADATA).exists():  # another process may have continued meanwhile
                self._read()
                self._resume()
            else:
                self._cut()
                self._record(self.progress)
            self._held = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def _read(self) -> None:
        settings, self.progress = read_metadata(self.folder)
        if settings != self.settings:
            other = [x.name for x in fields(settings) if getattr(settings, x.name) != getattr(self.settings, x.name)]
            what = list(dict.fromkeys("texts" if x in ("rows", "rows_fingerprint") else x for x in other))
            raise DataError(
                f"{self.folder}: holds an index with other settings ({', '.join(what)}); name another folder, or "
                "delete it"
            )

    def _resume(self) -> None:
        if self.progress.complete:
            return
        for name, (size, _) in self.progress.files.items():  # all are checked before any is changed
            path = self.folder / name
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise DataError(f"{path}: is a link, or no regular file; delete the folder and index the text again")
            if size and (not path.is_file() or path.stat().st_size < size):
                raise DataError(f"{path}: is shorter than was recorded; delete the folder and index the text again")
        self._cut()

    def _cut(self) -> None:
        """Cut off what is longer than recorded, and remove files of a chunk that was not. Raises: OSError"""
        for name, (size, _) in self.progress.files.items():
            if (self.folder / name).is_file():
                with open(append_handle(self.folder / name), "a+b") as stream:
                    stream.truncate(size)
        chunks = self.progress.chunks
        others = [self.folder / neurons_file(chunk) for chunk in (chunks - 1, chunks + 1)]
        for path in (*self._leftovers(), *others):
            path.unlink(missing_ok=True)

    def _leftovers(self) -> list[Path]:
        """Files that a process left which was killed while it wrote them."""
        return [path for name in (METADATA, "neurons.*.bin") for path in self.folder.glob(f".{name}.*.partial")]

    def append(
        self,
        columns: Mapping[str, np.ndarray],
        neurons: np.ndarray,
        *,
        rows: int,
        row_windows: int = 0,
        complete: bool = False,
    ) -> None:
        """Append a chunk, and record it.

        Args:
            rows, row_windows: where the next chunk begins: this many rows are done, and this many windows of the next

        Raises: DataError: the disk is full, or another process writes to the folder.
        """
        files = dict(self.progress.files)
        done = f"what is recorded is kept, up to row {self.progress.rows:,}; the same command resumes it"
        with disk_errors(self.folder, DataError, "the index", done), self._cut_after_errors():
            for name, values in columns.items():
                files[name] = self._append(name, np.ascontiguousarray(values), *files[name])
            progress = replace(
                self.progress,
                rows=rows,
                row_windows=row_windows,
                chunks=self.progress.chunks + 1,
                tokens=self.progress.tokens + len(columns["tokens.bin"]),
                windows=self.progress.windows + len(columns["windows.bin"]),
                complete=complete,
            )
            last, name = neurons_file(self.progress.chunks), neurons_file(progress.chunks)
            files.pop(last, None)
            with atomic_file(self.folder / name) as stream:
                stream.write(neurons.tobytes())
            files[name] = neurons.nbytes, zlib.crc32(neurons.tobytes())
            flush_folder(self.folder)
            self._record(replace(progress, files=files))
            (self.folder / last).unlink(missing_ok=True)

    @contextmanager
    def _cut_after_errors(self) -> Iterator[None]:
        """After an error of the disk, leave no part of a chunk: its bytes are free again, and the index is whole."""
        try:
            yield
        except OSError:
            # index.json may have been replaced and only its flush have failed: what it says counts.
            with suppress(OSError, DataError):
                self.progress = read_metadata(self.folder)[1]
                self._cut()
            raise

    def _append(self, name: str, values: np.ndarray, size: int, crc: int) -> tuple[int, int]:
        path = self.folder / name
        content = values.reshape(-1).view("u1").data  # its bytes, not a copy
        with open(append_handle(path), "a+b") as stream:
            if stream.tell() != size:
                raise DataError(f"{path}: another process writes to this index; let it finish, or stop it")
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        return size + len(content), zlib.crc32(content, crc)

    def _record(self, progress: IndexProgress) -> None:
        values = {"format": FORMAT, "version": VERSION, "settings": asdict(self.settings)}
        with atomic_file(self.folder / METADATA) as stream:
            stream.write(json.dumps({**values, "progress": asdict(progress)}, indent=2).encode())
        self.progress = progress


def check_files(folder: Path, progress: IndexProgress, names: Iterator[str] | None = None) -> None:
    """Check the size of every file, and the CRC-32 of those named; None = of none.

    Raises: DataError: a file that is missing, cut or damaged.
    """
    for name, (size, _) in progress.files.items():
        path = folder / name
        actual = path.stat().st_size if path.is_file() else None
        if actual != size:
            state = "is missing" if actual is None else f"has {actual:,} bytes"
            raise DataError(f"{path}: {state}, and {size:,} were written; delete the folder and index the text again")
    for name in names or ():
        with open_regular_file(folder / name, DataError)[0] as stream:
            crc = 0
            while block := stream.read(BLOCK_BYTES):
                crc = zlib.crc32(block, crc)
        if crc != progress.files[name][1]:
            raise DataError(f"{folder / name}: is damaged (its checksum); delete the folder and index the text again")
