"""Nomic BERT: BERT with rotary positions, a gated feed-forward layer and no biases in its blocks, for long texts.

    ids + token types ─ norm ─ [ attention (rotary) ─ add, norm ─ gated feed-forward ─ add, norm ] × L ─ head

The sentence encoder nomic-embed-text is built on it; its texts begin with a prompt, such as "search_query: ".
Published configs have GPT-2's key names (`n_embd`), those of the reference library BERT's; both are read.
Source: Nussbaum et al. 2024, "Nomic Embed", section 3.1; base of the rotary positions: the released checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core import (
    AttentionSpec,
    BlockSpec,
    DynamicScaling,
    EmbeddingSpec,
    GatedFeedForwardSpec,
    Head,
    LayerNormSpec,
    ResidualSpec,
    StackSpec,
)
from glassformer.models import bert
from glassformer.models._config import Values, constant, number, rows, size, text
from glassformer.models._family import Family, architectures
from glassformer.models._network import Encoder, TextSpec
from glassformer.models._rotary import rotary_spec

KEYS = bert.KEYS.extend(
    width="hidden_size n_embd",
    layers="num_hidden_layers n_layer",
    heads="num_attention_heads n_head",
    hidden=("intermediate_size n_inner", lambda c: 4 * c.width),
    head_width=size("head_dim", None, maximum=10_000),
    max_tokens=constant(None),
    activation=text("hidden_act activation_function", "silu"),
    eps=("layer_norm_eps layer_norm_epsilon", 1e-12),
    dropout=("hidden_dropout_prob resid_pdrop", 0.0),
    attention_dropout=("attention_probs_dropout_prob attn_pdrop", 0.0),
    theta=number("rotary_emb_base", 1_000.0),
    factor=number("rotary_scaling_factor", None),
    trained=rows("max_trained_positions", 2048),
    fixed={
        **{
            "activation_function": ("swiglu", "geglu"),
            "causal": False,
            "prenorm": False,
            "use_rms_norm": False,
        },
        **{"parallel_block": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False},
        **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None},
        **{"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    },
    unused="""dense_seq_output embd_pdrop fused_bias_fc fused_dropout_add_ln n_positions pad_vocab_size_multiple
        parallel_block_tied_norm reorder_and_upcast_attn summary_activation summary_first_dropout
        summary_proj_to_labels summary_type summary_use_proj use_flash_attn use_xentropy""",
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    activation = {"swiglu": "silu", "geglu": "gelu"}.get(c.activation, c.activation)
    attention = AttentionSpec(**c("width heads head_width"), dropout=c.attention_dropout, bias=False, out_bias=False)
    rotary = rotary_spec(c.reader, attention.E, theta=c.theta)
    if c.factor:  # the published spelling of "rope_type": "dynamic"
        rotary = replace(rotary, scaling=DynamicScaling(factor=c.factor, original_positions=c.trained))
    norm = LayerNormSpec(**c("width eps"))
    block = BlockSpec(
        attention=replace(attention, rotary=rotary),
        feed_forward=GatedFeedForwardSpec(**c("width hidden"), activation=activation),
        residual=ResidualSpec(on_residual=norm, dropout=c.dropout),
    )
    return TextSpec(
        embed=EmbeddingSpec(**c("vocabulary width token_types padding dropout"), norm=norm),
        blocks=StackSpec(blocks=(block,) * c.layers),
        activation=activation,
        **c("labels problem classifier_dropout init_std"),
    )


class NomicBert(Encoder):
    """Nomic BERT: BERT's heads, and a body without a pooler."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        return None if task == "feature-extraction" else super().make_head(spec, task)


NAMES = bert.NAMES.extend(
    """
    embed.norm                              emb_ln
    blocks.{i}.attn.qkv                     encoder.layers.{i}.attn.Wqkv
    blocks.{i}.attn.out                     encoder.layers.{i}.attn.out_proj
    blocks.{i}.attn_residual.on_residual    encoder.layers.{i}.norm1
    blocks.{i}.ffn.up                       encoder.layers.{i}.mlp.fc11
    blocks.{i}.ffn.gate                     encoder.layers.{i}.mlp.fc12
    blocks.{i}.ffn.down                     encoder.layers.{i}.mlp.fc2
    blocks.{i}.ffn_residual.on_residual     encoder.layers.{i}.norm2
    [head]
    head.norm                               cls.predictions.transform.layer_norm
    """,
    prefix="nomic_bert",
)

FAMILY = Family(
    model_type="nomic_bert",
    distinction="BERT for long texts: rotary positions, gated feed-forward, no biases in the blocks",
    architectures=architectures("NomicBert", "Model ForMaskedLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=NomicBert,
    names=NAMES,
    tiny=KEYS.tiny("nomic_bert"),
)
