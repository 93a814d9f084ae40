"""Where attention stands in a network, for those who look at it once the pass is over.

A pass that keeps the residual stream can have q, k and v of any layer again: the stream, through what stands before the
layer, through the layer's own projection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.blocks import Block
from glassformer.core.flow import Flow, Memory
from glassformer.core.stack import Stack


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One layer of attention, and the streams it reads.

    stream: the tap of what its queries are made of; without a `memory`, its keys and values too
    memory: the tap of what the keys and values of cross-attention are made of
    entered: what the stream goes through first: a norm, or nothing
    stack: whose rotary angles and position bias it is handed
    """

    attention: Attention | CrossAttention
    stream: str
    entered: Callable[[Tensor], Tensor]
    memory: str | None = None
    stack: Stack | None = None

    def project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E], k and v [B, K, S, E] of streams x [B, T, D] and memory [B, S, D]."""
        flow = Flow() if memory is None else Flow(memory=Memory(memory))
        if self.stack is not None and memory is None:
            flow = self.stack.turned(x, flow)
        return self.attention.project(self.entered(x), flow)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """Layers of attention of one kind: the tokens of the side `queries` look at those of the side `keys`."""

    queries: str
    keys: str
    places: tuple[Place, ...]


def self_attention(stack: Stack, side: str) -> Sight:
    """A stack's attention to itself."""
    places = [
        Place(
            attention=block.attn,
            stream=f"{stack.path}.{i}.before",
            entered=block.attention_input,
            stack=stack,
        )
        for i, block in enumerate(stack)
    ]
    return Sight(queries=side, keys=side, places=tuple(places))


def cross_attention(stack: Stack, queries: str, keys: str) -> Sight:
    """A stack's attention to the memory; its blocks without any are left out."""
    places = [
        Place(
            attention=block.cross,
            stream=f"{stack.path}.{i}.mid",
            entered=block.cross_residual.before,
            memory="memory",
        )
        for i, block in enumerate(stack)
        if isinstance(block, Block) and block.cross is not None and block.cross_residual is not None
    ]
    return Sight(queries=queries, keys=keys, places=tuple(places))


def stream_of(stack: Stack) -> tuple[str, ...]:
    """The taps of a stack's residual stream: before each block, and after the last."""
    return (*(f"{stack.path}.{i}.before" for i in range(len(stack))), f"{stack.path}.{len(stack) - 1}.out")
