"""Weights of a GGUF file: dequantized when they are read, with the reference library's names and layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import UnsupportedError, WeightsError, import_optional
from glassformer.files import safe_repr
from glassformer.gguf.header import GGUFHeader, StoredTensor
from glassformer.weights.header import TensorInfo
from glassformer.weights.read import ComputedWeights


class TensorLayout(Protocol):
    """How numbers of a tensor differ between GGUF and the reference library; the shape is the same."""

    def read(self, x: Tensor) -> Tensor: ...
    def written(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Named:
    """A tensor under another name, with other numbers where it has a layout, and transposed where it says so."""

    name: str
    layout: TensorLayout | None = None
    transposed: bool = False

    def read(self, x: Tensor) -> Tensor:
        """From GGUF to the reference library."""
        x = x if self.layout is None else self.layout.read(x)
        return (x.T if self.transposed else x).contiguous()

    def written(self, x: Tensor) -> Tensor:
        """The inverse of `read`."""
        x = x.T if self.transposed else x
        return (x if self.layout is None else self.layout.written(x)).contiguous()


class GGUFWeights(ComputedWeights):
    """An open GGUF file, as a checkpoint of fp32 tensors.

    Args:
        names: name in the file → how the reference library has it
    Raises: MissingExtraError: the `gguf` package is not installed. UnsupportedError: a quantization that it does not
        know. WeightsError: a tensor that the file does not hold whole.
    """

    def __init__(self, header: GGUFHeader, names: Mapping[str, Named]) -> None:
        super().__init__((header.path,), {}, {})
        self._quants: Any = import_optional("gguf.quants", "gguf", "gguf", "reading GGUF files")
        self._constants: Any = import_optional("gguf.constants", "gguf", "gguf", "reading GGUF files")
        self._header = header
        self._data = np.memmap(header.path, dtype=np.uint8, mode="r")
        self._stored = {named.name: (header.tensors[theirs], named) for theirs, named in names.items()}
        end, before = 0, ""
        for name, (stored, _) in sorted(self._stored.items(), key=lambda entry: entry[1][0].offset):
            size = self._kind(name, stored)[1]
            if stored.offset < end:
                raise WeightsError(
                    f"{header.path}: tensors {safe_repr(before)} and {safe_repr(name)} overlap; the file is damaged"
                )
            end, before = stored.offset + size, name
        for name, (stored, named) in self._stored.items():
            shape = stored.shape[::-1] if named.transposed else stored.shape
            size = 4 * math.prod(shape)
            self.tensors[name] = TensorInfo(shape, torch.float32, size, header.path, stored.offset)

    def _kind(self, name: str, stored: StoredTensor) -> tuple[Any, int]:
        """The quantization of a tensor, and its size in bytes."""
        try:
            kind = self._constants.GGMLQuantizationType(stored.kind)
            block, block_bytes = self._constants.GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise UnsupportedError(
                f"{self._header.path}: tensor {safe_repr(name)} has the quantization number {stored.kind}, which this "
                "release of the gguf package does not know; update it, or take a file of another quantization"
            ) from None
        count = math.prod(stored.shape)
        size = count // block * block_bytes
        if not stored.shape or stored.shape[-1] % block or stored.offset + size > len(self._data):
            raise WeightsError(
                f"{self._header.path}: tensor {safe_repr(name)} is not whole in the file; it is cut off, or damaged"
            )
        return kind, size

    def read(self, name: str, *, transient: bool = False) -> Tensor:
        if self._closed:
            raise WeightsError(
                f"{self._header.path}: the checkpoint is closed; open it again to read {safe_repr(name)}"
            )
        stored, named = self._stored[name]
        kind, size = self._kind(name, stored)
        raw = np.array(self._data[stored.offset : stored.offset + size])
        try:
            values = self._quants.dequantize(raw.reshape(*stored.shape[:-1], -1), kind)
        except NotImplementedError as problem:
            raise UnsupportedError(
                f"{self._header.path}: tensor {safe_repr(name)} is quantized as {kind.name}, which is not supported"
            ) from problem
        tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).reshape(stored.shape)
        return named.read(tensor)
