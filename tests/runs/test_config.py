"""Options are read strictly: nothing is dropped, nothing guessed."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.files.parsing import parse_dataclass
from glassformer.runs.config import TrainingOptions


def test_options_survive_a_round_trip() -> None:
    assert parse_dataclass(TrainingOptions, asdict(TrainingOptions())) == TrainingOptions()


@given(
    st.sampled_from(
        [
            name
            for name, x in asdict(TrainingOptions()).items()
            if isinstance(x, (int, float)) and x is not True and x is not False
        ]
    )
)
def test_no_number_is_a_minus(name: str) -> None:
    for wrong in (-1, -0.5, math.nan, math.inf):
        with pytest.raises(ConfigError, match=name):
            TrainingOptions(**{name: wrong})
