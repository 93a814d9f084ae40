"""Dynamic int8 quantisation: numbers to levels before a product, and its result to numbers after it.

    levels = round(x / step),   step = max |x| / 127 of a row     y = levels(x) levels(W)ᵀ · step(token) · step(row) + b

Compiled kernels do both in one pass over memory each, where there are kernels (see `native`), else torch in several.
Source: Dettmers et al. 2022, "LLM.int8()", section 2.1 (vector-wise quantisation).
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.engine import native
from glassformer.engine.instruction import Instruction
from glassformer.engine.program import LEVELS, Kind, NumberFormat

OFFSET = 128  # zero point: inputs are unsigned, as the signed kernel of oneDNN is a slow reference
IN_CACHE = 1 << 19  # values quantised at a time
CHUNK_NUMBERS = 1 << 14  # numbers that a thread takes at a time
FORMATS = {torch.float32: NumberFormat.FP32, torch.bfloat16: NumberFormat.BF16}

_to_levels = Instruction(kind=Kind.TO_LEVELS)
_from_levels = Instruction(kind=Kind.FROM_LEVELS)


def row_steps(x: Tensor, levels: int = LEVELS) -> Tensor:
    """The distance between two levels of each row, so that its largest magnitude is the last. [..., in] → [..., 1]"""
    return _largest(x).div_(levels)


def token_levels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise each token to unsigned levels and a step. [tokens, in] → uint8 [tokens, in], fp32 [tokens, 1]"""
    kernel = _kernel_for(x)
    if kernel is None:
        return _token_levels_by_torch(x)
    x = x.contiguous()
    levels, step = torch.empty(x.shape, dtype=torch.uint8), torch.empty(len(x), 1)
    _to_levels.run(kernel, **_rows_of(x), x=x.data_ptr(), inputs=x.shape[1], y=levels.data_ptr(), step=step.data_ptr())
    return levels, step


def rescale_(y: Tensor, step: Tensor, bias: Tensor | None) -> Tensor:
    """y = y · step + b, in place.

    Args:
        y: [tokens, out]
        step: fp32 [tokens, 1]
        bias: fp32 [out]
    """
    kernel = _kernel_for(y) if y.is_contiguous() else None
    if kernel is None:
        narrow = step.to(y.dtype)
        return y.mul_(narrow) if bias is None else torch.addcmul(bias.to(y.dtype), y, narrow, out=y)
    address = 0 if bias is None else bias.data_ptr()
    _from_levels.run(kernel, **_rows_of(y), y=y.data_ptr(), outputs=y.shape[1], step=step.data_ptr(), bias=address)
    return y


def _kernel_for(x: Tensor) -> native.Kernel | None:
    suitable = x.device.type == "cpu" and x.dtype in FORMATS and x.numel() > 0 and not torch.compiler.is_compiling()
    return native.kernel() if suitable else None


def _rows_of(x: Tensor) -> dict[str, int]:
    """The fields of an instruction over the rows of a matrix."""
    block = max(1, CHUNK_NUMBERS // x.shape[1])
    return {
        "rows": len(x), "block": block, "chunks": -(-len(x) // block), "format": FORMATS[x.dtype], "nbytes": x.nbytes,
    }  # fmt: skip


def _token_levels_by_torch(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.numel() <= IN_CACHE:
        rounded, step = _rounded(x)
        levels = rounded.to(torch.int8)
    else:  # in chunks that stay in the cache: up to twice as fast
        levels, step = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)
        rows = max(1, IN_CACHE // x.shape[-1])
        for part, part_levels, part_step in zip(x.split(rows), levels.split(rows), step.split(rows), strict=True):
            rounded, steps = _rounded(part)
            part_levels.copy_(rounded)
            part_step.copy_(steps)
    # -127 … 127 becomes 1 … 255 by flipping the sign bit; torch converts to uint8 slowly.
    return levels.view(torch.uint8).bitwise_xor_(OFFSET), step


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest level of each value, and the step of each token. fp32 [tokens, in] and [tokens, 1]"""
    wide = x.float()
    largest = _largest(wide)
    return (wide * (LEVELS / largest)).round_(), largest.div_(LEVELS)


def _largest(x: Tensor) -> Tensor:
    """The largest magnitude of each row. [..., in] → [..., 1]"""
    if not x.numel():  # no tokens: there is no largest one
        return x.new_ones(*x.shape[:-1], 1)
    return x.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30)
