"""The sentence above a table of costs: what is smaller or faster, and not worse."""

from __future__ import annotations

import pytest

from glassformer.evaluation.compare.best_value import Costed, best_value
from glassformer.tasks.metrics.metric import Interval

FIRST = Costed("original", None, 91e6, 8.0)
EQUAL = Costed("int8", Interval(-0.001, -0.003, 0.001), 24e6, 7.0)
FAST = Costed("onnx", Interval(0.0, 0.0, 0.0), 92e6, 4.0)
WORSE = Costed("pruned", Interval(-0.02, -0.03, -0.01), 5e6, 1.0)
LARGER = Costed("wide", Interval(0.01, 0.005, 0.02), 100e6, 9.0)


def test_the_smallest_and_the_fastest_that_are_not_worse() -> None:
    assert best_value(FIRST, [EQUAL, FAST, WORSE, LARGER], "f1", higher=True) == (
        "Of those not worse than original beyond chance, int8 is the smallest (24.0 MB instead of 91.0 MB, f1 -0.001 "
        "[-0.003, +0.001]) and onnx is the fastest (2 × as fast, f1 +0.000 [+0.000, +0.000])."
    )
    alone = best_value(FIRST, [EQUAL, WORSE], "f1", higher=True)
    assert "int8 is the smallest and the fastest (24.0 MB instead of 91.0 MB, 1.14 × as fast, f1 -0.001" in alone


def test_what_is_faster_by_chance_is_not_called_faster() -> None:
    def timed(latency: float, speed: Interval | None) -> Costed:
        return Costed("half", Interval(0.0, 0.0, 0.0), 92e6, latency, speed)

    for slow in (timed(7.9, None), timed(6.0, Interval(1.33, 0.98, 1.6)), timed(7.9, Interval(1.01, 1.005, 1.02))):
        assert best_value(FIRST, [slow], "f1", higher=True).startswith("None is smaller or faster than original")
        # the one that is named is of those that are faster, though another has the lowest latency
        both = best_value(FIRST, [slow, timed(7.0, Interval(1.14, 1.1, 1.2))], "f1", higher=True)
        assert "half is the fastest (1.14 × as fast" in both


def test_where_lower_is_better_a_rise_is_worse() -> None:
    risen = Costed("risen", Interval(0.02, 0.01, 0.03), 5e6, 1.0)
    assert "pruned is the smallest" in best_value(FIRST, [risen, WORSE], "loss", higher=False)
    assert best_value(FIRST, [risen], "loss", higher=False).startswith("None is as good as original by the loss")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([WORSE], "None is as good as original by the f1: it is worse, beyond chance."),
        ([WORSE, WORSE], "None is as good as original by the f1: every other is worse, beyond chance."),
        ([LARGER, WORSE], "None is smaller or faster than original without a worse f1, beyond chance."),
        ([], ""),
        ([Costed("unknown", Interval(0.0), None, None)], ""),
        ([Costed("other rows", None, 1e6, 1.0)], ""),
    ],
)
def test_none_is_said_where_there_is_none(others: list[Costed], expected: str) -> None:
    assert best_value(FIRST, others, "f1", higher=True) == expected
