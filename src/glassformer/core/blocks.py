"""Transformer blocks: attention and feed-forward, each added to the residual stream.

Block            one after the other: the feed-forward layer reads what attention has added
ParallelBlock    in parallel: both read the same stream
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.core.attention import Attention, AttentionSpec, CrossAttention, CrossAttentionSpec
from glassformer.core.block_sparse import BlockSparseAttention, BlockSparseAttentionSpec
from glassformer.core.checks import Probability, Spec, check_widths
from glassformer.core.experts import Experts, ExpertsSpec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec, make_feed_forward
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import NormSpec, make_norm

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpec(Spec):
    """Transformer block: its sub-layers, and the three norm slots that each of them gets.

        x → on_residual(x + dropout(after(sublayer(before(x)))))

    The 2017 paper and BERT fill `on_residual` (post-norm), GPT-2 and Llama fill `before` (pre-norm).
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec
    cross: CrossAttentionSpec | None = None
    before: NormSpec | None = None
    after: NormSpec | None = None
    on_residual: NormSpec | None = None
    dropout: Probability = 0.0

    def validate(self) -> None:
        check_widths(
            self,
            "its attention",
            self.attention.width,
            "feed_forward",
            "cross",
            "before",
            "after",
            "on_residual",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelBlockSpec(Spec):
    """Parallel transformer block: attention and feed-forward read the stream through the same norm.

        x → x + dropout(attention(norm(x))) + dropout(feed_forward(norm(x)))

    GPT-J and Phi have these.
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec
    norm: NormSpec
    dropout: Probability = 0.0

    def validate(self) -> None:
        check_widths(self, "its attention", self.attention.width, "feed_forward", "norm")


class Residual(Node):
    """Residual connection around a sub-layer, with a norm before it, after it, or on the sum.

        x → on_residual(x + dropout(after(sublayer(before(x)))))

    Post-norm (2017, BERT) fills `on_residual`: stable numbers out of every block, but training needs warm-up.
    Pre-norm (GPT-2, Llama) fills `before`: the stream itself is never normed until the end of the stack.
    Source: Vaswani et al. 2017, section 3.1; Xiong et al. 2020, section 3.
    """

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.before = make_norm(spec.before)
        self.after = make_norm(spec.after)
        self.dropout = nn.Dropout(spec.dropout)
        self.on_residual = make_norm(spec.on_residual)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        y = self.after(sublayer(self.before(x)))
        normed: Tensor = self.on_residual(x + (self.dropout(y) if self.training else y))
        return normed


class Block(Node):
    """Transformer block: one layer of a stack.

        x ─ before ─ attention ─ mid ─ (cross-attention) ─ feed-forward ─ out

    Taps: before, mid, out [B T D]: the residual stream at entry, after self-attention, at exit
    Source: Vaswani et al. 2017, figure 1.
    """

    TAPS = ("before", "mid", "out")

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.attn = make_attention(spec.attention)
        self.attn_residual = Residual(spec)
        self.cross = CrossAttention(spec.cross) if spec.cross else None
        self.cross_residual = Residual(spec) if spec.cross else None
        ffn = spec.feed_forward
        self.ffn = Experts(ffn) if isinstance(ffn, ExpertsSpec) else make_feed_forward(ffn)
        self.ffn_residual = Residual(spec)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        x = self.tap(flow, "before", x)
        x = self.attn_residual(x, lambda y: self.attn(y, flow))
        x = self.tap(flow, "mid", x)
        if self.cross is not None and self.cross_residual is not None:
            cross = self.cross
            x = self.cross_residual(x, lambda y: cross(y, flow))
        x = self.ffn_residual(x, lambda y: self.ffn(y, flow))
        return self.tap(flow, "out", x)

    def attention_input(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The input of self-attention, from the stream at `before`."""
        normed: Tensor = self.attn_residual.before(x)
        return normed


class ParallelBlock(Node):
    """Parallel transformer block: attention and feed-forward read the same normed stream.

                    ┌ attention ─ dropout ────┐
        x ─┬─ norm ─┤                         ├─ add ─ out
           │        └ feed-forward ─ dropout ─┤
           └──────────────────────────────────┘

        out = x + dropout(attn(y)) + dropout(ffn(y)),   y = norm(x)

    Taps: before, out [B T D]: the residual stream at entry and at exit. There is no `mid`: the stream has no state
    between the two sub-layers.
    Source: Wang and Komatsuzaki 2021 (GPT-J); Chowdhery et al. 2022, section 2.
    Differs: in a `Block` the feed-forward layer reads what attention has added, through a norm of its own.
    """

    TAPS = ("before", "out")

    cross = None  # cross-attention has its place between the sub-layers

    def __init__(self, spec: ParallelBlockSpec) -> None:
        super().__init__()
        self.norm = make_norm(spec.norm)
        self.attn = make_attention(spec.attention)
        self.ffn = make_feed_forward(spec.feed_forward)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        x = self.tap(flow, "before", x)
        y = self.attention_input(x)
        x = x + self.dropout(self.attn(y, flow)) + self.dropout(self.ffn(y, flow))
        return self.tap(flow, "out", x)

    def attention_input(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The input of self-attention and of the feed-forward layer, from the stream at `before`."""
        normed: Tensor = self.norm(x)
        return normed


def run_block(block: Block | ParallelBlock, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
    """Run a block, with activation checkpointing if `flow.recompute` asks for it.

        stored        x ──block──> out, and all activations between         memory grows with the number of layers
        recomputed    x ──block──> out;   backward: x ──block──> all of them         one layer's, a third more work

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4.
    """
    # A tape and a cache must see each activation once, a recomputed one comes twice.
    if flow.recompute and torch.is_grad_enabled() and flow.tape is None and flow.cache is None:
        y: Tensor = checkpoint(block, x, flow, use_reentrant=False)
        return y
    out: Tensor = block(x, flow)
    return out


def make_attention(spec: AttentionSpec) -> Attention:
    """The self-attention that a spec describes."""
    return BlockSparseAttention(spec) if isinstance(spec, BlockSparseAttentionSpec) else Attention(spec)


def make_block(spec: BlockSpec | ParallelBlockSpec) -> Block | ParallelBlock:
    """The block that a spec describes."""
    return ParallelBlock(spec) if isinstance(spec, ParallelBlockSpec) else Block(spec)
