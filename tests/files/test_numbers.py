"""Whole and finite numbers, told from booleans, NaN and infinities."""

from __future__ import annotations

import math
from typing import Any

import pytest

from glassformer.files import is_int, is_number


@pytest.mark.parametrize("value", [0, -3, 2**70, 10**400, 0.5, -1e300])
def test_numbers(value: Any) -> None:
    assert is_number(value)
    assert is_int(value, -math.inf) == isinstance(value, int)


@pytest.mark.parametrize("value", [True, False, None, "3", math.nan, math.inf, -math.inf, [1]])
def test_what_is_no_number(value: Any) -> None:
    assert not is_number(value) and not is_int(value, -math.inf)


def test_bounds() -> None:
    assert is_int(0) and not is_int(-1) and is_int(3, 3, 4) and not is_int(4, 3, 4)
    assert is_number(0.0, 0, 1) and not is_number(1.0, 0, 1) and not is_number(-1e-9, 0, 1)
