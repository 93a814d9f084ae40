"""Chance that can be repeated: after a restore every generator draws what it would have drawn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.data.order import example_generator
from glassformer.errors import ConfigError, WeightsError
from glassformer.training.randomness import capture, restore, seed_all
from glassformer.training.state import read_state, write_state


def drawn() -> list[float]:
    """A few numbers of each generator; those of the normal distribution come in pairs, of which one waits."""
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.normal()),
        float(torch.rand(1)),
        *torch.nn.functional.dropout(torch.ones(9)).tolist(),
    ]


@pytest.mark.parametrize("before", range(3))
def test_after_a_restore_all_goes_on_as_it_would_have(tmp_path: Path, before: int) -> None:
    seed_all(3)
    for _ in range(before):
        drawn()
    write_state(tmp_path, capture(), {})
    wanted = [drawn() for _ in range(3)]
    seed_all(4)
    drawn()
    restore(read_state(tmp_path)[0])
    assert [drawn() for _ in range(3)] == wanted


def test_capturing_draws_nothing() -> None:
    seed_all(3)
    wanted = drawn()
    seed_all(3)
    capture()
    assert drawn() == wanted


def test_a_seed_decides_everything() -> None:
    found = []
    for seed in (0, 0, 1, 2**31, 2**32 - 1):
        seed_all(seed)
        found.append(drawn())
    assert found[0] == found[1]
    for place in (0, 2, 4):  # each generator by itself
        assert len({values[place] for values in found}) == 4


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"got {seed}"):
        seed_all(seed)


@pytest.mark.parametrize("wrong", [(-1, 0, 0), (2**128, 0, 0), (0, -1, 0), (0, 2**64, 0), (0, 0, -1), (0, 0, 2**64)])
def test_an_example_out_of_range_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="whole numbers from 0 on"):
        example_generator(*wrong)


def test_a_state_that_lacks_one_or_is_none_is_refused() -> None:
    state = capture()
    with pytest.raises(WeightsError, match="lacks 'numpy'"):
        restore({name: tensor for name, tensor in state.items() if name != "numpy"})
    with pytest.raises(WeightsError, match="cannot be restored"):
        restore({**state, "torch": torch.ones(3)})
    restore(state)


def test_another_generator_of_numpy_is_refused() -> None:
    own: Any = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        with pytest.raises(ConfigError, match="replaced by PCG64"):
            capture()
    finally:
        np.random.set_bit_generator(own)


def test_an_example_draws_the_same_whenever_and_wherever() -> None:
    first = example_generator(5, 1, 77).normal(size=4)
    example_generator(5, 1, 78).random(1000)
    np.random.seed(0)
    assert (example_generator(5, 1, 77).normal(size=4) == first).all()


def test_neighbours_draw_nothing_alike() -> None:
    keys = [(s, e, i) for s in (0, 1, 2**64) for e in range(5) for i in (*range(40), 2**40)]
    draws = np.stack([example_generator(*key).integers(0, 2**63, size=50) for key in keys])
    assert len(np.unique(draws)) == draws.size


def test_the_draws_of_neighbours_are_even_and_independent() -> None:
    """The first number that each of 20,000 examples draws: as from one good generator."""
    first = np.array([example_generator(1, 0, index).random(2) for index in range(20_000)])
    assert abs(first.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(first[:, 0], first[:, 1])[0, 1]) < 0.03
    counts = np.histogram(first[:, 0], bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi², 19 degrees of freedom: 1 in 1,000
