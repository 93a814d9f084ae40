"""T5's weight names."""

from __future__ import annotations

from glassformer.core.feed_forward import GatedFeedForwardSpec
from glassformer.models._seq2seq import EncoderDecoderSpec
from glassformer.models.bart.names import NAMES as BART_NAMES
from glassformer.weights.names import WeightNames

NAMES = BART_NAMES.extend(
    """
    {side}.blocks.bias.table                  {side}.block.0.layer.0.SelfAttention.relative_attention_bias
    {side}.blocks.{i}.attn_residual.before    {side}.block.{i}.layer.0.layer_norm
    {side}.blocks.{i}.attn.qkv                {side}.block.{i}.layer.0.SelfAttention.(q|k|v)
    {side}.blocks.{i}.attn.out                {side}.block.{i}.layer.0.SelfAttention.o
    decoder.blocks.{i}.cross_residual.before  decoder.block.{i}.layer.1.layer_norm
    decoder.blocks.{i}.cross.q                decoder.block.{i}.layer.1.EncDecAttention.q
    decoder.blocks.{i}.cross.kv               decoder.block.{i}.layer.1.EncDecAttention.(k|v)
    decoder.blocks.{i}.cross.out              decoder.block.{i}.layer.1.EncDecAttention.o
    encoder.blocks.{i}.ffn_residual.before    encoder.block.{i}.layer.1.layer_norm
    encoder.blocks.{i}.ffn.up                 encoder.block.{i}.layer.1.DenseReluDense.wi
    encoder.blocks.{i}.ffn.down               encoder.block.{i}.layer.1.DenseReluDense.wo
    decoder.blocks.{i}.ffn_residual.before    decoder.block.{i}.layer.2.layer_norm
    decoder.blocks.{i}.ffn.up                 decoder.block.{i}.layer.2.DenseReluDense.wi
    decoder.blocks.{i}.ffn.down               decoder.block.{i}.layer.2.DenseReluDense.wo
    {side}.final_norm                         {side}.final_layer_norm

    [token-classification]
    head.classifier                           classifier
    """,
    prefix="transformer",
    unprefixed=("feature-extraction", "translation", "question-answering", "sentence-similarity"),
    ignored=(
        "encoder.embed_tokens.weight",
        # the first release's cross-attention had a bias of which no number was used
        "decoder.block.{i}.layer.{j}.EncDecAttention.relative_attention_bias.weight",
    ),
    zero_if_missing=(),
)
GATED = """
    encoder.blocks.{i}.ffn.gate    encoder.block.{i}.layer.1.DenseReluDense.wi_0
    encoder.blocks.{i}.ffn.up      encoder.block.{i}.layer.1.DenseReluDense.wi_1
    decoder.blocks.{i}.ffn.gate    decoder.block.{i}.layer.2.DenseReluDense.wi_0
    decoder.blocks.{i}.ffn.up      decoder.block.{i}.layer.2.DenseReluDense.wi_1
"""
OWN_HEAD = """
    [head]
    head.decoder    lm_head    =|encoder.embed.tokens
"""


def names(spec: EncoderDecoderSpec, task: str) -> WeightNames:
    """Weight names; version 1.1 gates the feed-forward layer, and has a head of its own."""
    gated = isinstance(spec.encoder.blocks.blocks[0].feed_forward, GatedFeedForwardSpec)
    return NAMES.extend(GATED * gated + OWN_HEAD * (not spec.tied_head))(spec, task)
