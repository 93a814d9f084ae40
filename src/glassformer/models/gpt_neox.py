"""GPT-NeoX: a decoder with attention and feed-forward layers side by side, each behind a norm of its own. Also Pythia.

    ids ─ [ ─┬ norm ─ causal attention (rotary, in part) ─┬ add ─ ] × L ─ norm ─ head
             ├ norm ─ feed-forward ───────────────────────┤
             └────────────────────────────────────────────┘
    ids ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head    not `use_parallel_residual`

Source: Black et al. 2022, "GPT-NeoX-20B", section 2.1; Biderman et al. 2023, "Pythia", section 2.2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ParallelBlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import llama
from glassformer.models._config import Keys, Values, flag
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.models._rotary import rotary_spec
from glassformer.weights.name_table import NameTable

KEYS = Keys(
    width="hidden_size",
    layers="num_hidden_layers",
    heads="num_attention_heads",
    hidden="intermediate_size",
    vocabulary="vocab_size",
    activation=("hidden_act", "gelu"),
    eps=("layer_norm_eps", 1e-5),
    bias=("attention_bias", True),
    parallel=flag("use_parallel_residual", True),
    dropout=("hidden_dropout", 0.0),
    attention_dropout=("attention_dropout", 0.0),
    classifier_dropout=("classifier_dropout", 0.1),
    tied=("tie_word_embeddings", False),
    init_std=("initializer_range", 0.02),
    unused="is_decoder hidden_dropout_prob attention_probs_dropout_prob rope_theta partial_rotary_factor",
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    norm = LayerNormSpec(**c("width eps"))
    attention = AttentionSpec(**c("width heads bias"), out_bias=c.bias, dropout=c.attention_dropout, causal=True)
    rotary = rotary_spec(c.reader, attention.E, share=0.25, share_key="rotary_pct", theta_key="rotary_emb_base")
    attention = replace(attention, rotary=rotary)
    feed_forward = FeedForwardSpec(**c("width hidden activation"))
    block: BlockSpec | ParallelBlockSpec = BlockSpec(
        attention=attention, feed_forward=feed_forward, residual=ResidualSpec(before=norm, dropout=c.dropout)
    )
    if c.parallel:
        block = ParallelBlockSpec(
            attention=attention, feed_forward=feed_forward, norm=norm, feed_forward_norm=norm, dropout=c.dropout
        )
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width dropout")),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        **c("tied labels problem classifier_dropout init_std"),
    )


NAMES = NameTable(
    """
    embed.tokens                       embed_in
    blocks.{i}.norm                    layers.{i}.input_layernorm
    blocks.{i}.ffn_norm                layers.{i}.post_attention_layernorm
    blocks.{i}.attn_residual.before    layers.{i}.input_layernorm
    blocks.{i}.ffn_residual.before     layers.{i}.post_attention_layernorm
    blocks.{i}.attn.qkv                layers.{i}.attention.query_key_value    [heads]
    blocks.{i}.attn.out                layers.{i}.attention.dense
    blocks.{i}.ffn.up                  layers.{i}.mlp.dense_h_to_4h
    blocks.{i}.ffn.down                layers.{i}.mlp.dense_4h_to_h
    final_norm                         final_layer_norm

    [head]
    head.decoder                       embed_out                               =?
    [text-classification]
    head.classifier                    score
    [token-classification]
    head.classifier                    classifier
    [question-answering]
    head.classifier                    qa_outputs
    """,
    prefix="gpt_neox",
    ignored=(
        "layers.{i}.attention.bias",
        "layers.{i}.attention.masked_bias",
        "layers.{i}.attention.rotary_emb.inv_freq",
    ),
)

FAMILY = Family(
    model_type="gpt_neox",
    distinction="attention and feed-forward side by side, each with its norm; rotary positions for a part of each head",
    architectures=architectures("GPTNeoX", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("gpt_neox", rotary_pct=0.5, **llama.TINY),
)
