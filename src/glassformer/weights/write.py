"""Write safetensors checkpoints atomically: a save interrupted at any moment leaves the previous one intact.

    write next to (.model.safetensors.3f9a.partial) → flush to the disk → rename over the old name

A rename is one step: readers see the old file or the new one. A model whose tensors are mapped from the old
file keeps it, since the new file is a new one, not the old one overwritten. In a checkpoint of several
files the index is that one step: shards of a new save never take the names of shards in use.

The tensors go to the file one by one, so a model on an accelerator needs memory for one tensor, not for all.

Source: the safetensors format, https://github.com/huggingface/safetensors#format; tests compare the files
byte for byte with those the safetensors library writes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from glassformer.errors import WeightsError
from glassformer.files import read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.weights.header import DTYPE_NAMES, DTYPES, MAX_HEADER_BYTES, MAX_TENSORS
from glassformer.weights.layout import INDEX, SINGLE

_OWN_SHARD = re.compile(r"model-(?:[0-9a-f]{8}-)?[0-9]{5,}-of-[0-9]{5,}\.safetensors")


def write_checkpoint(
    folder: Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int = 5_000_000_000,
) -> None:
    """Write a checkpoint to `folder` in the Hugging Face layout, replacing an older one atomically.

    One file `model.safetensors`, or where that would be larger than `max_shard_bytes`: shards
    `model-00001-of-00003.safetensors` and so on with `model.safetensors.index.json`.

    Args:
        folder: made where it is missing.
        tensors: on any device, contiguous or not; each is written whole, also where two share memory.
        metadata: free text for the header; `{"format": "pt"}` is always there, as other readers ask for it.
        max_shard_bytes: no file holds more, but a single larger tensor has a file of its own.

    Raises: WeightsError: a tensor that cannot be stored, or the disk refuses (full, read-only). The folder
        holds the previous checkpoint whole then, or the new one if only the last flush failed.
    """
    folder = Path(folder)
    texts = {"format": "pt", **(metadata or {})}
    if not tensors:
        raise WeightsError("a checkpoint needs at least one tensor, got none")
    if max_shard_bytes < 1:
        raise WeightsError(f"max_shard_bytes must be at least 1, got {max_shard_bytes}")
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise WeightsError(f"metadata must map texts to texts, got {safe_repr(dict(texts))}")
    for name, tensor in tensors.items():
        check_storable(name, tensor)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        old_shards = _shards_in_use(folder)
        shards = _split_into_shards(tensors, max_shard_bytes)
        if len(shards) == 1:
            with atomic_file(folder / SINGLE) as stream:
                write_tensors(stream, tensors, texts)
            # The single file takes precedence, so the old index is out of use from the rename on.
            _remove(folder, [INDEX, *sorted(old_shards)])
        else:
            names = _write_shards(folder, shards, texts)
            # A single file would take precedence over the index: it goes when all else is in place.
            _remove(folder, [SINGLE, *sorted(old_shards - names)])


def _write_shards(folder: Path, shards: list[dict[str, Tensor]], texts: Mapping[str, str]) -> set[str]:
    """Write shards under names that are free, then the index that puts them in use."""
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    if any((folder / name).exists() for name in names):
        suffix = secrets.token_hex(4)
        names = [name.replace("model-", f"model-{suffix}-", 1) for name in names]
    try:
        for name, shard in zip(names, shards, strict=True):
            with atomic_file(folder / name) as stream:
                write_tensors(stream, shard, texts)
        weight_map = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
        total = sum(_byte_count(tensor) for shard in shards for tensor in shard.values())
        write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
    except BaseException:
        # The index may be in place already, and only its flush have failed. Then the new checkpoint stays,
        # unless the old single file, which takes precedence, is still there.
        indexed = bool(_shards_in_use(folder) & set(names))
        if not indexed or (folder / SINGLE).exists():
            _remove(folder, [*([INDEX] if indexed else []), *names])
        raise
    return set(names)


def write_tensors(stream: BinaryIO, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write one whole safetensors file to `stream`.

    Widest dtypes come first, then names in order, so that each tensor is aligned.

    Raises:
        WeightsError: the header would be larger than the format allows, or is not valid Unicode.
        OSError: as the system refuses.
    """
    rank = {dtype: position for position, dtype in enumerate(DTYPES.values())}
    order = sorted(tensors, key=lambda name: (rank[tensors[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name in order:
        tensor = tensors[name]
        end = begin + _byte_count(tensor)
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError as problem:
        raise WeightsError(f"a name or metadata is not valid Unicode: {problem}") from None
    text += b" " * (-len(text) % 8)  # the data begins at a multiple of 8 bytes, as the format asks for
    if len(text) > MAX_HEADER_BYTES:
        raise WeightsError(f"the names and metadata need {len(text)} bytes, at most {MAX_HEADER_BYTES} fit a header")
    stream.write(len(text).to_bytes(8, "little"))
    stream.write(text)
    for name in order:
        values = tensors[name].detach().to("cpu").resolve_neg().contiguous().reshape(-1)
        if values.stride(0) != 1:  # one element counts as contiguous whatever its stride, as of an expanded tensor
            values = values.clone(memory_format=torch.contiguous_format)
        stream.write(values.view(torch.uint8).numpy().data)


def _byte_count(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def check_storable(name: str, tensor: Tensor) -> None:
    """Check that the format can store a tensor, before anything is written.

    Raises: WeightsError: its dtype, layout or device cannot be stored.
    """
    if name == "__metadata__":
        raise WeightsError("no tensor can be named '__metadata__': the format uses that name itself")
    if tensor.dtype not in DTYPE_NAMES:
        raise WeightsError(f"tensor {safe_repr(name)} is {tensor.dtype}; a checkpoint holds {', '.join(DTYPES)}")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise WeightsError(
            f"tensor {safe_repr(name)} is sparse or quantised; make it dense first: to_dense(), dequantize()"
        )
    if tensor.is_meta:
        raise WeightsError(f"tensor {safe_repr(name)} is on the meta device and has no numbers to write")


def _split_into_shards(tensors: Mapping[str, Tensor], max_shard_bytes: int) -> list[dict[str, Tensor]]:
    """Split tensors into shards in the order given; one that does not fit begins the next shard."""
    if len(tensors) > MAX_TENSORS:
        raise WeightsError(f"{len(tensors)} tensors; a checkpoint holds at most {MAX_TENSORS}")
    shards: list[dict[str, Tensor]] = [{}]
    shard_bytes = 0
    for name, tensor in tensors.items():
        if shards[-1] and shard_bytes + _byte_count(tensor) > max_shard_bytes:
            shards.append({})
            shard_bytes = 0
        shards[-1][name] = tensor
        shard_bytes += _byte_count(tensor)
    return shards


def _shards_in_use(folder: Path) -> set[str]:
    """The shards of the checkpoint about to be replaced: only files named as this module names them."""
    if not (folder / INDEX).exists():
        return set()
    try:
        weight_map = read_json_object(folder / INDEX).get("weight_map")
    except WeightsError:
        return set()  # a damaged index is replaced; what it once named is unknown and stays
    names = weight_map.values() if isinstance(weight_map, dict) else ()
    return {name for name in names if isinstance(name, str) and _OWN_SHARD.fullmatch(name)}


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            (folder / name).unlink()
