"""Batching by token budget: which texts go through the network together.

    lengths   7 3 9 3 7 3      sorted   3 3 3 7 7 9      batches of at most 14 tokens   [3 3 3] [7 7] [9]

Sorting puts equal lengths side by side, where they share one attention call. Batches are about equally full, since
a nearly empty last one would waste what the others saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.errors import ConfigError


def plan_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Sort texts by length and cut them into batches of at most `batch_tokens` tokens.

    Args:
        lengths: how many tokens each text has.
        batch_tokens: the token budget; a longer text makes a batch of its own.
    Returns: batches, each the indices of its texts, shortest first; every text once, no batch empty.
    Raises: ConfigError: a budget below 1.
    """
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens is {batch_tokens}; it must be a whole number from 1 up")
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batch_count = -(-sum(lengths) // batch_tokens)  # the fewest that could hold all
    target = -(-sum(lengths) // max(batch_count, 1))  # tokens of each, if they were equally full
    batches: list[list[int]] = []
    filled = batch_tokens + 1  # opens the first batch
    for index in order:
        if filled >= target or filled + lengths[index] > batch_tokens:
            batches.append([])
            filled = 0
        batches[-1].append(index)
        filled += lengths[index]
    return batches
