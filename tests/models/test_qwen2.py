"""Qwen2: the window of each layer, and biases."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader

QWEN2 = FAMILIES["qwen2"]
PLAIN = {
    key: value
    for key, value in QWEN2.tiny.items()
    if key not in ("use_sliding_window", "sliding_window", "max_window_layers")
}


def spec(**changes: Any) -> Any:
    return QWEN2.spec(ConfigReader({**PLAIN, **changes}))


@pytest.mark.parametrize(
    ("keys", "windows"),
    [
        ({}, [None, None, None]),
        ({"sliding_window": 4, "max_window_layers": 0}, [None, None, None]),  # not used
        ({"use_sliding_window": True, "sliding_window": 4}, [None, None, None]),  # from layer 28 on
        ({"use_sliding_window": True, "max_window_layers": 1}, [None, 4096, 4096]),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 1}, [None, None, None]),
        ({"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}, [None, None, 4]),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 4,
                "max_window_layers": 2,
                "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            },
            [4, None, None],
        ),
    ],
)
def test_the_window_of_each_layer(keys: dict[str, Any], windows: list[int | None]) -> None:
    assert [block.attention.window for block in spec(**keys).blocks.blocks] == windows


@pytest.mark.parametrize(
    ("kinds", "error", "says"),
    [
        (["full_attention"] * 2, ConfigError, "each of 3 layers"),
        ("full_attention", ConfigError, "must be a list"),
        (["full_attention", "sliding_attention", "full_attention"], ConfigError, "set use_sliding_window"),
        (["full_attention", "chunked_attention", "full_attention"], UnsupportedError, "chunked_attention"),
        ([["full_attention"], {}, None], UnsupportedError, "layer_types"),
    ],
)
def test_layer_types_that_cannot_be(kinds: Any, error: type[GlassformerError], says: str) -> None:
    with pytest.raises(error, match=says):
        spec(layer_types=kinds)


def test_q_k_and_v_have_biases_and_nothing_else_has() -> None:
    network = QWEN2.build_on_meta(spec(), "text-generation")
    biased = {name.split(".", 2)[2] for name, _ in network.named_parameters() if name.endswith(".bias")}
    assert biased == {"attn.qkv.bias"}
