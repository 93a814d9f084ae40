"""StarCoder 2: a decoder for code, with rotary positions and grouped queries as Llama, norms and biases as GPT-2.

    ids ─ [ norm ─ causal attention (rotary, window W) ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head (tied)

Source: Lozhkov et al. 2024, "StarCoder 2 and The Stack v2", section 6.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, Values, nullable_size
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.models._rotary import rotary_spec

KEYS = llama.KEYS.extend(
    activation=("hidden_act", "gelu_pytorch_tanh"),
    eps=("norm_epsilon", 1e-5),
    bias=("use_bias", True),
    dropout=("residual_dropout", 0.0),
    embedding_dropout=("embedding_dropout", 0.0),
    kv_heads=("num_key_value_heads", 2),
    window=nullable_size("sliding_window", None, maximum=MAX_ROWS),
    tied=("tie_word_embeddings", True),
    init_std=("initializer_range", 0.018042),
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    norm = LayerNormSpec(**c("width eps"))
    attention = AttentionSpec(
        **c("width heads kv_heads head_width bias out_bias window"),
        dropout=c.attention_dropout,
        causal=True,
    )
    block = BlockSpec(
        attention=replace(attention, rotary=rotary_spec(c.reader, attention.E, longest=4096)),
        feed_forward=FeedForwardSpec(**c("width hidden activation bias")),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width padding"), dropout=c.embedding_dropout),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        **c("tied labels problem classifier_dropout init_std"),
    )


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.ffn.gate    -
    blocks.{i}.ffn.up      layers.{i}.mlp.c_fc
    blocks.{i}.ffn.down    layers.{i}.mlp.c_proj
    """
)

FAMILY = Family(
    model_type="starcoder2",
    distinction="Llama's rotary positions and grouped queries, GPT-2's norms, biases and feed-forward layer",
    architectures=architectures("Starcoder2", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("starcoder2", num_key_value_heads=2, sliding_window=4, **llama.TINY),
)
