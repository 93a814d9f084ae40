"""ModernBERT's attention: global and local layers, each kind with a rotary base of its own."""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.models._keys import Values
from glassformer.models._rotary import rotary_spec


def attention_specs(c: Values) -> list[AttentionSpec]:
    """Attention of each layer: the first of every few sees the whole text, the others half a window to either side."""
    kinds = c.reader.layer_types(c.layers) or [
        "sliding_attention" if i % c.global_every else "full_attention" for i in range(c.layers)
    ]
    whole = AttentionSpec(**c("width heads bias out_bias"), dropout=c.attention_dropout)
    ropes = c.reader.section("rope_parameters")
    old = c.reader.get("rope_parameters", default=None) is None
    made = {
        kind: replace(
            whole,
            window=window,
            rotary=rotary_spec(
                c.reader,
                whole.E,
                longest=8192,
                theta=theta,
                rope=c.reader.section("rope_scaling") if old else ropes.section(kind),
            ),
        )
        for kind, theta, window in (
            ("full_attention", c.global_theta, None),
            ("sliding_attention", c.local_theta, c.window // 2 + 1),
        )
    }
    return [made[kind] for kind in kinds]
