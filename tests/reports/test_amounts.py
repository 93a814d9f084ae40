"""Amounts and bars: three or four digits, and as many characters as asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.reports.amounts import amount, byte_amount
from glassformer.reports.table import bar


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (148_608, "149k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (174_600_000_000, "175B"),
    ],
)
def test_amount(number: int, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (256, "256 B"), (999.6, "1.00 kB"), (90_852_864, "90.9 MB"), (16.1e9, "16.1 GB")],
)
def test_byte_amount(number: float, text: str) -> None:
    assert byte_amount(number) == text


@given(st.floats(0, 1e17))
def test_amounts_stay_short(number: float) -> None:
    assert len(amount(number)) <= 5
    assert len(byte_amount(number)) <= 7


@given(st.floats(-2, 2), st.integers(0, 40))
def test_a_bar_has_its_width(share: float, width: int) -> None:
    assert len(bar(share, width)) == width


def test_bars_grow() -> None:
    assert bar(0, 4) == "    "
    assert bar(0.5, 4) == "██  "
    assert bar(0.53, 4) == "██▏ "
    assert bar(1, 4) == "████"
