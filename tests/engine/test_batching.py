"""Which texts go together: nothing lost, nothing over the budget, equal lengths side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.engine.batching import plan_batches, run_planned
from glassformer.errors import ConfigError

LENGTHS = st.lists(st.integers(1, 300), max_size=200)


def test_the_picture_of_the_module() -> None:
    lengths = [7, 3, 9, 3, 7, 3]
    assert [[lengths[i] for i in p] for p in plan_batches(lengths, 14)] == [[3, 3, 3], [7, 7], [9]]


@given(LENGTHS, st.integers(1, 2_000))
def test_every_text_once_in_order_of_length(lengths: list[int], budget: int) -> None:
    batches = plan_batches(lengths, budget)
    flat = [index for one in batches for index in one]
    assert sorted(flat) == list(range(len(lengths)))
    # Equal lengths stand side by side, in the order they were given: a plan is the same every time.
    assert all((lengths[a], a) < (lengths[b], b) for a, b in pairwise(flat))


@given(LENGTHS, st.integers(1, 2_000))
def test_no_pass_is_empty_or_over_the_budget(lengths: list[int], budget: int) -> None:
    for one in plan_batches(lengths, budget):
        assert one
        assert sum(lengths[i] for i in one) <= budget or len(one) == 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=200), st.integers(200, 2_000))
def test_passes_are_about_equally_full(lengths: list[int], budget: int) -> None:
    """No two neighbours would fit into one, but for what one text more or less makes."""
    tokens = [sum(lengths[i] for i in one) for one in plan_batches(lengths, budget)]
    assert all(a + b > budget - 2 * max(lengths) for a, b in pairwise(tokens))
    assert len(tokens) <= sum(lengths) / (budget - max(lengths)) + 1


def test_an_over_long_text_goes_alone() -> None:
    assert plan_batches([5, 1000, 5, 2000], 100) == [[0, 2], [1], [3]]


def test_nothing_to_do() -> None:
    assert plan_batches([], 100) == []


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_of_nothing_is_refused(budget: int) -> None:
    with pytest.raises(ConfigError, match=f"batch_tokens is {budget}"):
        plan_batches([1], budget)


def test_a_batch_that_does_not_fit_is_split_and_every_text_runs_once() -> None:
    lengths, tried = [4, 3, 2, 1, 5], []

    def run(batch: Sequence[int]) -> int:
        tried.append(sum(lengths[i] for i in batch))
        if tried[-1] > 5:
            raise MemoryError
        return tried[-1]

    ran = list(run_planned(plan_batches(lengths, 20), lengths, run, lambda error: 5))
    assert tried[0] == 15
    assert sorted(index for batch, _ in ran for index in batch) == [0, 1, 2, 3, 4]
    assert all(tokens == sum(lengths[i] for i in batch) <= 5 for batch, tokens in ran)


@pytest.mark.parametrize("lengths, split", [([7], lambda error: 1), ([1, 1], lambda error: None), ([1, 1], None)])
def test_an_error_that_splitting_does_not_help_is_raised(
    lengths: list[int], split: Callable[[Exception], int | None] | None
) -> None:
    def run(batch: Sequence[int]) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        list(run_planned(plan_batches(lengths, 20), lengths, run, split))
