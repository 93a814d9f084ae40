"""Quantisation: errors are at most half a step, 0 is exact, groups have their own scales, and gradients pass."""

from __future__ import annotations

import doctest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.compression import quantise
from glassformer.compression.quantise import (
    Scheme,
    affine_grid,
    fake_quantise,
    fixed_point,
    floating_point,
    grid_of,
    round_to_nearest,
    symmetric_grid,
)
from glassformer.core.levels import dequantise, level_range, pack, unpack
from glassformer.errors import ConfigError

numbers = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40).map(torch.tensor)


def test_the_examples_of_the_documentation() -> None:
    assert doctest.testmod(quantise) == (0, doctest.testmod(quantise).attempted)
    assert doctest.testmod(quantise).attempted >= 6


@settings(deadline=None)
@given(numbers, st.sampled_from([2, 4, 8]), st.booleans())
def test_a_number_in_the_range_is_at_most_half_a_step_off(x: Tensor, bits: int, symmetric: bool) -> None:
    grid = grid_of(x.double(), bits, symmetric=symmetric)
    # The zero point is rounded, so that an affine range may end up to half a step earlier.
    steps = 0.5 if symmetric else 1.0
    assert ((grid.round(x.double()) - x).abs() <= grid.scale * steps * (1 + 1e-9)).all()


@settings(deadline=None)
@given(numbers, st.sampled_from([4, 8]), st.booleans())
def test_zero_is_exact(x: Tensor, bits: int, symmetric: bool) -> None:
    assert (grid_of(x, bits, symmetric=symmetric).round(torch.zeros(3)) == 0).all()


def test_the_grid_of_the_book() -> None:
    grid = affine_grid(torch.tensor(-0.2).double(), torch.tensor(0.2).double(), 8)
    assert grid.scale.item() == pytest.approx(0.4 / 255)
    x = torch.linspace(-0.2, 0.199, 2001, dtype=torch.float64)
    levels = grid.levels(x)
    assert levels.min() <= -127 and levels.max() == 127  # -0.2 lies in the middle between two levels
    assert float((grid.numbers(levels) - x).abs().max()) <= 0.4 / 255 / 2 * (1 + 1e-9)


def test_137_035_as_floating_and_as_fixed_point() -> None:
    sign, exponent, fraction = floating_point(137.035)
    value = (-1) ** int(sign) * (1 + int(fraction, 2) / 2**23) * 2.0 ** (int(exponent, 2) - 127)
    assert value == torch.tensor(137.035).item()
    assert fixed_point(137.035, 1e-3) == 137_035
    assert floating_point(-1.0) == ("1", "01111111", "0" * 23)


def test_finer_scales_make_smaller_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(16, 128, generator=generator) * torch.linspace(0.01, 1, 16)[:, None]
    weight[:, :32] *= 10
    tensor = symmetric_grid(weight.abs().amax(), 4).round(weight)
    channel, group = (round_to_nearest(weight, Scheme(4, size)) for size in (0, 32))
    errors = [
        float((x - weight).square().sum())
        for x in (tensor, dequantise(channel.levels, channel.scale), dequantise(group.levels, group.scale))
    ]
    assert errors[0] > errors[1] > errors[2]
    assert group.scale.shape == (16, 4)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 8), (4, 0)])
def test_a_weight_is_half_a_step_off(bits: int, group: int, symmetric: bool) -> None:
    weight = torch.randn(5, 24, generator=torch.Generator().manual_seed(1)) + 0.3
    made = round_to_nearest(weight, Scheme(bits, group, symmetric))
    back = dequantise(made.levels, made.scale, made.zero)
    step = made.scale.repeat_interleave(24 // made.scale.shape[1], 1)
    assert ((back - weight).abs() <= step * (0.5 if symmetric else 1.0) * 1.0001).all()
    low, high = level_range(bits)
    assert made.levels.min() >= low and made.levels.max() <= high
    assert (made.zero is None) == symmetric


def test_groups_that_do_not_divide_a_width_are_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"blocks.0 has 96 columns.*groups of 64 do not.*32, 16, 8"):
        round_to_nearest(torch.zeros(2, 96), Scheme(4, 64), "blocks.0")
    with pytest.raises(ConfigError, match="group_size 0, the whole row"):
        round_to_nearest(torch.zeros(2, 7), Scheme(4, 2), "it")


@pytest.mark.parametrize(("options", "message"), [((3,), "8"), ((16,), "4 or 8"), ((4, -1), "group_size is -1")])
def test_schemes_that_cannot_be_stored(options: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scheme(*options)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 2**31))
def test_packing_is_undone_by_unpacking(rows: int, columns: int, seed: int) -> None:
    levels = torch.randint(-8, 8, (rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    packed = pack(levels)
    assert packed.dtype == torch.int32 and packed.shape == (rows, -(-columns // 8))
    assert torch.equal(unpack(packed, columns), levels)


def test_an_order_of_columns_gives_each_its_group() -> None:
    levels, scale = torch.tensor([[1, 2, 3, 4]], dtype=torch.int8), torch.tensor([[1.0, 10.0]])
    order, zero = torch.tensor([0, 1, 1, 0]), torch.tensor([[1, 0]], dtype=torch.int8)
    assert dequantise(levels, scale, None, order).tolist() == [[1, 20, 30, 4]]
    assert dequantise(levels, scale, zero, order).tolist() == [[0, 20, 30, 3]]
    assert dequantise(levels, scale, zero).tolist() == [[0, 1, 30, 40]]


def test_the_gradient_passes_straight_through_and_stops_outside_the_range() -> None:
    x = torch.tensor([-3.0, -0.96, 0.3, 0.99, 2.0], requires_grad=True)
    y = fake_quantise(x, symmetric_grid(torch.tensor(1.0), 4))
    assert torch.allclose(y * 7, (y * 7).round(), atol=1e-6)
    (y * torch.arange(1.0, 6.0)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 2, 3, 4, 0]
