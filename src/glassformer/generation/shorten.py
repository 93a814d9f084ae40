"""Prompts that are longer than the context, cut to what fits, where that is asked for.

<s> a b c d e f        room for 4, cut on the left: what is continued keeps its newest tokens
<s>       d e f
a b c d e f </s>       room for 4, cut on the right: what is answered keeps its beginning
a b c       </s>       the special tokens around a text stay
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from itertools import takewhile

import torch
from torch import Tensor


def shorten(
    ids: Tensor, keep: Tensor | None, room: int, *, side: str, special: Collection[int], pad_id: int
) -> tuple[Tensor, Tensor | None]:
    """Rows of at most `room` tokens, padded on the left; a warning says how much was cut.

    Args:
        keep: False where ids are padding. [B, 1, T] · side: "left" or "right", where a row is cut.
        special: ids that stay where they begin or end a row.
    """
    rows = list(ids) if keep is None else [row[seen[0]] for row, seen in zip(ids, keep, strict=True)]
    longest = max(map(len, rows))
    if longest <= room:
        return ids, keep
    cut = [_cut(row.tolist(), room, side, special) for row in rows]
    width, number = max(map(len, cut)), sum(len(row) > room for row in rows)
    warnings.warn(
        f"{number} of {len(rows)} prompts, of up to {longest} tokens, cut on the {side} to {room}: up to "
        f"{longest - room} tokens were left out",
        stacklevel=2,
    )
    short = torch.tensor([[pad_id] * (width - len(row)) + row for row in cut], device=ids.device)
    begins = torch.tensor([[width - len(row)] for row in cut], device=ids.device)
    return short, (torch.arange(width, device=ids.device) >= begins)[:, None]


def _cut(row: list[int], room: int, side: str, special: Collection[int]) -> list[int]:
    """A row without tokens of its body on one side."""
    if len(row) <= room:
        return row
    before = list(takewhile(special.__contains__, row))
    after = list(takewhile(special.__contains__, reversed(row)))[::-1]
    body = row[len(before) : len(row) - len(after)]
    fits = room - len(before) - len(after)
    if fits < 0:  # special tokens are all there is
        before, after, body, fits = [], [], row, room
    kept = body[len(body) - fits :] if side == "left" else body[:fits]
    return [*before, *kept, *after]
