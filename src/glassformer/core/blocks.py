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

from glassformer.core.attention import AttentionSpec
from glassformer.core.checks import Positive, Probability, Spec, check_widths
from glassformer.core.cross_attention import CrossAttentionSpec
from glassformer.core.experts import Experts, ExpertsSpec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec, make_feed_forward
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import NormSpec, make_norm

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualSpec(Spec):
    """Residual connection around a sub-layer: its three norm slots, dropout, and the factor of the sub-layer's branch.

        x → on_residual(x + scale · dropout(after(sublayer(before(x)))))

    The 2017 paper and BERT fill `on_residual` (post-norm), GPT-2 and Llama fill `before` (pre-norm).
    """

    before: NormSpec | None = None
    after: NormSpec | None = None
    on_residual: NormSpec | None = None
    dropout: Probability = 0.0
    scale: Positive = 1.0

    @staticmethod
    def pre_or_post(norm: NormSpec, *, pre: bool, dropout: float) -> ResidualSpec:
        """Pre-norm or post-norm, for families whose config chooses."""
        return ResidualSpec(before=norm if pre else None, on_residual=None if pre else norm, dropout=dropout)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpec(Spec):
    """Transformer block: its sub-layers, and the residual connection around each.

    residual: of all sub-layers, but for those that have one of their own: `attention_residual`, `cross_residual`,
    `feed_forward_residual`
    cross_optional: cross-attention is left out where the pass has no memory
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec
    cross: CrossAttentionSpec | None = None
    residual: ResidualSpec = ResidualSpec()
    attention_residual: ResidualSpec | None = None
    cross_residual: ResidualSpec | None = None
    feed_forward_residual: ResidualSpec | None = None
    cross_optional: bool = False

    def validate(self) -> None:
        width = self.attention.width
        check_widths(self, "its attention", width, "feed_forward", "cross")
        own = (self.attention_residual, self.cross_residual, self.feed_forward_residual)
        for residual in (self.residual, *own):
            if residual is not None:
                check_widths(residual, "the block's attention", width, "before", "after", "on_residual")

    def make(self) -> Block:
        """The block that this spec describes; the spec of another kind of block makes that."""
        return Block(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelBlockSpec(Spec):
    """Parallel transformer block: attention and feed-forward read the stream through the same norm, or each its own.

        x → x + dropout(attention(norm(x))) + dropout(feed_forward(norm(x)))

    GPT-J and Phi have one norm.

    feed_forward_norm: that of the feed-forward layer, where it has its own: GPT-NeoX.
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec
    norm: NormSpec
    feed_forward_norm: NormSpec | None = None
    dropout: Probability = 0.0

    def validate(self) -> None:
        check_widths(self, "its attention", self.attention.width, "feed_forward", "norm", "feed_forward_norm")

    def make(self) -> ParallelBlock:
        """The block that this spec describes."""
        return ParallelBlock(self)


class Residual(Node):
    """Residual connection around a sub-layer, with a norm before it, after it, or on the sum.

        x → on_residual(x + scale · dropout(after(sublayer(before(x)))))

    Post-norm (2017, BERT) fills `on_residual`: stable numbers out of every block, but training needs warm-up.
    Pre-norm (GPT-2, Llama) fills `before`: the stream itself is never normed until the end of the stack.
    Source: Vaswani et al. 2017, section 3.1; Xiong et al. 2020, section 3; scale: Hu et al. 2024, "MiniCPM", section 3,
    after Yang et al. 2023, "Tensor programs VI".
    """

    def __init__(self, spec: ResidualSpec) -> None:
        super().__init__()
        self.before = make_norm(spec.before)
        self.after = make_norm(spec.after)
        self.dropout = nn.Dropout(spec.dropout)
        self.on_residual = make_norm(spec.on_residual)
        self.scale = spec.scale

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        y = self.after(sublayer(self.before(x)))
        if self.training:
            y = self.dropout(y)
        if self.scale != 1.0:
            y = self.scale * y
        normed: Tensor = self.on_residual(x + y)
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
        self.attn = spec.attention.make()
        self.attn_residual = Residual(spec.attention_residual or spec.residual)
        self.cross = spec.cross.make() if spec.cross else None
        self.cross_residual = Residual(spec.cross_residual or spec.residual) if spec.cross else None
        ffn = spec.feed_forward
        self.ffn = Experts(ffn) if isinstance(ffn, ExpertsSpec) else make_feed_forward(ffn)
        self.ffn_residual = Residual(spec.feed_forward_residual or spec.residual)
        self.cross_optional = spec.cross_optional

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        x = self.tap(flow, "before", x)
        return self.tap(flow, "out", self.sublayers(x, flow))

    def sublayers(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        """The sub-layers in order, each with its residual connection."""
        x = self.attn_residual(x, lambda y: self.attn(y, flow))
        x = self.tap(flow, "mid", x)
        skipped = self.cross_optional and flow.memory is None
        if self.cross is not None and self.cross_residual is not None and not skipped:
            cross = self.cross
            x = self.cross_residual(x, lambda y: cross(y, flow))
        mixed: Tensor = self.ffn_residual(x, lambda y: self.ffn(y, flow))
        return mixed

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

        out = x + dropout(attn(y)) + dropout(ffn(z)),   y = norm(x),   z = y, or ffn_norm(x) where there is one

    Taps: before, out [B T D]: the residual stream at entry and at exit. There is no `mid`: the stream has no state
    between the two sub-layers.
    Source: Wang and Komatsuzaki 2021 (GPT-J); Chowdhery et al. 2022, section 2; two norms: Black et al. 2022,
    "GPT-NeoX-20B", section 2.1.
    Differs: in a `Block` the feed-forward layer reads what attention has added, through a norm of its own.
    """

    TAPS = ("before", "out")

    cross = None  # cross-attention has its place between the sub-layers

    def __init__(self, spec: ParallelBlockSpec) -> None:
        super().__init__()
        self.norm = make_norm(spec.norm)
        self.ffn_norm = make_norm(spec.feed_forward_norm) if spec.feed_forward_norm else None
        self.attn = spec.attention.make()
        self.ffn = make_feed_forward(spec.feed_forward)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        x = self.tap(flow, "before", x)
        y = self.attention_input(x)
        z = y if self.ffn_norm is None else self.ffn_norm(x)
        x = x + self.dropout(self.attn(y, flow)) + self.dropout(self.ffn(z, flow))
        return self.tap(flow, "out", x)

    def attention_input(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The input of self-attention, from the stream at `before`; the feed-forward layer's too, if it has no norm."""
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
