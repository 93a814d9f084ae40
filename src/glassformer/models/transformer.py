"""Transformer: the encoder-decoder of 2017, from which all the others descend.

    source ids ─ embed ─ [ attention ─ feed-forward ] × L ─────────────── memory
                                                                            │ keys and values
    target ids ─ embed ─ [ causal attention ─ cross-attention ─ feed-forward ] × L ─ head (tied)

The paper was published without a checkpoint format, so this one is our own: docs/transformer-format.md.
Source: Vaswani et al. 2017.
"""

from __future__ import annotations

import math

from glassformer.core import init
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    SinusoidalSpec,
    StackSpec,
)
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Reader
from glassformer.models._seq2seq import (
    EncoderDecoder,
    PairSpec,
    SideSpec,
    Translation,
    as_decoder,
    make_sides,
    shifted_right,
)
from glassformer.weights.names import Names, Rule, Tied

__all__ = [
    "FAMILY",
    "PAPER_BASE",
    "SideSpec",
    "Transformer",
    "TransformerSpec",
    "as_decoder",
    "shifted_right",
]

TransformerSpec = PairSpec


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


class Transformer(EncoderDecoder):
    """Encoder, decoder, head: `EncoderDecoder` with `logits` [B, T, V]."""

    def __init__(self, spec: TransformerSpec, task: str = "translation") -> None:
        super().__init__(*make_sides(spec))
        self.head = Translation(spec.decoder.blocks.width, spec.decoder.embed.vocabulary)
        if spec.tied:
            self.head.decoder.weight = self.encoder.embed.tokens.weight
        self.name_nodes()


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
    oddity="the paper's own: scaled embeddings, waves, one table for source, target and output",
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
