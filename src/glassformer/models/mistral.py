"""Mistral: Llama with sliding-window attention.

    ids ─ [ norm ─ causal attention (rotary, window W) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

After L layers a token depends on about L · W tokens, while no layer caches more than W keys.
Source: Jiang et al. 2023, "Mistral 7B", section 2; windows: Beltagy et al. 2020, section 3.1.
"""

from __future__ import annotations

from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    attention = llama.attention_spec(reader, window=window(reader, default=4096))
    block = llama.block_spec(reader, attention, llama.feed_forward_spec(reader))
    rotary = llama.rotary(reader, attention.E, longest=131_072)
    return llama.decoder_spec(reader, (block,) * llama.layer_count(reader), rotary)


def window(reader: ConfigReader, *, default: int | None) -> int | None:
    """The window: how many tokens a token attends to, itself among them.

    null means no window, which is not the same as an absent key: that means `default`.
    """
    if reader.get("sliding_window", default=None) is None:
        return None if "sliding_window" in reader.config else default
    return reader.integer("sliding_window", maximum=MAX_ROWS)


FAMILY = Family(
    model_type="mistral",
    distinction="sliding-window attention: a token sees itself and the 4,095 before it",
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
