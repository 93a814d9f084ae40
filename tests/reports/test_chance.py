"""Where a score is hardly better than chance: at the border itself."""

from __future__ import annotations

import pytest

from glassformer.reports.chance import NEAR, near_chance


@pytest.mark.parametrize("classes", [2, 3, 100])
def test_without_an_interval_the_border_is_a_share_of_the_way_to_one(classes: int) -> None:
    chance = 1 / classes
    border = chance + NEAR * (1 - chance)
    assert near_chance(border, chance) and near_chance(chance, chance) and near_chance(0.0, chance)
    assert not near_chance(border + 1e-9, chance) and not near_chance(1.0, chance)


def test_with_an_interval_the_border_is_its_lower_end() -> None:
    assert near_chance(0.4, 0.0, low=0.0) and near_chance(0.4, 0.0, low=-0.1)
    assert not near_chance(0.01, 0.0, low=0.001), "little, but beyond chance"
