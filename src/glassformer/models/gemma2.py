"""Gemma 2: Gemma with norms on both sides of each sub-layer, soft caps, and a window in every other layer.

    x → x + norm(attention(norm(x))),   x → x + norm(ffn(norm(x)))      scores and logits → cap · tanh(… / cap)
    ids · √D ─ [ block with a window W ─ block without ] × L/2 ─ norm ─ head (tied)

Source: Gemma team 2024, "Gemma 2", section 2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.rotary import RotarySpec
from glassformer.errors import ConfigError
from glassformer.models import gemma, llama
from glassformer.models._config import MAX_ROWS, Values, constant, multiplier, nullable_multiplier, nullable_size
from glassformer.models._family import Family, architectures
from glassformer.models._network import TextSpec

KEYS = gemma.KEYS.extend(
    activation=("hidden_activation", "gelu_pytorch_tanh"),
    kv_heads=("num_key_value_heads", 4),
    sliding_window=nullable_size("sliding_window", 4096, maximum=MAX_ROWS),
    global_every=constant(2),
    query_scale=multiplier("query_pre_attn_scalar", 256.0),  # scores are divided by its root
    score_cap=nullable_multiplier("attn_logit_softcapping", 50.0),  # null: no cap
    logit_cap=nullable_multiplier("final_logit_softcapping", 30.0),
    unused="hidden_act",
)


def block_spec(c: Values, rotary: RotarySpec | None = None) -> BlockSpec:
    """A block without a window."""
    like_gemma = gemma.block_spec(c, rotary)
    norm = like_gemma.residual.before
    return replace(
        like_gemma,
        attention=replace(like_gemma.attention, scale=c.query_scale**-0.5, score_cap=c.score_cap),
        residual=ResidualSpec(before=norm, after=norm),
    )


def slides(c: Values) -> list[bool]:
    """Which layers have a window: all but every n-th, unless `layer_types` names a kind for each.

    Raises: ConfigError: some have, but there is none.
    """
    kinds = c.reader.layer_types(c.layers)
    if kinds is None:
        sliding = [(i + 1) % c.global_every != 0 for i in range(c.layers)]
    else:
        sliding = [kind == "sliding_attention" for kind in kinds]
    if any(sliding) and c.sliding_window is None:
        raise ConfigError(
            f"{c.reader.location}sliding_window is null, but layer {sliding.index(True)} has sliding attention; set it "
            "to a number of tokens, or layer_types to 'full_attention' for each layer"
        )
    return sliding


def windowed(c: Values, block: BlockSpec) -> BlockSpec:
    """The block with the config's window."""
    return replace(block, attention=replace(block.attention, window=c.sliding_window))


@KEYS.spec
def spec(c: Values) -> TextSpec:
    block = block_spec(c)
    return gemma.decoder_spec(c, tuple(windowed(c, block) if slide else block for slide in slides(c)))


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.attn_residual.after     layers.{i}.post_attention_layernorm
    blocks.{i}.ffn_residual.before     layers.{i}.pre_feedforward_layernorm
    blocks.{i}.ffn_residual.after      layers.{i}.post_feedforward_layernorm
    """,
    prefixes={},
)

FAMILY = Family(
    model_type="gemma2",
    distinction="norms on both sides of each sub-layer; soft caps of scores and logits; every other layer has a window",
    architectures=architectures("Gemma2", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=gemma.Gemma,
    names=NAMES,
    tiny=KEYS.tiny(
        "gemma2",
        head_dim=8,
        num_key_value_heads=2,
        sliding_window=4,
        query_pre_attn_scalar=4,
        attn_logit_softcapping=1.5,
        final_logit_softcapping=2.0,
        **llama.TINY,
    ),
)
