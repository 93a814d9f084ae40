"""Options are read strictly: nothing is dropped, nothing guessed."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest

from glassformer.errors import ConfigError
from glassformer.files.parsing import parse_dataclass
from glassformer.runs.config import TrainingOptions


def test_options_survive_a_round_trip() -> None:
    assert parse_dataclass(TrainingOptions, asdict(TrainingOptions())) == TrainingOptions()


@pytest.mark.parametrize("name", [name for name, x in asdict(TrainingOptions()).items() if type(x) in (int, float)])
def test_no_number_is_a_minus(name: str) -> None:
    for wrong in (-1, -0.5, math.nan, math.inf):
        with pytest.raises(ConfigError, match=name):
            TrainingOptions(**{name: wrong})
