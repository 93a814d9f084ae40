"""Transformer: the encoder-decoder of 2017, from which all the others descend.

    source ids ─ embed ─ [ attention ─ feed-forward ] × L ─────────────── memory
                                                                            │ keys and values
    target ids ─ embed ─ [ causal attention ─ cross-attention ─ feed-forward ] × L ─ head (tied)

The paper was published without a checkpoint format, so this one is our own: docs/transformer-format.md.
Source: Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core import init
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Memory, Node, Output
from glassformer.core.heads import Labels, LanguageModel, cross_entropy
from glassformer.core.norms import make_norm
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    CrossAttentionSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    NormSpec,
    SinusoidalSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, DataError
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Network, Reader, reads_ids
from glassformer.weights.names import Names, Rule, Tied

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSpec:
    """One half of the paper's figure 1: the encoder or the decoder."""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerSpec:
    """Both halves; `tied` says that source table, target table and output projection are one matrix."""

    encoder: SideSpec
    decoder: SideSpec
    tied: bool = True

    def __post_init__(self) -> None:
        tables = [(side.embed.vocabulary, side.embed.width) for side in (self.encoder, self.decoder)]
        if self.tied and tables[0] != tables[1]:
            raise ConfigError(
                f"tied embeddings are one table, but the encoder's is {list(tables[0])} and the decoder's "
                f"{list(tables[1])}; give them one size, or set tied=False (config.json: tie_embeddings)"
            )


def spec(reader: Reader) -> TransformerSpec:
    """config.json → spec."""
    reader.fixed("is_encoder_decoder", True)
    width = reader.integer("d_model")
    head_width = reader.get("head_width", default=None)
    dropout = reader.probability("dropout", default=0.1)
    norm = LayerNormSpec(width=width, eps=reader.number("norm_eps", default=1e-5))
    norm_first = reader.flag("norm_first", default=False)
    attention = AttentionSpec(
        width=width,
        heads=reader.integer("num_heads"),
        head_width=None if head_width is None else reader.integer("head_width", most=10_000),
        dropout=reader.probability("attention_dropout", default=0.0),
    )
    block = BlockSpec(
        attention=attention,
        feed_forward=FeedForwardSpec(
            width=width,
            hidden=reader.integer("d_ff"),
            activation=reader.text("activation", default="relu"),
            dropout=reader.probability("activation_dropout", default=0.0),
        ),
        before=norm if norm_first else None,
        on_residual=None if norm_first else norm,
        dropout=dropout,
    )
    embed = EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", most=MOST_ROWS),
        width=width,
        positions=SinusoidalSpec(count=reader.integer("max_positions", default=1024, most=MOST_ROWS)),
        dropout=dropout,
        scale=math.sqrt(width) if reader.flag("scale_embeddings", default=True) else 1.0,
    )
    final_norm = norm if norm_first else None  # the pre-norm stream is not normed until here
    return TransformerSpec(
        encoder=SideSpec(
            embed=embed,
            blocks=StackSpec(blocks=(block,) * reader.integer("encoder_layers", most=MOST_LAYERS)),
            final_norm=final_norm,
        ),
        decoder=SideSpec(
            embed=embed,
            blocks=StackSpec(
                blocks=(as_decoder(block),) * reader.integer("decoder_layers", most=MOST_LAYERS)
            ),
            final_norm=final_norm,
        ),
        tied=reader.flag("tie_embeddings", default=True),
    )


def as_decoder(block: BlockSpec) -> BlockSpec:
    """An encoder's block made a decoder's: its attention turned causal, cross-attention of the same shape added."""
    attention = block.attention
    cross = CrossAttentionSpec(
        width=attention.width,
        heads=attention.heads,
        head_width=attention.head_width,
        dropout=attention.dropout,
    )
    return replace(block, attention=replace(attention, causal=True), cross=cross)


class Side(Node):
    """ids ─ embedding (· √D, + sinusoids) ─ blocks ─ final norm, if there is one"""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)

    def forward(self, ids: Int[Tensor, "B T"], flow: Flow) -> Float[Tensor, "B T D"]:
        x: Tensor = self.final_norm(self.blocks(self.embed(ids, flow), flow))
        return x


class Translation(LanguageModel):
    """The output projection, and its loss: position t of the decoder should say label t.

    Differs: a decoder-only model's labels are its own inputs, shifted by one; here the caller shifts the decoder's
    inputs (`shifted_right`), so labels stand where they are predicted.
    """

    def loss(self, output: Output, labels: Labels) -> Tensor:
        if output.logits is None or isinstance(labels, dict):
            raise DataError("translation takes labels as one tensor [B, T], beside decoder_input_ids [B, T]")
        return cross_entropy(output.logits, labels)


