"""Transformer: the encoder-decoder of 2017 ("Attention is all you need").

    source ids ─ embed ─ [ attention ─ feed-forward ] × L ─────────────── memory
                                                                            │ keys and values
    target ids ─ embed ─ [ causal attention ─ cross-attention ─ feed-forward ] × L ─ head (tied)

The paper defines no checkpoint format, so this one is our own: docs/transformer-format.md.
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
from glassformer.deprecation import former_names
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._seq2seq import (
    EncoderDecoder,
    EncoderDecoderSpec,
    Seq2SeqLMHead,
    StreamSpec,
    decoder_block,
    make_streams,
    shift_right,
)
from glassformer.weights.names import Rule, Tied, WeightNames

__all__ = [
    "FAMILY",
    "PAPER_BASE",
    "StreamSpec",
    "Transformer",
    "TransformerSpec",
    "decoder_block",
    "shift_right",
]

TransformerSpec = EncoderDecoderSpec


def spec(reader: ConfigReader) -> TransformerSpec:
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
        head_width=None if head_width is None else reader.integer("head_width", maximum=10_000),
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
        vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
        width=width,
        positions=SinusoidalSpec(count=reader.integer("max_positions", default=1024, maximum=MAX_ROWS)),
        dropout=dropout,
        scale=math.sqrt(width) if reader.flag("scale_embeddings", default=True) else 1.0,
    )
    final_norm = norm if norm_first else None  # the pre-norm stream is not normed until here
    return TransformerSpec(
        encoder=StreamSpec(
            embed=embed,
            blocks=StackSpec(blocks=(block,) * reader.integer("encoder_layers", maximum=MAX_LAYERS)),
            final_norm=final_norm,
        ),
        decoder=StreamSpec(
            embed=embed,
            blocks=StackSpec(
                blocks=(decoder_block(block),) * reader.integer("decoder_layers", maximum=MAX_LAYERS)
            ),
            final_norm=final_norm,
        ),
        tied=reader.flag("tie_embeddings", default=True),
    )


class Transformer(EncoderDecoder):
    """The original transformer: encoder, decoder, and a head with `logits` [B, T, V]."""

    def __init__(self, spec: TransformerSpec, task: str = "translation") -> None:
        super().__init__(*make_streams(spec))
        self.head = Seq2SeqLMHead(spec.decoder.blocks.width, spec.decoder.embed.vocabulary)
        if spec.tied:
            self.head.decoder.weight = self.encoder.embed.tokens.weight
        self.name_nodes()


MODULES = (
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
"""The modules of encoder and decoder that can have weights; the spec decides which exist."""


def names(spec: TransformerSpec, task: str) -> WeightNames:
    """Weight names of our own format: a tensor is named by the path of its module."""
    body: dict[str, str | Rule] = {
        f"{stream}.{module}": f"{stream}.{module}" for stream in ("encoder", "decoder") for module in MODULES
    }
    for path in ("decoder.embed.tokens", "head.decoder"):
        body[path] = Tied(path) if spec.tied else path
    return WeightNames(body=body)


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
    distinction="the paper's own: scaled embeddings, sinusoidal positions, one table for source, target and output",
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

__getattr__ = former_names(__name__)
