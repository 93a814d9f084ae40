"""Attention masks against their definition, written out one pair at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.masks import AttentionPattern, Mask, Packing, from_additive
from glassformer.errors import ConfigError
from tests.core.small import examples

CPU = torch.device("cpu")
few = examples(40)


def test_cl_10_the_causal_mask_of_five_is_the_lower_triangle() -> None:
    printed = """1 0 0 0 0
                 1 1 0 0 0
                 1 1 1 0 0
                 1 1 1 1 0
                 1 1 1 1 1"""
    expected = [[cell == "1" for cell in row.split()] for row in printed.splitlines()]
    assert AttentionPattern(causal=True).keep(5, 5).tolist() == expected


def test_the_drawings_of_the_module() -> None:
    assert AttentionPattern(causal=True).keep(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    windowed = AttentionPattern(causal=True, window=2).keep(4, 4).int().tolist()
    assert windowed == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


@few
@given(st.integers(1, 7), st.integers(0, 6), st.booleans(), st.none() | st.integers(1, 9))
def test_a_pattern_is_its_definition(T: int, past: int, causal: bool, window: int | None) -> None:
    S = T + past
    keep = AttentionPattern(causal, window).keep(T, S)
    for t in range(T):
        for s in range(S):
            distance = s - (past + t)  # the last query stands at the last key
            seen = (distance <= 0 or not causal) and (window is None or abs(distance) < window)
            assert keep[t, s] == seen


@few
@given(st.data())
def test_joined_masks_hide_what_either_hides(data: st.DataObject) -> None:
    T, past, B = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 4)), data.draw(st.integers(1, 3))
    S = T + past
    pattern = AttentionPattern(data.draw(st.booleans()), data.draw(st.none() | st.integers(1, 6)))
    rows = data.draw(st.sampled_from([1, T]))
    cells = data.draw(st.lists(st.booleans(), min_size=B * rows * S, max_size=B * rows * S))
    keep = torch.tensor(cells).view(B, rows, S)
    for given_keep in (keep, None):
        dense = Mask.combine(pattern, given_keep, T, S, CPU).dense(T, S, CPU)
        expected = pattern.keep(T, S).expand(B, T, S)
        if given_keep is not None:
            expected = expected & given_keep
        seen = torch.ones(B, 1, T, S, dtype=torch.bool) if dense is None else dense.expand(B, 1, T, S)
        assert torch.equal(seen[:, 0], expected)


def test_no_mask_is_made_where_the_kernel_needs_none() -> None:
    assert Mask.combine(AttentionPattern(), None, 3, 5, CPU) == Mask()
    assert Mask.combine(AttentionPattern(causal=True), None, 4, 4, CPU) == Mask(is_causal=True)
    assert Mask.combine(AttentionPattern(causal=True), None, 1, 9, CPU) == Mask(), "the newest token sees every key"
    assert Mask.combine(AttentionPattern(causal=True), None, 2, 9, CPU).keep is not None
    assert Mask.combine(AttentionPattern(causal=True, window=3), None, 1, 9, CPU).keep is not None


@pytest.mark.parametrize("shape", [(2, 5), (2, 1, 4), (2, 3, 5), (2, 1, 1, 5)])
def test_a_mask_that_does_not_fit_names_both_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError) as error:
        Mask.combine(AttentionPattern(), torch.ones(shape, dtype=torch.bool), 2, 5, CPU)
    assert str(list(shape)) in str(error.value) and "[B, 2, 5]" in str(error.value)


@pytest.mark.parametrize("dtype", [torch.long, torch.float32])
def test_a_mask_of_numbers_is_refused_not_added(dtype: torch.dtype) -> None:
    with pytest.raises(ConfigError, match="bool"):
        Mask.combine(AttentionPattern(), torch.ones(2, 1, 5, dtype=dtype), 5, 5, CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_cl_05_additive_masks_become_boolean(dtype: torch.dtype) -> None:
    mask = torch.tensor([0.0, -torch.inf, torch.finfo(dtype).min, -1.5], dtype=dtype)
    assert from_additive(mask).tolist() == [True, False, False, True]


@few
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_packing_equals_its_definition(lengths: list[int]) -> None:
    packing = Packing(tuple(lengths))
    text = [i for i, length in enumerate(lengths) for _ in range(length)]
    assert packing.tokens == len(text)
    assert packing.positions().tolist() == [[p for length in lengths for p in range(length)]]
    assert packing.starts == tuple(text.index(i) for i in range(len(lengths)))
    assert packing.keep().tolist() == [[[a == b for b in text] for a in text]]


@few
@given(st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_groups_are_runs_of_equal_length_that_cover_the_row(lengths: list[int]) -> None:
    groups = list(Packing(tuple(lengths)).groups())
    assert [length for _, texts, length in groups for _ in range(texts)] == lengths
    assert all(a[2] != b[2] for a, b in pairwise(groups)), "neighbours are merged"
    end = 0
    for start, texts, length in groups:
        assert start == end
        end = start + texts * length


@pytest.mark.parametrize("lengths", [(), (3, 0), (-1,)])
def test_empty_packed_texts_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"Packing\.lengths"):
        Packing(lengths)
