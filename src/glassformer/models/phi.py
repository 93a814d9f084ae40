"""Phi: a decoder with parallel attention and feed-forward layers behind one norm, with biases and partial rotary.

                    ┌ causal attention (rotary, in part) ┐
    ids ─ [ ─┬ norm ┤                                    ├ add ─ ] × L ─ norm ─ head (with a bias)
             │      └ feed-forward ──────────────────────┘  │
             └──────────────────────────────────────────────┘

Source: Gunasekar et al. 2023, "Textbooks are all you need", section 2.3; Li et al. 2023, "Phi-1.5", section 2.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import ParallelBlockSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import llama
from glassformer.models._config import Values, constant
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.models._rotary import rotary_spec
from glassformer.weights.name_table import NameTable

KEYS = llama.KEYS.extend(
    bias=constant(True),
    mlp_bias=constant(True),
    activation=("hidden_act", "gelu_new"),
    eps=("layer_norm_eps", 1e-5),
    dropout=("resid_pdrop", 0.0),
    embedding_dropout=("embd_pdrop", 0.0),
    fixed={"qk_layernorm": False},
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    norm = LayerNormSpec(**c("width eps"))
    attention = AttentionSpec(**c("width heads kv_heads head_width"), dropout=c.attention_dropout, causal=True)
    block = ParallelBlockSpec(
        attention=replace(attention, rotary=rotary_spec(c.reader, attention.E, share=0.5)),
        feed_forward=FeedForwardSpec(**c("width hidden activation")),
        norm=norm,
        dropout=c.dropout,
    )
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width padding"), dropout=c.embedding_dropout),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        head_bias=True,
        **c("tied labels problem classifier_dropout init_std"),
    )


NAMES = NameTable(
    """
    embed.tokens           embed_tokens
    blocks.{i}.norm        layers.{i}.input_layernorm
    blocks.{i}.attn.qkv    layers.{i}.self_attn.(q|k|v)_proj     [H K K]
    blocks.{i}.attn.out    layers.{i}.self_attn.dense
    blocks.{i}.ffn.up      layers.{i}.mlp.fc1
    blocks.{i}.ffn.down    layers.{i}.mlp.fc2
    final_norm             final_layernorm

    [head]
    head.decoder.weight    lm_head.weight                        =?
    head.decoder.bias      lm_head.bias
    head.classifier        score
    """,
    prefix="model",
    ignored=llama.NAMES.ignored,
)


FAMILY = Family(
    model_type="phi",
    distinction="parallel attention and feed-forward; rotary positions for a part of each head",
    architectures=architectures("Phi", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("phi", **llama.TINY),
)
