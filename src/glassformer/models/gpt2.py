"""GPT-2: a pre-norm decoder-only language model with a final norm.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head (tied)

Source: Radford et al. 2019, section 2.3.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from glassformer.core import init
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    StackSpec,
)
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Tied, Transposed, WeightNames

UNUSED_KEYS = (
    "n_ctx",  # an old name of the length
    "reorder_and_upcast_attn",  # changes rounding alone
    "summary_activation",  # of a head that is not supported
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
)


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("add_cross_attention", False)
    reader.used.update(UNUSED_KEYS)
    width = reader.integer("n_embd", "hidden_size")
    layers = reader.integer("n_layer", "num_hidden_layers", maximum=MAX_LAYERS)
    dropout = reader.probability("resid_pdrop", default=0.1)
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_epsilon", default=1e-5))
    attention = AttentionSpec(
        width=width,
        heads=reader.integer("n_head", "num_attention_heads"),
        dropout=reader.probability("attn_pdrop", default=0.1),
        causal=True,
    )
    block = BlockSpec(
        attention=attention,
        feed_forward=FeedForwardSpec(
            width=width,
            hidden=reader.integer("n_inner", default=4 * width),
            activation=reader.text("activation_function", default="gelu_new"),
        ),
        before=norm,
        dropout=dropout,
    )
    # Each layer has a scale of its own, which the config may divide by the number of the layer.
    scale = attention.E**-0.5 if reader.flag("scale_attn_weights", default=True) else 1.0
    by_layer = reader.flag("scale_attn_by_inverse_layer_idx", default=False)
    scales = [scale / (i + 1) if by_layer else scale for i in range(layers)]
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
            width=width,
            positions=LearnedPositionsSpec(
                count=reader.integer("n_positions", "max_position_embeddings", maximum=MAX_ROWS)
            ),
            dropout=reader.probability("embd_pdrop", default=0.1),
        ),
        blocks=StackSpec(blocks=tuple(replace(block, attention=replace(attention, scale=s)) for s in scales)),
        final_norm=norm,
        tied=reader.flag("tie_word_embeddings", default=True),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "hidden_dropout", default=0.1),
        init_std=reader.number("initializer_range", default=0.02),
    )


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names; checkpoints store linear layers transposed (`Conv1D`)."""
    return WeightNames(
        prefix="transformer",
        body={
            "embed.tokens": "wte",
            "embed.positions": "wpe",
            "blocks.{i}.attn_residual.before": "h.{i}.ln_1",
            "blocks.{i}.attn.qkv": Transposed("h.{i}.attn.c_attn"),
            "blocks.{i}.attn.out": Transposed("h.{i}.attn.c_proj"),
            "blocks.{i}.ffn_residual.before": "h.{i}.ln_2",
            "blocks.{i}.ffn.up": Transposed("h.{i}.mlp.c_fc"),
            "blocks.{i}.ffn.down": Transposed("h.{i}.mlp.c_proj"),
            "final_norm": "ln_f",
        },
        head={
            "head.decoder": Tied("lm_head") if spec.tied else "lm_head",
            "head.classifier": {"text-classification": "score", "token-classification": "classifier"}.get(
                task, "qa_outputs"
            ),
        },
        ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
    )


def initialise(network: nn.Module, spec: TextSpec) -> None:
    """Initialise: normal, smaller where the residual stream is added to."""
    init.normal(network, spec.init_std)
    init.shrink_residual(network, len(spec.blocks.blocks), spec.init_std)


FAMILY = Family(
    model_type="gpt2",
    distinction="fused projections stored transposed; attention scale may differ by layer",
    architectures={
        "GPT2Model": "feature-extraction",
        "GPT2LMHeadModel": "text-generation",
        "GPT2ForSequenceClassification": "text-classification",
        "GPT2ForTokenClassification": "token-classification",
        "GPT2ForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=Decoder,
    names=names,
    initialise=initialise,
    tiny={
        "model_type": "gpt2",
        "vocab_size": 99,
        "n_embd": 32,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 40,
        "n_inner": 48,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
    },
)
