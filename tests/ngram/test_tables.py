"""Linked tables: beginnings and ends that a file lacks are added."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.ngram.tables import linked

UNIGRAMS = (np.arange(5)[:, None], np.log(np.full(5, 0.2)), np.full(5, -0.5))


def test_missing_beginnings_and_ends_back_off() -> None:
    trigram = (np.array([[3, 4, 3]]), np.array([-0.1]), np.zeros(1))
    one, two, three = linked("x", [UNIGRAMS, (np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0)), trigram])
    assert len(one) == 5 and len(three) == 1
    assert two.keys.tolist() == [3 << 32 | 4, 4 << 32 | 3]
    np.testing.assert_allclose(two.log_probs, np.log(0.2) - 0.5, rtol=1e-6)
    assert two.backoffs.tolist() == [0, 0] and three.suffixes.tolist() == [1]


def test_twice_is_refused() -> None:
    with pytest.raises(DataError, match="x: a 2-gram is there twice"):
        linked("x", [UNIGRAMS, (np.array([[3, 4], [3, 4]]), np.zeros(2), np.zeros(2))])
