"""Masks view: attention masks and position encodings at any size, and those of the model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.explorer.binary_frames import encode
from glassformer.inspect.patterns import Pattern, attention_masks, own_patterns, position_encodings
from glassformer.inspect.session import Session

SHOWN = 128
"""Rows or columns of a picture, at most: of larger ones a cell is the share of a square that attends, or every nth."""


def masks(
    session: Session, *, tokens: int, layer: int, head: int, padding: int, heads: int, width: int, **options: int
) -> bytes:
    """Every pattern at this size as a matrix. Raises: DataError: as the functions of `inspect.patterns`."""
    result = {
        "model": own_patterns(session, tokens, layer=layer, head=head, padding=padding),
        "mask": attention_masks(tokens, padding=padding, **options),
        "position": position_encodings(tokens, width=width, heads=heads, head=head % heads),
    }
    entries = [(group, name, pattern) for group, patterns in result.items() for name, pattern in patterns.items()]
    about = [{"group": group, "name": name, **_about(pattern)} for group, name, pattern in entries]
    arrays = {str(at): _shown(pattern.values) for at, (_, _, pattern) in enumerate(entries)}
    return encode("masks", arrays, {"patterns": about, "tokens": tokens})


def _about(pattern: Pattern) -> dict[str, Any]:
    values = pattern.values
    mask = values.dtype == torch.bool
    return {
        "rule": pattern.rule,
        "mask": mask,
        "pairs": int(values.sum()) if mask else None,
        "step": _steps(values),
        "options": pattern.options,
    }


def _steps(values: Tensor) -> list[int]:
    """Rows and columns of the matrix that a cell of the picture stands for."""
    return [-(-size // SHOWN) for size in values.shape]


def _shown(values: Tensor) -> Tensor:
    rows, columns = _steps(values)
    if values.dtype != torch.bool or rows == columns == 1:
        return values[::rows, ::columns].float().contiguous()
    square = values.float()[None, None]
    return torch.nn.functional.avg_pool2d(square, (rows, columns), ceil_mode=True)[0, 0]
