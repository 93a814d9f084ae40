"""Read checkpoints lazily: headers at once, tensors memory-mapped when they are used.

    open_checkpoint(folder) ──> WeightFiles ──> .tensors      name → shape, dtype, bytes, file
                                           ├──> .read(name)   the tensor, memory-mapped from the file
                                           ├──> .read_together(names)     several, mapped side by side
                                           └──> .read_into(name, target)  its bytes, copied into a tensor

A tensor from a safetensors file is a private (copy-on-write) mapping of the file: no byte is read before it is used,
and training on it changes memory, never the file.

Tensors are mapped side by side: q, k and v, which a file stores apart, as one tensor without a copy.

    file      … k k │ … o o o o … │ q q q q │ … v v │ …
    memory    q q q q k k v v          each page is a private (copy-on-write) page of the file

Only whole pages can be placed, so a part must begin as far into a page as the one before it ends. Large matrices mostly
do: their sizes are multiples of a page, which shifts all of them by the same number of bytes, that of the header.

On 64-bit Linux alone; elsewhere `map_together` returns None, and what calls it copies.
Source: mmap(2), MAP_FIXED.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from glassformer.errors import WeightsError
from glassformer.files import error_reason, open_regular_file, safe_repr
from glassformer.weights.header import MAX_TENSORS, Header, TensorInfo, read_file_header
from glassformer.weights.layout import CheckpointLayout, find_weights
from glassformer.weights.pickled import convert, read_settings, read_ties

SUPPORTED = sys.platform == "linux" and sys.maxsize > 2**32
MAP_FIXED = 0x10  # at this very address; Python's module has no name for it
MIN_BYTES = 2**20
"""What is smaller is copied: a mapping costs some page faults and an entry in the process's table."""


def map_together(parts: Sequence[tuple[int, int, int]]) -> memoryview | None:
    """Map parts of files one behind the other, as writable private memory.

    Args:
        parts: an open file's number, an offset in it, and a size in bytes, within the file. The file may be closed
            afterwards.
    Returns: the bytes; the mapping lives as long as a view of them. None where it cannot be done.
    """
    total, shift = sum(size for _, _, size in parts), parts[0][1] % PAGESIZE
    if not SUPPORTED or total < MIN_BYTES or not _fit_pages(parts, shift):
        return None
    # Python's mapping reserves the addresses, and gives all of them back in the end.
    reserved = mmap(-1, shift + total + PAGESIZE, MAP_PRIVATE | MAP_ANONYMOUS)
    memory = memoryview(reserved)
    address = ctypes.addressof(ctypes.c_char.from_buffer(reserved))
    place = _system_mmap()
    end = shift
    for file, offset, size in parts:
        page = end - end % PAGESIZE
        before = bytes(memory[page:end])  # the end of the part before, which shares this page
        length = end + size - page
        protection, kind = PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED
        if place(address + page, length, protection, kind, file, offset - (end - page)) != address + page:
            return None  # no memory, or too many mappings
        if end > shift:
            memory[page:end] = before
        end += size
    return memory[shift:end]


def _fit_pages(parts: Sequence[tuple[int, int, int]], shift: int) -> bool:
    """Whether each part begins as far into a page as the part before it ends."""
    end = shift
    for _, offset, size in parts:
        if offset % PAGESIZE != end % PAGESIZE:
            return False
        end += size
    return True


def _system_mmap() -> Callable[..., int | None]:
    """mmap(2), since Python's own cannot be told an address."""
    place: Any = ctypes.CDLL(None).mmap
    place.restype = ctypes.c_void_p
    place.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    call: Callable[..., int | None] = place
    return call


__all__ = ["TensorInfo", "WeightFiles", "open_checkpoint", "open_file", "open_pickle"]


def open_checkpoint(folder: Path, *, allow_pickle: bool = False) -> WeightFiles:
    """Open the checkpoint in `folder`: every header validated, no tensor allocated.

    Args:
        folder: a model folder in the Hugging Face layout: `model.safetensors`, or
            `model.safetensors.index.json` and its shards.
        allow_pickle: also take `pytorch_model.bin` (with or without index) or a single `*.pt`, where there
            is no safetensors file. Read in a sandboxed child process; see `pickled.py`.

    Returns: the checkpoint; use it in a `with` block, or `close()` it.

    Raises: WeightsError: the folder, the file or the tensor that is wrong, why, and what to do.

    Source: safetensors format; index files: Hugging Face, "Sharded checkpoints".
    """
    layout = find_weights(Path(folder), allow_pickle=allow_pickle)
    if layout.pickled:
        return _open_pickled(layout)
    headers = {path: read_file_header(path) for path in layout.files}
    stored = {
        path: {name: _Location(path, name, info) for name, info in header.tensors.items()}
        for path, header in headers.items()
    }
    return WeightFiles(layout.files, _indexed(layout, stored), _merge_metadata(headers))


