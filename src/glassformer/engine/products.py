"""Packed and quantised matrix products for inference: fp32, fp16, bf16 and int8 on x86.

    precision   the product of a linear layer                            differs from the plain one
    fp32        weights laid out in cache-sized blocks (AVX-512)         by the order of additions
    fp16        weights in 16 bits, everything else in fp32              by about 2⁻¹² of a value
    bf16        weights and inputs rounded to bfloat16                   by about 2⁻⁹ of a value
    int8        weights in 8 bits a row, inputs in 8 bits a token        by about 1% of a vector

On a processor with AVX2 alone, bf16 rounds the weights and computes in fp32, and int8 holds weights in 7 bits:

    bf16        weights rounded to bfloat16, everything else in fp32     by about 2⁻⁹ of a value
    int8        weights in 7 bits a row, inputs in 8 bits a token        by about 1.5% of a vector

They are semi-private functions of torch's x86 build (oneDNN, FBGEMM). Where they are missing (ARM, macOS, a GPU) the
plain product does the work.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core import processor
from glassformer.core.levels import PER_WORD
from glassformer.engine.levels import OFFSET, rescale_, row_steps, token_levels
from glassformer.engine.program import LEVELS, NumberFormat

TAKES = {  # precision → dtypes of the weights it can be made from
    "fp32": (torch.float32,),
    "fp16": (torch.float32,),
    "bf16": (torch.float32, torch.bfloat16),
    "int8": (torch.float32, torch.bfloat16),
}
Product = Callable[[Tensor], Tensor]
"""Maps x [..., in] to [..., out]; made once from a weight [out, in] and a bias."""

TYPICAL_ROWS = 1_024  # the batch size that oneDNN optimises the block layout for; any from 8 up will do
FULL_TILE = 4  # rows from which oneDNN reads weights as fast as memory gives them; for one it is a fifth slower
FEW_ROWS = 16  # up to this many tokens, a product is bound by the bandwidth of reading its weights
LEVELS_WITHOUT_VNNI = 64  # AVX2 adds pairs of products in 16 bits: 2 · 255 · 64 still fits
_packing = threading.Lock()  # one thread at a time changes torch's global settings


def _plain(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    return lambda x: F.linear(x, weight, bias)


def _plain_bf16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    weight, bias = _bf16(weight), _bf16(bias)

    def product(x: Tensor) -> Tensor:
        y = F.linear(x.to(torch.bfloat16), weight, bias)
        return y if inside else y.to(x.dtype)

    return product


def _by_tokens(many: Callable[[], Product], few: Callable[[], Product]) -> Product:
    """Two products of the same weights, each packed when first needed.

    Many tokens are bound by compute; a step of generation, one token in each of a few rows, by memory bandwidth.
    """
    many, few = cache(many), cache(few)

    def product(x: Tensor) -> Tensor:
        step = x.dim() == 3 and x.shape[1] == 1 and 0 < x.shape[0] <= FEW_ROWS
        return (few if step else many)()(x)

    return product


def _packed_fp32(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """Weights in fp32; for a step in 16 bits, where these hold the same numbers, as in files that were written in fp16.

    The same sums from half the memory. One text without that takes its token several times: oneDNN is faster so.
    """
    blocks = cache(lambda: _fp32_blocks(weight, bias))

    def step(x: Tensor) -> Tensor:
        return blocks()(x.expand(FULL_TILE, -1, -1))[:1] if len(x) == 1 else blocks()(x)

    def few() -> Product:
        return _fp16_for_step(weight, bias) if _fits_fp16(weight) else step

    return _by_tokens(lambda: _fp32_by_mkl(weight, bias) if _mkl_is_faster() else blocks(), few)


def _mkl_is_faster() -> bool:
    """Whether MKL multiplies many tokens faster than oneDNN: with AVX2 alone, by a tenth, and it needs no copy."""
    return torch.backends.mkl.is_available() and not processor.has("avx512")


def _fp32_for_many(weight: Tensor, bias: Tensor | None) -> Product:
    return (_fp32_by_mkl if _mkl_is_faster() else _fp32_blocks)(weight, bias)


def _fp32_by_mkl(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights of any dtype, widened to fp32; fp32 ones as they are."""
    weight, bias = weight.float(), None if bias is None else bias.float()
    return lambda x: F.linear(x.float(), weight, bias).to(x.dtype)


