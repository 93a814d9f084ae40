"""Lines drawn with the dots of Braille patterns."""

from __future__ import annotations

import math

import numpy as np

from glassformer.reports.braille import BITS, dotted


def plot(values: list[float], width: int = 4, height: int = 2) -> list[str]:
    line = (np.arange(len(values)), np.array(values, dtype=float))
    field = dotted([line], (0, len(values) - 1), (0, 1), width, height)
    return ["".join(character for character, _ in row) for row in field]


def test_a_flat_line_lies_where_it_should() -> None:
    assert plot([1, 1]) == ["⠉⠉⠉⠉", "    "]
    assert plot([0, 0]) == ["    ", "⣀⣀⣀⣀"]


def test_a_steep_line_has_no_gaps() -> None:
    field = plot([0, 1])
    assert field[0].strip() and field[1].strip()
    dots = {
        (2 * column + x, 4 * line + y)
        for line, row in enumerate(field)
        for column, character in enumerate(row)
        for y, bits in enumerate(BITS)
        for x, bit in enumerate(bits)
        if character != " " and ord(character) & bit
    }
    assert {y for _, y in dots} == set(range(8)) and {x for x, _ in dots} == set(range(8))
    jump = plot([0, 0, 0, 1, 1, 1], width=2)
    assert any("⢸" in row or "⡇" in row for row in jump)


def test_what_lies_beyond_the_edge_stays_on_it_and_nan_is_left_out() -> None:
    assert plot([9, 9]) == ["⠉⠉⠉⠉", "    "]
    assert plot([math.nan, math.nan]) == ["    ", "    "]
    assert plot([1, math.nan, 1]) == ["⠉⠉⠉⠉", "    "]


def test_cells_know_whose_they_are() -> None:
    places = np.array([0, 1])
    field = dotted([(places, np.array([1.0, 1.0])), (places, np.array([0.0, 0.0]))], (0, 1), (0, 1), 2, 2)
    assert [[which for _, which in row] for row in field] == [[0, 0], [1, 1]]
    half = dotted([(places, np.array([1.0, 1.0]))], (0, 2), (0, 1), 4, 1)
    assert [which for _, which in half[0]] == [0, 0, None, None]
