"""The measure of memory sees what it should: a measure that sees nothing would make every test of bounds worthless."""

from __future__ import annotations

import os
import sys

import pytest

from tests.peak import held_bytes, measured

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="peak memory is only measured on POSIX")
MB = 1_000_000
KEPT: list[bytearray] = []


def take(size: int, *, keep: bool) -> int:
    """Hold so many bytes for a moment, or until the process ends."""
    block = bytearray(os.urandom(1)) * size
    if keep:
        KEPT.append(block)
    return len(block)


def take_and_keep(size: int) -> int:
    return take(size, keep=True)


def take_for_a_moment(size: int) -> int:
    return take(size, keep=False)


def fail() -> None:
    raise ValueError("a reason")


def die() -> None:
    os._exit(3)


def test_a_leak_is_seen_after_an_earlier_peak() -> None:
    """Within one process it is hidden, and that is how these tests measured once."""
    take_for_a_moment(400 * MB)
    before = held_bytes()
    take_and_keep(150 * MB)
    assert held_bytes() - before < 10 * MB, "hidden"
    KEPT.clear()
    for function in (take_and_keep, take_for_a_moment):
        assert measured(function, 0)[1] < 30 * MB
        result, grown = measured(function, 150 * MB)
        assert result == 150 * MB and 149 * MB < grown < 200 * MB


def test_what_is_raised_there_is_raised_here() -> None:
    with pytest.raises(AssertionError, match="ValueError: a reason"):
        measured(fail)
    with pytest.raises(AssertionError, match=r"died: 3"):
        measured(die)
