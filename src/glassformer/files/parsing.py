"""Parse mappings of JSON and YAML into dataclasses, with checks of keys and types; values for strict JSON."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr

T = TypeVar("T")

_KINDS: dict[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false", str: "a text"},
    **dict.fromkeys((list, tuple, Sequence), "a list"),
    **dict.fromkeys((dict, Mapping), "names and values"),
}
"""Types of options, as a message says them."""


def parse_dataclass(cls: type[T], values: object, path: str = "") -> T:
    """Parse a mapping into a dataclass; unknown keys and values of another type are errors.

        parse_dataclass(Options, {"steps": 100, "learning_rate": 1e-4}, "training")

    Integers are accepted as floats, and so are strings such as "5e-5", which YAML reads as a string.

    Args:
        path: key path of the mapping in its file, for messages.
    Raises: ConfigError: an unknown key (with the nearest known ones), a value of another type, a missing key.
    """
    where = f"{path}: " if path else ""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}expected names and values, got {safe_repr(values)}")
    hints = get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            inner = [f"{key}.{name}" for key, hint in hints.items() if name in _fields_of(hint)]
            meant = f"; it may be {' or '.join(inner)}" if inner else nearest(str(name), known)
            raise ConfigError(f"{where}{safe_repr(name)} is no option{meant}; allowed: {', '.join(known)}")
        arguments[name] = convert(hints[name], value, f"{path}.{name}" if path else name)
    for name, field in known.items():
        if name not in arguments and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}{name!r} is missing")
    return cls(**arguments)


def _shown(key: object) -> str:
    """A key as a part of a path, for messages."""
    return safe_repr(key).strip("'")


def _fields_of(hint: Any) -> set[str]:
    """The names of the fields of a dataclass, or of those in a union."""
    classes = filter(dataclasses.is_dataclass, (hint, *get_args(hint)))
    return {field.name for each in classes for field in dataclasses.fields(each)}


def keyword_types(cls: type) -> dict[str, Any]:
    """The types of the keyword arguments of a class, those of its bases too: name → annotation."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "__init__" not in vars(base):
            continue
        try:
            own = get_type_hints(base.__init__)  # type: ignore[misc] # of this very class
        except (NameError, TypeError):  # annotations for type checkers alone
            continue
        for name, hint in own.items():
            unpacked = get_origin(hint) is Unpack  # **options: Unpack[SomeTypedDict]
            hints |= get_type_hints(get_args(hint)[0]) if unpacked else {name: hint}
    return hints


def convert(hint: Any, value: Any, path: str) -> Any:
    """Convert a value to the type of an option.

    Raises: ConfigError: a value of another type.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        alternatives = [alternative for alternative in inner if alternative is not type(None)]
        for alternative in alternatives[:-1]:
            try:
                return convert(alternative, value, path)
            except ConfigError:
                continue
        return convert(alternatives[-1], value, path)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{path} is {safe_repr(value)}; allowed: {', '.join(map(str, inner))}")
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else parse_dataclass(hint, value, path)  # type: ignore[arg-type]
    if origin in (list, tuple, Sequence) and isinstance(value, (list, tuple)):
        kind = list if origin is Sequence else origin
        return kind(convert(inner[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {convert(inner[0], k, path): convert(inner[1], v, f"{path}.{_shown(k)}") for k, v in value.items()}
    if hint is float and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    integral = isinstance(value, float) and value.is_integer()  # JSON may write 3 as 3.0
    if hint is int and not isinstance(value, bool) and (isinstance(value, int) or integral):
        return int(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    if isinstance(hint, type) and hint not in (int, float, bool, str) and isinstance(value, hint):
        return value
    expected = _KINDS.get(hint) or _KINDS.get(origin) or str(hint)
    raise ConfigError(f"{path} is {safe_repr(value)}; it must be {expected}")


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