class Transformer(Network):
    """Encoder, decoder, head.

    Args:
        batch: `input_ids` [B, S], what is read · `decoder_input_ids` [B, T], what is written so far, begun with the
            start token · `decoder_keep` [B, 1, past + T] bool, False where the target is padding
        flow: `keep` [B, 1, S] bool, False where the source is padding · `positions` [B, S] of the source · `memory`,
            from an earlier call of `memory`: then the encoder does not run · `cache` and `last` concern the decoder
    Returns: Output with `logits` [B, T, V], `encoder_last_hidden_state` [B, S, D].
    Raises: ConfigError: no decoder_input_ids; neither input_ids nor a memory.
    Taps: encoder.… · memory [B S D] · decoder.… · final [B T D] · logits [B T V]
    """

    def __init__(self, spec: TransformerSpec, task: str = "translation") -> None:
        super().__init__()
        self.encoder = Side(spec.encoder)
        self.decoder = Side(spec.decoder)
        self.head = Translation(spec.decoder.blocks.width, spec.decoder.embed.vocabulary)
        if spec.tied:
            self.decoder.embed.tokens.weight = self.encoder.embed.tokens.weight
            self.head.decoder.weight = self.encoder.embed.tokens.weight
        self.name_nodes()

    def own_taps(self) -> tuple[str, ...]:
        return ("memory", *super().own_taps())

    def memory(self, batch: Batch, flow: Flow) -> Memory:
        """Run the encoder: its last states, and which of them a decoder may see."""
        states = self.encoder(
            reads_ids(batch), Flow(keep=flow.keep, positions=flow.positions, tape=flow.tape)
        )
        return Memory(self.tap(flow, "memory", states), flow.keep)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        output = super().forward(batch, replace(flow, memory=memory))
        return replace(output, encoder_last_hidden_state=memory.states)

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.decoder_input_ids is None:
            raise ConfigError(
                "this model needs decoder_input_ids [B, T], begun with the start token; got none"
            )
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        seen = Flow(keep=batch.decoder_keep, memory=memory, cache=flow.cache, tape=flow.tape)
        x: Tensor = self.decoder(batch.decoder_input_ids, seen)
        return x


def shifted_right(labels: Int[Tensor, "B T"], start_id: int, pad_id: int) -> Int[Tensor, "B T"]:
    """What the decoder reads in training: the start token, then every label but the last; -100 becomes padding."""
    first = labels.new_full((labels.shape[0], 1), start_id)
    return torch.cat([first, labels[:, :-1].masked_fill(labels[:, :-1] == -100, pad_id)], dim=1)


PARTS = (
    "embed.tokens",
    "blocks.{i}.attn_residual.before",
    "blocks.{i}.attn.qkv",
    "blocks.{i}.attn.out",
    "blocks.{i}.attn_residual.on_residual",
    "blocks.{i}.cross_residual.before",
    "blocks.{i}.cross.q",
    "blocks.{i}.cross.kv",
    "blocks.{i}.cross.out",
    "blocks.{i}.cross_residual.on_residual",
    "blocks.{i}.ffn_residual.before",
    "blocks.{i}.ffn.up",
    "blocks.{i}.ffn.down",
    "blocks.{i}.ffn_residual.on_residual",
    "final_norm",
)
"""The modules of a side that can hold weights; which of them exist, the spec says."""


def names(spec: TransformerSpec, task: str) -> Names:
    """Our own format: a tensor is called by the path of its module."""
    body: dict[str, str | Rule] = {
        f"{side}.{part}": f"{side}.{part}" for side in ("encoder", "decoder") for part in PARTS
    }
    for path in ("decoder.embed.tokens", "head.decoder"):
        body[path] = Tied(path) if spec.tied else path
    return Names(body=body)


PAPER_BASE = {
    "model_type": "transformer",
    "architectures": ["TransformerForConditionalGeneration"],
    "vocab_size": 37000,
    "d_model": 512,
    "num_heads": 8,
    "d_ff": 2048,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "max_positions": 1024,
    "dropout": 0.1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
"""The base model of the paper's table 3, with the vocabulary of its English-German task."""

FAMILY = Family(
    model_type="transformer",
    architectures={"TransformerForConditionalGeneration": "translation"},
    spec=spec,
    build=Transformer,
    names=names,
    initialise=lambda network, spec: init.xavier(network),
    tiny={
        **PAPER_BASE,
        "vocab_size": 99,
        "d_model": 32,
        "num_heads": 4,
        "d_ff": 48,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "max_positions": 40,
        "dropout": 0.0,
    },
)