def open_file(path: Path) -> WeightFiles:
    """Open one safetensors file of any name, by the same rules as `open_checkpoint`.

    Raises: WeightsError: it is missing or damaged, and how.
    """
    header = read_file_header(path)
    locations = {name: _Location(path, name, info) for name, info in header.tensors.items()}
    return WeightFiles((path,), locations, header.metadata)


def open_pickle(path: Path) -> WeightFiles:
    """Open one pickled file of any name, read in a sandboxed child process; `settings` holds what is no tensor in it.

    Raises: WeightsError: it is missing, damaged, or more than tensors, numbers and texts.
    """
    return _open_pickled(CheckpointLayout((path,), None, pickled=True))


def _open_pickled(layout: CheckpointLayout) -> WeightFiles:
    """Convert each pickle to a safetensors file in a child process, and open those."""
    folder = TemporaryDirectory(prefix="glassformer-", ignore_cleanup_errors=True)
    try:
        stored: dict[Path, dict[str, _Location]] = {}
        settings: dict[str, Any] = {}
        for number, path in enumerate(layout.files):
            converted = Path(folder.name) / f"{number}.safetensors"
            convert(path, converted)
            header = read_file_header(converted)
            locations = {
                name: _Location(converted, name, replace(info, file=path)) for name, info in header.tensors.items()
            }
            for name, first in read_ties(header.metadata, path).items():
                if first not in locations:
                    raise WeightsError(
                        f"{path}: tensor {safe_repr(name)} shares memory with a tensor that is not there"
                    )
                locations[name] = locations[first]
            stored[path] = locations
            settings |= read_settings(header.metadata, path)
        return WeightFiles(layout.files, _indexed(layout, stored), {}, folder, settings)
    except BaseException:
        folder.cleanup()
        raise


@dataclass(frozen=True, slots=True)
class _Location:
    """Where a tensor is stored: the file, and its name there (tied tensors share one)."""

    file: Path
    name: str
    info: TensorInfo


def _indexed(layout: CheckpointLayout, stored: Mapping[Path, Mapping[str, _Location]]) -> dict[str, _Location]:
    """The tensors of the checkpoint: all of a single file, or those that the index names, each from its shard."""
    if layout.weight_map is None:
        return dict(stored[layout.files[0]])
    if sum(len(locations) for locations in stored.values()) > MAX_TENSORS:
        raise WeightsError(f"{layout.files[0].parent}: the shards hold more than {MAX_TENSORS} tensors")
    locations: dict[str, _Location] = {}
    for name, path in layout.weight_map.items():
        if name not in stored[path]:
            raise WeightsError(f"{path}: does not hold tensor {safe_repr(name)}, which the index says it does")
        locations[name] = stored[path][name]
    return locations


