"""Layouts of quantised weights in files: compressed-tensors, GPTQ and AWQ, as `quantization_config` names them.

    compressed-tensors   int-quantized    X.weight int8 [rows, columns]
                         pack-quantized   X.weight_packed int32 [rows, ⌈columns / 8⌉], X.weight_shape
                         both             X.weight_scale [rows, groups], X.weight_zero_point, X.input_scale
    GPTQ                 X.qweight int32 [columns / 8, rows], X.qzeros [groups, rows / 8], X.scales [groups, rows],
                         X.g_idx [columns], the group of each column
    AWQ                  X.qweight int32 [columns, rows / 8], X.qzeros [groups, rows / 8], X.scales [groups, rows]

Levels are signed here and in compressed-tensors; GPTQ and AWQ store them, and zero points, as unsigned numbers. What a
folder holds is what its tensors say: the config only names the method, and how inputs are rounded.
Source: the packages compressed-tensors (`compressors`), AutoGPTQ (`QuantLinear`) and AutoAWQ (`WQLinear_GEMM`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.core.levels import pack, unpack
from glassformer.core.quantised import StoredLevels
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import is_int, safe_repr
from glassformer.weights.header import TensorInfo
from glassformer.weights.report import printable

CONFIG_KEY = "quantization_config"
METHODS = ("compressed-tensors", "gptq", "awq", "glassformer")
SIGNED = ("compressed-tensors", "glassformer")
"""Those with signed levels. The second one is the first with an `input_factors` of some layers: another name, because a
reader that does not know them would compute something else."""
FORMATS = ("int-quantized", "pack-quantized", "naive-quantized", "mixed-precision")
MARKS = (".weight_scale", ".qweight")
"""Ends of the tensor that every quantised layer has."""
PARTS = ("weight", "weight_packed", "weight_shape", "weight_scale", "weight_zero_point", "weight_g_idx",
         "input_scale", "input_zero_point", "input_factors", "qweight", "qzeros", "scales", "g_idx")  # fmt: skip
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the levels of eight neighbouring outputs are in a word of AWQ, four bits each."""

Read = Callable[[str], Tensor]
"""Reads a tensor of the file by its name."""


@dataclass(frozen=True)
class QuantisedFiles:
    """How a folder's quantised weights are stored.

    method: one of `METHODS`
    inputs: "wide" or "dynamic"; layers with an `input_scale` have static ones whatever this says
    bits: of GPTQ and AWQ
    zeros_less_one: zero points are stored less one, as the first version of GPTQ does
    """

    method: str
    inputs: str = "wide"
    bits: int = 4
    zeros_less_one: bool = False

    @staticmethod
    def of(config: Mapping[str, Any]) -> QuantisedFiles:
        """Read `quantization_config`.

        Raises: ConfigError: a value that is not allowed. UnsupportedError: a method or format that is not read.
        """
        values = config[CONFIG_KEY]
        if not isinstance(values, Mapping):
            raise ConfigError(f"{CONFIG_KEY} is {safe_repr(values)}; it must be names and values")
        method = values.get("quant_method")
        if method in SIGNED:
            return QuantisedFiles(method, _inputs(values))
        if method not in METHODS:
            raise UnsupportedError(
                f"{CONFIG_KEY}.quant_method is {safe_repr(method)}; quantised folders are read as written by "
                f"{', '.join(METHODS)}; load another copy of the model"
            )
        bits = values.get("bits", values.get("w_bit", 4))
        allowed = (4, 8) if method == "gptq" else (4,)
        if not is_int(bits) or bits not in allowed:
            raise UnsupportedError(
                f"{CONFIG_KEY}.bits is {safe_repr(bits)}; {method} is read with {' or '.join(map(str, allowed))} bits"
            )
        version = values.get("version", "gemm")
        if method == "awq" and str(version).lower() != "gemm":
            raise UnsupportedError(f"{CONFIG_KEY}.version is {safe_repr(version)}; AWQ is read in the layout 'gemm'")
        return QuantisedFiles(
            method, bits=bits, zeros_less_one=method == "gptq" and values.get("checkpoint_format") != "gptq_v2"
        )

    def read(self, stem: str, tensors: Mapping[str, TensorInfo], read: Read, shape: tuple[int, int]) -> StoredLevels:
        """The levels of a layer.

        Args:
            stem: the names of its tensors in the file begin with it
            tensors: of the file
            read: reads one of them
            shape: rows and columns of the weight
        Raises: WeightsError: a tensor that is missing, misshapen or of another dtype, or says another size.
        """
        layer = _Layer(stem, tensors, read, *shape)
        if self.method in SIGNED:
            return _compressed(layer)
        return _gptq(layer, self.bits, less=self.zeros_less_one) if self.method == "gptq" else _awq(layer)


