"""Llama: a decoder with rotary positions, grouped-query attention, gated feed-forward, RMSNorm and no biases.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Touvron et al. 2023, section 2.2; grouped-query attention since Llama 2; rotary scaling since Llama 3.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import GatedFeedForwardSpec
from glassformer.core.norms import RMSNormSpec
from glassformer.core.rotary import RotarySpec
from glassformer.core.stack import StackSpec
from glassformer.models._config import Keys, Values, constant, constants, flag, size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.models._rotary import rotary_spec
from glassformer.weights.name_table import NameTable

KEYS = Keys(
    width="hidden_size",
    layers="num_hidden_layers",
    heads="num_attention_heads",
    kv_heads=("num_key_value_heads", "=heads"),
    head_width=size("head_dim", None, maximum=10_000),  # null: width / heads
    hidden="intermediate_size",
    vocabulary="vocab_size",
    padding=("pad_token_id", None),
    activation=("hidden_act", "silu"),
    eps=("rms_norm_eps", 1e-6),
    bias=("attention_bias", False),
    out_bias=constant(lambda c: c.bias),
    mlp_bias=flag("mlp_bias", False),
    attention_dropout=("attention_dropout", 0.0),
    classifier_dropout=("classifier_dropout hidden_dropout", 0.1),
    tied=("tie_word_embeddings", False),
    init_std=("initializer_range", 0.02),
    **constants(dropout=0.0, window=None, qk_norm=None),
    **constants(rotary_share=None, longest=2048, theta=10_000.0, rotary={}),  # rotary: of `rotary_spec`, what differs
)


def block_spec(c: Values, rotary: RotarySpec | None = None) -> BlockSpec:
    """One pre-norm block: causal grouped-query attention, gated feed-forward layer; `rotary`: not that of `KEYS`."""
    attention = AttentionSpec(
        **c("width heads kv_heads head_width bias out_bias window qk_norm"),
        dropout=c.attention_dropout,
        causal=True,
    )
    rotary = rotary or rotary_spec(c.reader, attention.E, share=c.rotary_share, **c("longest theta"), **c.rotary)
    return BlockSpec(
        attention=replace(attention, rotary=rotary),
        feed_forward=GatedFeedForwardSpec(**c("width hidden activation"), bias=c.mlp_bias),
        residual=ResidualSpec(before=RMSNormSpec(**c("width eps")), dropout=c.dropout),
    )


def decoder_spec(c: Values, blocks: tuple[BlockSpec, ...]) -> TextSpec:
    """The spec of a decoder: embedding without positions, blocks, final norm, and what heads need."""
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width padding")),
        blocks=StackSpec(blocks=blocks),
        final_norm=blocks[0].residual.before,
        **c("tied labels problem classifier_dropout init_std"),
    )


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return decoder_spec(c, (block_spec(c),) * c.layers)


NAMES = NameTable(
    """
    embed.tokens                       embed_tokens
    blocks.{i}.attn_residual.before    layers.{i}.input_layernorm
    blocks.{i}.attn.qkv                layers.{i}.self_attn.(q|k|v)_proj     [H K K]
    blocks.{i}.attn.out                layers.{i}.self_attn.o_proj
    blocks.{i}.ffn_residual.before     layers.{i}.post_attention_layernorm
    blocks.{i}.ffn.gate                layers.{i}.mlp.gate_proj
    blocks.{i}.ffn.up                  layers.{i}.mlp.up_proj
    blocks.{i}.ffn.down                layers.{i}.mlp.down_proj
    final_norm                         norm

    [head]
    head.decoder                       lm_head                               =?
    head.classifier                    score
    [question-answering]
    head.classifier                    qa_outputs
    """,
    prefix="model",
    prefixes={"question-answering": "transformer"},
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
)

TINY = {"max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

FAMILY = Family(
    model_type="llama",
    distinction="five kinds of rotary scaling, for longer contexts than in training",
    architectures=architectures("Llama", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("llama", num_key_value_heads=2, **TINY),
)
