"""CTranslate2 model files (`model.bin`): named arrays one after another, as a checkpoint.

    version u32 · name of the spec · revision u32 · count u32 · variables · count u32 · aliases
    variable: name · rank u8 · size u32 × rank · type u8 · bytes u32 · numbers        name: bytes u16 · UTF-8 · NUL

Weights stored as whole numbers of 8 or 16 bits are multiplied out when they are read: number / `_scale` of their row.
Source: OpenNMT/CTranslate2, `model_spec.py`, versions 4 to 6 of the format.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import UnsupportedError, WeightsError
from glassformer.files import open_regular_file, safe_repr
from glassformer.weights.header import MAX_DIMENSIONS, MAX_TENSORS, TensorInfo
from glassformer.weights.read import ComputedWeights

VERSIONS = (4, 5, 6)
DTYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
QUANTIZED = (torch.int8, torch.int16)
LEAVES = {"gamma": "weight", "beta": "bias"}


@dataclass(frozen=True, slots=True)
class Variable:
    """An array in the file: its shape, dtype and offset."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class CTranslate2Weights(ComputedWeights):
    """An open `model.bin`: tensors by dotted names (`encoder.layer_0.ffn.linear_0.weight`).

    kind: name of the spec, such as WhisperSpec
    settings: the numbers besides the weights, such as `encoder.num_heads`
    Raises: WeightsError: it is no such file, or not whole. UnsupportedError: another version of the format.
    """

    def __init__(self, path: Path) -> None:
        super().__init__((path,), {}, {})
        stream, size = open_regular_file(path)
        stream.close()
        if not size:
            raise WeightsError(f"{path}: is empty; fetch it again")
        self._data = np.memmap(path, dtype=np.uint8, mode="r")
        self.kind, self._variables = _ModelBin(path, self._data).variables()
        for name, variable in self._variables.items():
            if not variable.shape:
                self.settings[name] = self._stored(variable).item()
            elif not name.endswith("_scale"):
                scaled = variable.dtype in QUANTIZED
                if scaled and f"{name}_scale" not in self._variables:
                    raise WeightsError(f"{path}: {safe_repr(name)} is quantized, and its scale is missing")
                dtype = torch.float32 if scaled else variable.dtype
                count = math.prod(variable.shape)
                self.tensors[name] = TensorInfo(variable.shape, dtype, count * dtype.itemsize, path, variable.offset)

    def read(self, name: str, *, transient: bool = False) -> Tensor:
        if self._closed or name not in self.tensors:
            raise WeightsError(f"{self.files[0]}: has no tensor {safe_repr(name)}, or is closed; open it again")
        variable = self._variables[name]
        tensor = self._stored(variable)
        if variable.dtype not in QUANTIZED:
            return tensor
        scale = self._stored(self._variables[f"{name}_scale"]).float()
        if scale.numel() not in (1, variable.shape[0]):
            raise WeightsError(
                f"{self.files[0]}: the scale of {safe_repr(name)} has shape {list(scale.shape)}; it must be one "
                f"number, or one for each of {variable.shape[0]} rows"
            )
        return tensor.float() / scale.reshape(-1, *(1 for _ in variable.shape[1:]))

    def _stored(self, variable: Variable) -> Tensor:
        raw = np.array(self._data[variable.offset : variable.offset + variable.bytes])
        return torch.from_numpy(raw).view(variable.dtype).reshape(variable.shape)


class _ModelBin:
    """The header of a file, whose every size is checked against the bytes that are there."""

    def __init__(self, path: Path, data: np.ndarray) -> None:
        self.path, self.data, self.at = path, data, 0

    def variables(self) -> tuple[str, dict[str, Variable]]:
        version = self.number("I")
        if version not in VERSIONS:
            raise UnsupportedError(
                f"{self.path}: is no CTranslate2 model, or has version {version} of the format; read are "
                f"{VERSIONS[0]} to {VERSIONS[-1]}: convert the model again with ctranslate2 4"
            )
        kind = self.text()
        self.number("I")  # revision of the spec: names tell it
        variables = {}
        for _ in range(self.count()):
            name = self.name()
            rank = self.number("B")
            if rank > MAX_DIMENSIONS:
                raise self.damaged(f"{safe_repr(name)} has {rank} dimensions")
            shape = tuple(self.number("I") for _ in range(rank))
            number, size = self.number("B"), self.number("I")
            if number >= len(DTYPES):
                raise self.damaged(f"{safe_repr(name)} has the type number {number}")
            variables[name] = Variable(shape, DTYPES[number], self.at)
            if size != variables[name].bytes:
                raise self.damaged(f"{safe_repr(name)} has {size} bytes, its shape asks for {variables[name].bytes}")
            self.skip(size)
        for _ in range(self.count()):
            alias, name = self.name(), self.name()
            if name not in variables:
                raise self.damaged(f"{safe_repr(alias)} is an alias of {safe_repr(name)}, which is not there")
            variables[alias] = variables[name]
            if f"{name}_scale" in variables:
                variables[f"{alias}_scale"] = variables[f"{name}_scale"]
        if self.at != len(self.data):
            raise self.damaged(f"{len(self.data) - self.at} bytes are left at its end")
        return kind, variables

    def number(self, kind: str) -> int:
        size = struct.calcsize(f"<{kind}")
        start = self.at
        self.skip(size)
        value: int = struct.unpack(f"<{kind}", bytes(self.data[start : self.at]))[0]
        return value

    def count(self) -> int:
        count = self.number("I")
        if count > MAX_TENSORS:
            raise self.damaged(f"it declares {count} arrays; at most {MAX_TENSORS} are read")
        return count

    def text(self) -> str:
        size = self.number("H")
        start = self.at
        self.skip(size)
        try:
            return bytes(self.data[start : self.at]).rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise self.damaged("a name is no UTF-8") from None

    def name(self) -> str:
        """A variable's name with dots, and norms' parameters by torch's names."""
        stem, _, leaf = self.text().replace("/", ".").rpartition(".")
        return f"{stem}.{LEAVES.get(leaf, leaf)}" if stem else leaf

    def skip(self, size: int) -> None:
        if self.at + size > len(self.data):
            raise self.damaged(f"it ends early: {size} bytes wanted at {self.at}, it has {len(self.data)}")
        self.at += size

    def damaged(self, what: str) -> WeightsError:
        return WeightsError(f"{self.path}: is no CTranslate2 model.bin, or damaged: {what}; fetch it again")
