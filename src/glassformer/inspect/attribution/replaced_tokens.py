"""Shares of a score by token, from texts in which whole tokens are replaced: Shapley values, and leave one out.

    Shapley values     φᵢ = Σ over subsets S without i  |S|! (n − |S| − 1)! / n! · (score(S ∪ {i}) − score(S))
    leave one out      φᵢ = score(all) − score(all without i)

A token that is not in a subset is replaced by one that says nothing. Nothing is blended, so no gradient is needed.
Shapley values, what each token adds averaged over all orders of adding them, sum up to the change of the score exactly;
but n tokens have 2ⁿ subsets. Leaving out one word at a time takes a text for each word and adds up to nothing: of two
words that say the same, neither is missed.

Shapley, "A value for n-person games" (1953); Štrumbelj and Kononenko, "Explaining prediction models and individual
predictions with feature contributions" (2014), which draws orders at random; here all subsets are computed. Li, Monroe
and Jurafsky, "Understanding neural networks through representation erasure" (2016), which erases vectors; here tokens.
"""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.inspect.tokens import Token

MAX_TOKENS = 10
"""Of a text that has Shapley values: 1,024 texts, about as much work as 512 gradients."""
MAX_WORDS = 512
"""Of a text whose words are left out one at a time: less work than 512 gradients."""
TOKEN_FIELDS = {"text": "input_ids", "source": "input_ids", "target": "decoder_input_ids"}
Place = tuple[str, int]
"""A stream, and where its token is that a text has or lacks."""


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


def words_of(places: list[Place], streams: dict[str, list[Token]]) -> list[list[Place]]:
    """The places of each word, which may have several tokens."""
    words: list[list[Place]] = []
    for stream, at in places:
        if streams[stream][at].continues and words and words[-1][-1] == (stream, at - 1):
            words[-1].append((stream, at))
        else:
            words.append([(stream, at)])
    return words


def with_some(batch: Batch, blank: Batch, places: list[Place], there: Tensor) -> Batch:
    """A text a row, with the tokens of the input that are there and blank ones in the place of the others.

    Args:
        batch, blank: the input, and the same with every token replaced, each as often as there are rows
        there: whether a row has the token of a place. [rows, places]
    """
    changes = dict[str, Tensor]()
    for stream in {stream for stream, _ in places}:
        own, other = (getattr(each, TOKEN_FIELDS[stream]) for each in (batch, blank))
        taken = torch.zeros(own.shape, dtype=torch.bool)
        for column, (name, at) in enumerate(places):
            if name == stream:
                taken[:, at] = there[:, column]
        changes[TOKEN_FIELDS[stream]] = torch.where(taken.to(own.device), own, other)
    return replace(batch, **changes)


def subsets_of(count: int) -> Tensor:
    """All subsets of some tokens: row s has token i where bit i of s is set. [2ⁿ, n]"""
    return (torch.arange(2**count)[:, None] >> torch.arange(count)[None] & 1).bool()


def each_left_out(words: list[list[Place]], places: list[Place]) -> Tensor:
    """A row for each word, which lacks its tokens alone. [words, places]"""
    return torch.tensor([[place not in word for place in places] for word in words], dtype=torch.bool)


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


def left_out_values(scores: Tensor, whole: float, there: Tensor) -> Tensor:
    """By how much the score is lower without each word, in equal parts on its tokens. [places]

    Args:
        scores: of the text without each word. [words]
        whole: the score of the whole text
        there: which tokens such a text has. [words, places]
    """
    lacks = (~there).double()
    return lacks.mT @ ((whole - scores) / lacks.sum(1))
