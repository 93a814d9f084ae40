"""Transformer: the encoder-decoder of 2017 ("Attention is all you need").

    source ids ─ embed ─ [ attention ─ feed-forward ] × L ─────────────── memory
                                                                            │ keys and values
    target ids ─ embed ─ [ causal attention ─ cross-attention ─ feed-forward ] × L ─ head (tied)

The paper defines no checkpoint format, so this one is our own: docs/transformer-format.md.
Source: Vaswani et al. 2017.
"""

from __future__ import annotations

from glassformer.core import Head, SinusoidalSpec, init
from glassformer.core.codebooks import CodebookLMHead
from glassformer.models._config import Keys, Values, constant, flag, size, size_or_zero
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import (
    EncoderDecoderSpec,
    Seq2SeqLMHead,
    Seq2SeqModel,
    StreamSpec,
    decoder_block,
    encoder_decoder_spec,
    shift_right,
)
from glassformer.weights.name_table import NameTable

__all__ = ["FAMILY", "PAPER_BASE", "StreamSpec", "Transformer", "TransformerSpec", "decoder_block", "shift_right"]

TransformerSpec = EncoderDecoderSpec

KEYS = Keys(
    width="d_model",
    head_width=size("head_width", None, maximum=10_000),
    encoder_layers="encoder_layers",
    encoder_heads="num_heads",
    encoder_hidden="d_ff",
    decoder_layers="decoder_layers",
    decoder_heads="num_heads",
    decoder_hidden="d_ff",
    vocabulary="vocab_size",
    padding=constant(None),
    max_tokens=("max_positions", 1024),
    activation=("activation", "relu"),
    eps=("norm_eps", 1e-5),
    norm_first=flag("norm_first", False),
    positions=constant(lambda c: SinusoidalSpec(count=c.max_tokens)),
    embedding_norm=constant(False),
    scaled=flag("scale_embeddings", True),
    tied=("tie_embeddings", True),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.0),
    activation_dropout=("activation_dropout", 0.0),
    codebooks=size_or_zero("codebooks", 0, maximum=64),
    fixed={"is_encoder_decoder": True},
)


@KEYS.spec
def spec(c: Values) -> TransformerSpec:
    return encoder_decoder_spec(c, books=c.codebooks, **c("tied"))


class Transformer(Seq2SeqModel):
    """The original transformer: encoder, decoder, and a head with `logits` [B, T, V]; of codes [B, T, K, V]."""

    def make_head(self, spec: TransformerSpec, task: str) -> Head:
        sizes, books = (spec.decoder.blocks.width, spec.decoder.embed.vocabulary), spec.decoder.embed.codebooks
        return self.tie(CodebookLMHead(*sizes, books) if books else Seq2SeqLMHead(*sizes), spec.tied)


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
    tiny={**PAPER_BASE, **KEYS.tiny("transformer")},
)
