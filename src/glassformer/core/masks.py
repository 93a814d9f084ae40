"""Attention masks: causal, sliding window, padding, and packing of several texts in one row.

All masks are made here. A mask is a boolean `keep`, True = may attend. Causal is aligned to the *end* of the keys, so
the last query sees every key, with a cache or without. A query that may attend to nothing gets zeros, never NaN.

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
class AttentionPattern:
    """Attention pattern of a layer, whatever the batch: `causal`, and a sliding `window` in tokens (None: all)."""

    causal: bool = False
    window: int | None = None

    @property
    def mask_pattern(self) -> AttentionPattern:
        """The part of the pattern that a mask has to hold: all of it, unless the layer gathers its keys itself."""
        return self

    @property
    def block_size(self) -> int:
        """C, queries in a block of local attention: about the window, of which half then counts, but not too many."""
        return min(max(self.window or 1, 256), 1024)

    def is_local(self, T: int) -> bool:
        """Whether T queries are taken in blocks: there is a window, and the blocks meet less than half of the keys.

        An exported program has no number of blocks, since its sizes are free.
        """
        if self.window is None or torch.compiler.is_exporting():
            return False
        return 2 * (self.block_size + 2 * self.window) < T

    def keep(self, T: int, S: int, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
        """The pattern as a mask for T queries that end where S keys end."""
        return self.rows(torch.arange(S - T, S, device=device), S)

    def rows(self, query_positions: Int[Tensor, "R"], S: int) -> Bool[Tensor, "R S"]:
        """The rows of the mask for queries at these positions among S keys."""
        query, key = query_positions[:, None], torch.arange(S, device=query_positions.device)[None, :]
        keep = torch.ones(query_positions.shape[0], S, dtype=torch.bool, device=query_positions.device)
        if self.causal:
            keep &= key <= query
        if self.window is not None:
            keep &= key > query - self.window
            if not self.causal:
                keep &= key < query + self.window
        return keep

    def bias(self, query_positions: Int[Tensor, "R"], S: int) -> Float[Tensor, "R S"] | None:
        """Bias that the pattern adds to the scores of these queries; None = nothing."""
        return None

    def is_distance_based(self, tokens: int) -> bool:
        """Whether `causal` and `window` alone determine what a query sees in a text of this many tokens."""
        return True

    def attended_pairs(self, tokens: int) -> int:
        """Number of (query, key) pairs of a text that attend."""
        window = tokens if self.window is None else min(self.window, tokens)
        past = sum(min(query + 1, window) for query in range(tokens))  # itself included
        return past if self.causal else 2 * past - tokens  # as many later keys as earlier ones

    def __str__(self) -> str:
        """What it hides, in words; empty where that is nothing."""
        window = "" if self.window is None else f"window {self.window}"
        return ", ".join(filter(None, ("causal" if self.causal else "", window)))


@dataclass(frozen=True, slots=True)
class Mask:
    """Attention mask of one call: the pattern of a layer and the padding of the batch.

    keep: [B or 1, 1, T or 1, S] bool, or None where nothing is hidden but by `is_causal`
    is_causal: the plain lower triangle with T = S, for which the fused kernel needs no mask
    """

    keep: Tensor | None = None
    is_causal: bool = False

    @staticmethod
    def combine(pattern: AttentionPattern, keep: Tensor | None, T: int, S: int, device: torch.device) -> Mask:
        """The mask that hides what `pattern` hides and what `keep` [B, T or 1, S] hides.

        Raises: ConfigError: `keep` is not boolean, or does not broadcast to [B, T, S].
        """
        if keep is not None:
            if keep.dtype != torch.bool:
                raise ConfigError(f"keep is {keep.dtype}; it must be bool, True = may attend (from_additive makes one)")
            if keep.dim() != 3 or keep.shape[-1] != S or keep.shape[1] not in (1, T):
                raise ConfigError(f"keep has shape {list(keep.shape)}; it must broadcast to [B, T, S] = [B, {T}, {S}]")
            keep = keep[:, None]  # one for all heads
        pattern = pattern.mask_pattern
        # A single query is at the end of the keys: there is nothing later to hide from it.
        if pattern == AttentionPattern() or (pattern == AttentionPattern(causal=True) and T == 1):
            return Mask(keep)
        if keep is None and pattern == AttentionPattern(causal=True) and T == S:
            return Mask(is_causal=True)
        dense = pattern.keep(T, S, device)
        return Mask(dense[None, None] if keep is None else keep & dense)

    def dense(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """The mask as a tensor, for the explicit path; None where nothing is hidden."""
        return AttentionPattern(causal=True).keep(T, S, device)[None, None] if self.is_causal else self.keep


def from_additive(mask: Float[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """Boolean mask from an additive one: 0 = may attend, -inf (or the dtype's minimum) = may not."""
    return mask > torch.finfo(mask.dtype).min


@dataclass(frozen=True)
class Packing:
    """Sequence packing: several texts end to end in one row, without padding; a token attends to its own text only.

    Other libraries say the same by cumulative lengths: cu_seqlens = (0, 3, 6, 10) for the row below.

        row      a a a b b b c c c c          lengths (3, 3, 4)
        groups   [2 × 3] [1 × 4]              runs of equal length: each is one small batch without padding

    Linear layers, norms and activations work token by token and need no change; attention takes the groups one by one,
    which equals attention under the block-diagonal mask `keep()`.
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise ConfigError(f"Packing.lengths is {self.lengths}; each text has at least one token")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The position in the row where each text begins."""
        return (0, *accumulate(self.lengths[:-1]))

    @cached_property
    def tokens(self) -> int:
        """The length of the row."""
        return sum(self.lengths)

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """(start, texts, length) of each run of texts of equal length."""
        start = 0
        for length, run in groupby(self.lengths):
            texts = len(list(run))
            yield start, texts, length
            start += texts * length

    def positions(self, device: torch.device | None = None) -> Tensor:
        """Positions 0, 1, 2, … counted from 0 in each text. [1, tokens]"""
        lengths = torch.tensor(self.lengths, device=device)
        starts = torch.tensor(self.starts, device=device)
        return (torch.arange(self.tokens, device=device) - starts.repeat_interleave(lengths))[None]

    def keep(self, device: torch.device | None = None) -> Tensor:
        """The block-diagonal mask. [1, tokens, tokens] bool"""
        lengths = torch.tensor(self.lengths, device=device)
        text = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
        return (text[:, None] == text[None, :])[None]
