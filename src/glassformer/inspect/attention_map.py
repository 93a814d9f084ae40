"""Attention maps: the heads of one kind of a network, layers × heads, as numbers and names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMap:
    """The attention maps of one kind, layers × heads: self-attention of a stack, or cross-attention.

    name: `self`; with two stacks `encoder`, `decoder` and `cross`
    heads: the largest number in a layer; most families have the same number in all
    queries, keys: names of streams, as in `Session.streams`
    windows: attention window of each layer, in tokens; None = unlimited
    rotary_bases: base θ of each layer's rotary positions; None = it has none
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    queries: str
    keys: str
    causal: bool
    windows: tuple[int | None, ...]
    rotary_bases: tuple[float | None, ...]
    biased: bool

    @property
    def rotary(self) -> bool:
        """Whether a layer rotates its queries and keys."""
        return any(base is not None for base in self.rotary_bases)
