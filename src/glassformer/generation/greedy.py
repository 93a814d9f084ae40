"""Greedy search on a bare network: always the likeliest next token."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.generation.filters import Filter
from glassformer.generation.rows import Rows
from glassformer.generation.sample import Decoding
from glassformer.generation.stop import Stop
from glassformer.models import Network


def greedy(
    network: Network,
    ids: Tensor,
    *,
    keep: Tensor | None = None,
    memory_of: Batch | None = None,
    memory_keep: Tensor | None = None,
    max_new_tokens: int = 20,
    stop_ids: tuple[int, ...] = (),
    pad_id: int = 0,
    cached: bool = True,
    filters: Sequence[Filter] = (),
) -> Tensor:
    """Append the likeliest token to each row until all rows have stopped.

        ids ──> logits of the last position ──> argmax ──> ids + 1 token ──> …

    Args:
        ids, keep, memory_of, memory_keep, cached: as in `Rows`. [B, T]
        stop_ids: tokens that end a row; after one of them a row is filled with `pad_id`.
        filters: what becomes of the logits before the likeliest is taken.
    Returns: prompts and their continuations. [B, T + new], new ≤ max_new_tokens
    """
    rows = Rows(network, ids, keep=keep, memory_of=memory_of, memory_keep=memory_keep, cached=cached)
    stop = Stop(len(rows), ids=stop_ids, device=ids.device)
    return Decoding(rows, max_new_tokens=max_new_tokens, stop=stop, pad_id=pad_id, filters=filters).run().ids
