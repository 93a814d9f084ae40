"""Batching by token budget: which texts go through the network together, and the loop that runs them.

    lengths   7 3 9 3 7 3      sorted   3 3 3 7 7 9      batches of at most 14 tokens   [3 3 3] [7 7] [9]

Sorting puts equal lengths side by side, where they share one attention call. Batches are about equally full, since
a nearly empty last one would waste what the others saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from glassformer.errors import ConfigError

Result = TypeVar("Result")


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


def run_planned(
    batches: Sequence[Sequence[int]],
    lengths: Sequence[int],
    run: Callable[[Sequence[int]], Result],
    on_out_of_memory: Callable[[Exception], int | None] | None = None,
) -> Iterator[tuple[Sequence[int], Result]]:
    """Run batches of `plan_batches` one after another: the indices of each with what `run` makes of them.

    Args:
        on_out_of_memory: gives the token budget that a batch is split to after an error; None = the error is raised
    """
    for batch in batches:
        try:
            result = run(batch)
        except Exception as error:
            if on_out_of_memory is None or len(batch) == 1 or (fewer := on_out_of_memory(error)) is None:
                raise
        else:
            # Outside the `try`: an error of the consumer, which is thrown in here, is not the network's.
            yield batch, result
            continue
        # Outside the `except`: its traceback holds the tensors of the batch that did not fit.
        parts = plan_batches([lengths[i] for i in batch], fewer)
        yield from run_planned([[batch[i] for i in part] for part in parts], lengths, run, on_out_of_memory)
