"""Attention maps: the heads of one kind of a network, layers × heads, as numbers and names."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glassformer.core.stack import AttentionGroup


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


def attention_map(name: str, group: AttentionGroup, keys: int) -> AttentionMap:
    """Describe a group of attention layers.

    Args:
        keys: number of key tokens
    """
    layers = [layer.attention for layer in group.layers]
    first, stack = layers[0], group.layers[0].stack
    return AttentionMap(
        name=name,
        layers=len(layers),
        heads=max(attention.spec.heads for attention in layers),
        kv_heads=first.spec.K,
        head_width=first.spec.E,
        queries=group.queries,
        keys=group.keys,
        causal=first.pattern.causal,
        windows=tuple(attention.pattern.window for attention in layers),
        rotary_bases=tuple(a.spec.rotary.theta if a.spec.rotary else None for a in layers),
        biased=(stack is not None and stack.bias is not None) or first.pattern.bias(torch.arange(1), keys) is not None,
    )
