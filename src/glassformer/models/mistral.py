"""Mistral: Llama with sliding-window attention.

    ids ─ [ norm ─ causal attention (rotary, window W) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

After L layers a token depends on about L · W tokens, while no layer caches more than W keys.
Source: Jiang et al. 2023, "Mistral 7B", section 2; windows: Beltagy et al. 2020, section 3.1.
"""

from __future__ import annotations

from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, Values, constant, nullable_size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    bias=constant(False),
    mlp_bias=constant(False),
    window=nullable_size("sliding_window", 4096, maximum=MAX_ROWS),  # null: no window
    longest=constant(131_072),
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return llama.decoder_spec(c, (llama.block_spec(c),) * c.layers)


FAMILY = Family(
    model_type="mistral",
    distinction="sliding-window attention: a token sees itself and the 4,095 before it",
    architectures=architectures("Mistral", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=spec,
    build=Decoder,
    names=llama.NAMES.extend(prefixes={}),
    tiny=KEYS.tiny("mistral", num_key_value_heads=2, sliding_window=4, **llama.TINY),
)