def _inputs(values: Mapping[str, Any]) -> str:
    """How layers round their inputs, after a check that all of it is integer levels."""
    format, groups = values.get("format", "pack-quantized"), values.get("config_groups")
    if format not in FORMATS:
        raise UnsupportedError(
            f"{CONFIG_KEY}.format is {safe_repr(format)}; compressed-tensors is read as {', '.join(FORMATS)}"
        )
    if not isinstance(groups, Mapping) or not all(isinstance(group, Mapping) for group in groups.values()):
        raise ConfigError(f"{CONFIG_KEY}.config_groups is {safe_repr(groups)}; it must map names to schemes")
    if values.get("kv_cache_scheme"):
        raise UnsupportedError(f"{CONFIG_KEY}.kv_cache_scheme: a quantised cache of keys and values is not supported")
    kinds = set()
    for name, group in groups.items():
        for part in ("weights", "input_activations", "output_activations"):
            arguments = group.get(part)
            if arguments is None:
                continue
            if not isinstance(arguments, Mapping):
                raise ConfigError(f"{CONFIG_KEY}.{name}.{part} is {safe_repr(arguments)}; it must be names and values")
            _check_arguments(f"{CONFIG_KEY}.config_groups.{name}.{part}", part, arguments)
        embeddings = group.get("targets") == ["Embedding"]
        if not embeddings:  # ids are not rounded
            kinds.add("dynamic" if (group.get("input_activations") or {}).get("dynamic") else "wide")
    if len(kinds) > 1:
        raise UnsupportedError(f"{CONFIG_KEY}.config_groups: some layers round their inputs and others do not")
    return kinds.pop() if kinds else "wide"


def _check_arguments(where: str, part: str, arguments: Mapping[str, Any]) -> None:
    kind, bits, strategy = (arguments.get(key) for key in ("type", "num_bits", "strategy"))
    strategies = {"weights": ("tensor", "channel", "group"), "input_activations": ("tensor", "token")}.get(part, ())
    if kind not in ("int", None) or bits not in ((4, 8) if part == "weights" else (8,)) or not is_int(bits):
        raise UnsupportedError(
            f"{where} has {safe_repr(bits)} bits of type {safe_repr(kind)}; supported: weights in 4 or 8 bits and "
            "inputs in 8, of type 'int'"
        )
    if strategy not in (*strategies, None):
        raise UnsupportedError(f"{where}.strategy is {safe_repr(strategy)}; supported: {', '.join(strategies)}")


