"""Steps take every example of an epoch once, whatever they are measured in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.runs.options import Options
from glassformer.training.plan import Plan

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=60).map(np.array)


@given(LENGTHS, st.integers(1, 20), st.integers(0, 5))
def test_batches_of_examples(lengths: np.ndarray, size: int, epoch: int) -> None:
    plan = Plan(Options(batch_size=size), lengths)
    steps = [plan.examples(epoch, place) for place in range(plan.steps(epoch))]
    assert sorted(np.concatenate(steps).tolist()) == list(range(len(lengths)))
    assert all(len(step) == size for step in steps[:-1]) and 1 <= len(steps[-1]) <= size


@given(LENGTHS, st.integers(1, 80), st.integers(0, 5))
def test_batches_of_tokens(lengths: np.ndarray, budget: int, epoch: int) -> None:
    plan = Plan(Options(batch_tokens=budget), lengths)
    steps = [plan.examples(epoch, place) for place in range(plan.steps(epoch))]
    assert sorted(np.concatenate(steps).tolist()) == list(range(len(lengths)))
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        assert len(step) == 1 or lengths[step].sum() <= budget
        assert after is None or lengths[step].sum() + lengths[after[0]] > budget, (
            "no step leaves room for the next"
        )


def test_how_long() -> None:
    lengths = np.full(10, 5)
    assert Plan(Options(batch_size=4, epochs=2), lengths).total() == 6
    assert Plan(Options(batch_size=4, epochs=0.5), lengths).total() == 2
    assert Plan(Options(batch_size=4, epochs=1.5), lengths).total() == 5
    assert Plan(Options(batch_tokens=10, epochs=3), lengths).total() == 15
    assert Plan(Options(steps=7), lengths).total() == 7


@pytest.mark.parametrize("seed", [0, 1])
def test_epochs_have_other_orders(seed: int) -> None:
    plan = Plan(Options(batch_size=50, seed=seed), np.ones(50))
    assert plan.examples(0, 0).tolist() != plan.examples(1, 0).tolist()
    still = Plan(Options(batch_size=50, shuffle=False), np.ones(50))
    assert still.examples(4, 0).tolist() == list(range(50))
