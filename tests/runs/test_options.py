"""Options are read strictly: nothing is dropped, nothing guessed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.files.parsing import read_record
from glassformer.runs.options import Options


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


def test_what_it_reads() -> None:
    read = read_record(
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
    assert read_record(Options, asdict(Options())) == Options()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'name' is missing"),
        ({"name": "n", "cuont": 1}, "'cuont' is no option; nearest: 'count'.*; allowed: name, count"),
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
def test_what_it_refuses(values: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_record(Outer, values)


@given(
    st.sampled_from(
        [
            name
            for name, x in asdict(Options()).items()
            if isinstance(x, (int, float)) and x is not True and x is not False
        ]
    )
)
def test_no_number_is_a_minus(name: str) -> None:
    for wrong in (-1, -0.5, math.nan, math.inf):
        with pytest.raises(ConfigError, match=name):
            Options(**{name: wrong})
