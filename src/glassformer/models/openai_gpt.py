"""GPT (2018): a post-norm decoder-only language model without a final norm.

    ids + positions ─ [ causal attention ─ add ─ norm ─ feed-forward ─ add ─ norm ] × L ─ head (tied)

Source: Radford et al. 2018, sections 3.1 and 4.1.
"""

from __future__ import annotations

from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    StackSpec,
)
from glassformer.errors import UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Tied, Transposed, WeightNames

ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}
"""`afn` → activation: the checkpoint was trained with the tanh form of GELU, and its config calls that "gelu"."""


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    # an old name of the length, rows that vocab_size counts already, the purpose of the model
    for unused in ("n_ctx", "n_special", "predict_special_tokens"):
        reader.get(unused, default=None)
    # of a head that is not supported
    for part in ("activation", "first_dropout", "proj_to_labels", "type", "use_proj"):
        reader.get(f"summary_{part}", default=None)
    width = reader.integer("n_embd", "hidden_size")
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("n_head", "num_attention_heads"),
            dropout=reader.probability("attn_pdrop", default=0.1),
            causal=True,
        ),
        feed_forward=FeedForwardSpec(width=width, hidden=4 * width, activation=activation(reader)),
        on_residual=LayerNormSpec(width=width, eps=reader.number("layer_norm_epsilon", default=1e-5)),
        dropout=reader.probability("resid_pdrop", default=0.1),
    )
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
            width=width,
            positions=LearnedPositionsSpec(
                count=reader.integer("n_positions", "max_position_embeddings", maximum=MAX_ROWS)
            ),
            dropout=reader.probability("embd_pdrop", default=0.1),
        ),
        blocks=StackSpec(
            blocks=(block,) * reader.integer("n_layer", "num_hidden_layers", maximum=MAX_LAYERS)
        ),
        tied=reader.flag("tie_word_embeddings", default=True),
        labels=reader.labels(),
        problem=reader.problem(),
        init_std=reader.number("initializer_range", default=0.02),
    )


def activation(reader: ConfigReader) -> str:
    """The activation of the feed-forward layer.

    Raises: UnsupportedError: an unknown one.
    """
    name = reader.text("afn", default="gelu")
    if name not in ACTIVATIONS:
        raise UnsupportedError(
            f"{reader.location}afn = {safe_repr(name)} is not supported for a {reader.family!r} model; "
            f"supported: {', '.join(ACTIVATIONS)}{nearest(name, ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names; checkpoints store linear layers transposed (`Conv1D`)."""
    return WeightNames(
        prefix="transformer",
        body={
            "embed.tokens": "tokens_embed",
            "embed.positions": "positions_embed",
            "blocks.{i}.attn.qkv": Transposed("h.{i}.attn.c_attn"),
            "blocks.{i}.attn.out": Transposed("h.{i}.attn.c_proj"),
            "blocks.{i}.attn_residual.on_residual": "h.{i}.ln_1",
            "blocks.{i}.ffn.up": Transposed("h.{i}.mlp.c_fc"),
            "blocks.{i}.ffn.down": Transposed("h.{i}.mlp.c_proj"),
            "blocks.{i}.ffn_residual.on_residual": "h.{i}.ln_2",
        },
        head={
            "head.decoder": Tied("lm_head") if spec.tied else "lm_head",
            "head.classifier": "score",
        },
        ignored=("position_ids", "h.{i}.attn.bias"),
    )


FAMILY = Family(
    model_type="openai-gpt",
    distinction="post-norm, without a final norm",
    architectures={
        "OpenAIGPTModel": "feature-extraction",
        "OpenAIGPTLMHeadModel": "text-generation",
        "OpenAIGPTForSequenceClassification": "text-classification",
    },
    spec=spec,
    build=Decoder,
    names=names,
    tiny={
        "model_type": "openai-gpt",
        "vocab_size": 99,
        "n_embd": 32,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 40,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "pad_token_id": 0,
    },
)
