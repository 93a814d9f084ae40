"""Sliding-window attention of long texts: blocks of queries, each with the keys that its windows reach.

    keys    ────────────────────────────────        of T · T pairs a mask would hide most;
            ░░░▓▓▓▓░░░                               so a block of C queries (▓) meets C + 2(W - 1) keys (░▓),
                   ░░░▓▓▓▓░░░                        or, causal, C + W - 1
                          ░░░▓▓▓▓░░░

Time and memory grow with T · (C + 2W), not with T².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.masks import AttentionPattern, Mask

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def local_attention(
    attend: Callable[[Tensor, Tensor, Tensor, Mask], Tensor],
    q: Float[Tensor, "B H T E"],
    k: Float[Tensor, "B K S E"],
    v: Float[Tensor, "B K S E"],
    pattern: AttentionPattern,
    keep: Bool[Tensor, "B #T S"] | None = None,
) -> Float[Tensor, "B H T E"]:
    """Sliding-window attention in blocks of queries.

    Args:
        attend: attention of some queries to some keys under a mask.
        pattern: with a window; T queries end where S keys end.
        keep: True = may attend, besides the pattern; None = all.
    Returns: what `attend` would give for all queries and keys at once. [B, H, T, E]
    Source: Beltagy et al. 2020, "Longformer", section 3.1, whose chunks overlap likewise.
    """
    T, S = q.shape[2], k.shape[2]
    assert pattern.window is not None
    size, reach = pattern.block_size, pattern.window - 1
    parts, masks = [], {}
    for start in range(0, T, size):
        count = min(size, T - start)
        first = S - T + start  # the key at which the block's first query is
        low = max(0, first - reach)
        high = first + count if pattern.causal else min(S, first + count + reach)
        shape = (first - low, count, high - low)
        if shape not in masks:  # that of all blocks but the outer ones
            queries = torch.arange(first - low, first - low + count, device=q.device)
            masks[shape] = pattern.rows(queries, high - low)[None, None]
        seen = masks[shape]
        if keep is not None:
            rows = slice(None) if keep.shape[1] == 1 else slice(start, start + count)
            seen = seen & keep[:, None, rows, low:high]
        block = slice(start, start + count)
        parts.append(attend(q[:, :, block], k[:, :, low:high], v[:, :, low:high], Mask(seen)))
    return torch.cat(parts, dim=2)
