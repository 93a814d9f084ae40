"""Who may see whom: the one place where masks are made.

One rule: a mask is a boolean `keep`, True = may attend. Causal is aligned to the *end* of the keys, so the last query
sees every key, with a cache or without. A row that may attend to nothing gets zeros, never NaN.

    causal, T = S = 4      with a cache, T = 2, S = 4      window = 2
    1 . . .                                                1 . . .
    1 1 . .                1 1 1 .                         1 1 . .
    1 1 1 .                1 1 1 1                         . 1 1 .
    1 1 1 1                                                . . 1 1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, slots=True)
class Pattern:
    """What an attention layer lets a query see, whatever the batch: `causal`, and a `window` in tokens."""

    causal: bool = False
    window: int | None = None

    @property
    def masked(self) -> Pattern:
        """What of it a mask has to hold: all, unless attention gathers the keys that it shows."""
        return self

    def keep(self, T: int, S: int, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
        """The pattern drawn out for T queries that end where S keys end."""
        return self.rows(torch.arange(S - T, S, device=device), S)

    def rows(self, places: Int[Tensor, "R"], S: int) -> Bool[Tensor, "R S"]:
        """The pattern drawn out for the queries that stand at these places among S keys."""
        query, key = places[:, None], torch.arange(S, device=places.device)[None, :]
        keep = torch.ones(len(places), S, dtype=torch.bool, device=places.device)
        if self.causal:
            keep &= key <= query
        if self.window is not None:
            keep &= (query - key).abs() < self.window
        return keep

    def bias(self, places: Int[Tensor, "R"], S: int) -> Float[Tensor, "R S"] | None:
        """What it adds to the scores of the keys that it shows these queries; None = nothing."""
        return None

    def by_distance(self, tokens: int) -> bool:
        """Does what a query sees in a text follow from `causal` and `window` alone?"""
        return True

    def pairs(self, tokens: int) -> int:
        """How many (query, key) pairs of a text it lets through."""
        window = tokens if self.window is None else min(self.window, tokens)
        past = sum(min(query + 1, window) for query in range(tokens))  # itself included
        return past if self.causal else 2 * past - tokens  # as many later keys as earlier ones

    def __str__(self) -> str:
        """In a few words what it hides; empty where that is nothing."""
        causal, window = (
            "causal" if self.causal else "",
            "" if self.window is None else f"window {self.window}",
        )
        return ", ".join(filter(None, (causal, window)))


@dataclass(frozen=True, slots=True)
class Mask:
    """A pattern and a batch's padding, joined once a call.

    keep: [B or 1, 1, T or 1, S] bool, or None where nothing is hidden but by `is_causal`
    is_causal: the plain lower triangle with T = S, which the fused kernel knows without a mask
    """

    keep: Tensor | None = None
    is_causal: bool = False

    @staticmethod
    def join(pattern: Pattern, keep: Tensor | None, T: int, S: int, device: torch.device) -> Mask:
        """The mask that hides what `pattern` hides and what `keep` [B, T or 1, S] hides."""
        if keep is not None:
            if keep.dtype != torch.bool:
                raise ConfigError(
                    f"keep is {keep.dtype}; it must be bool, True = may attend (from_additive makes one)"
                )
            if keep.dim() != 3 or keep.shape[-1] != S or keep.shape[1] not in (1, T):
                raise ConfigError(
                    f"keep has shape {list(keep.shape)}; it must broadcast to [B, T, S] = [B, {T}, {S}]"
                )
            keep = keep[:, None]  # one for all heads
        pattern = pattern.masked
        sees_all = pattern == Pattern() or (pattern == Pattern(causal=True) and T == 1)
        if sees_all:
            return Mask(keep)
        if keep is None and pattern == Pattern(causal=True) and T == S:
            return Mask(is_causal=True)
        drawn = pattern.keep(T, S, device)
        return Mask(drawn[None, None] if keep is None else keep & drawn)

    def drawn(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """The mask as a tensor, for the explicit path; None where everything is seen."""
        return Pattern(causal=True).keep(T, S, device)[None, None] if self.is_causal else self.keep


def from_additive(mask: Float[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """The boolean form of a mask that is added to scores: 0 = may attend, -inf (or the dtype's minimum) = may not."""
    return mask > torch.finfo(mask.dtype).min


@dataclass(frozen=True)
class Segments:
    """Several texts laid end to end in one row; a token sees its own text only.

        row      a a a b b b c c c c          lengths (3, 3, 4)
        groups   [2 × 3] [1 × 4]              runs of equal length: each is one small batch without padding

    Linear layers, norms and activations treat tokens alike and so never see padding; attention takes the groups one
    by one, which equals attention under the block-diagonal mask `keep()`.
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise ConfigError(f"Segments.lengths is {self.lengths}; each text has at least one token")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each text begins in the row."""
        return (0, *accumulate(self.lengths[:-1]))

    @cached_property
    def tokens(self) -> int:
        """The length of the row."""
        return sum(self.lengths)

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """(start, texts, length) of each run of texts of one length."""
        start = 0
        for length, run in groupby(self.lengths):
            texts = len(list(run))
            yield start, texts, length
            start += texts * length

    def positions(self, device: torch.device | None = None) -> Tensor:
        """0, 1, 2, … anew in each text. [1, tokens]"""
        lengths = torch.tensor(self.lengths, device=device)
        starts = torch.tensor(self.starts, device=device)
        return (torch.arange(self.tokens, device=device) - starts.repeat_interleave(lengths))[None]

    def keep(self, device: torch.device | None = None) -> Tensor:
        """The block-diagonal mask. [1, tokens, tokens] bool"""
        lengths = torch.tensor(self.lengths, device=device)
        text = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
        return (text[:, None] == text[None, :])[None]
