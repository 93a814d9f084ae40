"""Mistral: Llama whose tokens see a window of those before them, and further back only through the layers below.

    ids ─ [ norm ─ causal attention (rotary, window W) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

After L layers a token has heard of about L · W tokens, while no layer keeps more than W of their keys.
Source: Jiang et al. 2023, "Mistral 7B", section 2; windows: Beltagy et al. 2020, section 3.1.
"""

from __future__ import annotations

from glassformer.models import llama
from glassformer.models._decoder import Decoder
from glassformer.models._family import MOST_ROWS, Family, Reader, TextSpec


def spec(reader: Reader) -> TextSpec:
    """config.json → spec."""
    attention = llama.attention_spec(reader, window=window(reader, default=4096))
    block = llama.block_spec(reader, attention, llama.feed_forward_spec(reader))
    rotary = llama.rotary(reader, attention.E, longest=131_072)
    return llama.decoder_spec(reader, (block,) * llama.layers(reader), rotary)


def window(reader: Reader, *, default: int | None) -> int | None:
    """How many tokens a token sees, itself among them; null is no window, and not the same as no such key."""
    if reader.get("sliding_window", default=None) is None:
        return None if "sliding_window" in reader.config else default
    return reader.integer("sliding_window", most=MOST_ROWS)


FAMILY = Family(
    model_type="mistral",
    oddity="a window: a token sees itself and the 4,095 before it",
    architectures={
        "MistralModel": "feature-extraction",
        "MistralForCausalLM": "text-generation",
        "MistralForSequenceClassification": "text-classification",
        "MistralForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=llama.names,
    tiny={**llama.FAMILY.tiny, "model_type": "mistral", "sliding_window": 4},
)
