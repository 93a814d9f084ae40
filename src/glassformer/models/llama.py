"""Llama: a decoder with rotary positions, grouped keys, gated feed-forward and root-mean-square norms, and no biases.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Touvron et al. 2023, section 2.2; grouped keys since Llama 2; stretched rotary waves since Llama 3.1.
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
from glassformer.files import shown
from glassformer.models._decoder import Decoder
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Reader, TextSpec
from glassformer.weights.names import Fused, Names, Tied


def spec(reader: Reader) -> TextSpec:
    """config.json → spec."""
    biased = reader.flag("attention_bias", default=False)
    block = block_spec(
        reader,
        attention_spec(reader, bias=biased, out_bias=biased),
        feed_forward_spec(reader, bias=reader.flag("mlp_bias", default=False)),
    )
    return decoder_spec(reader, (block,) * layers(reader), rotary(reader, block.attention.E))


def attention_spec(
    reader: Reader, *, bias: bool = False, out_bias: bool = False, window: int | None = None
) -> AttentionSpec:
    """Causal attention with grouped keys."""
    heads = reader.integer("num_attention_heads")
    head_width = reader.get("head_dim", default=None)  # null: width / heads
    return AttentionSpec(
        width=reader.integer("hidden_size"),
        heads=heads,
        kv_heads=reader.integer("num_key_value_heads", default=heads),
        head_width=None if head_width is None else reader.integer("head_dim", most=10_000),
        bias=bias,
        out_bias=out_bias,
        dropout=reader.probability("attention_dropout", default=0.0),
        causal=True,
        window=window,
    )


def feed_forward_spec(reader: Reader, *, bias: bool = False) -> GatedFeedForwardSpec:
    """The gated feed-forward layer."""
    return GatedFeedForwardSpec(
        width=reader.integer("hidden_size"),
        hidden=reader.integer("intermediate_size"),
        activation=reader.text("hidden_act", default="silu"),
        bias=bias,
    )


def norm_spec(reader: Reader, *, eps: float = 1e-6) -> RMSNormSpec:
    """The norm before every sub-layer, and after the last block; `eps` where the config has none."""
    return RMSNormSpec(width=reader.integer("hidden_size"), eps=reader.number("rms_norm_eps", default=eps))


def block_spec(reader: Reader, attention: AttentionSpec, feed_forward: GatedFeedForwardSpec) -> BlockSpec:
    """One layer: a norm before each sub-layer."""
    return BlockSpec(attention=attention, feed_forward=feed_forward, before=norm_spec(reader))


def layers(reader: Reader) -> int:
    """How many blocks there are."""
    return reader.integer("num_hidden_layers", most=MOST_LAYERS)


def decoder_spec(reader: Reader, blocks: tuple[BlockSpec, ...], rotary: RotarySpec) -> TextSpec:
    """The blocks between a bare embedding and a last norm, and what the heads need."""
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", most=MOST_ROWS), width=reader.integer("hidden_size")
        ),
        blocks=StackSpec(blocks=blocks, rotary=rotary),
        final_norm=norm_spec(reader),
        tied=reader.flag("tie_word_embeddings", default=False),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "hidden_dropout", default=0.1),
        init_std=reader.number("initializer_range", default=0.02),
    )


def rotary(reader: Reader, head_width: int, *, longest: int = 2048, theta: float = 10_000.0) -> RotarySpec:
    """Rotary positions of whole heads; `longest` is the length and `theta` the base where the config has none."""
    found = reader.inside("rope_parameters", "rope_scaling")
    for place in (reader, found):
        place.fixed("partial_rotary_factor", 1.0)
    return waves(reader, found, head_width, longest=longest, theta=theta)


def partial_rotary(reader: Reader, head_width: int, *, share: float, longest: int = 2048) -> RotarySpec:
    """Rotary positions in the first numbers of each head; `share` of them where the config does not say how many."""
    found = reader.inside("rope_parameters", "rope_scaling")
    share = found.number(
        "partial_rotary_factor", default=reader.number("partial_rotary_factor", default=share)
    )
    width = int(share * head_width)
    if not 2 <= width <= head_width or width % 2:
        raise ConfigError(
            f"{found.place}partial_rotary_factor {share} turns {width} of the {head_width} numbers of a head; "
            f"it must be an even number of them, from 2 to {head_width}"
        )
    return waves(reader, found, width, longest=longest)


def waves(
    reader: Reader, found: Reader, width: int, *, longest: int = 2048, theta: float = 10_000.0
) -> RotarySpec:
    """The rotary waves over `width` numbers of a head.

    Args:
        reader: of the config, where the old spelling has `rope_theta`
        found: of `rope_parameters` (new spelling, `rope_theta` in it) or `rope_scaling` (old)
    """
    trained_on = reader.integer(
        "max_position_embeddings", default=longest, most=MOST_ROWS
    )  # no table ends there
    old_theta = reader.number("rope_theta", default=theta)

    def above_0(key: str, **default: float) -> float:
        value = found.number(key, **default)
        if not 0 < value < 1e30:
            raise ConfigError(f"{found.place}{key} is {value}; it must be a number above 0")
        return value

    theta = above_0("rope_theta", default=old_theta)
    kind = found.text("rope_type", "type", default="default")
    scaling: LinearScaling | Llama3Scaling | None
    if kind == "default":
        scaling = None
    elif kind == "linear":
        scaling = LinearScaling(factor=above_0("factor"))
    elif kind == "llama3":
        low, high = above_0("low_freq_factor"), above_0("high_freq_factor")
        if low >= high:
            raise ConfigError(
                f"{found.place}low_freq_factor is {low} and high_freq_factor {high}; the high one must be larger"
            )
        scaling = Llama3Scaling(
            factor=above_0("factor"),
            low_frequency_factor=low,
            high_frequency_factor=high,
            original_positions=found.integer(
                "original_max_position_embeddings", default=trained_on, most=MOST_ROWS
            ),
        )
    else:
        raise UnsupportedError(
            f"{found.place}rotary scaling {shown(kind)} is not supported; supported: default, linear, llama3"
        )
    return RotarySpec(width=width, theta=theta, scaling=scaling)


def names(spec: TextSpec, task: str) -> Names:
    """Their tensor names."""
    attention = spec.blocks.blocks[0].attention
    rows = (attention.heads * attention.E, attention.K * attention.E, attention.K * attention.E)
    return Names(
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
    oddity="three scalings of rotary angles, for longer texts than it was trained on",
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
