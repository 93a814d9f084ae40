"""Parsing of mappings into dataclasses: unknown keys and values of another type are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack

import pytest

from glassformer.errors import ConfigError
from glassformer.files.parsing import convert, json_value, keyword_types, parse_dataclass


@dataclass(frozen=True)
class Inner:
    rate: float = 1.0
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    name: str
    count: int | None = None
    files: str | list[str] = "x"
    share: str | float | None = None
    inner: Inner = field(default_factory=Inner)
    free: dict[str, Any] = field(default_factory=dict)
    on: bool = False


def test_values_of_all_types() -> None:
    read = parse_dataclass(
        Outer,
        {
            "name": "n",
            "count": 3.0,
            "files": ["a", "b"],
            "share": 0.1,
            "inner": {"rate": "5e-5", "kind": "b"},
            "free": {"x": [1]},
            "on": True,
        },
    )
    assert read == Outer("n", 3, ["a", "b"], 0.1, Inner(5e-5, "b"), {"x": [1]}, True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'name' is missing"),
        ({"name": "n", "cuont": 1}, "'cuont' is no option; nearest: 'count'.*; allowed: name, count"),
        ({"name": "n", "rate": 1}, r"'rate' is no option; it may be inner\.rate; allowed: name"),
        ({"name": 3}, "name is 3; it must be a text"),
        ({"name": "n", "count": 1.5}, "count is 1.5; it must be a whole number"),
        ({"name": "n", "count": True}, "count is True; it must be a whole number"),
        ({"name": "n", "on": "yes"}, "on is 'yes'; it must be true or false"),
        ({"name": "n", "files": [1]}, r"files\[0\] is 1; it must be a text"),
        ({"name": "n", "inner": {"kind": "c"}}, "inner.kind is 'c'; allowed: a, b"),
        ({"name": "n", "inner": {"rate": "fast"}}, "inner.rate is 'fast'; it must be a number"),
        ({"name": "n", "inner": 3}, "inner: expected names and values, got 3"),
        ([], r"expected names and values, got \[\]"),
    ],
)
def test_invalid_values_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_dataclass(Outer, values)


def test_values_for_strict_json() -> None:
    assert json_value({"x": [float("nan"), 1, None], "y": (float("inf"),)}) == {
        "x": ["nan", 1, None],
        "y": ["inf"],
    }


class Sides(TypedDict, total=False):
    language: str | None


class Base:
    def __init__(self, model: object, *, size: int | None = None, **more: Unpack[Sides]) -> None: ...


class Derived(Base):
    def __init__(self, model: object, *, names: Sequence[str] = (), how: Mapping[str, Any] | None = None) -> None: ...


def test_keywords_are_converted_by_their_annotations() -> None:
    hints = keyword_types(Derived)
    assert convert(hints["size"], 3.0, "size") == 3 and convert(hints["names"], ("a",), "names") == ["a"]
    assert convert(hints["how"], {"a": 1}, "how") == {"a": 1} and convert(hints["how"], None, "how") is None
    assert convert(hints["language"], "en", "language") == "en"
    for name, value, said in (
        ("size", "x", "task_options.size is 'x'; it must be a whole number"),
        ("size", 2.5, "task_options.size is 2.5"),
        ("names", "ab", "task_options.names is 'ab'; it must be a list"),
        ("names", [1], r"task_options.names\[0\] is 1; it must be a text"),
        ("how", [1], r"task_options.how is \[1\]; it must be names and values"),
        ("language", 5, "task_options.language is 5; it must be a text"),
    ):
        with pytest.raises(ConfigError, match=said):
            convert(hints[name], value, f"task_options.{name}")
