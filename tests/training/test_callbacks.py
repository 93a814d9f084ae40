"""What a callback hears when it says nothing, and the smoothing that curves and the progress line share."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from glassformer.runs.history import ExponentialAverage
from glassformer.training.callbacks import Callback
from tests.training.a_run import Trainer


def test_a_callback_that_overrides_nothing_hears_all_of_it(tmp_path: Path) -> None:
    Trainer(tmp_path).train(Callback())


def test_smoothing_is_the_weighted_mean_that_it_says() -> None:
    smoothed, values = ExponentialAverage(decay=0.5), [4.0, 8.0, 1.0]
    for n in range(1, 4):
        weights = [0.5 ** (n - 1 - i) for i in range(n)]
        mean = sum(w * x for w, x in zip(weights, values, strict=False)) / sum(weights)
        assert smoothed.add(values[n - 1]) == pytest.approx(mean)


def test_smoothing_leaves_out_what_is_not_finite() -> None:
    smoothed = ExponentialAverage()
    assert math.isnan(smoothed.add(math.nan))
    assert smoothed.add(2.0) == 2.0
    assert smoothed.add(math.inf) == smoothed.add(-math.inf) == 2.0
