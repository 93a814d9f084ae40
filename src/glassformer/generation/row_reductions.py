"""Work on the logits of a few rows that wakes no thread.

torch shares work on more than 32,768 numbers with its other threads. They come late where other processes take the
cores: a step of generation then waits milliseconds for what takes microseconds. NumPy does it alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def row_argmax(logits: Tensor) -> Tensor:
    """The index of the largest logit of each row; the first of several. [R, V] → [R]"""
    return torch.from_numpy(logits.numpy().argmax(-1)) if _numpy_reads(logits) else logits.argmax(-1)


def row_maximum(logits: Tensor) -> Tensor:
    """The largest logit of each row; NaN where one is. [R, V] → [R]"""
    return torch.from_numpy(logits.numpy().max(-1)) if _numpy_reads(logits) else logits.amax(-1)


def without_tokens(logits: Tensor, banned: Sequence[int]) -> Tensor:
    """A copy in which the logits of these tokens are -inf. [R, V]"""
    if not _numpy_reads(logits):
        return logits.index_fill(-1, torch.tensor(banned, dtype=torch.long, device=logits.device), -torch.inf)
    changed = logits.numpy().copy()
    changed[..., list(banned)] = -torch.inf
    return torch.from_numpy(changed)


def _numpy_reads(logits: Tensor) -> bool:
    return logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64) and not logits.requires_grad
