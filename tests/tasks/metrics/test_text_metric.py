"""Intervals: equal to the plain loop, as wide as theory says, paired where rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from glassformer import ConfigError, DataError
from glassformer.tasks.metrics import metric as bootstrap
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.metrics.text_metric import TextMetric, add_all


class Length(TextMetric):
    """The mean length of outputs."""

    def __init__(self) -> None:
        super().__init__(1)

    def counts(self, output: str, references: list[str]) -> Sequence[float]:
        return [len(output)]

    @property
    def method(self) -> str:
        return "letters"

    def scores(self, sums: np.ndarray, rows: int) -> Mapping[str, np.ndarray]:
        return {"length": sums[:, 0] / rows}


def of(lengths: Sequence[int]) -> Length:
    text_metric = Length()
    add_all(text_metric, ["x" * length for length in lengths], ["y"] * len(lengths))
    return text_metric


def resampled_sums(rows: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The sums of each resample, as `intervals` computes scores from them. [S, K]"""
    sums: list[np.ndarray] = []

    def keep(of_resamples: np.ndarray) -> dict[str, np.ndarray]:
        sums.append(of_resamples)
        return {"first": of_resamples[:, 0]}

    bootstrap.intervals(bootstrap.BootstrapSums(rows, keep, {}), resamples, seed)
    return np.concatenate(sums[1:])  # the first are those of the rows as they are


def test_sums_are_those_of_rows_drawn_one_by_one() -> None:
    rows = np.random.default_rng(1).normal(size=(7, 3))
    generator = np.random.default_rng(5)
    wanted = np.stack([rows[generator.integers(7, size=7)].sum(axis=0) for _ in range(20)])
    np.testing.assert_allclose(resampled_sums(rows, 20, 5), wanted, atol=1e-12)


def test_sums_do_not_depend_on_how_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    whole = resampled_sums(rows, 50, 3)
    monkeypatch.setattr(bootstrap, "CELLS_AT_ONCE", 7)
    np.testing.assert_array_equal(resampled_sums(rows, 50, 3), whole)


def test_the_interval_of_a_mean_is_what_theory_says() -> None:
    lengths = np.random.default_rng(0).integers(0, 100, size=400)
    found = of(lengths.tolist()).intervals(resamples=4_000)["length"]
    half = 1.96 * lengths.std() / np.sqrt(400)
    assert found.value == pytest.approx(lengths.mean())
    assert found.low == pytest.approx(lengths.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(lengths.mean() + half, abs=0.1 * half)


def test_a_seed_repeats_and_another_does_not() -> None:
    text_metric = of(list(range(0, 99, 3)))
    assert text_metric.intervals(seed=1) == text_metric.intervals(seed=1) != text_metric.intervals(seed=2)


def test_what_makes_rows_hard_for_both_cancels_out() -> None:
    lengths = np.random.default_rng(0).integers(0, 500, size=100).tolist()
    longer = [length + 2 for length in lengths]
    (alone,) = of(lengths).intervals().values()
    (difference,) = bootstrap.differences(of(longer).bootstrap(), of(lengths).bootstrap()).values()
    assert difference == Interval(2.0, 2.0, 2.0) and difference.leaves_out_zero
    assert alone.high is not None and alone.low is not None and alone.high - alone.low > 20


def test_one_row_has_no_interval() -> None:
    (found,) = of([3]).intervals().values()
    assert found == Interval(3.0) and str(found) == "3.000" and not found.leaves_out_zero


def test_as_text() -> None:
    assert Interval(0.3955, 0.389, 0.4021).written(3) == "0.396 [0.389, 0.402]"
    assert Interval(0.5, -0.25, 1.0).written(2, signed=True) == "+0.50 [-0.25, +1.00]"
    assert (-Interval(0.0, 0.0, 0.0004)).written(3) == "0.000 [0.000, 0.000]"  # no minus before a zero


def test_rows_are_forgotten_from_the_end() -> None:
    text_metric = of([1, 2, 3])
    text_metric.shorten(2)
    assert len(text_metric) == 2 and text_metric.rows.tolist() == [[1], [2]]


def test_what_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="no row was evaluated"):
        Length().intervals()
    with pytest.raises(ConfigError, match="resamples is 0"):
        of([1, 2]).intervals(resamples=0)
    with pytest.raises(DataError, match="evaluated on 2 rows, the other on 1"):
        bootstrap.differences(of([1, 2]).bootstrap(), of([1]).bootstrap())
    with pytest.raises(DataError, match="row 1 has no reference"):
        add_all(Length(), ["a", "b"], ["a"])
    with pytest.raises(DataError, match="row 0 has no output"):
        add_all(Length(), [], ["a"])
    with pytest.raises(DataError, match="put a single text into a list"):
        add_all(Length(), "a", "a")
    for wrong in ([], 5, [None]):
        with pytest.raises(DataError, match="reference"):
            Length().add("a", wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the output must be a string, got int"):
        Length().add(1, "a")  # type: ignore[arg-type]
