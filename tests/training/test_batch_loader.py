"""Steps take every example of an epoch once, whatever they are measured in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.runs.config import TrainingOptions
from glassformer.training.batch_loader import BatchSampler

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=60).map(np.array)


@given(LENGTHS, st.integers(1, 20), st.integers(0, 5))
def test_batches_of_examples(lengths: np.ndarray, size: int, epoch: int) -> None:
    plan = BatchSampler(TrainingOptions(batch_size=size), lengths)
    steps = [plan.batch_indices(epoch, place) for place in range(plan.steps_per_epoch(epoch))]
    assert sorted(np.concatenate(steps).tolist()) == list(range(len(lengths)))
    assert all(len(step) == size for step in steps[:-1]) and 1 <= len(steps[-1]) <= size


@given(LENGTHS, st.integers(1, 80), st.integers(0, 5))
def test_batches_of_tokens(lengths: np.ndarray, budget: int, epoch: int) -> None:
    plan = BatchSampler(TrainingOptions(batch_tokens=budget), lengths)
    steps = [plan.batch_indices(epoch, place) for place in range(plan.steps_per_epoch(epoch))]
    assert sorted(np.concatenate(steps).tolist()) == list(range(len(lengths)))
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        assert len(step) == 1 or lengths[step].sum() <= budget
        assert after is None or lengths[step].sum() + lengths[after[0]] > budget, "no step leaves room for the next"


def test_how_long() -> None:
    lengths = np.full(10, 5)
    assert BatchSampler(TrainingOptions(batch_size=4, epochs=2), lengths).total_steps() == 6
    assert BatchSampler(TrainingOptions(batch_size=4, epochs=0.5), lengths).total_steps() == 2
    assert BatchSampler(TrainingOptions(batch_size=4, epochs=1.5), lengths).total_steps() == 5
    assert BatchSampler(TrainingOptions(batch_size=1, epochs=1.1), [1] * 10).total_steps() == 11
    assert BatchSampler(TrainingOptions(batch_tokens=10, epochs=3), lengths).total_steps() == 15
    assert BatchSampler(TrainingOptions(steps=7), lengths).total_steps() == 7


@pytest.mark.parametrize("seed", [0, 1])
def test_epochs_have_other_orders(seed: int) -> None:
    plan = BatchSampler(TrainingOptions(batch_size=50, seed=seed), np.ones(50))
    assert plan.batch_indices(0, 0).tolist() != plan.batch_indices(1, 0).tolist()
    still = BatchSampler(TrainingOptions(batch_size=50, shuffle=False), np.ones(50))
    assert still.batch_indices(4, 0).tolist() == list(range(50))


def test_few_rows_have_enough_steps_by_default() -> None:
    """100 rows in 3 epochs are 12 steps of 32, in which nothing is learnt; it is also no use to pause 25 times."""
    few, many = ([10] * count for count in (100, 5_000))
    sampler = BatchSampler(TrainingOptions(), few)
    assert (sampler.total_steps(), sampler.epochs, sampler.epochs_per_pause) == (100, 25, 3)
    sampler = BatchSampler(TrainingOptions(), many)
    assert (sampler.total_steps(), sampler.epochs, sampler.epochs_per_pause) == (3 * 157, 3, 1)
    for options, steps in (({"epochs": 3}, 12), ({"steps": 7}, 7), ({"epochs": 25}, 100)):
        sampler = BatchSampler(TrainingOptions(**options), few)
        assert (sampler.total_steps(), sampler.epochs_per_pause) == (steps, 1)
