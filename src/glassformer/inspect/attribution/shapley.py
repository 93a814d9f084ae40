"""Shapley values of the tokens of a short text: what each adds to a score, averaged over all orders of adding them.

    φᵢ = Σ over subsets S without i  |S|! (n − |S| − 1)! / n! · (score(S ∪ {i}) − score(S))

A token that is not in a subset is replaced by one that says nothing. Nothing is blended, so no gradient is needed, and
the values add up to the change of the score exactly; but n tokens have 2ⁿ subsets.

Shapley, "A value for n-person games" (1953); Štrumbelj and Kononenko, "Explaining prediction models and individual
predictions with feature contributions" (2014), which draws orders at random; here all subsets are computed.
"""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import torch
from torch import Tensor

from glassformer.core.flow import Batch

MAX_TOKENS = 10
"""1,024 texts: about as much work as the 512 gradients that integrated gradients take at most."""
TOKEN_FIELDS = {"text": "input_ids", "source": "input_ids", "target": "decoder_input_ids"}
Place = tuple[str, int]
"""A stream, and where its token is that a subset has or lacks."""


def places_that_differ(batch: Batch, blank: Batch, streams: tuple[str, ...]) -> list[Place]:
    """The tokens that two inputs of the same length do not have in common."""
    fields = {stream: TOKEN_FIELDS[stream] for stream in streams if stream in TOKEN_FIELDS}
    pairs = {stream: (getattr(batch, field), getattr(blank, field)) for stream, field in fields.items()}
    return [
        (stream, at)
        for stream, (own, other) in pairs.items()
        if own is not None
        for at in (own != other)[0].nonzero()[:, 0].tolist()
    ]


def subset_of(batch: Batch, blank: Batch, places: list[Place], subsets: range) -> Batch:
    """A row for each subset: the input where its bit is set, blank where it is not."""
    numbers, changes = torch.arange(subsets.start, subsets.stop), dict[str, Tensor]()
    for stream in {stream for stream, _ in places}:
        field = TOKEN_FIELDS[stream]
        own, other = (getattr(each, field).expand(len(subsets), -1) for each in (batch, blank))
        there = torch.zeros(own.shape, dtype=torch.bool)
        for bit, (name, at) in enumerate(places):
            if name == stream:
                there[:, at] = (numbers >> bit & 1).bool()
        changes[field] = torch.where(there.to(own.device), own, other)
    return replace(batch, **changes)


def shapley_values(scores: Tensor) -> Tensor:
    """The Shapley values of n tokens. [n]

    Args:
        scores: of each subset; bit i of its number says whether token i is in it. [2ⁿ]
    """
    n = len(scores).bit_length() - 1
    subsets = torch.arange(2**n)
    sizes = sum((subsets >> bit & 1 for bit in range(n)), torch.zeros_like(subsets))
    weights = torch.tensor([factorial(size) * factorial(n - size - 1) / factorial(n) for size in range(n)]).double()
    values = []
    for bit in range(n):
        without = subsets[(subsets >> bit & 1) == 0]
        added = scores[without | 1 << bit].double() - scores[without].double()
        values.append((weights[sizes[without]] * added).sum())
    return torch.stack(values) if values else torch.zeros(0).double()
