"""An order is a permutation, another for each seed and epoch, and needs nothing but the numbers it is asked with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import ShuffledOrder
from glassformer.errors import DataError


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1), st.integers(0, 100))
def test_each_stands_once(count: int, seed: int, epoch: int) -> None:
    order = ShuffledOrder(count, seed=seed)
    whole = order.at(epoch, range(count))
    assert sorted(whole.tolist()) == list(range(count))
    places = [count - 1, 0, count // 2]
    assert order.at(epoch, places).tolist() == whole[places].tolist(), "a place does not depend on its neighbours"


def test_seeds_and_epochs_are_unlike() -> None:
    indices = [ShuffledOrder(1000, seed=seed).at(epoch, range(1000)) for seed in (0, 1) for epoch in (0, 1)]
    for i, one in enumerate(indices):
        for other in indices[:i]:
            assert (one == other).mean() < 0.01
    assert ShuffledOrder(5, seed=1, shuffled=False).at(3, range(5)).tolist() == [0, 1, 2, 3, 4]


def test_it_is_shuffled_well() -> None:
    """Every example comes first about equally often, and neighbours do not stay neighbours."""
    firsts = np.bincount([int(ShuffledOrder(10, seed=seed).at(0, [0])[0]) for seed in range(2000)], minlength=10)
    assert ((firsts - 200) ** 2 / 200).sum() < 27.9, "chi-squared, 9 degrees of freedom, p = 0.001"
    order = ShuffledOrder(10_000, seed=3).at(0, range(10_000))
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05


def test_what_cannot_be() -> None:
    with pytest.raises(DataError, match="no example is left"):
        ShuffledOrder(0, seed=1)
    with pytest.raises(DataError, match="from 0 to 4"):
        ShuffledOrder(5, seed=1).at(0, [5])