@dataclass(frozen=True)
class _Layer:
    """The tensors of a layer in a file, checked as they are read."""

    stem: str
    tensors: Mapping[str, TensorInfo]
    source: Read
    rows: int
    columns: int

    def has(self, part: str) -> bool:
        return f"{self.stem}.{part}" in self.tensors

    def read(self, part: str, dtype: torch.dtype | None, *shapes: tuple[int, ...]) -> Tensor:
        """A tensor of this dtype (None: a floating-point one) and one of these shapes; -1: any size from 1 up."""
        name = f"{self.stem}.{part}"
        info = self.tensors.get(name)
        if info is None:
            raise WeightsError(f"the checkpoint does not fit its config.json: {printable(name)} is missing")
        fits = info.dtype.is_floating_point and info.dtype.itemsize > 1 if dtype is None else info.dtype == dtype
        sized = any(
            len(shape) == len(info.shape)
            and all(a in (b, -1) and b > 0 for a, b in zip(shape, info.shape, strict=True))
            for shape in shapes
        )
        if not (fits and sized):
            wanted = "a floating-point dtype" if dtype is None else str(dtype).removeprefix("torch.")
            allowed = " or ".join(str(list(shape)).replace("-1", "n") for shape in shapes)
            raise WeightsError(
                f"the checkpoint does not fit its config.json: {printable(name)} is "
                f"{str(info.dtype).removeprefix('torch.')} {list(info.shape)}; a weight of {self.rows} × "
                f"{self.columns} needs {wanted} {allowed}"
            )
        return self.source(name)

    def check_groups(self, groups: int) -> None:
        """Raises: WeightsError: that many groups do not divide the columns."""
        if self.columns % groups:
            raise WeightsError(
                f"{printable(self.stem)}: {groups} groups of scales do not divide {self.columns} columns"
            )

    def order(self, part: str, groups: int) -> Tensor | None:
        """The group of each column, where the file gives one; None where groups are neighbouring columns."""
        if not self.has(part):
            self.check_groups(groups)
            return None
        order = self.read(part, torch.int32, (self.columns,)).long()
        if order.numel() and not (int(order.min()) >= 0 and int(order.max()) < groups):
            raise WeightsError(f"{printable(self.stem)}.{part} names groups beyond the {groups} that there are")
        usual = groups and self.columns % groups == 0
        if usual and torch.equal(order, torch.arange(self.columns) // (self.columns // groups)):
            return None
        return order


def _compressed(layer: _Layer) -> StoredLevels:
    """A layer in the layout of compressed-tensors."""
    rows, columns = layer.rows, layer.columns
    scale = layer.read("weight_scale", None, (1,), (rows, -1))
    scale = scale.expand(rows, 1) if scale.dim() == 1 else scale
    groups = scale.shape[1]
    order = layer.order("weight_g_idx", groups)
    zero: Tensor | None = None
    if not layer.has("weight_packed"):
        levels = layer.read("weight", torch.int8, (rows, columns))
        if layer.has("weight_zero_point"):
            zero = layer.read("weight_zero_point", torch.int8, (1,), (rows, groups)).expand(rows, groups)
    else:
        stated = layer.read("weight_shape", torch.int64, (2,)).tolist()
        if stated != [rows, columns]:
            raise WeightsError(
                f"{printable(layer.stem)}.weight_shape is {stated}; the config asks for {[rows, columns]}"
            )
        words = {bits: (rows, -(-columns * bits // 32)) for bits in (4, 8)}
        levels = layer.read("weight_packed", torch.int32, *words.values())
        bits = 4 if tuple(levels.shape) == words[4] else 8
        if layer.has("weight_zero_point"):
            packed = layer.read("weight_zero_point", torch.int32, (-(-rows * bits // 32), groups))
            zero = (unpack(packed.T, rows) if bits == 4 else _signed(packed.T, rows)).T.contiguous()
        if bits == 8:
            levels = _signed(levels, columns)
    return StoredLevels(levels, scale, columns, None if zero is None or not zero.any() else zero, order)


def _signed(words: Tensor, columns: int) -> Tensor:
    """Signed levels of 8 bits, of unsigned ones, four in a word. int32 [rows, words] → int8 [rows, columns]"""
    return _fields(words, 8)[:, :columns].sub(128).to(torch.int8)


def _fields(words: Tensor, bits: int) -> Tensor:
    """The unsigned numbers of words, the lowest bits first. int32 [rows, words] → int32 [rows, words · 32 / bits]"""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    return ((words[..., None] >> shifts) & ((1 << bits) - 1)).flatten(1)


def _centred(unsigned: Tensor, bits: int) -> Tensor:
    """Unsigned levels as signed ones."""
    return (unsigned - (1 << (bits - 1))).to(torch.int8)


def _stored(
    layer: _Layer, levels: Tensor, bits: int, zero: Tensor, scale: Tensor, order: Tensor | None
) -> StoredLevels:
    levels = pack(levels) if bits == 4 else levels.contiguous()
    zeros = zero.T.contiguous() if zero.any() else None
    return StoredLevels(levels, scale.T.contiguous(), layer.columns, zeros, order)


def _gptq(layer: _Layer, bits: int, *, less: bool) -> StoredLevels:
    """A layer of GPTQ: words hold levels of neighbouring columns; `less`: zero points are stored less one."""
    rows, columns, many = layer.rows, layer.columns, 32 // bits
    if columns % many or rows % many:
        raise WeightsError(f"{printable(layer.stem)}: {rows} × {columns} levels of {bits} bits do not fill whole words")
    scale = layer.read("scales", None, (-1, rows))
    groups = len(scale)
    levels = _fields(layer.read("qweight", torch.int32, (columns // many, rows)).T.contiguous(), bits)
    zero = _fields(layer.read("qzeros", torch.int32, (groups, rows // many)), bits) + int(less)
    if less and bits == 8:
        zero = zero % 256  # a zero point of 256 has no signed byte; writers wrap it
    return _stored(layer, _centred(levels, bits), bits, _centred(zero, bits), scale, layer.order("g_idx", groups))


def _awq(layer: _Layer) -> StoredLevels:
    """A layer of AWQ: words hold levels of eight neighbouring rows, in an order of their own."""
    rows, columns = layer.rows, layer.columns
    if rows % 8:
        raise WeightsError(f"{printable(layer.stem)}: {rows} outputs do not fill whole words")
    scale = layer.read("scales", None, (-1, rows))
    layer.check_groups(len(scale))

    def unsigned(words: Tensor) -> Tensor:
        return _fields(words, 4).reshape(len(words), -1, 8)[..., list(AWQ_ORDER)].flatten(1)

    levels = unsigned(layer.read("qweight", torch.int32, (columns, rows // 8))).T.contiguous()
    zero = unsigned(layer.read("qzeros", torch.int32, (len(scale), rows // 8)))
    return _stored(layer, _centred(levels, 4), 4, _centred(zero, 4), scale, None)
