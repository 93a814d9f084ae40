"""Python functions as tools: the schemas of the reference library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from transformers.utils import get_json_schema

from glassformer.errors import DataError
from glassformer.text.tool_schema import function_schema


def weather(city: str, days: int = 1) -> str:
    """
    The weather of a city.

    Args:
        city: Where,
            by its name.
        days: How many. (choices: [1, 7])

    Returns:
        A sentence.
    """
    return f"{city} {days}"


def every_type(
    x: list[int], y: str | None = None, z: int | float = 2, w: dict[str, int] | None = None, c: Literal["a", "b"] = "a"
) -> None:
    """Do it.

    Args:
        x: numbers
        y: a text
        z: a number
        w: a map
        c: a letter
    """


def clock() -> float:
    """Now."""
    return 0.0


@pytest.mark.parametrize("function", [weather, every_type, clock])
def test_the_same_schema_as_the_reference(function: Callable[..., Any]) -> None:
    assert function_schema(function) == get_json_schema(function)


def undescribed(x: int) -> None:
    """Do it."""


def untyped(x) -> None:  # type: ignore[no-untyped-def] # what is tested
    """Do it.

    Args:
        x: a thing
    """


def nameless(x: complex) -> None:
    """Do it.

    Args:
        x: a number
    """


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (undescribed, "no description under 'Args:'"),
        (untyped, "no type hint for 'x'"),
        (nameless, "has no JSON schema"),
        (lambda: None, "has no docstring"),
    ],
)
def test_what_a_function_lacks(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(DataError, match=why):
        function_schema(function)
