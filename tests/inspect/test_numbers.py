"""Numbers of layers, heads and neurons as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.inspect.numbers import parse_heads, parse_layers, parse_level, parse_pair, parse_token


@pytest.mark.parametrize(
    ("parse", "text", "numbers"),
    [
        (parse_layers, "0-2, 6", [0, 1, 2, 6]),
        (parse_layers, "3,1 - 3", [1, 2, 3]),
        (parse_heads, "0.1, 1.*", [(0, 1), (1, None)]),
        (parse_pair, " 4.9 ", (4, 9)),
        (parse_level, "-1", -1),
        (parse_level, "sum", "sum"),
        (parse_token, "12", 12),
        (parse_token, "-1", -1),
        (parse_token, "flies", "flies"),
    ],
)
def test_numbers(parse: Callable[[str], Any], text: str, numbers: Any) -> None:
    assert parse(text) == numbers


@pytest.mark.parametrize("text", ["3-1", "six", "", "1,", "-1", "٣"])
def test_no_layers(text: str) -> None:
    with pytest.raises(ConfigError, match="give layers counted from 0, such as 3,6 or 0-6"):
        parse_layers(text)


@pytest.mark.parametrize("text", ["4", "4.", "4.*", "a.b", "4.9.1", ""])
def test_no_pair(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is no layer\.number, such as 4\.9"):
        parse_pair(text)
