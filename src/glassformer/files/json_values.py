"""Values for strict JSON, which has no NaN, no infinity and no arrays of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def json_value(value: Any) -> Any:
    """Convert a value for strict JSON: "nan" for NaN, lists for arrays, strings for other objects."""
    if isinstance(value, Mapping):
        return {str(name): json_value(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "tolist"):  # a numpy or torch scalar or array
        return json_value(value.tolist())
    return str(value)  # a path, a dtype


def null_for_nan(value: Any) -> Any:
    """A value for strict JSON, which has no NaN and no infinity: they become None."""
    if isinstance(value, Mapping):
        return {str(name): null_for_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [null_for_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def nan_from_null(value: Any) -> Any:
    """What `null_for_nan` wrote, with the value of a confidence interval as NaN again."""
    if isinstance(value, Mapping):
        was_nan = set(value) == {"value", "low", "high"} and value["value"] is None
        return {name: math.nan if was_nan and name == "value" else nan_from_null(item) for name, item in value.items()}
    return [nan_from_null(item) for item in value] if isinstance(value, list) else value
