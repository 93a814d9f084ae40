"""Phi-3: partial rotary positions, and fused matrices."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.core import LongScaling
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES, ConfigReader
from glassformer.weights.names import Slice

PHI3 = FAMILIES["phi3"]


def spec(**changes: Any) -> Any:
    return PHI3.spec(ConfigReader({**PHI3.tiny, "partial_rotary_factor": None, **changes}))


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ({}, 8),
        ({"partial_rotary_factor": 0.75}, 6),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, 4),
        ({"partial_rotary_factor": 0.75, "rope_parameters": {"partial_rotary_factor": 0.5}}, 4),
    ],
)
def test_how_much_of_a_head_turns(keys: dict[str, Any], width: int) -> None:
    assert spec(**keys).blocks.blocks[0].attention.rotary.width == width


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.5])
def test_a_share_of_a_head_that_cannot_turn(share: float) -> None:
    with pytest.raises(ConfigError, match="partial_rotary_factor"):
        spec(partial_rotary_factor=share)


@pytest.mark.parametrize("kind", ["longrope", "su", "yarn"])
def test_longrope_has_three_names(kind: str) -> None:
    rope = {"type": kind, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    read = spec(rope_scaling=rope, max_position_embeddings=131_072)
    scaling = read.blocks.blocks[0].attention.rotary.scaling
    assert isinstance(scaling, LongScaling)
    assert scaling.original_positions == 4096 and scaling.factor == 32  # the default stands outside the section


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"short_factor": [1.0] * 3}, "short_factor is .* a list of 4 numbers"),
        ({"long_factor": [1.0, 1.0, 0.0, 1.0]}, "long_factor is .* a list of 4 numbers above 0"),
        ({"long_factor": None}, "has no 'long_factor'"),
        ({"attention_factor": -1.0}, "attention_factor is -1.0"),
    ],
)
def test_longrope_of_wrong_factors(changes: dict[str, Any], says: str) -> None:
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, **changes}
    with pytest.raises(ConfigError, match=says):
        spec(rope_scaling=rope)


@pytest.mark.parametrize("original", [0, 1, 1.5, "many"])
def test_longrope_of_a_wrong_original_length(original: Any) -> None:
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    with pytest.raises(ConfigError, match="original_max_position_embeddings is"):
        spec(rope_scaling=rope, original_max_position_embeddings=original)


def test_defaults_that_are_not_llamas() -> None:
    read = spec(sliding_window=None)
    assert read.final_norm.eps == read.blocks.blocks[0].residual.before.eps == 1e-5
    assert read.blocks.blocks[0].attention.window is None
    without = {key: value for key, value in PHI3.tiny.items() if key != "sliding_window"}
    assert PHI3.spec(ConfigReader(without)).blocks.blocks[0].attention.window is None


def test_gate_and_up_are_rows_of_one_matrix() -> None:
    table = PHI3.names(spec(), "text-generation")
    for number, ours in enumerate(("gate", "up")):
        rule, theirs = table.find(f"blocks.2.ffn.{ours}.weight", prefixed=True)
        assert theirs == ["model.layers.2.mlp.gate_up_proj.weight"]
        assert isinstance(rule, Slice) and rule.number == number
        assert rule.shapes((48, 32)) == [(96, 32)]
