"""Which texts go through the network together.

    lengths   7 3 9 3 7 3      sorted   3 3 3 7 7 9      passes of at most 14 tokens   [3 3 3] [7 7] [9]

Sorting puts equal lengths side by side, where they share one attention call. Passes are made about equally full, since
a nearly empty last pass would waste what the others filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.errors import ConfigError


def plan_passes(lengths: Sequence[int], pass_tokens: int) -> list[list[int]]:
    """Sort texts by length and cut them into passes of at most `pass_tokens` tokens.

    Args:
        lengths: how many tokens each text has.
        pass_tokens: the budget; a text that is longer makes a pass of its own.
    Returns: passes, each the indices of its texts, shortest first; every text once, no pass empty.
    """
    if pass_tokens < 1:
        raise ConfigError(f"pass_tokens is {pass_tokens}; it must be a whole number from 1 up")
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    least = -(-sum(lengths) // pass_tokens)  # so many passes are needed at least
    fair = -(-sum(lengths) // max(least, 1))  # so many tokens each would hold
    passes: list[list[int]] = []
    held = pass_tokens + 1
    for index in order:
        if held >= fair or held + lengths[index] > pass_tokens:
            passes.append([])
            held = 0
        passes[-1].append(index)
        held += lengths[index]
    return passes
