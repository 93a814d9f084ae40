"""Parse label values: a class name, several labels, or a number, however a file writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from glassformer.errors import DataError
from glassformer.files import safe_repr


def name_of(value: object) -> str:
    """What a class is called: a text as it is, a whole number or a truth by its letters.

    Raises: DataError: nothing of these.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int)):
        return str(value).lower()
    if not isinstance(value, str) or not value.strip():
        wanted = "a text or a whole number; for numbers that measure something, problem='regression'"
        raise DataError(f"the label is {safe_repr(value)}; a class is {wanted}")
    return value


def parts_of(value: object, separator: str | None) -> list[str]:
    """The names of several labels: those of a list, or of a text between the separators.

    Raises: DataError: neither.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str) and separator is not None:
        return [part.strip() for part in value.split(separator) if part.strip()]
    if not isinstance(value, (list, tuple)):
        hint = "" if separator else ", or a text with separator='|', or what stands between them"
        raise DataError(f"the label is {safe_repr(value)}; several labels are a list{hint}")
    return [name_of(part) for part in value]


def number_of(value: object) -> float | None:
    """A number that can be computed with, from itself or from its letters; None = there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def sorted_names(names: Iterable[str]) -> list[str]:
    """In the order of their letters; where all are whole numbers, by size."""
    ordered = list(names)
    return sorted(ordered, key=int) if all(map(is_whole, ordered)) else sorted(ordered)


def is_whole(name: str) -> bool:
    """Is this a whole number, by its letters?"""
    return name.removeprefix("-").isdecimal()
