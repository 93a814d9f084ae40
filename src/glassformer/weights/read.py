"""Reading a checkpoint: what it holds is known at once, the numbers come when they are asked for.

    open_checkpoint(folder) ──> Checkpoint ──> .tensors      name → shape, dtype, bytes, file
                                          └──> .read(name)   the tensor, mapped from the file

A tensor from a safetensors file is a private view of the file: no byte is read before it is used, and
training on it changes memory, never the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from glassformer.errors import WeightsError
from glassformer.files import reason, shown
from glassformer.weights.header import MAX_TENSORS, Header, TensorInfo, read_file_header
from glassformer.weights.layout import Layout, find_weights
from glassformer.weights.pickled import convert, read_ties

__all__ = ["Checkpoint", "TensorInfo", "open_checkpoint", "open_file"]


def open_checkpoint(folder: Path, *, allow_pickle: bool = False) -> Checkpoint:
    """Open the weights in `folder`: every file checked whole, no tensor allocated.

    Args:
        folder: a model folder in the Hugging Face layout: `model.safetensors`, or
            `model.safetensors.index.json` and its shards.
        allow_pickle: also take `pytorch_model.bin` (with or without index) or a single `*.pt`, where there
            is no safetensors file. Read in a child process that can do nothing else; see `pickled.py`.

    Returns: the checkpoint; use it in a `with` block, or `close()` it.

    Raises: WeightsError: the folder, the file or the tensor that is wrong, why, and what to do.

    Source: safetensors format; index files: Hugging Face, "Sharded checkpoints".
    """
    layout = find_weights(Path(folder), allow_pickle=allow_pickle)
    if layout.pickled:
        return _open_pickled(layout)
    headers = {path: read_file_header(path) for path in layout.files}
    stored = {
        path: {name: _Place(path, name, info) for name, info in header.tensors.items()}
        for path, header in headers.items()
    }
    return Checkpoint(layout.files, _choose(layout, stored), _merged_metadata(headers))


def open_file(path: Path) -> Checkpoint:
    """Open one safetensors file of any name, by the same rules.

    Raises: WeightsError: it is missing or damaged, and how.
    """
    header = read_file_header(path)
    places = {name: _Place(path, name, info) for name, info in header.tensors.items()}
    return Checkpoint((path,), places, header.metadata)


def _open_pickled(layout: Layout) -> Checkpoint:
    """Let a child process turn each pickle into a safetensors file, and read those."""
    folder = TemporaryDirectory(prefix="glassformer-", ignore_cleanup_errors=True)
    try:
        stored: dict[Path, dict[str, _Place]] = {}
        for number, path in enumerate(layout.files):
            converted = Path(folder.name) / f"{number}.safetensors"
            convert(path, converted)
            header = read_file_header(converted)
            places = {
                name: _Place(converted, name, replace(info, file=path))
                for name, info in header.tensors.items()
            }
            for name, first in read_ties(header.metadata, path).items():
                if first not in places:
                    raise WeightsError(
                        f"{path}: tensor {shown(name)} shares memory with a tensor that is not there"
                    )
                places[name] = places[first]
            stored[path] = places
        return Checkpoint(layout.files, _choose(layout, stored), {}, folder)
    except BaseException:
        folder.cleanup()
        raise


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor's numbers are: in which file, under which name (tied ones share one)."""

    file: Path
    name: str
    info: TensorInfo


def _choose(layout: Layout, stored: Mapping[Path, Mapping[str, _Place]]) -> dict[str, _Place]:
    """The tensors of the checkpoint: all of the only file, or those the index names, each from its shard."""
    if layout.weight_map is None:
        return dict(stored[layout.files[0]])
    if sum(len(places) for places in stored.values()) > MAX_TENSORS:
        raise WeightsError(f"{layout.files[0].parent}: the shards hold more than {MAX_TENSORS} tensors")
    chosen: dict[str, _Place] = {}
    for name, path in layout.weight_map.items():
        if name not in stored[path]:
            raise WeightsError(f"{path}: does not hold tensor {shown(name)}, which the index says it does")
        chosen[name] = stored[path][name]
    return chosen


def _merged_metadata(headers: Mapping[Path, Header]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for header in headers.values():
        merged = header.metadata | merged
    return merged


class Checkpoint:
    """The tensors of one checkpoint, by name.

    Attributes:
        tensors: name → shape, dtype, bytes and file, in the file's order; nothing is allocated for it.
        metadata: the free text of the files' headers, `{"format": "pt"}` as a rule.
        files: the weight files, as found in the folder.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        places: Mapping[str, _Place],
        metadata: Mapping[str, str],
        folder: TemporaryDirectory[str] | None = None,
    ) -> None:
        self.files = files
        self.tensors = {name: place.info for name, place in places.items()}
        self.metadata = dict(metadata)
        self._places = dict(places)
        self._folder = folder  # of converted pickles; goes with the checkpoint, closed or forgotten
        self._open: dict[Path, Any] = {}
        self._closed = False

    def read(self, name: str, *, passing: bool = False) -> torch.Tensor:
        """Read one tensor, as a private, writable view of its file wherever its place there allows.

        Args:
            name: one of `tensors`.
            passing: it will be copied and dropped: give it a mapping of its own, so that the pages of the file that
                were read for it are let go with it, and not with the last tensor of the file.

        Returns: the tensor, on the CPU; it stays valid after `close()`. Writing to it never reaches the file.

        Raises: WeightsError: no such tensor, a closed checkpoint, a file that changed since it was opened, or
            a BOOL tensor that holds anything but 0 and 1 (torch may compute nonsense from such).
        """
        if self._closed:
            raise WeightsError(
                f"{self.files[0].parent}: the checkpoint is closed; open it again to read {shown(name)}"
            )
        if name not in self._places:
            raise WeightsError(f"{self.files[0].parent}: has no tensor {shown(name)}; see Checkpoint.tensors")
        place = self._places[name]
        info = place.info
        try:
            tensor: torch.Tensor = self._handle(place.file, passing).get_tensor(place.name)
        except (SafetensorError, OSError, RuntimeError) as problem:
            raise WeightsError(
                f"{info.file}: tensor {shown(name)} cannot be read: {reason(problem)}"
            ) from problem
        if tuple(tensor.shape) != info.shape or tensor.dtype != info.dtype:
            raise WeightsError(f"{info.file}: tensor {shown(name)} changed while the checkpoint was open")
        if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
            raise WeightsError(
                f"{info.file}: tensor {shown(name)} is BOOL but holds bytes other than 0 and 1"
            )
        # The format allows odd places in the file; kernels may not.
        return tensor if tensor.data_ptr() % tensor.element_size() == 0 else tensor.clone()

    def _handle(self, file: Path, passing: bool) -> Any:
        if passing or file not in self._open:
            handle = safe_open(str(file), framework="pt", device="cpu")
            if passing:
                return handle
            self._open[file] = handle
        return self._open[file]

    def close(self) -> None:
        """Let go of the files; tensors already read stay valid."""
        self._closed = True
        while self._open:
            _, handle = self._open.popitem()
            handle.__exit__(None, None, None)
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        size = sum(info.bytes for info in self.tensors.values())
        return f"Checkpoint({len(self)} tensors, {size} bytes, {len(self.files)} files in {self.files[0].parent})"
