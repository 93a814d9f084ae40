"""Sliding windows over texts longer than the context, merged to one prediction for each token.

tokens     0 1 2 3 4 5 6 7 8 9 …
window 0   0 1 2 3 4 5 6 7
window 1             5 6 7 8 9 …        each token is answered by the window in which it stands further
answered   0 0 0 0 0 0 1 1 1 1          from where a window was cut, so none without its neighbours
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.errors import ConfigError

SHARED = 4
"""Windows share the fourth part of their tokens."""


def windows_of(length: int, room: int | None, starts: Collection[int] = ()) -> list[range]:
    """Which tokens each window holds.

    Args:
        length: of the row · room: tokens of a window; None = any number
        starts: the tokens that begin a word; a window begins with one where it can
    Raises: ConfigError: there is no room for a token.
    """
    if room is None or length <= room:
        return [range(length)]
    if room < 1:
        raise ConfigError("the model reads so few tokens that the special ones leave no room for text")
    spans = [range(room)]
    while spans[-1].stop < length:
        last = spans[-1]
        planned = last.stop - room // SHARED
        begins = next((token for token in range(planned, last.start, -1) if token in starts), planned)
        spans.append(range(begins, min(begins + room, length)))
    return spans


def merged(windows: Sequence[range], logits: Sequence[Tensor]) -> Tensor:
    """One answer a token, of what was said to each window. [length, …]"""
    cuts = [(after.start + window.stop) // 2 for window, after in pairwise(windows)]
    edges = pairwise([0, *cuts, windows[-1].stop])
    return torch.cat(
        [
            answers[start - window.start : end - window.start]
            for window, answers, (start, end) in zip(windows, logits, edges, strict=True)
        ]
    )
