"""Random key blocks of block-sparse attention in training, by the rules and seeds of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch

PAPER_LENGTHS = (1024, 3072, 4096)
"""Texts of these lengths share the random blocks of the longest text, as when the paper's models were trained."""


PAPER_REACH = 1024
"""The random blocks of those texts lie before this token."""


RandomBlocks = tuple[tuple[tuple[int, ...], ...], ...]
"""Indices of key blocks. [heads][inner query blocks][random]"""


@lru_cache(maxsize=256)
def random_blocks(N: int, block: int, random: int, heads: int, seed: int, longest: int) -> RandomBlocks:
    """Random key blocks for training, by the paper's rules and seeds, so that fine-tuning continues as training did.

    Args:
        N: blocks of the text.
        seed: one for each layer.
        longest: tokens of the longest text.
    Returns: indices of key blocks. [heads, N - 2, random]
    """
    bits = _random_bits(seed)
    if N * block in PAPER_LENGTHS:
        return tuple(_paper_rows(max(longest // block, N), block, random, bits)[: N - 2] for _ in range(heads))
    rows = [[_random_row(i, 2 * random + 5, random, bits) for _ in range(heads)] for i in range(1, N - 1)]
    return tuple(zip(*rows, strict=True))


def _random_row(i: int, end: int, random: int, bits: Iterator[int]) -> tuple[int, ...]:
    """Random blocks of query block i, among the first `end`: none that it sees anyway, and not the last of them."""
    seen = {0, end - 1, i - 1, i, i + 1}
    seen |= {end - 2} if i == 1 else {1} if i == end - 2 else set()
    return tuple(j for j in _shuffled(range(end), bits) if j not in seen)[:random]


def _paper_rows(N: int, block: int, random: int, bits: Iterator[int]) -> tuple[tuple[int, ...], ...]:
    """Random blocks of all inner query blocks in a text of N blocks, among those before `PAPER_REACH`.

    A text that ends there may get its last block, which then counts twice.
    """
    reach = PAPER_REACH // block - 1 if 2 * block < PAPER_REACH else N - 1
    rows = []
    for i in range(1, N - 1):
        unrestricted = i >= N - 3  # the released code lets the last two get blocks of their window, too
        candidates = [j for j in range(1, min(reach, N - 2) + 1) if unrestricted or abs(j - i) > 1]
        rows.append(tuple(_shuffled(candidates, bits)[:random]))
    return tuple(rows)


def _shuffled(items: Sequence[int], bits: Iterator[int]) -> list[int]:
    """Fisher-Yates shuffle of the items. Source: Knuth 1969, section 3.4.2, algorithm P."""
    shuffled = list(items)
    for i in range(len(shuffled) - 1, 0, -1):
        mask = (1 << i.bit_length()) - 1
        # As NumPy does it, since the published models were trained with its shuffles: numbers above i are skipped.
        j = next(number & mask for number in bits if number & mask <= i)
        shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
    return shuffled


def _random_bits(seed: int) -> Iterator[int]:
    """Random integers of 31 bits from a Mersenne Twister, one after another."""
    twister = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.empty(4096, dtype=torch.int32).random_(generator=twister).tolist()
