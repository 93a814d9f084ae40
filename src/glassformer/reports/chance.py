"""Chance: whether a score is hardly better than one without any knowledge of the text."""

from __future__ import annotations

NEAR = 0.1
"""Of the way from chance to 1: a score without an interval that is not further is hardly better than chance."""


def near_chance(value: float, chance: float, low: float | None = None) -> bool:
    """Whether a score is hardly better than chance: its interval reaches it; without one, it is within `NEAR` of it.

    Args:
        value, low: the score, of which more is better and 1 is all, and the lower end of its interval
        chance: the score of a guess, such as 1/3 of three labels
    """
    return low <= chance if low is not None else value <= chance + NEAR * (1 - chance)
