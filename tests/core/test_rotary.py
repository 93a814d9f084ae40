"""Rotary position embedding: the formula, its scalings for long texts, and the reference library's numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    Rotary,
    RotarySpec,
    YarnScaling,
)
from glassformer.core.masks import Packing
from glassformer.core.rotary import RotaryScaling, rotate
from tests.core.small import assert_close, examples

SCALINGS: dict[str, tuple[RotaryScaling | None, dict[str, Any]]] = {
    "default": (None, {"rope_type": "default", "rope_theta": 10_000.0}),
    "theta": (None, {"rope_type": "default", "rope_theta": 500_000.0}),
    "linear": (LinearScaling(factor=4.0), {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}),
    "llama3": (
        Llama3Scaling(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_positions=1024),
        {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024,
        },
    ),
    "yarn": (
        YarnScaling(factor=8.0, original_positions=1024),
        {
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 1024,
        },
    ),
    "yarn, all said": (
        YarnScaling(
            factor=8.0,
            original_positions=1024,
            beta_fast=20.0,
            beta_slow=2.0,
            truncate=False,
            attention_factor=0.9,
        ),
        {
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 1024,
            "beta_fast": 20.0,
            "beta_slow": 2.0,
            "truncate": False,
            "attention_factor": 0.9,
        },
    ),
    "dynamic": (
        DynamicScaling(factor=2.0, original_positions=2048),
        {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0},
    ),
    "longrope": (
        LongScaling(
            short_factors=(1.0, 1.1, 1.2, 1.5),
            long_factors=(1.0, 2.0, 5.0, 8.0),
            factor=8.0,
            original_positions=1024,
        ),
        {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "short_factor": [1.0, 1.1, 1.2, 1.5],
            "long_factor": [1.0, 2.0, 5.0, 8.0],
            "original_max_position_embeddings": 1024,
        },
    ),
}
EXACT = {"default", "theta", "linear"}  # the others are the same formula in another order


def angles(spec: RotarySpec, positions: list[int]) -> torch.Tensor:
    """The angle of each wave at each position, from cosines and sines. [T, width/2]"""
    cos, sin = Rotary(spec)(torch.tensor([positions]), torch.float64)
    return torch.atan2(sin, cos)[0, 0, :, : spec.width // 2]


@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("kind", SCALINGS)
def test_cl_22_rotary_equals_the_reference(kind: str, width: int) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    scaling, parameters = SCALINGS[kind]
    if isinstance(scaling, LongScaling):
        width = 8  # it has a factor for each wave
    trained = scaling.original_positions if isinstance(scaling, DynamicScaling) else 8192
    config = LlamaConfig(
        hidden_size=4 * width,
        num_attention_heads=4,
        max_position_embeddings=trained,
        rope_parameters=parameters,
    )
    long = torch.stack([torch.arange(64), torch.randint(0, 8192, (64,))])
    for positions in (long, long.clamp(max=1023)):
        q, k = torch.randn(2, 4, 64, width), torch.randn(2, 2, 64, width)
        # One row at a time: theirs takes the length of the longest for all.
        alone = [LlamaRotaryEmbedding(config)(q, row[None]) for row in positions]
        cos, sin = (torch.cat(rows) for rows in zip(*alone, strict=True))
        theirs = apply_rotary_pos_emb(q, k, cos, sin)
        ours = Rotary(RotarySpec(width=width, theta=parameters["rope_theta"], scaling=scaling))(positions, q.dtype)
        if kind in EXACT:
            assert torch.equal(ours[0][:, 0], cos) and torch.equal(ours[1][:, 0], sin)
        else:
            assert_close(ours[0][:, 0], cos)
            assert_close(ours[1][:, 0], sin)
        for x, expected in zip((q, k), theirs, strict=True):
            assert_close(rotate(x, ours), expected)


def test_the_llama3_ramp_keeps_fast_waves_and_stretches_slow_ones() -> None:
    scaling = Llama3Scaling(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_positions=1024)
    one = torch.ones(1, 1, dtype=torch.long)
    plain = Rotary(RotarySpec(width=64))(one, torch.float64)[1].asin().flatten()[:32]  # the angles at position 1
    ramped = Rotary(RotarySpec(width=64, scaling=scaling))(one, torch.float64)[1].asin().flatten()[:32]
    turns = 1024 * plain / (2 * torch.pi)
    assert_close(ramped[turns > 4], plain[turns > 4], 1e-12)
    assert_close(ramped[turns < 1], plain[turns < 1] / 8, 1e-12)
    between = (turns > 1) & (turns < 4)
    assert between.any() and ((ramped < plain) & (ramped > plain / 8))[between].all()


@examples(30)
@given(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 2000), st.sampled_from([4, 8]))
def test_cl_22_scores_depend_on_the_difference_of_positions_alone(a: int, b: int, shift: int, width: int) -> None:
    rotary = Rotary(RotarySpec(width=width))
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def score(at: int, to: int) -> torch.Tensor:
        q_turned = rotate(q, rotary(torch.tensor([[at]]), q.dtype))
        return (q_turned * rotate(k, rotary(torch.tensor([[to]]), k.dtype))).sum()

    assert_close(score(a, b), score(a + shift, b + shift), 1e-9)


def test_a_rotation_keeps_lengths_leaves_position_0_and_what_lies_beyond_its_width() -> None:
    x = torch.randn(2, 4, 6, 16, dtype=torch.float64)
    rotary = Rotary(RotarySpec(width=10))
    turned = rotate(x, rotary(torch.arange(6)[None], x.dtype))
    assert torch.equal(turned[..., 10:], x[..., 10:])
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), 1e-12)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert (turned[:, :, 1, :10] != x[:, :, 1, :10]).all()
    first, second = x[..., 3], x[..., 8]  # pair i with i + width/2
    angle = torch.arange(6) * 10_000.0 ** -torch.tensor(6 / 10, dtype=torch.float64)
    assert_close(turned[..., 3], first * angle.cos() - second * angle.sin(), 1e-12)


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_is_the_papers_formula_wave_by_wave(truncate: bool) -> None:
    scaling = YarnScaling(factor=4.0, original_positions=2048, truncate=truncate)
    scaled = angles(RotarySpec(width=64, scaling=scaling), [1])[0]
    ends = [64 * math.log(2048 / (2 * math.pi * turns)) / (2 * math.log(10_000)) for turns in (32, 1)]
    if truncate:
        ends = [math.floor(ends[0]), math.ceil(ends[1])]
    for i in range(32):
        plain = 10_000 ** (-2 * i / 64)
        kept = 1 - min(max((i - ends[0]) / (ends[1] - ends[0]), 0), 1)
        assert scaled[i].item() == pytest.approx(kept * plain + (1 - kept) * plain / 4, rel=1e-9)


def test_yarn_and_longrope_sharpen_attention() -> None:
    """Scores are multiplied by the square of the factor on cosines and sines."""
    one = torch.tensor([[5]])
    yarn = YarnScaling(factor=4.0, original_positions=64)
    for scaling, factor in (
        (yarn, 0.1 * math.log(4) + 1),
        (YarnScaling(factor=0.5, original_positions=64), 1.0),
        (YarnScaling(factor=4.0, original_positions=64, attention_factor=0.7), 0.7),
        (long_scaling(), math.sqrt(1 + math.log(4) / math.log(16))),
        (long_scaling(factor=1.0), 1.0),
        (long_scaling(attention_factor=1.2), 1.2),
    ):
        cos, sin = Rotary(RotarySpec(width=8, scaling=scaling))(one, torch.float64)
        assert_close(cos**2 + sin**2, torch.full_like(cos, factor**2), 1e-12)


def long_scaling(**changes: Any) -> LongScaling:
    lists = {"short_factors": (1.0, 1.0, 2.0, 3.0), "long_factors": (1.0, 4.0, 6.0, 9.0)}
    return LongScaling(**{**lists, "factor": 4.0, "original_positions": 16, **changes})


def test_longrope_changes_its_factors_where_the_trained_length_ends() -> None:
    plain = angles(RotarySpec(width=8), [1])[0]
    spec = RotarySpec(width=8, scaling=long_scaling())
    assert_close(angles(spec, [1, 15])[0], plain / torch.tensor([1.0, 1.0, 2.0, 3.0]), 1e-12)
    assert_close(angles(spec, [1, 16])[0], plain / torch.tensor([1.0, 4.0, 6.0, 9.0]), 1e-12)


def test_dynamic_scaling_grows_with_the_text_beyond_the_trained_length() -> None:
    plain = angles(RotarySpec(width=8), [1])[0]
    spec = RotarySpec(width=8, scaling=DynamicScaling(factor=3.0, original_positions=16))
    assert_close(angles(spec, [1, 15])[0], plain, 1e-12)
    for tokens in (17, 40):
        scaled = angles(spec, [1, tokens - 1])[0]
        assert scaled[0] == plain[0]  # the fastest wave
        assert_close(plain[-1] / scaled[-1], torch.tensor(3 * tokens / 16 - 2, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize(
    "scaling",
    [DynamicScaling(factor=3.0, original_positions=16), long_scaling()],
    ids=["dynamic", "longrope"],
)
def test_each_text_counts_for_itself_padded_or_packed(scaling: RotaryScaling) -> None:
    rotary = Rotary(RotarySpec(width=8, scaling=scaling))
    short, long = torch.arange(12)[None], torch.arange(20)[None]
    alone, long_alone = rotary(short, torch.float64)[1], rotary(long, torch.float64)[1]
    padded = rotary(torch.cat([long, torch.nn.functional.pad(short, (0, 8))]), torch.float64)[1]
    packed = rotary(torch.cat([long, short], dim=1), torch.float64, Packing((20, 12)))[1]
    assert torch.equal(padded[:1], long_alone) and torch.equal(packed[:, :, :20], long_alone)
    assert torch.equal(padded[1:, :, :12], alone) and torch.equal(packed[:, :, 20:], alone)
    assert not torch.allclose(long_alone[:, :, :12], alone)


@pytest.mark.parametrize("kind", [kind for kind, (scaling, _) in SCALINGS.items() if scaling is not None])
def test_scores_depend_on_the_difference_of_positions_alone_with_scaling_too(kind: str) -> None:
    scaling, _ = SCALINGS[kind]
    rotary = Rotary(RotarySpec(width=8, scaling=scaling))
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    end = torch.tensor(3000)

    def score(at: int, to: int) -> torch.Tensor:
        cos, sin = rotary(torch.stack([torch.tensor(at), torch.tensor(to), end])[None], q.dtype)
        turned = [rotate(x, (cos[:, :, i : i + 1], sin[:, :, i : i + 1])) for i, x in enumerate((q, k))]
        return (turned[0] * turned[1]).sum()

    assert_close(score(7, 30), score(1007, 1030), 1e-9)
