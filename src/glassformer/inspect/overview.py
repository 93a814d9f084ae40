"""All heads of a layer at a glance: a thumbnail, a few numbers, and a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.inspect.head import Head, pooled
from glassformer.inspect.reading import Token

SIDE = 64  # pixels of a thumbnail
SAMPLED_FROM = 1_024  # queries: up to here all rows are used
SAMPLED_ROWS = 256
CELLS = 2**22  # probabilities in work at once: 16 MB in fp32


@dataclass(frozen=True, eq=False)
class Overview:
    """A layer at a glance.

    thumbnails: each pixel is the largest probability of the pairs that it stands for. [H, ≤ 64, ≤ 64]
    bins: how many queries and keys a pixel stands for
    rows_used, rows_total: fewer used than there are means a sample of evenly spaced queries
    stats: means over queries, by name: [H]
        entropy_bits   how widely a query spreads its attention; `entropy_most_bits` if it looked at all alike
        special        share of the attention that goes to special tokens; `first`: to the first token
        previous, same, next   share that goes to the neighbours and to itself; where queries and keys are one text
        distance       how far off it looks, in tokens; likewise
    summaries: what each head mostly does, in words
    """

    thumbnails: Tensor
    bins: tuple[int, int]
    rows_used: int
    rows_total: int
    stats: dict[str, Tensor]
    summaries: list[str]

    @property
    def sampled(self) -> bool:
        return self.rows_used < self.rows_total


def overview(
    heads: Sequence[Head], keys: Sequence[Token], *, same_side: bool, exact: bool = False
) -> Overview:
    """Look over all heads of a layer.

    Args:
        keys: the tokens that are looked at. [S]
        same_side: queries and keys are one text, so that there is a previous token and a next.
        exact: use every row, however many there are.
    """
    T, S, device = len(heads[0].q), len(heads[0].k), heads[0].q.device
    step, bin_rows = _sampling(T)
    bin_columns = -(-S // SIDE)
    if exact:
        step = 1
    rows = (torch.arange(0, T, step, device=device) + step // 2).clamp(max=T - 1)
    special = torch.tensor([token.special for token in keys], device=device)
    thumbnails = torch.zeros(len(heads), -(-T // bin_rows), -(-S // bin_columns), device=device)
    totals: dict[str, Tensor] = {}
    for chosen in rows.split(max(1, CELLS // (S * len(heads)))):
        probs = torch.stack([head.probs(chosen) for head in heads])  # [H, R, S]
        pixels = pooled(probs, 1, bin_columns).float()
        thumbnails.scatter_reduce_(1, (chosen // bin_rows)[None, :, None].expand_as(pixels), pixels, "amax")
        hidden = heads[0].hidden(chosen)
        seen = torch.full_like(chosen, S) if hidden is None else (~hidden).sum(-1)
        for name, part in _sums(probs.float(), seen, chosen, special, same_side).items():
            # In place: a list of small tensors between the large ones would keep the allocator from reusing memory.
            totals[name] = part if name not in totals else totals[name].add_(part)
    stats = {name: total / len(rows) for name, total in totals.items()}
    by_head = [{name: float(values[i]) for name, values in stats.items()} for i in range(len(heads))]
    return Overview(
        thumbnails=thumbnails,
        bins=(bin_rows, bin_columns),
        rows_used=len(rows),
        rows_total=T,
        stats=stats,
        summaries=[_summary(numbers, keys[0]) for numbers in by_head],
    )


def _sampling(T: int) -> tuple[int, int]:
    """Every how many-th query is used, and how many queries a row of pixels stands for: a multiple of it."""
    if T <= SAMPLED_FROM:
        return 1, -(-T // SIDE)
    step = -(-T // SAMPLED_ROWS)
    return step, step * (SAMPLED_ROWS // SIDE)


def _sums(probs: Tensor, seen: Tensor, rows: Tensor, special: Tensor, same_side: bool) -> dict[str, Tensor]:
    """The sums over queries from which the means are made. probs [H, R, S] → [H] each"""
    log = torch.where(probs > 0, probs, 1.0).log2()
    sums = {
        "entropy_bits": -(probs * log).sum((-1, -2)),
        "entropy_most_bits": seen.log2().sum().repeat(len(probs)),
        "special": probs[:, :, special].sum((-1, -2)),
        "first": probs[:, :, 0].sum(-1),
    }
    if same_side:
        S = probs.shape[-1]
        for name, away in (("previous", -1), ("same", 0), ("next", 1)):
            there = ((rows + away >= 0) & (rows + away < S)).nonzero()[:, 0]
            sums[name] = probs[:, there, rows[there] + away].sum(-1)
        far = (rows[:, None] - torch.arange(S, device=rows.device)[None, :]).abs().to(probs.dtype)
        sums["distance"] = (probs * far).sum((-1, -2))
    return sums


def _summary(numbers: dict[str, float], first: Token) -> str:
    """What a head mostly does: where it looks if one place stands out, else how widely."""
    places = {
        "previous": "the previous token",
        "same": "the token itself",
        "next": "the next token",
        "special": "special tokens",
        "first": f"the first token ({first.text})" if first.special else "the first token",
    }
    shares = {name: numbers[name] for name in places if name in numbers}
    if first.special and shares["first"] > 0.9 * shares["special"]:
        del shares["special"]  # the first token says it more exactly
    name = max(shares, key=lambda place: shares[place])
    spread, most = numbers["entropy_bits"], numbers["entropy_most_bits"]
    if shares[name] >= 0.5:
        return f"mostly {places[name]}, {shares[name]:.0%}"
    if spread >= 0.8 * most:
        return f"spread widely, {spread:.1f} of {most:.1f} bits"
    if shares[name] >= 0.25:
        return f"often {places[name]}, {shares[name]:.0%}"
    far = f", {numbers['distance']:.1f} tokens away on average" if "distance" in numbers else ""
    return f"mixed{far}, {spread:.1f} of {most:.1f} bits"
