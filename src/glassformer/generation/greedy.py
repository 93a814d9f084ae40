"""Greedy search: always the likeliest next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow
from glassformer.generation.filters import Filter
from glassformer.models import Network


@torch.inference_mode()
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
        ids: prompts, padded on the left. [B, T]
        keep: False where the prompt is padding. [B, T] bool
        memory_of, memory_keep: for an encoder-decoder, what the encoder reads, and its mask [B, 1, S]; it runs once.
        stop_ids: tokens that end a row; after one of them a row is filled with `pad_id`.
        cached: keep keys and values, so that each step computes one position; the same tokens either way.
        filters: what becomes of the logits before the likeliest is taken.
    Returns: prompts and their continuations. [B, T + new], new ≤ max_new_tokens
    """
    keep = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
    hides = not bool(keep.all())
    memory = None if memory_of is None else network.memory(memory_of, Flow(keep=memory_keep))
    cache = KeyValueCache() if cached else None
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    new = ids
    for _ in range(max_new_tokens):
        fed = new if cached else ids
        seen = keep[:, None] if hides else None  # [B, 1, S]
        if memory is None:
            batch, flow = Batch(input_ids=fed), Flow(keep=seen, cache=cache, last=1)
        else:  # the prompt is the decoder's, so is its mask; the encoder's mask lies in the memory
            batch = Batch(decoder_input_ids=fed, decoder_keep=seen)
            flow = Flow(memory=memory, cache=cache, last=1)
        logits = network(batch, flow).logits[:, -1]  # [B, V]
        for change in filters:
            logits = change(ids, logits)
        chosen = torch.where(running, logits.argmax(dim=-1), pad_id)
        new = chosen[:, None]
        ids = torch.cat([ids, new], dim=1)
        keep = torch.cat([keep, torch.ones_like(new, dtype=torch.bool)], dim=1)
        for stop in stop_ids:
            running &= chosen != stop
        if not running.any():
            break
    return ids
