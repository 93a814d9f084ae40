"""Write GGUF files, which llama.cpp runs: quantized tensor by tensor, and atomically.

    matrices                  f32, f16, bf16, Q8_0, Q4_0, Q4_K
    output layer              Q6_K with Q4_0 and Q4_K: also the embedding where that is the output layer
    vectors, positions        f32

A row is a whole number of blocks: rows that no block of 256 divides are Q5_0 or Q8_0 (blocks of 32), those that 32 does
not divide are f16, as llama.cpp's own quantization has them.
The file is the `gguf` package's work, and so is the rounding but for `k_quants.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError, import_optional
from glassformer.files import safe_repr
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.gguf.k_quants import KINDS, quantize_k
from glassformer.gguf.weights import Named

FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "q4_k": 14, "bf16": 32}
"""`general.file_type`, which names the type of most tensors; 14: Q4_K, and more bits where it counts."""
OUTPUT = {"q4_0": "Q6_K", "q4_k": "Q6_K"}
"""Kind of the output layer, whose error reaches the logits as it is."""
NARROWER = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}
"""For rows that no block of 256 divides: kinds of blocks of 32."""
ALWAYS_F32 = ("position_embd.weight",)


@dataclass(frozen=True, slots=True)
class WrittenTensor:
    """A tensor of a file: its kind, size, and why it has another kind than was asked for ("" = it has not)."""

    name: str
    kind: str
    size: int
    reason: str = ""


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[Tensor, Named]], type: str
) -> list[WrittenTensor]:
    """Write a GGUF file.

    Args:
        metadata: with general.architecture
        tensors: name in the file → tensor of the reference library, and how the file has it
        type: of the matrices
    Returns: what became of each tensor.
    Raises: ConfigError: another type, or numbers that it cannot hold. DataError: the disk refuses; what was at `path`
        is as it was. MissingExtraError: the `gguf` package is not installed.
    """
    package: Any = import_optional("gguf", "gguf", "gguf", "writing GGUF files")
    if type not in FILE_TYPES:
        raise ConfigError(f"type is {safe_repr(type)}; it must be one of {', '.join(FILE_TYPES)}")
    writer = package.GGUFWriter(None, metadata["general.architecture"])
    written = []
    for name, (tensor, named) in tensors.items():
        # Numbers are made when they are written, so that no second model is in memory.
        shape = tuple(tensor.shape[::-1] if named.transposed else tensor.shape)
        made = _planned(package, name, shape, type, tied="output.weight" not in tensors)
        kind = package.GGMLQuantizationType[made.kind]
        writer.add_tensor_info(name, shape, np.dtype(np.float32), made.size, raw_dtype=kind)
        written.append(made)
    _add_metadata(writer, package, {**metadata, "general.file_type": FILE_TYPES[type]})
    with disk_errors(path, DataError, "the GGUF file"), atomic_file(path) as stream:
        writer.fout, writer.state = [stream], package.gguf_writer.WriterState.EMPTY  # instead of a file of its own
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for made, (tensor, named) in zip(written, tensors.values(), strict=True):
            x = named.written(tensor.detach().to("cpu", torch.float32))
            writer.write_tensor_data(_quantized(package, made, x))
    return written


def _planned(package: Any, name: str, shape: tuple[int, ...], type: str, *, tied: bool) -> WrittenTensor:
    kind, reason = type.upper(), ""
    if len(shape) < 2 or name in ALWAYS_F32:
        kind = "F32"
    elif type in OUTPUT and name == ("token_embd.weight" if tied else "output.weight"):
        kind = OUTPUT[type]
    sizes = {
        name: package.GGML_QUANT_SIZES[package.GGMLQuantizationType[name]] for name in (kind, "Q5_0", "Q8_0", "F16")
    }
    for other in (NARROWER.get(kind), "F16"):
        if shape[-1] % sizes[kind][0] and other is not None:
            reason = f"rows of {shape[-1]} are no multiple of {sizes[kind][0]}"
            kind = other
    block, size = sizes[kind]
    count = int(np.prod(shape))
    return WrittenTensor(name, kind, count // block * size, reason)


def _add_metadata(writer: Any, package: Any, metadata: Mapping[str, Any]) -> None:
    for key, value in metadata.items():
        if key == "general.architecture":
            continue  # the writer has it
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(value.__class__, writer.add_array)(key, value)
    writer.add_quantization_version(package.GGML_QUANT_VERSION)


def _quantized(package: Any, made: WrittenTensor, x: Tensor) -> np.ndarray[Any, Any]:
    if made.kind == "F16" and x.abs().amax() > torch.finfo(torch.float16).max:
        raise ConfigError(
            f"tensor {safe_repr(made.name)} has numbers up to {x.abs().amax().item():.3g}, which float16 cannot hold; "
            "choose the type bf16 or f32"
        )
    if made.kind in KINDS:
        return quantize_k(x, made.kind).numpy()
    data: np.ndarray[Any, Any] = package.quants.quantize(x.numpy(), package.GGMLQuantizationType[made.kind])
    return data


def summary(written: Iterable[WrittenTensor]) -> list[tuple[str, int, int, str]]:
    """Kind, number of tensors, bytes and reason: those of a kind and reason together, the largest first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for tensor in written:
        groups.setdefault((tensor.kind, tensor.reason), []).append(tensor.size)
    ordered = sorted(groups.items(), key=lambda group: -sum(group[1]))
    return [(kind, len(sizes), sum(sizes), reason) for (kind, reason), sizes in ordered]
