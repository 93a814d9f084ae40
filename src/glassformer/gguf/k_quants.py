"""K-quants of GGUF: rounding weights to 4 and 6 bits in super-blocks of 256, the part that the `gguf` package lacks.

    Q4_K   4.5 bits      w ≈ d · s · q − m · o      q 0 … 15; s and o 0 … 63 for every 32 weights; d and m for 256
    Q6_K   6.5625 bits   w ≈ d · s · q              q −32 … 31; s −128 … 127 for every 16 weights; d for 256

Scales are those of the least squared error among a few candidates: for each, the weights are rounded, and the scale is
fitted to the rounded levels in closed form.
Source: the layouts of the blocks, ggml-org/ggml, docs/gguf.md and ggml-common.h; tests compare with its own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

SUPER_BLOCK = 256
CHUNK = 2**13
"""Super-blocks that are rounded at once: about 40 MB."""


def quantize_k(x: Tensor, kind: str) -> Tensor:
    """Round rows to blocks of a kind of `KINDS`; x: [..., a multiple of 256]. Returns: bytes, [..., row bytes]."""
    blocks = x.reshape(-1, SUPER_BLOCK).float()
    made = torch.cat([KINDS[kind](chunk) for chunk in blocks.split(CHUNK)])
    return made.reshape(*x.shape[:-1], -1)


def _q4(x: Tensor) -> Tensor:
    groups = x.unflatten(1, (8, 32))
    scale, low = _fit_affine(groups)
    wide, widest = _in_half(scale.amax(1) / 63), _in_half(low.amax(1) / 63)
    scales, lows = _rounded(scale, wide[:, None], 0, 63), _rounded(low, widest[:, None], 0, 63)
    step, offset = wide[:, None, None] * scales[..., None], widest[:, None, None] * lows[..., None]
    levels = _rounded(groups + offset, step, 0, 15).to(torch.uint8)
    # Two groups share bytes: the first is in the low four bits.
    pairs = levels.unflatten(1, (4, 2))
    packed = (pairs[:, :, 0] | pairs[:, :, 1] << 4).flatten(1)
    return torch.cat([_half_bytes(wide), _half_bytes(widest), _six_bits(scales, lows), packed], dim=1)


def _six_bits(scales: Tensor, lows: Tensor) -> Tensor:
    """Eight scales and eight offsets of six bits in twelve bytes: the last four of each are split over two bytes."""
    s, o = scales.to(torch.uint8), lows.to(torch.uint8)
    first = [part[:, :4] | part[:, 4:] >> 4 << 6 for part in (s, o)]
    return torch.cat([*first, s[:, 4:] & 15 | (o[:, 4:] & 15) << 4], dim=1)


def _q6(x: Tensor) -> Tensor:
    groups = x.unflatten(1, (16, 16))
    scale = _fit_symmetric(groups)
    widest = scale.gather(1, scale.abs().argmax(1, keepdim=True))[:, 0]
    wide = _in_half(widest / -128)  # the widest group has the level that has no opposite
    scales = _rounded(scale, wide[:, None], -128, 127)
    levels = (_rounded(groups, (wide[:, None] * scales)[..., None], -32, 31) + 32).to(torch.uint8)
    # Each half of 128 is four rows of 32: two share the bytes of the low four bits, all four those of the high two.
    rows = levels.reshape(-1, 2, 4, 32)
    low = (rows[:, :, :2] & 15 | rows[:, :, 2:] << 4).flatten(1)
    high = rows[:, :, 0] >> 4
    for i in (1, 2, 3):
        high = high | rows[:, :, i] >> 4 << 2 * i
    return torch.cat([low, high.flatten(1), scales.to(torch.int8).view(torch.uint8), _half_bytes(wide)], dim=1)


KINDS: Mapping[str, Callable[[Tensor], Tensor]] = {"Q4_K": _q4, "Q6_K": _q6}
"""Name of a quantization → what rounds super-blocks, [N, 256], to its bytes, [N, bytes]."""


def _fit_affine(x: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and offset (not negative) of x ≈ scale · level − offset, with levels from 0 to 15, of least error."""
    low, high = x.amin(-1).clamp(max=0), x.amax(-1)
    total = x.sum(-1)
    scale, offset = torch.zeros_like(low), -low  # right for groups of one number that is not above zero
    best = ((x - low[..., None]) ** 2).sum(-1)
    for levels_used in torch.linspace(13.5, 18, 19).tolist():
        step = (high - low) / levels_used
        levels = _rounded(x - low[..., None], step[..., None], 0, 15)
        count, squares, products = levels.sum(-1), (levels**2).sum(-1), (levels * x).sum(-1)
        spread = x.shape[-1] * squares - count**2
        fitted = _ratio(x.shape[-1] * products - count * total, spread)
        shift = _ratio(squares * total - count * products, spread)
        above = (shift > 0) | (spread == 0)  # an offset can only lower; one level alone needs none
        fitted = torch.where(above, _ratio(products, squares), fitted)
        shift = shift.clamp(max=0)
        error = ((fitted[..., None] * levels + shift[..., None] - x) ** 2).sum(-1)
        better = (error < best) & (fitted >= 0)
        best, scale = torch.where(better, error, best), torch.where(better, fitted, scale)
        offset = torch.where(better, -shift, offset)
    return scale, offset


def _fit_symmetric(x: Tensor) -> Tensor:
    """Scale of x ≈ scale · level, with levels from −32 to 31, of least error."""
    widest = x.gather(-1, x.abs().argmax(-1, keepdim=True))[..., 0]
    best, scale = torch.full_like(widest, torch.inf), torch.zeros_like(widest)
    for levels_used in torch.linspace(-33, -31, 9).tolist():
        levels = _rounded(x, (widest / levels_used)[..., None], -32, 31)
        fitted = _ratio((levels * x).sum(-1), (levels**2).sum(-1))
        error = ((fitted[..., None] * levels - x) ** 2).sum(-1)
        better = error < best
        best, scale = torch.where(better, error, best), torch.where(better, fitted, scale)
    return scale


def _rounded(x: Tensor, step: Tensor, lowest: int, highest: int) -> Tensor:
    """x / step as whole numbers; 0 where the step is 0."""
    return _ratio(x, step).round_().clamp_(lowest, highest)


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(y == 0, 0.0, x / torch.where(y == 0, 1.0, y))


def _in_half(x: Tensor) -> Tensor:
    """As a block stores it."""
    return x.half().float()


def _half_bytes(x: Tensor) -> Tensor:
    return x.half()[:, None].view(torch.uint8)
