"""Llama: a decoder with rotary positions, grouped-query attention, gated feed-forward, RMSNorm and no biases.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Touvron et al. 2023, section 2.2; grouped-query attention since Llama 2; rotary scaling since Llama 3.1.
"""

from __future__ import annotations

from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    GatedFeedForwardSpec,
    LinearScaling,
    Llama3Scaling,
    RMSNormSpec,
    RotarySpec,
    StackSpec,
)
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Fused, Tied, WeightNames


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    biased = reader.flag("attention_bias", default=False)
    block = block_spec(
        reader,
        attention_spec(reader, bias=biased, out_bias=biased),
        feed_forward_spec(reader, bias=reader.flag("mlp_bias", default=False)),
    )
    return decoder_spec(reader, (block,) * layer_count(reader), rotary(reader, block.attention.E))


def attention_spec(
    reader: ConfigReader, *, bias: bool = False, out_bias: bool = False, window: int | None = None
) -> AttentionSpec:
    """Causal grouped-query attention."""
    heads = reader.integer("num_attention_heads")
    head_width = reader.get("head_dim", default=None)  # null: width / heads
    return AttentionSpec(
        width=reader.integer("hidden_size"),
        heads=heads,
        kv_heads=reader.integer("num_key_value_heads", default=heads),
        head_width=None if head_width is None else reader.integer("head_dim", maximum=10_000),
        bias=bias,
        out_bias=out_bias,
        dropout=reader.probability("attention_dropout", default=0.0),
        causal=True,
        window=window,
    )


def feed_forward_spec(reader: ConfigReader, *, bias: bool = False) -> GatedFeedForwardSpec:
    """The gated feed-forward layer."""
    return GatedFeedForwardSpec(
        width=reader.integer("hidden_size"),
        hidden=reader.integer("intermediate_size"),
        activation=reader.text("hidden_act", default="silu"),
        bias=bias,
    )


def norm_spec(reader: ConfigReader, *, eps: float = 1e-6) -> RMSNormSpec:
    """The norm before every sub-layer, and after the last block; `eps` where the config has none."""
    return RMSNormSpec(width=reader.integer("hidden_size"), eps=reader.number("rms_norm_eps", default=eps))


def block_spec(
    reader: ConfigReader, attention: AttentionSpec, feed_forward: GatedFeedForwardSpec
) -> BlockSpec:
    """One pre-norm block."""
    return BlockSpec(attention=attention, feed_forward=feed_forward, before=norm_spec(reader))


def layer_count(reader: ConfigReader) -> int:
    """The number of blocks."""
    return reader.integer("num_hidden_layers", maximum=MAX_LAYERS)


def decoder_spec(reader: ConfigReader, blocks: tuple[BlockSpec, ...], rotary: RotarySpec) -> TextSpec:
    """The spec of a decoder: embedding without positions, blocks, final norm, and what heads need."""
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS), width=reader.integer("hidden_size")
        ),
        blocks=StackSpec(blocks=blocks, rotary=rotary),
        final_norm=norm_spec(reader),
        tied=reader.flag("tie_word_embeddings", default=False),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "hidden_dropout", default=0.1),
        init_std=reader.number("initializer_range", default=0.02),
    )


def rotary(
    reader: ConfigReader, head_width: int, *, longest: int = 2048, theta: float = 10_000.0
) -> RotarySpec:
    """Rotary positions of whole heads.

    Args: longest, theta: default length and base, where the config has none.
    """
    rope = reader.section("rope_parameters", "rope_scaling")
    for section in (reader, rope):
        section.fixed("partial_rotary_factor", 1.0)
    return rotary_spec(reader, rope, head_width, longest=longest, theta=theta)


