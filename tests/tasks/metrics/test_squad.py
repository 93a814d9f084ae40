"""Answers as texts, judged by their words."""

from __future__ import annotations

import pytest

from glassformer.tasks.metrics.squad import exact_match, word_f1, words_of


@pytest.mark.parametrize(
    ("said", "answers", "exact", "f1"),
    [
        ("6000 hours", ["6000 hours"], 1, 1),
        ("about 6000 hours", ["6000 hours"], 0, 0.8),
        ("about 6000 dollars", ["6000 hours"], 0, 0.4),
        ("The 6000 Hours!", ["6000 hours"], 1, 1),
        ("hours hours", ["6000 hours"], 0, 0.5),  # a word counts as often as it stands in both
        ("no", ["nothing", "no way"], 0, pytest.approx(2 / 3)),  # the one that fits best
        ("", [], 1, 1),
        ("something", [], 0, 0),
        ("", ["something"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
    ],
)
def test_exact_match_and_f1(said: str, answers: list[str], exact: float, f1: float) -> None:
    assert (exact_match(said, answers), word_f1(said, answers)) == (exact, f1)


def test_words() -> None:
    assert words_of("An  apple, a day: the U.S. theory!") == ["apple", "day", "us", "theory"]
