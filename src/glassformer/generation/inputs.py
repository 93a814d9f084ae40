"""Generation inputs: prompts ready to be continued, and truncation of prompts that are longer than the context.

<s> a b c d e f        room for 4, truncated on the left: a continued prompt keeps its newest tokens
<s>       d e f
a b c d e f </s>       room for 4, truncated on the right: an encoder input keeps its beginning
a b c       </s>       special tokens at either end stay
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from glassformer.generation.filters import Filter
from glassformer.generation.rows import Rows


@dataclass(frozen=True)
class GenerationInputs:
    """Validated rows, the number of new tokens, and logit filters.

    source: encoder input ids, -1 where they are padding; None for other models. [R, S]
    draft: the same rows for the draft model
    """

    rows: Rows
    new_tokens: int
    filters: list[Filter]
    source: Tensor | None = None
    draft: Rows | None = None


def truncate(
    ids: Tensor, keep: Tensor | None, room: int, *, side: str, special: Collection[int], pad_id: int
) -> tuple[Tensor, Tensor | None]:
    """Truncate rows to at most `room` tokens, padded on the left, with a warning that says how much was cut.

    Args:
        keep: attention mask, False where ids are padding. [B, 1, T] · side: side to cut, "left" or "right"
        special: ids that stay where they begin or end a row.
    Returns: ids [B, T'], and their mask [B, 1, T'].
    """
    rows = list(ids) if keep is None else [row[mask[0]] for row, mask in zip(ids, keep, strict=True)]
    longest = max(map(len, rows))
    if longest <= room:
        return ids, keep
    cut = [_truncate_row(row.tolist(), room, side, special) for row in rows]
    width, number = max(map(len, cut)), sum(len(row) > room for row in rows)
    warnings.warn(
        f"{number} of {len(rows)} prompts, of up to {longest} tokens, cut on the {side} to {room}: up to "
        f"{longest - room} tokens were left out",
        stacklevel=2,
    )
    padded = torch.tensor([[pad_id] * (width - len(row)) + row for row in cut], device=ids.device)
    starts = torch.tensor([[width - len(row)] for row in cut], device=ids.device)
    return padded, (torch.arange(width, device=ids.device) >= starts)[:, None]


def _truncate_row(row: list[int], room: int, side: str, special: Collection[int]) -> list[int]:
    """Cut tokens between the special tokens at both ends."""
    if len(row) <= room:
        return row
    before = list(takewhile(special.__contains__, row))
    after = list(takewhile(special.__contains__, reversed(row)))[::-1]
    body = row[len(before) : len(row) - len(after)]
    fits = room - len(before) - len(after)
    if fits < 0:  # there is no room even for the special tokens
        before, after, body, fits = [], [], row, room
    rest = body[len(body) - fits :] if side == "left" else body[:fits]
    return [*before, *rest, *after]