def partial_rotary(reader: ConfigReader, head_width: int, *, share: float, longest: int = 2048) -> RotarySpec:
    """Rotary positions of a part of each head, as in Phi.

    Args: share: default of `partial_rotary_factor` · longest: default length.
    Raises: ConfigError: the part is odd, or wider than a head.
    """
    rope = reader.section("rope_parameters", "rope_scaling")
    share = rope.number(
        "partial_rotary_factor", default=reader.number("partial_rotary_factor", default=share)
    )
    width = int(share * head_width)
    if not 2 <= width <= head_width or width % 2:
        raise ConfigError(
            f"{rope.location}partial_rotary_factor {share} turns {width} of the {head_width} numbers of a head; "
            f"it must be an even number of them, from 2 to {head_width}"
        )
    return rotary_spec(reader, rope, width, longest=longest)


def rotary_spec(
    reader: ConfigReader, rope: ConfigReader, width: int, *, longest: int = 2048, theta: float = 10_000.0
) -> RotarySpec:
    """Rotary positions over `width` dimensions of a head, with their scaling.

    Args:
        reader: of the config, where old configs have `rope_theta`
        rope: of `rope_parameters` (newer configs, `rope_theta` in it) or `rope_scaling` (older)
    Raises: ConfigError: a factor out of range. UnsupportedError: another kind of scaling.
    """
    # The length in training, which limits nothing: no position table ends there.
    trained_length = reader.integer("max_position_embeddings", default=longest, maximum=MAX_ROWS)
    old_theta = reader.number("rope_theta", default=theta)

    def positive(key: str, **default: float) -> float:
        value = rope.number(key, **default)
        if not 0 < value < 1e30:
            raise ConfigError(f"{rope.location}{key} is {value}; it must be a number above 0")
        return value

    theta = positive("rope_theta", default=old_theta)
    kind = rope.text("rope_type", "type", default="default")
    scaling: LinearScaling | Llama3Scaling | None
    if kind == "default":
        scaling = None
    elif kind == "linear":
        scaling = LinearScaling(factor=positive("factor"))
    elif kind == "llama3":
        low, high = positive("low_freq_factor"), positive("high_freq_factor")
        if low >= high:
            raise ConfigError(
                f"{rope.location}low_freq_factor is {low} and high_freq_factor {high}; the high one must be larger"
            )
        scaling = Llama3Scaling(
            factor=positive("factor"),
            low_frequency_factor=low,
            high_frequency_factor=high,
            original_positions=rope.integer(
                "original_max_position_embeddings", default=trained_length, maximum=MAX_ROWS
            ),
        )
    else:
        raise UnsupportedError(
            f"{rope.location}rotary scaling {safe_repr(kind)} is not supported; supported: default, linear, llama3"
        )
    return RotarySpec(width=width, theta=theta, scaling=scaling)


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names."""
    attention = spec.blocks.blocks[0].attention
    rows = (attention.heads * attention.E, attention.K * attention.E, attention.K * attention.E)
    return WeightNames(
        prefix="model",
        body={
            "embed.tokens": "embed_tokens",
            "blocks.{i}.attn_residual.before": "layers.{i}.input_layernorm",
            "blocks.{i}.attn.qkv": Fused(tuple(f"layers.{{i}}.self_attn.{p}_proj" for p in "qkv"), rows),
            "blocks.{i}.attn.out": "layers.{i}.self_attn.o_proj",
            "blocks.{i}.ffn_residual.before": "layers.{i}.post_attention_layernorm",
            "blocks.{i}.ffn.gate": "layers.{i}.mlp.gate_proj",
            "blocks.{i}.ffn.up": "layers.{i}.mlp.up_proj",
            "blocks.{i}.ffn.down": "layers.{i}.mlp.down_proj",
            "final_norm": "norm",
        },
        head={
            "head.decoder": Tied("lm_head") if spec.tied else "lm_head",
            "head.classifier": "score",
        },
        ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    )


FAMILY = Family(
    model_type="llama",
    distinction="three kinds of rotary scaling, for longer contexts than in training",
    architectures={
        "LlamaModel": "feature-extraction",
        "LlamaForCausalLM": "text-generation",
        "LlamaForSequenceClassification": "text-classification",
        "LlamaForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=names,
    tiny={
        "model_type": "llama",
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)
