"""Logit filters: what a model may not say next.

A filter is a function (ids so far [B, T], logits of the next token [B, V]) → logits [B, V].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Filter = Callable[[Tensor, Tensor], Tensor]


def suppress(banned: Sequence[int], *, at: int | None = None) -> Filter:
    """Never say these tokens; with `at`, only not as the token number `at` of a row.

    Source: Radford et al. 2022, section 4.5 and released code: tokens that are no speech, and no silence at the start.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        if at is not None and ids.shape[1] != at:
            return logits
        return logits.index_fill(-1, torch.tensor(banned, device=logits.device), -torch.inf)

    return apply


def only(allowed: Sequence[int], *, at: int) -> Filter:
    """Say one of these tokens as the token number `at` of a row; a single one is forced, whatever else is banned.

    Source: Radford et al. 2022, section 2.3: a transcript begins with language, task and whether it tells times.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        if ids.shape[1] != at:
            return logits
        chosen = torch.tensor(allowed, device=logits.device)
        kept = logits[:, chosen] if len(allowed) > 1 else torch.zeros_like(logits[:, :1])
        return torch.full_like(logits, -torch.inf).index_copy(-1, chosen, kept)

    return apply