def _merge_metadata(headers: Mapping[Path, Header]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for header in headers.values():
        merged = header.metadata | merged
    return merged


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from another one that took its place."""
    return status.st_ino, status.st_size, status.st_mtime_ns


class WeightFiles:
    """An open checkpoint: its tensors by name, read when they are used.

    Attributes:
        tensors: name → shape, dtype, bytes and file, in the file's order; nothing is allocated for it.
        metadata: the headers' metadata, `{"format": "pt"}` as a rule.
        files: the weight files of the folder.
        settings: numbers and texts that pickles hold besides their tensors.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        locations: Mapping[str, _Location],
        metadata: Mapping[str, str],
        folder: TemporaryDirectory[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.files = files
        self.settings = dict(settings or {})
        self.tensors = {name: location.info for name, location in locations.items()}
        self.metadata = dict(metadata)
        self._locations = dict(locations)
        self._folder = folder  # of converted pickles; goes with the checkpoint, closed or forgotten
        self._open: dict[Path, Any] = {}
        self._streams: dict[Path, BufferedReader] = {}
        self._stamps = {file: _stamp(os.stat(file)) for file in {at.file for at in locations.values()}}
        self._closed = False

    def read(self, name: str, *, transient: bool = False) -> torch.Tensor:
        """Read one tensor, as a private, writable mapping of its file wherever its alignment there allows.

        Args:
            name: one of `tensors`.
            transient: it will be copied and dropped: give it a mapping of its own, so that the pages of the file that
                were read for it are released with it, and not with the last tensor of the file.

        Returns: the tensor, on the CPU; it stays valid after `close()`. Writing to it never reaches the file.

        Raises: WeightsError: no such tensor, a closed checkpoint, a file that changed since it was opened, or
            a BOOL tensor that holds anything but 0 and 1 (torch may compute nonsense from such).
        """
        location = self._locate(name)
        info = location.info
        try:
            tensor: torch.Tensor = self._handle(location.file, transient).get_tensor(location.name)
        except (SafetensorError, OSError, RuntimeError) as problem:
            raise WeightsError(
                f"{info.file}: tensor {safe_repr(name)} cannot be read: {error_reason(problem)}"
            ) from problem
        if tuple(tensor.shape) != info.shape or tensor.dtype != info.dtype:
            raise WeightsError(f"{info.file}: tensor {safe_repr(name)} changed while the checkpoint was open")
        if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
            raise WeightsError(f"{info.file}: tensor {safe_repr(name)} is BOOL but holds bytes other than 0 and 1")
        # The format allows unaligned offsets; kernels may not.
        return tensor if tensor.data_ptr() % tensor.element_size() == 0 else tensor.clone()

    def read_into(self, name: str, target: torch.Tensor) -> None:
        """Read the bytes of one tensor into `target`, a contiguous CPU tensor of its dtype and number of elements.

        For what is copied anyway: by `read` it would be mapped first, which costs several times the copy itself.

        Raises: WeightsError: no such tensor, a closed checkpoint, or a file that changed since it was opened.
        """
        location = self._locate(name)
        info = location.info
        assert target.dtype == info.dtype and target.nbytes == info.bytes and target.is_contiguous()
        view = target.reshape(-1).view(torch.uint8).numpy().data
        try:
            stream = self._stream(location.file, name)
            stream.seek(info.begin)
            while view and (count := stream.readinto(view)):
                view = view[count:]
        except OSError as problem:
            raise WeightsError(
                f"{info.file}: tensor {safe_repr(name)} cannot be read: {error_reason(problem)}"
            ) from problem
        if view:
            raise WeightsError(f"{info.file}: tensor {safe_repr(name)} changed while the checkpoint was open")

    def read_together(self, names: Sequence[str]) -> torch.Tensor | None:
        """Read several tensors of one dtype as one vector, end to end, mapped without a copy.

        Returns: None where their places in the files do not allow it: see `map_together`.
        Raises: WeightsError: as `read_into`.
        """
        locations = [self._locate(name) for name in names]
        infos = [location.info for location in locations]
        if len({info.dtype for info in infos}) > 1 or infos[0].begin % infos[0].dtype.itemsize:
            return None  # kernels may not take unaligned numbers
        files = [self._stream(location.file, location.name).fileno() for location in locations]
        memory = map_together([(file, info.begin, info.bytes) for file, info in zip(files, infos, strict=True)])
        return None if memory is None else torch.frombuffer(memory, dtype=infos[0].dtype)

    def _locate(self, name: str) -> _Location:
        """Where an open checkpoint has a tensor."""
        if self._closed:
            raise WeightsError(
                f"{self.files[0].parent}: the checkpoint is closed; open it again to read {safe_repr(name)}"
            )
        if name not in self._locations:
            raise WeightsError(f"{self.files[0].parent}: has no tensor {safe_repr(name)}; see WeightFiles.tensors")
        return self._locations[name]

    def _stream(self, file: Path, name: str) -> BufferedReader:
        """The file, open for reading. Raises: WeightsError: it is another one than the header came from."""
        if file not in self._streams:
            stream, _ = open_regular_file(file)
            if _stamp(os.fstat(stream.fileno())) != self._stamps[file]:
                stream.close()
                raise WeightsError(f"{file}: tensor {safe_repr(name)} changed while the checkpoint was open")
            self._streams[file] = stream
        return self._streams[file]

    def _handle(self, file: Path, transient: bool) -> Any:
        if transient or file not in self._open:
            handle = safe_open(str(file), framework="pt", device="cpu")
            if transient:
                return handle
            self._open[file] = handle
        return self._open[file]

    def close(self) -> None:
        """Close the files; tensors already read stay valid."""
        self._closed = True
        while self._open:
            _, handle = self._open.popitem()
            handle.__exit__(None, None, None)
        while self._streams:
            _, stream = self._streams.popitem()
            stream.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> WeightFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        size = sum(info.bytes for info in self.tensors.values())
        return f"WeightFiles({len(self)} tensors, {size} bytes, {len(self.files)} files in {self.files[0].parent})"


class ComputedWeights(WeightFiles):
    """An open checkpoint whose tensors are computed or copied from what its files hold: none is a mapping of a file."""

    def read_into(self, name: str, target: torch.Tensor) -> None:
        target.copy_(self.read(name, transient=True).reshape(target.shape))

    def read_together(self, names: Sequence[str]) -> torch.Tensor | None:
        return None
