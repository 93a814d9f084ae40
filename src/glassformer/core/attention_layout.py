"""Attention layout: which layers of a network attend from which stream to which, for inspection after a pass.

From a recorded residual stream, q, k and v of any layer can be recomputed:

    stream ─ the layer's input norm ─ the layer's own projection ─ q, k, v
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from glassformer.core.attention import Attention
from glassformer.core.blocks import Block
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.flow import EncoderOutput, Flow
from glassformer.core.stack import Stack


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionLayer:
    """One attention layer and the taps of the streams that it reads.

    query_tap: the tap that its queries are computed from; without a `memory_tap`, its keys and values too
    memory_tap: the tap that the keys and values of cross-attention are computed from
    input_norm: applied to the stream first: a norm, or the identity
    stack: the one whose position bias it gets
    """

    attention: Attention | CrossAttention
    query_tap: str
    input_norm: Callable[[Tensor], Tensor]
    memory_tap: str | None = None
    stack: Stack | None = None

    def project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E], k and v [B, K, S, E] of streams x [B, T, D] and memory [B, S, D]."""
        flow = Flow() if memory is None else Flow(memory=EncoderOutput(memory))
        return self.attention.project(self.input_norm(x), flow)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionGroup:
    """Attention layers of one kind: tokens of the stream `queries` attend to tokens of the stream `keys`."""

    queries: str
    keys: str
    layers: tuple[AttentionLayer, ...]


def self_attention(stack: Stack, stream: str) -> AttentionGroup:
    """The self-attention layers of a stack."""
    layers = [
        AttentionLayer(
            attention=block.attn,
            query_tap=f"{stack.path}.{i}.before",
            input_norm=block.attention_input,
            stack=stack,
        )
        for i, block in enumerate(stack)
    ]
    return AttentionGroup(queries=stream, keys=stream, layers=tuple(layers))


def cross_attention(stack: Stack, queries: str, keys: str) -> AttentionGroup:
    """The cross-attention layers of a stack; blocks without one are left out."""
    layers = [
        AttentionLayer(
            attention=block.cross,
            query_tap=f"{stack.path}.{i}.mid",
            input_norm=block.cross_residual.before,
            memory_tap="memory",
        )
        for i, block in enumerate(stack)
        if isinstance(block, Block) and block.cross is not None and block.cross_residual is not None
    ]
    return AttentionGroup(queries=queries, keys=keys, layers=tuple(layers))


def stream_taps(stack: Stack) -> tuple[str, ...]:
    """The taps of a stack's residual stream: before each block, and after the last."""
    return (*(f"{stack.path}.{i}.before" for i in range(len(stack))), f"{stack.path}.{len(stack) - 1}.out")
