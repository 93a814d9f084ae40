"""GPT-2: a pre-norm decoder-only language model with a final norm.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head (tied)

Source: Radford et al. 2019, section 2.3.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from glassformer.core import AttentionSpec, BlockSpec, EmbeddingSpec, FeedForwardSpec, ResidualSpec, StackSpec, init
from glassformer.core.embeddings import LearnedPositionsSpec
from glassformer.core.norms import LayerNormSpec, NormSpec
from glassformer.models._config import Keys, Values, flag
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.weights.name_table import NameTable

SHARED_KEYS = Keys(
    width="n_embd hidden_size",
    layers="n_layer num_hidden_layers",
    heads="n_head num_attention_heads",
    vocabulary="vocab_size",
    max_tokens="n_positions max_position_embeddings",
    eps=("layer_norm_epsilon", 1e-5),
    dropout=("resid_pdrop", 0.1),
    attention_dropout=("attn_pdrop", 0.1),
    embedding_dropout=("embd_pdrop", 0.1),
    tied=("tie_word_embeddings", True),
    init_std=("initializer_range", 0.02),
    # an old name of the length; of a head that is not supported
    unused="n_ctx summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj",
)
"""What GPT-2 has from the first GPT."""

KEYS = SHARED_KEYS.extend(
    hidden=("n_inner", lambda c: 4 * c.width),
    activation=("activation_function", "gelu_new"),
    classifier_dropout=("classifier_dropout hidden_dropout", 0.1),
    scaled=flag("scale_attn_weights", True),
    scaled_by_layer=flag("scale_attn_by_inverse_layer_idx", False),
    fixed={"add_cross_attention": False},
    unused="reorder_and_upcast_attn",  # changes rounding alone
)


def embedding_spec(c: Values) -> EmbeddingSpec:
    """Tokens and learned positions."""
    positions = LearnedPositionsSpec(count=c.max_tokens)
    return EmbeddingSpec(**c("vocabulary width"), positions=positions, dropout=c.embedding_dropout)


def text_spec(c: Values, norm: NormSpec) -> TextSpec:
    """The spec, with this norm before every sub-layer and at the end."""
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads"), dropout=c.attention_dropout, causal=True),
        feed_forward=FeedForwardSpec(**c("width hidden activation")),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )
    scale = block.attention.E**-0.5 if c.scaled else 1.0
    scales = [scale / i if c.scaled_by_layer else scale for i in range(1, c.layers + 1)]
    return TextSpec(
        embed=embedding_spec(c),
        blocks=StackSpec(blocks=tuple(replace(block, attention=replace(block.attention, scale=s)) for s in scales)),
        final_norm=norm,
        **c("tied labels problem classifier_dropout init_std"),
    )


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return text_spec(c, LayerNormSpec(**c("width eps")))


NAMES = NameTable(
    """
    embed.tokens                       wte
    embed.positions                    wpe
    blocks.{i}.attn_residual.before    h.{i}.ln_1
    blocks.{i}.attn.qkv                h.{i}.attn.c_attn    ᵀ
    blocks.{i}.attn.out                h.{i}.attn.c_proj    ᵀ
    blocks.{i}.ffn_residual.before     h.{i}.ln_2
    blocks.{i}.ffn.up                  h.{i}.mlp.c_fc       ᵀ
    blocks.{i}.ffn.down                h.{i}.mlp.c_proj     ᵀ
    final_norm                         ln_f

    [head]
    head.decoder                       lm_head              =?
    head.classifier                    qa_outputs
    [text-classification]
    head.classifier                    score
    [token-classification]
    head.classifier                    classifier
    """,
    prefix="transformer",
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)


def initialise(network: nn.Module, spec: TextSpec) -> None:
    """Initialise: normal, smaller where the residual stream is added to."""
    init.normal(network, spec.init_std)
    init.shrink_residual(network, len(spec.blocks.blocks), spec.init_std)


FAMILY = Family(
    model_type="gpt2",
    distinction="fused projections stored transposed; attention scale may differ by layer",
    architectures=architectures("GPT2", f"Model LMHeadModel {CLASSIFIERS}"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    initialise=initialise,
    tiny=KEYS.tiny("gpt2", embd_pdrop=0.0, bos_token_id=0, eos_token_id=1, pad_token_id=0),
)
