"""Integer levels of quantised weights: packed in four bits, unpacked, and turned back into numbers.

    levels    int8 [rows, columns], each from -128 to 127 (8 bits) or -8 to 7 (4 bits)
    packed    int32 [rows, ⌈columns / 8⌉]: eight levels of four bits, + 8, the first in the lowest bits
    numbers   f = S (q - Z), with S and Z of each row, or of each group of neighbouring columns of a row

How scales and zero points are chosen is in `compression/quantise.py`.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional

PER_WORD = 8
"""Levels of four bits in an int32."""


def level_range(bits: int) -> tuple[int, int]:
    """The lowest and the highest signed level of a number of bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def pack(levels: Tensor) -> Tensor:
    """Pack levels of four bits. int8 [rows, columns] → int32 [rows, ⌈columns / 8⌉]"""
    levels = functional.pad(levels, (0, -levels.shape[1] % PER_WORD), value=-8)
    nibbles = _row_by_row(levels + 8).view(torch.uint8).unflatten(1, (-1, 2))
    return _words(nibbles[..., 0] | nibbles[..., 1] << 4).view(torch.int32)


def unpack(packed: Tensor, columns: int) -> Tensor:
    """Unpack levels of four bits. int32 [rows, ⌈columns / 8⌉] → int8 [rows, columns]"""
    pairs = _words(_row_by_row(packed).view(torch.uint8))
    return (torch.stack((pairs & 15, pairs >> 4), -1).view(torch.int8).flatten(1) - 8)[:, :columns]


def _row_by_row(x: Tensor) -> Tensor:
    """The same numbers, one row after the other, so that a row can be viewed as another dtype."""
    # A tensor of one column counts as contiguous whatever its stride.
    rows = x.is_contiguous() and x.stride(-1) == 1
    return x if rows else x.clone(memory_format=torch.contiguous_format)


def _words(octets: Tensor) -> Tensor:
    """Bytes in the order of little-endian words, on any processor. [rows, 4 · words]"""
    return octets if sys.byteorder == "little" else octets.unflatten(1, (-1, 4)).flip(-1).flatten(1).contiguous()


def dequantise(levels: Tensor, scale: Tensor, zero: Tensor | None = None, order: Tensor | None = None) -> Tensor:
    """Numbers of levels, f = S (q - Z), in the dtype of the scales.

    Args:
        levels: [rows, columns]
        scale: S. [rows, groups]
        zero: Z, None: 0. int8 [rows, groups]
        order: the group of each column; None: groups are neighbouring columns. [columns]
    """
    columns = levels.shape[1]
    if order is not None:
        centred = levels.to(scale.dtype) if zero is None else levels.to(scale.dtype) - zero[:, order].to(scale.dtype)
        return centred * scale[:, order]
    groups = scale.shape[1]
    grouped = levels.reshape(len(levels), groups, columns // groups).to(scale.dtype)
    if zero is not None:
        grouped = grouped - zero[..., None].to(scale.dtype)
    return (grouped * scale[..., None]).reshape(levels.shape)
