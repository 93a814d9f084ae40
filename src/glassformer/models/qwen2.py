"""Qwen2: Llama with biases on q, k and v alone, and sliding-window attention in its upper layers if configured.

    ids ─ [ norm ─ causal attention (rotary, biases) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Yang et al. 2024, "Qwen2", section 2.2; the biases: Bai et al. 2023, "Qwen", section 2.3.
Differs: the paper's dual chunks, for texts beyond the trained length, are left out, as the reference library does.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.errors import ConfigError
from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, Values, constant, flag, nullable_size, size_or_zero
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    bias=constant(True),
    out_bias=constant(False),
    mlp_bias=constant(False),
    sliding_window=nullable_size("sliding_window", 4096, maximum=MAX_ROWS),
    use_window=flag("use_sliding_window", False),
    first_window_layer=size_or_zero("max_window_layers", 28),
    longest=constant(32_768),
    fixed={"use_mrope": False},  # multimodal positions, of vision-language models
)


def text_spec(c: Values) -> TextSpec:
    """The spec, with a window for each layer."""
    block = llama.block_spec(c)
    layers = (replace(block.attention, window=window) for window in windows(c))
    return llama.decoder_spec(c, tuple(replace(block, attention=attention) for attention in layers))


def windows(c: Values) -> list[int | None]:
    """The attention window of each layer, None for full attention.

    `layer_types` names a kind for each layer; without it, the layers from number `max_window_layers` on slide.
    """
    reader, layers = c.reader, c.layers
    window = c.sliding_window if c.use_window else None
    kinds = reader.layer_types(layers)
    if kinds is None:
        return [window if i >= c.first_window_layer else None for i in range(layers)]
    if window is None and "sliding_attention" in kinds:
        raise ConfigError(
            f"{reader.location}layer_types has 'sliding_attention', but there is no window; "
            "set use_sliding_window to true and sliding_window to a number of tokens"
        )
    return [window if kind == "sliding_attention" else None for kind in kinds]


FAMILY = Family(
    model_type="qwen2",
    distinction="biases on q, k and v alone; sliding windows in the upper layers",
    architectures=architectures("Qwen2", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=KEYS.spec(text_spec),
    build=Decoder,
    names=llama.NAMES,
    tiny=KEYS.tiny(
        "qwen2",
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
        **llama.TINY,
    ),
)
