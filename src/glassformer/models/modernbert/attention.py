"""ModernBERT's attention: global and local layers, each kind with a rotary base of its own."""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.attention import AttentionSpec
from glassformer.models._config import Values
from glassformer.models._rotary import rotary_specs


def attention_specs(c: Values) -> list[AttentionSpec]:
    """Attention of each layer: the first of every few sees the whole text, the others half a window to either side."""
    kinds = c.reader.layer_types(c.layers) or [
        "sliding_attention" if i % c.global_every else "full_attention" for i in range(c.layers)
    ]
    whole = AttentionSpec(**c("width heads bias out_bias"), dropout=c.attention_dropout)
    thetas = {"full_attention": c.global_theta, "sliding_attention": c.local_theta}
    windows = {"full_attention": None, "sliding_attention": c.window // 2 + 1}
    rotary = rotary_specs(c.reader, whole.E, thetas, scaled=thetas, longest=8192)
    made = {kind: replace(whole, window=windows[kind], rotary=rotary[kind]) for kind in thetas}
    return [made[kind] for kind in kinds]
