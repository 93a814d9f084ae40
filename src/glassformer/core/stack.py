"""A stack: blocks one after another, and what they share in a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.core.blocks import Block, ParallelBlock, make_block, run
from glassformer.core.flow import Flow, Node
from glassformer.core.masks import Mask
from glassformer.core.positions import BucketedBias, Rotary
from glassformer.core.specs import StackSpec
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


class Stack(Node):
    """Blocks in order: block i of the stack `blocks` is `blocks.{i}`.

    What all blocks need alike (masks, rotary angles, position bias) is made once a call and handed down in the Flow.
    Blocks never share weights, and never start equal.

    Args:
        x: embedded tokens. [B, T, D]
        flow: what the caller wants hidden, kept, cached or looked at.
    Returns: the residual stream after the last block. [B, T, D]
    Raises: ConfigError: `keep` does not fit the batch.
    """

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.spec = spec
        for i, block in enumerate(spec.blocks):
            self.add_module(str(i), make_block(block))
        self.rotary = Rotary(spec.rotary) if spec.rotary else None
        self.bias = BucketedBias(spec.bias) if spec.bias else None

    def __len__(self) -> int:
        return len(self.spec.blocks)

    def __iter__(self) -> Iterator[Block | ParallelBlock]:
        return (block for block in self.children() if isinstance(block, (Block, ParallelBlock)))

    def __getitem__(self, i: int) -> Block | ParallelBlock:
        return list(self)[i]

    def stream(self, x: Float[Tensor, "B T D"], flow: Flow) -> list[Tensor]:
        """The stream before each block and after the last, for those who read all of it. L + 1 × [B, T, D]"""
        flow = self.prepared(x, flow)
        states = [x]
        for block in self:
            states.append(run(block, states[-1], flow))
        return states

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        flow = self.prepared(x, flow)
        for block in self:
            x = run(block, x, flow)
        if flow.cache is not None:
            flow.cache.advance(x.shape[1])
        return x

    def prepared(self, x: Tensor, flow: Flow) -> Flow:
        """The flow with masks, rotation and bias for these T queries and S keys."""
        B, T, device = x.shape[0], x.shape[1], x.device
        S = flow.past + T
        if flow.keep is not None and flow.keep.shape[0] not in (1, B):
            raise ConfigError(
                f"keep has {flow.keep.shape[0]} rows, the batch {B}; give a row a text, or one for all"
            )
        if flow.segments is None:
            patterns = {block.attn.pattern for block in self}
            flow = replace(flow, masks={p: Mask.join(p, flow.keep, T, S, device) for p in patterns})
        flow = self.turned(x, flow)
        if self.bias is not None:
            longest = None if flow.segments is None else max(flow.segments.lengths)
            flow = replace(flow, bias=self.bias(longest or T, longest or S, device))
        return flow

    def turned(self, x: Tensor, flow: Flow) -> Flow:
        """The flow with the rotary angles of these tokens, which is all that q, k and v need of it."""
        return flow if self.rotary is None else replace(flow, rotation=self.rotary(flow.where(x), x.dtype))