def _fp32_blocks(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights of any dtype, widened to fp32 in cache-sized blocks."""
    blocks = torch.ops.mkldnn._reorder_linear_weight(weight.float(), TYPICAL_ROWS)
    linear, bias = torch.ops.mkldnn._linear_pointwise.default, None if bias is None else bias.float()

    def product(x: Tensor) -> Tensor:
        y: Tensor = linear(x.float(), blocks, bias, "none", [], "")
        return y.to(x.dtype)

    return product


def _fits_fp16(weight: Tensor) -> bool:
    """Whether fp16 holds every weight exactly, and has a product. It is known from the first rows where it does not."""
    return kernels("fp16") and all(torch.equal(part.half().float(), part.float()) for part in weight.split(1_024))


def _packed_fp16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """Weights in 16 bits, for a step; for many tokens widened once, as a product that widens them is a fifth slower."""
    return _by_tokens(lambda: _fp32_for_many(weight.half(), bias), lambda: _fp16_for_step(weight, bias))


def _fp16_for_step(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights in 16 bits, which halves the bandwidth; they are widened inside the product."""
    weights = torch.ops.quantized.linear_prepack_fp16(weight.float(), None if bias is None else bias.float())
    linear = torch.ops.quantized.linear_dynamic_fp16.default

    def product(x: Tensor) -> Tensor:
        y: Tensor = linear(x.float().reshape(-1, x.shape[-1]), weights)
        return y.to(x.dtype).view(*x.shape[:-1], len(weight))

    return product


def _packed_bf16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    if not inside and weight.dtype == torch.float32:  # logits keep the precision that tells them apart
        return _packed_fp16(weight, bias, inside)
    if not processor.is_fast(torch.bfloat16):
        return _packed_fp32(_bf16(weight), bias, inside)
    blocks, bias = torch.ops.mkldnn._reorder_linear_weight(_bf16(weight), TYPICAL_ROWS), _bf16(bias)
    linear = torch.ops.mkldnn._linear_pointwise.default

    def product(x: Tensor) -> Tensor:
        y: Tensor = linear(x.to(torch.bfloat16), blocks, bias, "none", [], "")
        return y if inside else y.to(x.dtype)

    return product


def _packed_int8(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """Dynamic int8 quantisation.

        y = levels(x) levels(W)ᵀ · step(token) · step(row) + b,        step = largest magnitude / 127

    Each token has its own step, so that no vector depends on the rest of its batch, and an outlier costs its token
    alone. Without VNNI the levels of W go to ±64: AVX2 adds pairs of products in 16 bits, and 2 · 255 · 64 still fits.
    Source: Dettmers et al. 2022, "LLM.int8()", section 2.1 (vector-wise quantisation).
    """
    many = cache(lambda: _int8_for_many(weight, bias, inside))
    return _by_tokens(many, (lambda: _int8_for_step(weight, bias)) if _has_dynamic_quantisation() else many)


def _int8_for_step(weight: Tensor, bias: Tensor | None) -> Product:
    """One fused call quantises the inputs with one scale for all tokens, and multiplies.

    So that no token depends on the others, each is first divided by its largest magnitude, and a row that spans -1 to 1
    is appended to fix the scale. A single token needs neither: its steps are a little finer.
    """
    bias = None if bias is None else bias.float()
    with _fbgemm_packing():
        steps = row_steps(weight.float(), weight_levels()).flatten().double()
        levels = torch.quantize_per_channel(weight.float(), steps, torch.zeros(len(steps)).long(), 0, torch.qint8)
        weights = torch.ops.quantized.linear_prepack(levels, None)
    linear = torch.ops.quantized.linear_dynamic.default
    full_range = torch.zeros(1, weight.shape[1])
    full_range[0, 0], full_range[0, -1] = -1.0, 1.0

    def product(x: Tensor) -> Tensor:
        tokens = x.float().reshape(-1, x.shape[-1])
        if tokens.shape[0] == 1:
            y: Tensor = linear(tokens, weights)
            y = y if bias is None else y.add_(bias)
        else:
            largest = tokens.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30)
            y = linear(torch.cat([tokens / largest, full_range]), weights)[:-1]
            y = y.mul_(largest) if bias is None else torch.addcmul(bias, y, largest)
        return y.to(x.dtype).view(*x.shape[:-1], -1)

    return product


def _int8_for_many(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    steps = row_steps(weight.float(), weight_levels())  # [out, 1]
    levels = (weight.float() / steps).round_().to(torch.int8)
    # Files of GPT-2 hold weights transposed, and packing reads memory in order.
    return levels_product(levels.contiguous(), steps.flatten(), bias, inside)


def levels_product(levels: Tensor, steps: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """The product of weights that are levels already, and inputs with a step for each token.

    Args:
        levels: within ±`weight_levels()`. int8 [out, in]
        steps: of each row. fp32 [out]
    """
    blocks = torch.ops.onednn.qlinear_prepack(levels, None)
    outputs, zeros = len(levels), torch.zeros(len(levels), dtype=torch.int32)
    linear = torch.ops.onednn.qlinear_pointwise.default
    narrow = inside and processor.is_fast(torch.bfloat16)
    dtype = torch.bfloat16 if narrow else torch.float32
    bias = None if bias is None else bias.float().contiguous()

    def product(x: Tensor) -> Tensor:
        levels, step = token_levels(x.reshape(-1, x.shape[-1]))  # [tokens, in], [tokens, 1]
        # With a per-tensor input scale of 1, y is in units of the step of its token.
        y: Tensor = linear(levels, 1.0, OFFSET, blocks, steps, zeros, None, 1.0, 0, dtype, "none", [], "")
        y = rescale_(y, step, bias)
        return (y if narrow else y.to(x.dtype)).view(*x.shape[:-1], outputs)

    return product


def static_levels_product(
    levels: Tensor, steps: Tensor, bias: Tensor | None, step: float, zero: int, inside: bool
) -> Product:
    """The product of weights that are levels already, and inputs with one calibrated step and zero point.

    Args:
        levels: within ±`weight_levels()`. int8 [out, in]
        steps: of each row. fp32 [out]
        step, zero: of the inputs; a signed zero point
    """
    blocks = torch.ops.onednn.qlinear_prepack(levels, None)
    outputs, zeros = len(levels), torch.zeros(len(levels), dtype=torch.int32)
    linear = torch.ops.onednn.qlinear_pointwise.default
    narrow = inside and processor.is_fast(torch.bfloat16)
    dtype = torch.bfloat16 if narrow else torch.float32
    bias = None if bias is None else bias.float().contiguous()

    def product(x: Tensor) -> Tensor:
        rounded = (x.reshape(-1, x.shape[-1]).float() / step).round_().add_(zero + OFFSET).clamp_(0, 255)
        inputs = rounded.to(torch.uint8)
        y: Tensor = linear(inputs, step, zero + OFFSET, blocks, steps, zeros, bias, 1.0, 0, dtype, "none", [], "")
        return (y if narrow else y.to(x.dtype)).view(*x.shape[:-1], outputs)

    return product


PACKED: dict[str, Callable[[Tensor, Tensor | None, bool], Product]] = {
    "fp32": _packed_fp32,
    "fp16": _packed_fp16,
    "bf16": _packed_bf16,
    "int8": _packed_int8,
}
PLAIN: dict[str, Callable[[Tensor, Tensor | None, bool], Product]] = {
    "fp32": _plain,
    "fp16": _plain,
    "bf16": _plain_bf16,
    "int8": _plain,
}


def weight_levels() -> int:
    """The largest level of a weight that no sum of two products overflows with."""
    return LEVELS if processor.has("vnni") else LEVELS_WITHOUT_VNNI


def _bf16(x: Any) -> Any:
    return None if x is None else x.to(torch.bfloat16)


def kernels(precision: str) -> bool:
    """Whether this build of torch has the packed product, and this processor the instructions for it."""
    available = hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(torch.ops.onednn, "qlinear_pointwise")
    if not (available and torch.backends.mkldnn.is_available() and processor.has("avx2")):
        return False
    if precision == "fp16":
        return "fbgemm" in torch.backends.quantized.supported_engines
    return True


def _has_dynamic_quantisation() -> bool:
    """Whether torch has the product that quantises its inputs itself: quantised tensors are to leave torch."""
    return hasattr(torch, "quantize_per_channel") and "fbgemm" in torch.backends.quantized.supported_engines


@contextmanager
def _fbgemm_packing() -> Iterator[None]:
    """Select FBGEMM while packing: quantised weights are packed for the engine that a global setting names."""
    with _packing, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantize", category=UserWarning)
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            yield
        finally:
            torch.backends.quantized.engine = engine


@dataclass(frozen=True)
class Matrix:
    """Weights as the kernels of single tokens read them: row after row, in a format.

    weight: [out, in]; of 4 bits int32 [out, in / 8]
    step: of each row of levels [out], of each group of 4-bit levels [out, groups], or None
    bias: fp32 [out], or None
    zero: of each group. int8 [out, groups], or None
    """

    format: NumberFormat
    weight: Tensor
    step: Tensor | None = None
    bias: Tensor | None = None
    zero: Tensor | None = None

    @property
    def inputs(self) -> int:
        return self.weight.shape[1] * (PER_WORD if self.format == NumberFormat.INT4 else 1)

    @property
    def group(self) -> int:
        """Weights of 4 bits that share a step; 0 in other formats."""
        return self.inputs // self.step.shape[1] if self.format == NumberFormat.INT4 and self.step is not None else 0

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads."""
        return self.weight.nbytes + (0 if self.step is None else self.step.nbytes)

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None, precision: str, inside: bool) -> Matrix:
        """Weights of a linear layer in a precision; fp32 ones as they are, if they lie row after row."""
        bias = None if bias is None else bias.float().contiguous()
        if precision == "int8":
            steps = row_steps(weight.float())
            levels = (weight.float() / steps).round_().to(torch.int8)
            return Matrix(NumberFormat.INT8, levels.contiguous(), steps.flatten(), bias)
        if weight.dtype == torch.bfloat16 or (precision == "bf16" and inside):
            return Matrix(NumberFormat.BF16, weight.bfloat16().contiguous(), None, bias)
        if precision != "fp32" or _fits_fp16(weight):
            return Matrix(NumberFormat.FP16, weight.half().contiguous(), None, bias)
        return Matrix(NumberFormat.FP32, weight.contiguous(), None, bias)

    def rows(self, indices: Tensor) -> Matrix:
        """Some rows of it. [n]"""
        step, bias = (None if x is None else x[indices] for x in (self.step, self.bias))
        return Matrix(self.format, self.weight[indices], step, bias)


def packable(weight: Tensor, precision: str) -> bool:
    """Whether a weight has a packed product: its device, dtype and this processor."""
    suitable = weight.device.type == "cpu" and weight.dtype in TAKES[precision] and weight.numel() > 0
    return suitable and kernels(precision)
