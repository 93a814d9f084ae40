"""Live transcription: a settled word that is heard again a little later is not said twice."""

from __future__ import annotations

import pytest

from glassformer.speech.live import _repeated
from glassformer.speech.results import TimedWord


def timed(text: str, begin: float) -> list[TimedWord]:
    """Words of half a second, one after another."""
    return [TimedWord(f" {word}", begin + i / 2, begin + (i + 1) / 2, 1.0) for i, word in enumerate(text.split())]


@pytest.mark.parametrize(
    ("known", "fresh", "begin", "count"),
    [
        ("for the present concern,", "differs from most", 2.6, 1),
        ("for the present", "Concern differs from", 2.6, 2),
        ("", "present concern differs from", 2.6, 3),
        ("present concern differs", "differs from", 2.6, 0),  # it is said twice
        ("present concern", "from most", 2.6, 0),
        ("present concern", "differs from", 4.0, 0),  # too late to be the same
        ("present concern", "", 2.6, 0),
    ],
)
def test_a_settled_word_that_is_heard_later(known: str, fresh: str, begin: float, count: int) -> None:
    settled = timed("the present concern differs", 0.5)  # until 2.5 s
    assert _repeated(settled, timed(known, 0.0), timed(fresh, begin)) == count


def test_nothing_is_settled_yet() -> None:
    assert _repeated([], [], timed("and so", 0.2)) == 0
