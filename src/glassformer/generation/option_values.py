"""Allowed values of generation options: tests of a value, each with the words in which its error says it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any

LARGEST = 2**31 - 1
"""No number of tokens, beams or steps is larger; what counts them is of 32 bits somewhere."""


def is_integer(x: Any, minimum: float = -math.inf, maximum: float = LARGEST) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and minimum <= x <= maximum


def is_number(x: Any, largest: float = 1e30) -> bool:
    """Whether it is a number that float32 can hold, and compute with."""
    return isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= largest  # NaN is not


def are_ids(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(is_integer(token, 0) for token in x)


def are_words(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(are_ids(word) for word in x)


def are_texts(x: Any) -> bool:
    texts = (x,) if isinstance(x, str) else x
    return isinstance(texts, (list, tuple)) and bool(texts) and all(isinstance(t, str) and t for t in texts)


def are_scorers(x: Any) -> bool:
    pairs = isinstance(x, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in x)
    return pairs and all(callable(scorer) and is_number(weight) for scorer, weight in x)


def are_callables(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(callable(each) for each in x)


def option(allowed: str, test: Callable[[Any], bool], default: Any = None) -> Any:
    """A field of the options: its allowed values in words, as its error says them, and a test of a value."""
    return field(default=default, metadata={"allowed": allowed, "test": test})


def integer_from(minimum: int, default: int | None = None) -> Any:
    return option(f"a whole number from {minimum} up", lambda x: is_integer(x, minimum), default)


def number(allowed: str, test: Callable[[float], bool] = lambda x: True) -> Any:
    return option(allowed, lambda x: is_number(x) and test(x))


def boolean(default: bool) -> Any:
    return option("True or False", lambda x: isinstance(x, bool), default)


def probability() -> Any:
    return number("a number above 0 and up to 1; 1 keeps all tokens", lambda x: 0 < x <= 1)


def texts() -> Any:
    return option("a text or a list of texts, none of them empty", are_texts)


def token() -> Any:
    return option("a token id", lambda x: is_integer(x, 0))


def tokens() -> Any:
    return option("a token id, or a list of them", lambda x: is_integer(x, 0) or are_ids(x))


def callables(form: str) -> Any:
    return option(f"a list of callables: {form}", are_callables)
