"""Gemma 3: Gemma 2 with norms of each head's q and k instead of soft caps, and two bases of rotary positions.

    x → x + norm(attention(norm(x))),   x → x + norm(ffn(norm(x)))      q, k → norm, rotary of the layer's base
    ids · √D ─ [ five blocks with a window W, base 10,000 ─ one without, base 1,000,000 ] × L/6 ─ norm ─ head (tied)

The larger ones read pictures too; of these (`model_type` gemma3) the text part is loaded.
Source: Gemma team 2025, "Gemma 3", section 2.
"""

from __future__ import annotations

from glassformer.core.norms import RMSNormSpec
from glassformer.models import gemma, gemma2, llama
from glassformer.models._config import Values, constant, multiplier, nullable_multiplier, size
from glassformer.models._family import Family, architectures
from glassformer.models._network import TextSpec
from glassformer.models._rotary import rotary_specs

KEYS = gemma2.KEYS.extend(
    # published configs say little more than what differs from these
    width=("hidden_size", 2304),
    layers=("num_hidden_layers", 26),
    heads=("num_attention_heads", 8),
    hidden=("intermediate_size", 9216),
    vocabulary=("vocab_size", 262_208),
    qk_norm=constant(lambda c: RMSNormSpec(width=c.head_width, eps=c.eps, offset=1.0)),
    global_every=size("sliding_window_pattern", 6),
    score_cap=constant(None),
    logit_cap=nullable_multiplier("final_logit_softcapping", None),
    theta=multiplier("rope_theta", 1e6),
    local_theta=multiplier("rope_local_base_freq", 1e4),
    longest=constant(131_072),
    fixed={"attn_logit_softcapping": None},
    unused="_sliding_window_pattern",  # says again what layer_types says
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    thetas = {"full_attention": c.theta, "sliding_attention": c.local_theta}
    rotary = rotary_specs(c.reader, c.head_width, thetas, scaled={"full_attention"}, longest=c.longest)
    whole = gemma2.block_spec(c, rotary["full_attention"])
    local = gemma2.windowed(c, gemma2.block_spec(c, rotary["sliding_attention"]))
    return gemma.decoder_spec(c, tuple(local if slide else whole for slide in gemma2.slides(c)))


NAMES = gemma2.NAMES.extend(
    """
    blocks.{i}.attn.q_norm    layers.{i}.self_attn.q_norm
    blocks.{i}.attn.k_norm    layers.{i}.self_attn.k_norm
    """,
    nested={
        "language_model.model.": "model.",
        "language_model.lm_head.": "lm_head.",
        "model.language_model.": "model.",
    },
)

FAMILY = Family(
    model_type="gemma3_text",
    distinction="queries and keys normed; layers with a window have a rotary base of their own",
    architectures={
        **architectures("Gemma3Text", "Model"),
        **architectures("Gemma3", "ForCausalLM"),
        **architectures("Gemma3Text", "ForSequenceClassification"),
    },
    text_of=("gemma3",),
    spec=spec,
    build=gemma.Gemma,
    names=NAMES,
    tiny=KEYS.tiny(
        "gemma3_text",
        head_dim=8,
        num_key_value_heads=2,
        sliding_window=4,
        sliding_window_pattern=2,
        query_pre_attn_scalar=4,
        **llama.TINY,
    ),
)
