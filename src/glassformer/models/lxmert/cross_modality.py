"""Cross-modality encoder blocks of LXMERT: each modality attends to the other before it attends to itself.

Source: Tan and Bansal 2019, section 2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core import Block, BlockSpec, Embedding, Flow, Node, Stack, StackSpec
from glassformer.core.stack import AttentionGroup, AttentionLayer, self_attention, share_parameters
from glassformer.models.lxmert.regions import RegionEmbedding

if TYPE_CHECKING:
    from jaxtyping import Float


class CrossModalityBlock(Block):
    """A block with cross-attention to the other modality before self-attention.

        x ─ before ─ cross-attention ─ crossed ─ attention ─ mid ─ feed-forward ─ out

    Taps: before, crossed, mid, out [B T D]
    Source: Tan and Bansal 2019, section 2.2.
    Differs: a decoder's block has self-attention first, and the weights of its cross-attention serve one direction.
    """

    def own_taps(self) -> tuple[str, ...]:
        return ("before", "crossed", "mid", "out")

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        assert self.cross is not None and self.cross_residual is not None  # its spec has a `cross`
        cross = self.cross
        x = self.tap(flow, "before", x)
        x = self.cross_residual(x, lambda y: cross(y, flow))
        x = self.tap(flow, "crossed", x)
        x = self.attn_residual(x, lambda y: self.attn(y, flow))
        x = self.tap(flow, "mid", x)
        x = self.ffn_residual(x, lambda y: self.ffn(y, flow))
        return self.tap(flow, "out", x)

    def share_cross(self, other: CrossModalityBlock) -> None:
        """Share the cross-attention of another block: its parameters become this one's too."""
        for part in ("cross", "cross_residual"):
            share_parameters(self.get_submodule(part), other.get_submodule(part))


class ModalityEncoder(Node):
    """The encoder of text or of image regions: embedding, blocks, and blocks that attend to the other modality."""

    def __init__(self, embed: Embedding | RegionEmbedding, blocks: StackSpec, crossed: tuple[BlockSpec, ...]) -> None:
        super().__init__()
        self.embed = embed
        self.blocks = Stack(blocks)
        self.crossed = nn.ModuleList(CrossModalityBlock(block) for block in crossed)

    def cross_blocks(self) -> list[CrossModalityBlock]:
        """The blocks that attend to the other modality."""
        return [block for block in self.crossed if isinstance(block, CrossModalityBlock)]

    def stream_taps(self) -> tuple[str, ...]:
        """The taps of the residual stream: before each block of either kind, and after the last."""
        stacks = (("blocks", len(self.blocks)), ("crossed", len(self.crossed)))
        before = (f"{self.path}.{stack}.{i}.before" for stack, count in stacks for i in range(count))
        return (*before, f"{self.path}.crossed.{len(self.crossed) - 1}.out")

    def self_attention_group(self, stream: str) -> AttentionGroup:
        """The self-attention layers, in blocks of both kinds."""
        in_cross_blocks = tuple(
            AttentionLayer(
                attention=block.attn,
                query_tap=f"{self.path}.crossed.{i}.crossed",
                input_norm=block.attention_input,
            )
            for i, block in enumerate(self.cross_blocks())
        )
        return AttentionGroup(
            queries=stream,
            keys=stream,
            layers=(*self_attention(self.blocks, stream).layers, *in_cross_blocks),
        )

    def cross_attention_group(self, other: ModalityEncoder, queries: str, keys: str) -> AttentionGroup:
        """The cross-attention layers, to another modality."""
        layers = tuple(
            AttentionLayer(
                attention=block.cross,
                query_tap=f"{self.path}.crossed.{i}.before",
                input_norm=block.cross_residual.before,
                memory_tap=f"{other.path}.crossed.{i}.before",
            )
            for i, block in enumerate(self.cross_blocks())
            if block.cross is not None and block.cross_residual is not None
        )
        return AttentionGroup(queries=queries, keys=keys, layers=layers)
