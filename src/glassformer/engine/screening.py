"""The largest logits without the whole head: bounds from its weights in 8 bits rule out nearly every token.

    Ŵ: W in 8 bits, a step for each row          ŷ = Ŵ x + b          |y - ŷ| ≤ ‖W - Ŵ‖ ‖x‖ of each row

    ├───ŷ───┤                       its upper bound is below the k-th largest lower bound: ruled out
               ├───ŷ───┤
                  ├───ŷ───┤         these are multiplied with W itself, by the same kernel: some ten of 50,000

A step of greedy search (k = 1) or of top-k sampling reads a quarter of a head in fp32, which is a third of GPT-2 small
and of T5-small more, and finds the very logits of the whole product.
Source: bounds that prune a search for the largest inner product: Ram and Gray 2012, "Maximum Inner-Product Search Using
Cone Trees"; the bound is the Cauchy-Schwarz inequality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.engine.few_tokens import FewTokensProduct
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.products import Matrix
from glassformer.engine.program import NumberFormat

if TYPE_CHECKING:
    from glassformer.core.language_heads import TokenPrediction

MIN_STEPS = 32
"""Steps of generation after which levels are made: making them takes as long as some thirty steps save."""

MAX_SHARE = 1 / 8
"""Of the tokens, up to which it pays to multiply those that are left."""

BLOCK = 64
"""Logits of which the largest stands for all, so that k largest are found in one pass."""

PART = 1_024
"""Rows of which levels are made at a time, in fp32."""

ROUNDING = 2.0**-22
"""Times width and lengths: more than sums of products in fp32 lose, whatever their order, of ŷ and of y."""


class LargestLogits:
    """What a prepared head does where only its largest logits are read. Copied and pickled without its levels."""

    def __init__(self) -> None:
        self._steps = 0
        self._screen: _Screen | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LargestLogits, ()

    def __call__(self, head: TokenPrediction, x: Tensor, k: int) -> Tensor | None:
        """Logits of which each row's k largest are there, and others may be -inf; None: take the whole product.

        Args:
            x: what the output projection reads. [R, 1, D]
        """
        decoder = head.decoder
        if not isinstance(decoder, PackedLinear) or decoder.stale() or torch.is_grad_enabled():
            return None
        if not decoder.multiplies_few(x):
            return None
        matrix, screen = decoder.matrix(), self._screen
        if matrix.format in (NumberFormat.INT8, NumberFormat.INT4):
            return None
        if screen is None or screen.matrix is not matrix:
            self._steps += 1
            if self._steps < MIN_STEPS:
                return None
            self._screen = screen = _Screen(matrix)
            self._steps = 0
        y = screen.logits(x[:, 0].float().contiguous(), head.bias(), k)
        return None if y is None else y.to(x.dtype)[:, None]


class _Screen:
    """Bounds of a head's logits.

    errors: ‖W - Ŵ‖ of each row, and what rounding may add. [V]
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        parts, errors = zip(*map(_levels_of, matrix.weight.split(PART)), strict=True)
        self.errors = torch.cat(errors).numpy()
        self._finite = bool(np.isfinite(self.errors).all())  # else whole products say which token is NaN
        levels, steps = (torch.cat(column) for column in zip(*((x.weight, x.step) for x in parts), strict=True))
        self._product = FewTokensProduct(Matrix(NumberFormat.INT8, levels, steps))

    def logits(self, x: Tensor, bias: Tensor | None, k: int) -> Tensor | None:
        """The k largest logits of each row, and some others; -inf elsewhere. [R, D] → [R, V]

        None where there is no kernel, a number is not finite, or too many tokens are left.
        """
        lengths = np.linalg.norm(x.numpy(), axis=-1, keepdims=True)
        approximate = self._product(x) if self._finite and np.isfinite(lengths).all() else None
        if approximate is None:
            return None
        # NumPy wakes no other thread for so few numbers: where other processes take the cores, it would come late.
        middle = approximate.numpy() if bias is None else approximate.numpy() + bias.float().numpy()
        radius = lengths * self.errors
        lower = middle - radius
        left = np.flatnonzero((middle + radius >= _kth(lower, k)).any(0))
        if not 0 < len(left) <= MAX_SHARE * lower.shape[1]:
            return None
        exact = FewTokensProduct(self.matrix.rows(torch.from_numpy(left)))(x)
        if exact is None:
            return None
        lower.fill(-np.inf)
        lower[:, left] = exact.numpy()
        return torch.from_numpy(lower)


def _kth(x: np.ndarray, k: int) -> np.ndarray:
    """What at least k numbers of a row reach: nearly its k-th largest, from the maxima of blocks. [R, V] → [R, 1]"""
    whole = x.shape[1] // BLOCK
    if k <= whole:
        x = x[:, : whole * BLOCK].reshape(len(x), whole, BLOCK).max(-1)
    k = min(k, x.shape[1])
    return np.partition(x, -k, axis=-1)[:, -k, None]


def _levels_of(weight: Tensor) -> tuple[Matrix, Tensor]:
    """Rows of weights in 8 bits [N, D], and how far a logit may be off, over ‖x‖ [N]."""
    weight = weight.float()
    matrix = Matrix.of(weight, None, "int8", inside=False)
    assert matrix.step is not None
    off = (weight - matrix.weight * matrix.step[:, None]).norm(dim=-1)
    return matrix, off + ROUNDING * weight.shape[1] * weight.norm(dim=-1)
