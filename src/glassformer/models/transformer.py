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
from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.positions import SinusoidalSpec
from glassformer.core.stack import StackSpec
from glassformer.deprecation import former_names
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Keys, Values, flag, size
from glassformer.models._network import Sizes
from glassformer.models._seq2seq import (
    EncoderDecoder,
    EncoderDecoderSpec,
    Seq2SeqLMHead,
    StreamSpec,
    decoder_block,
    make_streams,
    shift_right,
)
from glassformer.weights.name_table import NameTable

__all__ = ["FAMILY", "PAPER_BASE", "StreamSpec", "Transformer", "TransformerSpec", "decoder_block", "shift_right"]

TransformerSpec = EncoderDecoderSpec


KEYS = Keys(
    width="d_model",
    heads="num_heads",
    head_width=size("head_width", None, maximum=10_000),
    hidden="d_ff",
    encoder_layers="encoder_layers",
    decoder_layers="decoder_layers",
    vocabulary="vocab_size",
    max_tokens=("max_positions", 1024),
    activation=("activation", "relu"),
    eps=("norm_eps", 1e-5),
    norm_first=flag("norm_first", False),
    scaled=flag("scale_embeddings", True),
    tied=("tie_embeddings", True),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.0),
    activation_dropout=("activation_dropout", 0.0),
    fixed={"is_encoder_decoder": True},
)


@KEYS.spec
def spec(c: Values) -> TransformerSpec:
    """config.json → spec."""
    norm = LayerNormSpec(**c("width eps"))
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads head_width"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(**c("width hidden activation"), dropout=c.activation_dropout),
        residual=ResidualSpec.pre_or_post(norm, pre=c.norm_first, dropout=c.dropout),
    )
    embed = EmbeddingSpec(
        **c("vocabulary width dropout"),
        positions=SinusoidalSpec(count=c.max_tokens),
        scale=math.sqrt(c.width) if c.scaled else 1.0,
    )

    def stream(block: BlockSpec, layers: int) -> StreamSpec:
        # the pre-norm stream is not normed until its end
        final_norm = norm if c.norm_first else None
        return StreamSpec(embed=embed, blocks=StackSpec(blocks=(block,) * layers), final_norm=final_norm)

    return TransformerSpec(
        encoder=stream(block, c.encoder_layers),
        decoder=stream(decoder_block(block), c.decoder_layers),
        tied=c.tied,
    )


class Transformer(EncoderDecoder):
    """The original transformer: encoder, decoder, and a head with `logits` [B, T, V]."""

    def __init__(self, spec: TransformerSpec, task: str = "translation") -> None:
        super().__init__(*make_streams(spec), Sizes.of_text(spec.encoder.embed, spec.decoder.embed))
        self.head = Seq2SeqLMHead(spec.decoder.blocks.width, spec.decoder.embed.vocabulary)
        if spec.tied:
            self.head.decoder.weight = self.encoder.embed.tokens.weight
        self.name_nodes()


MODULES = """
    {side}.embed.tokens {side}.blocks.{i}.attn_residual.before {side}.blocks.{i}.attn.qkv {side}.blocks.{i}.attn.out
    {side}.blocks.{i}.attn_residual.on_residual decoder.blocks.{i}.cross_residual.before decoder.blocks.{i}.cross.q
    decoder.blocks.{i}.cross.kv decoder.blocks.{i}.cross.out decoder.blocks.{i}.cross_residual.on_residual
    {side}.blocks.{i}.ffn_residual.before {side}.blocks.{i}.ffn.up {side}.blocks.{i}.ffn.down
    {side}.blocks.{i}.ffn_residual.on_residual {side}.final_norm
"""
"""The modules that can have weights; the spec decides which exist."""

# Our own format: a tensor is named by the path of its module.
NAMES = NameTable(
    "\n".join(f"{module} {module}" for module in MODULES.split())
    + """
    decoder.embed.tokens    decoder.embed.tokens    =?
    head.decoder            head.decoder            =?
    """
)

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
    architectures=architectures("Transformer", "ForConditionalGeneration"),
    spec=spec,
    build=Transformer,
    names=NAMES,
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
