"""Parse JSON and YAML mappings into dataclasses, each key known and each value of its type."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, nearest
from glassformer.files import shown

Record = TypeVar("Record")


def read_record(kind: type[Record], values: object, place: str = "") -> Record:
    """A dataclass from a mapping, each key known and each value of its type.

        read_record(Options, {"steps": 100, "learning_rate": 1e-4}, "training")

    Whole numbers do for numbers, and texts such as "5e-5", which YAML takes for a text, too.
    Raises: ConfigError: a key that is none (with the nearest ones), a value of another type, a key that is missing.
    """
    where = f"{place}: " if place else ""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}expected names and values, got {shown(values)}")
    hints = get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    read: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(
                f"{where}{shown(name)} is no option{nearest(str(name), known)}; allowed: {', '.join(known)}"
            )
        read[name] = _as(hints[name], value, f"{place}.{name}" if place else str(name))
    for name, field in known.items():
        if name not in read and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}{name!r} is missing")
    return kind(**read)


def _as(hint: Any, value: Any, place: str) -> Any:
    """A value as the type that an option has."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        kinds = [kind for kind in inner if kind is not type(None)]
        for kind in kinds[:-1]:
            try:
                return _as(kind, value, place)
            except ConfigError:
                continue
        return _as(kinds[-1], value, place)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{place} is {shown(value)}; allowed: {', '.join(map(str, inner))}")
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else read_record(hint, value, place)  # type: ignore[arg-type]
    if origin in (list, tuple) and isinstance(value, (list, tuple)):
        return origin(_as(inner[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {_as(inner[0], k, place): _as(inner[1], v, f"{place}.{k}") for k, v in value.items()}
    if hint is float and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    whole = isinstance(value, float) and value.is_integer()
    if hint is int and not isinstance(value, bool) and (isinstance(value, int) or whole):
        return int(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    wanted = (
        names.get(hint)
        or names.get(origin)
        or {list: "a list", tuple: "a list", dict: "names and values"}.get(origin, str(hint))
    )
    raise ConfigError(f"{place} is {shown(value)}; it must be {wanted}")


def strict(value: Any) -> Any:
    """A value as strict JSON can hold it: "nan" for NaN, lists for arrays, texts for what it has no word for."""
    if isinstance(value, Mapping):
        return {str(name): strict(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [strict(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "tolist"):  # a number or an array of numpy's or torch's
        return strict(value.tolist())
    return str(value)  # a path, a dtype: as people write it
