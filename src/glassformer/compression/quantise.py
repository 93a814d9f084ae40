"""Quantisation: numbers as integer levels of a scale, f = S (q - Z).

        f_min             0        f_max            numbers
    ──────┼───────────────┼──────────┼──────        S   scale: the distance between neighbouring levels
          │               │          │              Z   zero point: the level of the number 0
        q_min             Z        q_max            q = round(f / S) + Z, within q_min … q_max

    symmetric   S = largest |f| / q_max, Z = 0: products need no correction for Z, and weights are centred at 0 anyway
    affine      S = (f_max - f_min) / (q_max - q_min): no level is wasted on one-sided numbers, as after ReLU or GELU

    per tensor  one S for all: an outlier anywhere makes every step wide
    per channel one S for each row of a weight: each output has its own range
    per group   one S for each run of `group_size` neighbouring weights of a row: what 4 bits need, at 16 bits a group

A floating-point number has its own exponent, so its steps are narrow where numbers are small. A fixed-point number
shares the exponent: the scale belongs to the tensor, and a number is an integer alone.

>>> floating_point(137.035)  # = 1.0705859375 · 2⁷
('0', '10000110', '00010010000100011110110')
>>> fixed_point(137.035, 0.001)
137035

An 8-bit grid for weights from -0.2 to 0.2 has 255 steps between its 256 levels:

>>> grid = affine_grid(torch.tensor([-0.2]), torch.tensor([0.2]), bits=8)
>>> round(grid.scale.item() * 255, 6)
0.4
>>> x = torch.linspace(-0.2, 0.2, 1001)
>>> bool(((grid.numbers(grid.levels(x)) - x).abs() <= grid.scale / 2 + 1e-8).all())
True

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", sections 2.1 and 3; groups: Shen et al. 2020, "Q-BERT", section 3.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.levels import level_range
from glassformer.errors import ConfigError

BITS = (4, 8)
"""Bits of a level that can be stored."""

NARROWED = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65)
"""Shares of a range that are tried in its place."""

NARROWEST = 1e-12
"""The least scale: a range of zeros alone has a step too, and no number is divided by 0."""


def floating_point(number: float) -> tuple[str, str, str]:
    """The bits of a 32-bit floating-point number: sign, exponent (+ 127) and fraction, (-1)ˢ · 1.fraction · 2ᵉ⁻¹²⁷."""
    bits = f"{struct.unpack('>I', struct.pack('>f', number))[0]:032b}"
    return bits[0], bits[1:9], bits[9:]


def fixed_point(number: float, step: float) -> int:
    """A number as an integer multiple of a step."""
    return round(number / step)


@dataclass(frozen=True)
class LevelGrid:
    """The levels that numbers are rounded to: one scale and zero point for each range.

    scale: S, to be broadcast against the numbers
    zero: Z, a whole number, of the shape of the scale
    bits: of a level
    """

    scale: Tensor
    zero: Tensor
    bits: int

    def levels(self, x: Tensor) -> Tensor:
        """The nearest level of each number, q = round(f / S) + Z within the range of levels. int8, of the shape of x"""
        return self._rounded(x).to(torch.int8)

    def numbers(self, levels: Tensor) -> Tensor:
        """The numbers of levels, f = S (q - Z)."""
        return (levels.to(self.scale.dtype) - self.zero) * self.scale

    def round(self, x: Tensor) -> Tensor:
        """The nearest number that has a level: quantised and dequantised, of the shape of x."""
        return (self._rounded(x) - self.zero) * self.scale

    def _rounded(self, x: Tensor) -> Tensor:
        low, high = level_range(self.bits)
        rounded: Tensor = (x / self.scale).round().add(self.zero).clamp(low, high)
        return rounded


def affine_grid(low: Tensor, high: Tensor, bits: int) -> LevelGrid:
    """The grid between two ends: S = (f_max - f_min) / (q_max - q_min), and 0 has a level of its own.

    Args:
        low: f_min of each range; a range that begins above 0 is extended to 0
        high: f_max of each range, of the same shape
        bits: of a level
    """
    lowest, highest = level_range(bits)
    low, high = low.clamp_max(0), high.clamp_min(0)
    scale = ((high - low) / (highest - lowest)).clamp_min(NARROWEST)
    zero = (lowest - low / scale).round().clamp(lowest, highest)
    return LevelGrid(scale, zero, bits)


def symmetric_grid(largest: Tensor, bits: int) -> LevelGrid:
    """The grid of ±the largest magnitude: S = largest / q_max, and Z = 0. The lowest level is not used."""
    scale = (largest / level_range(bits)[1]).clamp_min(NARROWEST)
    return LevelGrid(scale, torch.zeros_like(scale), bits)


def grid_of(x: Tensor, bits: int, *, symmetric: bool = True) -> LevelGrid:
    """The grid between the smallest and the largest number of each row. [..., columns] → scales [..., 1]"""
    if symmetric:
        return symmetric_grid(x.abs().amax(-1, keepdim=True), bits)
    return affine_grid(x.amin(-1, keepdim=True), x.amax(-1, keepdim=True), bits)


@dataclass(frozen=True)
class Scheme:
    """How the weight of a linear layer or an embedding becomes levels.

    bits: of a level, 8 or 4
    group_size: neighbouring weights of a row that share a scale; 0: the whole row
    symmetric: Z = 0
    """

    bits: int = 8
    group_size: int = 0
    symmetric: bool = True

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise ConfigError(f"bits is {self.bits!r}; weights are stored in {' or '.join(map(str, BITS))} bits")
        if self.group_size < 0:
            raise ConfigError(
                f"group_size is {self.group_size}; give a number of neighbouring weights, or 0 for the whole row"
            )

    def grouped(self, weight: Tensor, name: str = "the weight") -> Tensor:
        """A weight cut into what shares a scale, a view. [rows, columns] → [rows, groups, columns of a group]

        Raises: ConfigError: groups do not divide the columns.
        """
        columns = weight.shape[1]
        if self.group_size and columns % self.group_size:
            fitting = [size for size in (128, 64, 32, 16, 8) if columns % size == 0]
            instead = f"groups of {', '.join(map(str, fitting))}" if fitting else "group_size 0, the whole row,"
            raise ConfigError(
                f"{name} has {columns} columns, which groups of {self.group_size} do not divide; {instead} do"
            )
        return weight.reshape(len(weight), -1, self.group_size or columns)

    def grid(self, weight: Tensor, name: str = "the weight") -> LevelGrid:
        """The grid of each group of a weight, between its smallest and largest number. Scales [rows, groups, 1]"""
        return grid_of(self.grouped(weight, name), self.bits, symmetric=self.symmetric)

    def searched_grid(self, weight: Tensor, name: str = "the weight") -> LevelGrid:
        """The grid of each group whose ends are narrowed as far as its squared error falls; worth it in 4 bits."""
        grouped = self.grouped(weight, name)
        whole = self.grid(weight, name)
        scale, zero = whole.scale, whole.zero
        least = (whole.round(grouped) - grouped).square().sum(-1, keepdim=True)
        for share in NARROWED:
            grid = LevelGrid(whole.scale * share, whole.zero, self.bits)
            error = (grid.round(grouped) - grouped).square().sum(-1, keepdim=True)
            scale = torch.where(error < least, grid.scale, scale)
            least = torch.minimum(error, least)
        return LevelGrid(scale, zero, self.bits)


@dataclass(frozen=True)
class Levels:
    """A weight in levels.

    levels: q. int8 [rows, columns]
    scale: S. [rows, groups]
    zero: Z; None: 0. int8 [rows, groups]
    """

    levels: Tensor
    scale: Tensor
    zero: Tensor | None = None

    @staticmethod
    def on(grid: LevelGrid, grouped: Tensor, scheme: Scheme) -> Levels:
        """The nearest levels on a grid of weights that were cut into groups. [rows, groups, columns of a group]"""
        zero = None if scheme.symmetric else grid.zero.squeeze(-1).to(torch.int8)
        return Levels(grid.levels(grouped).flatten(1), grid.scale.squeeze(-1), zero)


def round_to_nearest(weight: Tensor, scheme: Scheme, name: str = "the weight") -> Levels:
    """Each weight as its nearest level: no data needed, and in 8 bits hardly to be improved on.

    Raises: ConfigError: groups do not divide the columns.
    """
    weight = weight.detach().float()
    return Levels.on(scheme.grid(weight, name), scheme.grouped(weight, name), scheme)


class _StraightThrough(torch.autograd.Function):
    """Rounding whose gradient is that of the identity within the range, and 0 outside it."""

    @staticmethod
    def forward(
        context: torch.autograd.function.FunctionCtx, x: Tensor, scale: Tensor, zero: Tensor, bits: int
    ) -> Tensor:
        grid = LevelGrid(scale, zero, bits)
        low, high = (grid.numbers(torch.tensor(float(level))) for level in level_range(bits))
        context.save_for_backward((x >= low - scale / 2) & (x <= high + scale / 2))
        return grid.round(x)

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (inside,) = context.saved_tensors  # type: ignore[attr-defined]
        return gradients[0] * inside, None, None, None


def fake_quantise(x: Tensor, grid: LevelGrid) -> Tensor:
    """Numbers rounded to a grid, with the straight-through gradient: rounding counts as the identity in training.

    Source: Bengio et al. 2013, "Estimating or Propagating Gradients Through Stochastic Neurons", section 5.
    """
    fixed = grid.scale.detach(), grid.zero.detach(), grid.bits
    rounded: Tensor = _StraightThrough.apply(x, *fixed)  # type: ignore[no-untyped-call]
    return rounded
