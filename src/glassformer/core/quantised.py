"""Quantised layers: linear layers and embeddings whose weights are stored as integer levels of 8 or 4 bits.

    QuantisedLinear        y = x Wᵀ + b with  W = S (q - Z)      a block of rows of W at a time is turned into numbers
    QuantisedEmbedding     rows of W by their ids                only those rows are turned into numbers
      └ StoredLevels       q, S, Z: 8-bit levels, or 4-bit ones packed in words; tied layers share one

No copy of W in floating point is held: `weight` computes it when it is read. Kernels that compute with the levels as
they are stored come with `engine.prepare`. How weights become levels is in `compression/quantise.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.levels import dequantise, level_range, pack, unpack
from glassformer.errors import ConfigError

BLOCK_WEIGHTS = 1 << 20
"""Weights that are turned into numbers at a time: 4 MB, which stay in the cache for the product."""

SMALLEST = 1e-30
"""The least magnitude that a token's levels are scaled by: a token of zeros has the levels 0, not 0 / 0."""


class StoredLevels(nn.Module):
    """A weight as levels. A module of its own, so that tied layers still share it when they move to another device.

    levels: int8 [rows, columns]; of 4 bits int32 [rows, ⌈columns / 8⌉]
    scale: S. [rows, groups]
    zero: Z; None: 0. int8 [rows, groups]
    order: the group of each column; None: groups are neighbouring columns. [columns]
    """

    levels: Tensor
    scale: Tensor
    zero: Tensor | None
    order: Tensor | None

    def __init__(
        self, levels: Tensor, scale: Tensor, columns: int, zero: Tensor | None = None, order: Tensor | None = None
    ) -> None:
        super().__init__()
        self.columns = columns
        for name, tensor in (("levels", levels), ("scale", scale), ("zero", zero), ("order", order)):
            self.register_buffer(name, tensor)

    @staticmethod
    def of(levels: Tensor, scale: Tensor, bits: int, zero: Tensor | None = None) -> StoredLevels:
        """Store levels that are not packed. int8 [rows, columns]"""
        return StoredLevels(
            pack(levels) if bits == 4 else levels.contiguous(), scale.contiguous(), levels.shape[1], zero
        )

    @property
    def bits(self) -> int:
        """Bits of a level."""
        return 4 if self.levels.dtype == torch.int32 else 8

    @property
    def rows(self) -> int:
        return len(self.levels)

    @property
    def group(self) -> int:
        """Neighbouring weights of a row that share a scale; 0: the whole row."""
        groups = self.scale.shape[1]
        return 0 if groups == 1 else self.columns // groups

    @property
    def nbytes(self) -> int:
        """Bytes of the levels and of what belongs to them."""
        return sum(buffer.nbytes for buffer in self.buffers())

    def unpacked(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Levels of some rows. int8 [rows, columns]"""
        return unpack(self.levels[rows], self.columns) if self.bits == 4 else self.levels[rows]

    def numbers(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Rows of the weight as numbers, in the dtype of the scales. [rows, columns]"""
        zero = None if self.zero is None else self.zero[rows]
        return dequantise(self.unpacked(rows), self.scale[rows], zero, self.order)

    def extra_repr(self) -> str:
        grouped = f", group={self.group}" if self.group else ""
        return f"{self.rows}, {self.columns}, bits={self.bits}{grouped}"


def rounded_by_token(x: Tensor) -> Tensor:
    """x as the numbers of its levels in 8 bits, with a scale for each token; the gradient is that of x."""
    wide = x.float()
    scale = wide.detach().abs().amax(-1, keepdim=True).clamp_min(SMALLEST) / level_range(8)[1]
    rounded = (wide / scale).round() * scale
    return (wide + (rounded - wide).detach()).to(x.dtype)


class QuantisedLinear(nn.Linear):
    """A linear layer whose weight is stored as levels: y = x Wᵀ + b,  W = S (q - Z).

    Inputs are rounded to 8 bits too where the layer was quantised so: by a scale of each token ("dynamic"), or by one
    scale and zero point that were calibrated ("static").

    Args:
        stored: the weight
        bias: the parameter of the original layer, or None
        inputs: "wide" (not rounded), "dynamic" or "static"
        input_scale: of static inputs. []
        input_zero: of static inputs. int8 []
        input_factors: what inputs are multiplied by before they are rounded, so that no channel is an outlier; the
            weight is divided by them. [columns]
    """

    input_scale: Tensor | None
    input_zero: Tensor | None
    input_factors: Tensor | None
    product: Callable[[Tensor], Tensor] | None
    """What computes y with the levels as they are stored; set by `engine.prepare`."""

    def __init__(
        self,
        stored: StoredLevels,
        bias: nn.Parameter | None,
        inputs: str = "wide",
        input_scale: Tensor | None = None,
        input_zero: Tensor | None = None,
        input_factors: Tensor | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = stored.columns, stored.rows
        self.stored, self.bias, self.inputs = stored, bias, inputs  # type: ignore[assignment]
        self.register_buffer("input_scale", input_scale)
        self.register_buffer("input_zero", input_zero)
        self.register_buffer("input_factors", input_factors)
        self.product = None

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """W as numbers, computed now."""
        numbers = self.stored.numbers()
        return numbers if self.input_factors is None else numbers * self.input_factors.to(numbers.dtype)

    def forward(self, x: Tensor) -> Tensor:
        if self.input_factors is not None:
            x = x * self.input_factors.to(x.dtype)
        if self.product is not None and not (torch.is_grad_enabled() and x.requires_grad):
            return self.product(x)
        return self.plain(x)

    def plain(self, x: Tensor) -> Tensor:
        """The layer by torch's own operations, on any device and with a gradient of x.

        Args:
            x: inputs, times their factors where there are any
        """
        x = self.rounded_inputs(x)
        rows = max(1, BLOCK_WEIGHTS // self.in_features)
        blocks = [slice(start, start + rows) for start in range(0, self.out_features, rows)]
        parts = [F.linear(x, self.stored.numbers(block).to(x.dtype)) for block in blocks]
        y = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return y if self.bias is None else y + self.bias.to(x.dtype)

    def rounded_inputs(self, x: Tensor) -> Tensor:
        """x as the numbers of its levels in 8 bits, where inputs are rounded; rounding has no gradient of its own."""
        if self.inputs == "wide":
            return x
        if self.inputs == "dynamic":
            return rounded_by_token(x)
        assert self.input_scale is not None and self.input_zero is not None
        wide, zero = x.float(), self.input_zero.float()
        levels = (wide / self.input_scale).round().add(zero).clamp(*level_range(8))
        rounded = (levels - zero) * self.input_scale
        return (wide + (rounded - wide).detach()).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, inputs={self.inputs}"

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> QuantisedLinear:
        self.product = None  # it may hold copies on the old device, in the old dtype
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "product": None}


class QuantisedEmbedding(nn.Embedding):
    """An embedding whose table is stored as levels: row i is S_i (q_i - Z_i).

    Args:
        stored: the table
        padding: the id of padding, or None
    """

    def __init__(self, stored: StoredLevels, padding: int | None = None) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim, self.padding_idx = stored.rows, stored.columns, padding
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = None, 2.0, False, False
        self.stored = stored

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The table as numbers, computed now."""
        return self.stored.numbers()

    def forward(self, ids: Tensor) -> Tensor:
        return self.stored.numbers(ids.reshape(-1)).view(*ids.shape, -1)


@runtime_checkable
class FixedProgram(Protocol):
    """A network that another engine runs as a whole, from a file: it has no layers to change.

    fixed_precision: the one precision in which it computes: "fp32", "fp16" or "int8"
    """

    @property
    def fixed_precision(self) -> str: ...
    def refuse(self, action: str) -> NoReturn:
        """Raises: UnsupportedError: the action, such as "trained", needs its layers."""
        ...


QUANTISED = (QuantisedLinear, QuantisedEmbedding)
"""Layers whose weight is stored as levels."""


def quantised_layers(network: nn.Module) -> dict[str, QuantisedLinear | QuantisedEmbedding]:
    """The quantised layers of a network by path; tied ones under each of their paths."""
    modules = network.named_modules(remove_duplicate=False)
    return {path: module for path, module in modules if isinstance(module, QUANTISED)}


def stored_levels(module: nn.Module) -> list[StoredLevels]:
    """The weights of a module that are stored as levels; each once, however many layers share it."""
    return [stored for stored in module.modules() if isinstance(stored, StoredLevels)]


def count_weights(module: nn.Module) -> int:
    """The number of weights of a module, however they are stored: levels count as the numbers they stand for."""
    levels = sum(stored.rows * stored.columns for stored in stored_levels(module))
    return sum(parameter.numel() for parameter in module.parameters()) + levels


def bytes_of_levels(module: nn.Module) -> int:
    """The bytes of the levels of a module, with their scales."""
    return sum(stored.nbytes for stored in stored_levels(module))


def check_not_quantised(network: nn.Module, action: str) -> None:
    """Raises: ConfigError: the network has quantised layers; the action, such as "trained", needs their numbers.

    UnsupportedError: it is a program of another engine, which has no layers.
    """
    if isinstance(network, FixedProgram):
        network.refuse(action)
    if layers := quantised_layers(network):
        raise ConfigError(
            f"the model is quantised ({len(layers)} layers are stored as levels) and cannot be {action}; load the "
            "model that it was made from"
        )
