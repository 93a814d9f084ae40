"""Patterns of attention that have a name: to the previous token, to the same word, in order, to special tokens.

    probs of a head ──> share of its attention that follows each pattern ──less that of uniform attention──> clarity

The pattern of a head is a relation between tokens where one is clear, and else the clearest of all. What a session
opens with and the summary of each head follow from this one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glassformer.inspect.tokens import Token

RELATIONS = ("repeat", "followed", "previous", "next", "copy", "order")
"""Patterns that say how tokens belong together; others are sinks, where attention rests that is not needed."""
SOME = ("repeat", "followed", "copy")
"""Patterns that only some queries can have: their shares are means over these."""
FEWEST = 3  # queries that a pattern of SOME must be seen in
CLEAR = 1 / 3  # attention above that of a uniform head, from which a relation between tokens comes before any sink


def rank(kind: str, clarity: float) -> tuple[bool, float]:
    """By which the pattern of a head, and the head to open with, are chosen: the largest."""
    return kind in RELATIONS and clarity >= CLEAR, clarity


class PatternShares:
    """The share of attention that follows each pattern, summed over queries part by part.

    Args:
        queries, keys: tokens of the two streams; the same of self-attention
        rows: queries that will be added
    """

    def __init__(self, queries: Sequence[Token], keys: Sequence[Token], rows: int, *, same_stream: bool) -> None:
        numbers = {text: at for at, text in enumerate({token.text.casefold() for token in (*queries, *keys)})}
        self._words = torch.tensor([numbers[token.text.casefold()] for token in keys])
        self._of = torch.tensor([-1 if token.special else numbers[token.text.casefold()] for token in queries])
        self._special = torch.tensor([token.special for token in keys])
        self._rows, self._same_stream = rows, same_stream
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}
        self._in_order: _InOrder | None = None if same_stream else _InOrder(rows, len(keys))

    def add(self, probs: Tensor, rows: Tensor, masked: Tensor | None) -> None:
        """Add queries.

        Args:
            probs: [H, R, S]
            rows: their numbers [R]
            masked: keys that they cannot see [R, S]
        """
        device, keys = probs.device, probs.shape[-1]
        visible = torch.ones(len(rows), keys, dtype=torch.bool, device=device) if masked is None else ~masked
        uniform = visible / visible.sum(-1, keepdim=True)
        targets = {kind: x.to(device) for kind, x in self._targets(rows.cpu()).items()}
        stacked = torch.stack(list(targets.values())).to(probs.dtype)  # [K, R, S]
        shares = torch.einsum("hrs,krs->khr", probs, stacked)
        shares = torch.cat([shares, torch.einsum("rs,krs->kr", uniform.to(probs.dtype), stacked)[:, None]], dim=1)
        for kind, target, share in zip(targets, targets.values(), shares, strict=True):
            there = (target & visible).any(-1)
            total = (share[:, there] if kind in SOME else share).sum(-1)
            self._sums[kind] = self._sums.get(kind, 0.0) + total
            self._counts[kind] = self._counts.get(kind, 0) + int(there.sum())
        if self._in_order is not None:
            self._in_order.add(torch.cat([probs.float(), uniform[None].float()]))

    def shares(self) -> dict[str, list[float]]:
        """Of each pattern that queries can have: the share of each head and, last, of uniform attention. H + 1"""
        shares = {
            kind: (total / (self._counts[kind] if kind in SOME else self._rows)).tolist()
            for kind, total in self._sums.items()
            if self._counts[kind] >= (FEWEST if kind in SOME else 1)
        }
        return shares if self._in_order is None else {**shares, "order": self._in_order.share().tolist()}

    def _targets(self, rows: Tensor) -> dict[str, Tensor]:
        """The keys that each pattern means, for each query of `rows`. [R, S] bool"""
        t, s = rows[:, None], torch.arange(len(self._words))[None]
        same_word = (self._of[rows][:, None] == self._words) & ~self._special
        sinks = {"first": (s == 0).expand_as(same_word), "special": self._special.expand_as(same_word)}
        if not self._same_stream:
            return {"copy": same_word, **sinks}
        repeat = same_word & (s != t)
        followed = (repeat & (s < t)).roll(1, -1) & (s > 0) & (s != t)
        near = {"previous": s == t - 1, "next": s == t + 1, "same": s == t}
        return {"repeat": repeat, "followed": followed, **near, **sinks}


class _InOrder:
    """The largest share that one key a query can take, where each key is after the last one taken.

    Dynamic programming over queries; a query may be passed over. Of many keys a query, as frames of sound are, it takes
    a band of neighbours.
    """

    def __init__(self, rows: int, keys: int) -> None:
        self._rows, self._band = rows, max(1, keys // max(rows, 100))
        self._best: Tensor | None = None

    def add(self, probs: Tensor) -> None:
        """Add the next queries. [H, R, S]"""
        bands = torch.nn.functional.avg_pool1d(probs, self._band, ceil_mode=True) * self._band
        if self._best is None:
            self._best = torch.zeros(len(bands), bands.shape[-1] + 1, device=bands.device)
        best = self._best  # best[:, k]: with keys before band k
        for row in bands.unbind(1):
            best[:, 1:] = torch.maximum(best[:, 1:], best[:, :-1] + row).cummax(-1).values

    def share(self) -> Tensor:
        """The share of each head. [H]"""
        assert self._best is not None
        return self._best[:, -1] / self._rows


def main_pattern(shares: Mapping[str, Sequence[float]], head: int) -> tuple[str, float, float]:
    """The pattern of a head: its name, its share, and its clarity.

    Args:
        shares: of `PatternShares`
    """
    clarity = {kind: of_heads[head] - of_heads[-1] for kind, of_heads in shares.items()}
    kind = max(clarity, key=lambda kind: rank(kind, clarity[kind]))
    return kind, shares[kind][head], clarity[kind]
