"""ModernBERT: a pre-norm encoder for 8,192 tokens; most layers see a window, every third sees the whole text.

    ids ─ norm ─ [ norm ─ attention (rotary, window W) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head
                    └ not in the first block, whose input is normed already

Global and local layers have rotary positions of different bases; linear layers and norms have no biases.
Source: Warner et al. 2024, "Smarter, better, faster, longer", section 2.1.
"""

from __future__ import annotations

from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import GatedFeedForwardSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models._config import Keys, Values, constant, flag, number, rows, size, text
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models.modernbert.attention import attention_specs
from glassformer.models.modernbert.network import ModernBert, ModernBertSpec
from glassformer.weights.name_table import NameTable

KEYS = Keys(
    width="hidden_size",
    layers="num_hidden_layers",
    heads="num_attention_heads",
    hidden="intermediate_size",
    vocabulary="vocab_size",
    padding=("pad_token_id", 50283),
    activation=("classifier_activation", "gelu"),  # of the heads
    hidden_activation=text("hidden_activation", "gelu"),
    eps=("norm_eps", 1e-5),
    norm_bias=flag("norm_bias", False),
    bias=("attention_bias", False),
    out_bias=constant(lambda c: c.bias),
    mlp_bias=flag("mlp_bias", False),
    transform_bias=flag("classifier_bias", False),
    head_bias=flag("decoder_bias", True),
    embedding_dropout=("embedding_dropout", 0.0),
    attention_dropout=("attention_dropout", 0.0),
    mlp_dropout=("mlp_dropout", 0.0),
    classifier_dropout=("classifier_dropout", 0.0),
    pooling=text("classifier_pooling", "cls"),
    window=rows("local_attention", 128),
    global_every=size("global_attn_every_n_layers", 3),
    global_theta=number("global_rope_theta", 160_000.0),
    local_theta=number("local_rope_theta", 10_000.0),
    tied=("tie_word_embeddings", True),
    init_std=("initializer_range", 0.02),
    fixed={
        "classifier_pooling": ("cls", "mean"),
        "position_embedding_type": "absolute",  # in every config of the first release, and means nothing
    },
    unused="""cls_token_id deterministic_flash_attn initializer_cutoff_factor layer_norm_eps reference_compile
        repad_logits_with_grad sparse_pred_ignore_index sparse_prediction""",
)


@KEYS.spec
def spec(c: Values) -> ModernBertSpec:
    norm = LayerNormSpec(**c("width eps"), bias=c.norm_bias)
    blocks = tuple(
        BlockSpec(
            attention=attention,
            feed_forward=GatedFeedForwardSpec(
                **c("width hidden"), activation=c.hidden_activation, bias=c.mlp_bias, dropout=c.mlp_dropout
            ),
            residual=ResidualSpec(before=norm),
            attention_residual=ResidualSpec(before=norm if i else None, dropout=c.attention_dropout),
        )
        for i, attention in enumerate(attention_specs(c))
    )
    return ModernBertSpec(
        embed=EmbeddingSpec(**c("vocabulary width padding"), norm=norm, dropout=c.embedding_dropout),
        blocks=StackSpec(blocks=blocks),
        final_norm=norm,
        pooling="first" if c.pooling == "cls" else "mean",
        **c("transform_bias head_bias tied labels problem classifier_dropout activation init_std"),
    )


NAMES = NameTable(
    """
    embed.tokens                       embeddings.tok_embeddings
    embed.norm                         embeddings.norm
    blocks.{i}.attn_residual.before    layers.{i}.attn_norm
    blocks.{i}.attn.qkv                layers.{i}.attn.Wqkv
    blocks.{i}.attn.out                layers.{i}.attn.Wo
    blocks.{i}.ffn_residual.before     layers.{i}.mlp_norm
    blocks.{i}.ffn.gate                layers.{i}.mlp.Wi            [0/2]
    blocks.{i}.ffn.up                  layers.{i}.mlp.Wi            [1/2]
    blocks.{i}.ffn.down                layers.{i}.mlp.Wo
    final_norm                         final_norm

    [head]
    head.classifier                    classifier
    head.decoder.weight                decoder.weight               =?
    head.decoder.bias                  decoder.bias
    head.transform                     head.dense
    head.norm                          head.norm
    head.transform.dense               head.dense
    head.transform.norm                head.norm
    head.pooler.dense                  head.dense
    head.pooler.norm                   head.norm
    """,
    prefix="model",
)

FAMILY = Family(
    model_type="modernbert",
    distinction="long texts: a window in two layers of three, each kind with its own rotary base",
    architectures=architectures("ModernBert", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=ModernBert,
    names=NAMES,
    tiny=KEYS.tiny("modernbert", local_attention=6, pad_token_id=0),
)
