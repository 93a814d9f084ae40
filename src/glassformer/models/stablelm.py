"""StableLM as a recipe: config.json → spec → network, and the weight names.

    ids ─ [ norm ─ causal attention (rotary, in part) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head
    ids ─ [ norm ─┬ causal attention ───┬ add ] × L ─ norm ─ head                        `use_parallel_residual`
                  └ gated feed-forward ─┘

Source: Bellagente et al. 2024, "Stable LM 2 1.6B", section 3.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ParallelBlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import GatedFeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import llama
from glassformer.models._config import Values, constant, flag
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.models._rotary import rotary_spec

KEYS = llama.KEYS.extend(
    bias=flag("use_qkv_bias", False),
    out_bias=constant(False),
    mlp_bias=constant(False),
    eps=("layer_norm_eps", 1e-5),
    head_width=constant(None),
    kv_heads=("num_key_value_heads", 32),
    head_norms=flag("qk_layernorm", False),
    parallel=flag("use_parallel_residual", False),
    classifier_dropout=("classifier_dropout", 0.0),
    fixed={"hidden_dropout": 0.0},  # of the feed-forward layer alone
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    norm = LayerNormSpec(**c("width eps"))
    attention = AttentionSpec(
        **c("width heads kv_heads head_width bias out_bias"), dropout=c.attention_dropout, causal=True
    )
    attention = replace(
        attention,
        rotary=rotary_spec(c.reader, attention.E, share=0.25, longest=4096),
        qk_norm=LayerNormSpec(width=attention.E, eps=c.eps, bias=False) if c.head_norms else None,
        qk_norm_per_head=c.head_norms,
    )
    feed_forward = GatedFeedForwardSpec(**c("width hidden activation"), bias=False)
    block: BlockSpec | ParallelBlockSpec = BlockSpec(
        attention=attention, feed_forward=feed_forward, residual=ResidualSpec(before=norm)
    )
    if c.parallel:
        block = ParallelBlockSpec(attention=attention, feed_forward=feed_forward, norm=norm)
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width padding")),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        **c("tied labels problem classifier_dropout init_std"),
    )


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.norm               layers.{i}.input_layernorm
    blocks.{i}.attn.q_norm.{j}    layers.{i}.self_attn.q_layernorm.norms.{j}
    blocks.{i}.attn.k_norm.{j}    layers.{i}.self_attn.k_layernorm.norms.{j}
    """
)

FAMILY = Family(
    model_type="stablelm",
    distinction="layer norms, rotary positions for a quarter of each head, norms of q and k for each head",
    architectures=architectures("StableLm", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("stablelm", num_key_value_heads=2, qk_layernorm=True, use_qkv_bias=True, **llama.TINY),
)
