"""Position encodings: formulas, the reference library's numbers, and shift invariance of relative positions."""

from __future__ import annotations

import pytest
import torch

from glassformer.core import (
    BucketedBias,
    BucketedBiasSpec,
    HalvedSinusoidal,
    HalvedSinusoidalSpec,
    LearnedPositionsSpec,
    Sinusoidal,
    SinusoidalSpec,
)
from glassformer.core.positions import LearnedPositions
from tests.core.small import assert_close, perturbed

CPU = torch.device("cpu")


def waves(count: int, width: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return Sinusoidal(SinusoidalSpec(count=count), width)(torch.arange(count)[None], dtype)


# ── sinusoidal ───────────────────────────────────────────────────────────────────────────────────────────


def test_cl_21_values_are_the_papers_formula_one_by_one() -> None:
    encoded = waves(50, 12)
    assert encoded.shape == (1, 50, 12)  # batch first
    for p in range(50):
        for i in range(6):
            angle = torch.tensor(p / 10_000 ** (2 * i / 12), dtype=torch.float64)
            assert_close(encoded[0, p, 2 * i], angle.sin(), 1e-12)
            assert_close(encoded[0, p, 2 * i + 1], angle.cos(), 1e-12)


def test_cl_21_position_0_is_0_1_0_1() -> None:
    assert waves(1, 8).tolist() == [[[0.0, 1.0] * 4]]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_cl_21_a_shift_by_k_is_one_linear_map_for_all_positions(k: int) -> None:
    encoded = waves(300, 16)[0]
    here, there = encoded[: 300 - k], encoded[k:]
    frequencies = 10_000.0 ** -(torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    turns = [torch.stack([torch.stack([a.cos(), a.sin()]), torch.stack([-a.sin(), a.cos()])]) for a in k * frequencies]
    assert_close(here @ torch.block_diag(*turns).T, there, 1e-12)  # the map rotates each pair; it knows k, not p


def test_waves_are_computed_in_fp32_whatever_the_networks_dtype() -> None:
    assert torch.equal(waves(5000, 16, torch.bfloat16), waves(5000, 16, torch.float32).bfloat16())


def test_an_odd_width_leaves_out_the_last_cosine() -> None:
    sinusoidal = Sinusoidal(SinusoidalSpec(count=9), 7)
    encoded = sinusoidal(torch.arange(9)[None], torch.float64)
    assert encoded.shape == (1, 9, 7)
    assert_close(encoded[0, :, 6], (torch.arange(9) / 10_000 ** (6 / 7)).double().sin(), 1e-6)


@pytest.mark.parametrize("width", [8, 7], ids=["even", "odd"])
def test_halved_waves_are_the_papers_in_another_order(width: int) -> None:
    halved = HalvedSinusoidalSpec(count=9).make(width)
    assert isinstance(halved, HalvedSinusoidal)
    encoded = halved(torch.arange(9)[None], torch.float64)
    paper = waves(9, width)
    assert_close(encoded, torch.cat([paper[..., 0::2], paper[..., 1::2]], dim=-1), 1e-12)
    assert encoded[0, 0].tolist() == [0.0] * (width - width // 2) + [1.0] * (width // 2)


# ── learned ──────────────────────────────────────────────────────────────────────────────────────────────


def test_cl_20_learned_positions_are_rows_of_a_table() -> None:
    table = LearnedPositionsSpec(count=512).make(768)
    assert isinstance(table, LearnedPositions) and table.weight.shape == (512, 768)
    positions = torch.tensor([[0, 3, 511]])
    assert torch.equal(table(positions), table.weight[positions])


def test_an_offset_shifts_the_rows_and_makes_room_for_them() -> None:
    table = LearnedPositions(LearnedPositionsSpec(count=10, offset=2), 4)
    assert table.weight.shape == (12, 4)
    assert torch.equal(table(torch.tensor([[0, 9]])), table.weight[[2, 11]][None])


# ── bucketed bias ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 256), (4, 3)])
def test_cl_22_buckets_equal_the_reference(bidirectional: bool, buckets: int, max_distance: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    bias = BucketedBias(
        BucketedBiasSpec(heads=2, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    )
    distance = torch.arange(-1000, 1001)[None]
    theirs = T5Attention._relative_position_bucket(distance, bidirectional, buckets, max_distance)
    assert torch.equal(bias.buckets(distance), theirs)
    assert bias.buckets(distance).max() == buckets - 1 and bias.buckets(distance).min() == 0


def test_cl_22_the_bias_equals_the_reference() -> None:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    theirs = T5Attention(T5Config(d_model=32, num_heads=4, d_kv=8), has_relative_attention_bias=True)
    ours = BucketedBias(BucketedBiasSpec(heads=4))
    ours.table.load_state_dict(theirs.relative_attention_bias.state_dict())
    with torch.no_grad():
        assert torch.equal(ours(40, 40, CPU), theirs.compute_bias(40, 40))


def test_the_bias_depends_on_distance_alone_and_queries_end_where_keys_end() -> None:
    bias = perturbed(BucketedBias(BucketedBiasSpec(heads=3, buckets=8, max_distance=12)))
    whole = bias(9, 9, CPU)
    assert whole.shape == (1, 3, 9, 9)
    assert torch.equal(bias(2, 9, CPU), whole[:, :, 7:])
    assert torch.equal(whole[:, :, 1:, 1:], whole[:, :, :-1, :-1])
