"""Products of quantised layers with their levels as they are stored: what `prepare` gives a `QuantisedLinear`.

    inputs           8-bit weights, a scale a row                            4-bit weights, groups, zero points
    dynamic          levels(x) levels(W)ᵀ on oneDNN, a step for each token   blocks of W as numbers, x rounded
    static           levels(x) levels(W)ᵀ on oneDNN, one step                the same
    wide, few tokens compiled kernels that widen levels                      compiled kernels of integers
    wide, many       blocks of W as numbers; as dynamic under "int8"         blocks of W as numbers; in bf16 torch's
                                                                             product of 4-bit weights

Nothing is quantised again, and no weight is held in floating point.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core import processor
from glassformer.core.quantised import QuantisedLinear
from glassformer.engine.few_tokens import MAX_TOKENS, FewTokensProduct
from glassformer.engine.products import (
    Matrix,
    Product,
    kernels,
    levels_product,
    static_levels_product,
    weight_levels,
)
from glassformer.engine.program import LEVELS, ROUNDED_WEIGHTS, RUN, NumberFormat

WIDENED = {4: 48, 8: 16}
"""Tokens up to which the kernels of few tokens are faster than widening weights of so many bits, a block at a time."""
INT4_GROUPS = (32, 64, 128, 256)
"""Groups that torch's product of 4-bit weights takes."""
FEW_TOKENS_GROUPS = (32, 64)
"""Groups that the kernels of few tokens take, and multiples of 128 (0, a whole row, among them)."""
INT4_ROWS = 16
"""It computes blocks of that many outputs."""


class StoredLevelsProduct:
    """The product of a quantised layer under a precision; made when it is first run.

    Args:
        layer: whose levels are read
        precision: of `PRECISIONS`; "bf16" and "int8" allow rounded inputs
        inside: whether the layer is part of a block: then narrow precisions return bfloat16
    """

    def __init__(self, layer: QuantisedLinear, precision: str, *, inside: bool) -> None:
        self.precision, self._layer, self._inside = precision, layer, inside
        self._many: Product | None = None
        self._few: FewTokensProduct | None = None
        few = layer.inputs == "wide" or layer.stored.bits == 4
        other = self.rounds_tokens or self._takes_four_bits()  # has a product of its own for many tokens
        self._few_tokens = 0 if not (few and self.has_matrix) else MAX_TOKENS if other else WIDENED[layer.stored.bits]

    def __call__(self, x: Tensor) -> Tensor:
        tokens = x.numel() // max(x.shape[-1], 1)
        layer = self._layer
        if 0 < tokens <= self._few_tokens:
            self._few = self._few or FewTokensProduct(self.matrix())
            if (y := self._few(layer.rounded_inputs(x))) is not None:
                return y
        self._many = self._many or self._made()
        return self._many(x)

    @property
    def has_matrix(self) -> bool:
        """Whether the levels are such as the kernels of single tokens read.

        8 bits with a scale for each row; 4 bits with one for each row, or for each group of neighbours.
        """
        stored = self._layer.stored
        if stored.levels.device.type != "cpu":
            return False
        if stored.bits == 8:
            return stored.zero is None and stored.scale.shape[1] == 1
        fits = stored.group in FEW_TOKENS_GROUPS or stored.group % ROUNDED_WEIGHTS == 0
        return fits and stored.columns % RUN == 0 and stored.order is None

    @property
    def rounds_tokens(self) -> bool:
        """Whether the inputs of 8-bit weights are rounded too, by a step of each token."""
        dynamic = self._layer.inputs == "dynamic" or (self._layer.inputs == "wide" and self.precision == "int8")
        return dynamic and self._layer.stored.bits == 8 and self.has_matrix

    def matrix(self) -> Matrix:
        """The weights as the kernels of single tokens read them, without a copy of the levels."""
        stored, bias = self._layer.stored, self._layer.bias
        wide = None if bias is None else bias.detach().float().contiguous()
        levels, scale = stored.levels.contiguous(), stored.scale.float().contiguous()
        if stored.bits == 4:
            zero = None if stored.zero is None else stored.zero.contiguous()
            return Matrix(NumberFormat.INT4, levels, scale, wide, zero)
        return Matrix(NumberFormat.INT8, levels, scale[:, 0].contiguous(), wide)

    def _made(self) -> Product:
        """The product for many tokens."""
        layer, stored = self._layer, self._layer.stored
        bias = None if layer.bias is None else layer.bias.detach()
        # Without VNNI sums of two products overflow 16 bits, with levels as large as stored ones may be.
        fits = stored.bits == 8 and self.has_matrix and kernels("int8") and weight_levels() == LEVELS
        if fits and (self.rounds_tokens or layer.inputs == "static"):
            levels, steps = stored.levels.contiguous(), stored.scale[:, 0].float().contiguous()
            if layer.inputs == "static":
                assert layer.input_scale is not None and layer.input_zero is not None
                static = float(layer.input_scale), int(layer.input_zero)
                return static_levels_product(levels, steps, bias, *static, inside=self._narrow)
            return levels_product(levels, steps, bias, self._narrow)
        if self._takes_four_bits():
            return _four_bit_product(layer)
        return layer.plain

    @property
    def _narrow(self) -> bool:
        return self._inside and self.precision in ("bf16", "int8")

    def _takes_four_bits(self) -> bool:
        stored = self._layer.stored
        return (
            self._narrow
            and self._layer.inputs == "wide"
            and stored.bits == 4
            and stored.group in INT4_GROUPS
            and stored.order is None
            and stored.rows % INT4_ROWS == 0
            and stored.levels.device.type == "cpu"
            and processor.is_fast(torch.bfloat16)
            and hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu")
        )


def _four_bit_product(layer: QuantisedLinear) -> Product:
    """Torch's product of 4-bit weights in groups, with inputs and scales in bfloat16."""
    stored = layer.stored
    levels = torch.cat([stored.unpacked(slice(n, n + 1024)).int() + 8 for n in range(0, stored.rows, 1024)])
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels, 1)
    # w = (q - 8) S + shift, with unsigned q: a zero point Z of signed levels shifts by -Z S.
    scale = stored.scale.float()
    shift = torch.zeros_like(scale) if stored.zero is None else -stored.zero.float() * scale
    scales = torch.stack([scale.T, shift.T], -1).bfloat16().contiguous()
    bias = None if layer.bias is None else layer.bias.detach().bfloat16()

    def product(x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1]).bfloat16().contiguous()
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(tokens, packed, stored.group, scales)
        return (y if bias is None else y.add_(bias)).view(*x.shape[:-1], -1)

    return product
