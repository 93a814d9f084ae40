"""Qwen2: Llama with biases on q, k and v alone, and sliding-window attention in its upper layers if configured.

    ids ─ [ norm ─ causal attention (rotary, biases) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Yang et al. 2024, "Qwen2", section 2.2; the biases: Bai et al. 2023, "Qwen", section 2.3.
Differs: the paper's dual chunks, for texts beyond the trained length, are left out, as the reference library does.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import llama, mistral
from glassformer.models._config import ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("use_mrope", False)  # multimodal positions, of vision-language models
    attention = llama.attention_spec(reader, bias=True)
    block = llama.block_spec(reader, attention, llama.feed_forward_spec(reader))
    blocks = tuple(replace(block, attention=replace(attention, window=window)) for window in windows(reader))
    rotary = llama.rotary(reader, attention.E, longest=32_768)
    return llama.decoder_spec(reader, blocks, rotary)


def windows(reader: ConfigReader) -> list[int | None]:
    """The attention window of each layer, None for full attention.

    `layer_types` names a kind for each layer; without it, the layers from number `max_window_layers` on slide.
    """
    layers = llama.layer_count(reader)
    window = mistral.window(reader, default=4096)
    first = reader.integer("max_window_layers", default=28, minimum=0)
    if not reader.flag("use_sliding_window", default=False):
        window = None
    kinds = reader.get("layer_types", default=None)
    if kinds is None:
        return [window if i >= first else None for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise ConfigError(
            f"{reader.location}layer_types is {safe_repr(kinds)}; it must be a list with a kind for "
            f"each of {layers} layers"
        )
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedError(
                f"{reader.location}layer_types has {safe_repr(kind)}, which is not supported for a {reader.family!r} "
                "model; supported: full_attention, sliding_attention"
            )
    if window is None and "sliding_attention" in kinds:
        raise ConfigError(
            f"{reader.location}layer_types has 'sliding_attention', but there is no window; "
            "set use_sliding_window to true and sliding_window to a number of tokens"
        )
    return [window if kind == "sliding_attention" else None for kind in kinds]


FAMILY = Family(
    model_type="qwen2",
    distinction="biases on q, k and v alone; sliding windows in the upper layers",
    architectures={
        "Qwen2Model": "feature-extraction",
        "Qwen2ForCausalLM": "text-generation",
        "Qwen2ForSequenceClassification": "text-classification",
        "Qwen2ForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=llama.names,
    tiny={
        **llama.FAMILY.tiny,
        "model_type": "qwen2",
        "tie_word_embeddings": True,
        "use_sliding_window": True,
        "sliding_window": 4,
        "max_window_layers": 1,
    },
)
