"""Parameters are read strictly: each of its kind, each once, none unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.explorer.http import Query


def test_what_is_given_is_read() -> None:
    pairs = {"map": "self", "layer": "12", "exact": "1", "rows": "3:70", "heads": "0,11", "keys": "0,"}
    query = Query(pairs.items())
    assert query.text("map") == "self"
    assert query.integer("layer") == 12
    assert query.flag("exact") is True
    assert query.span("rows") == (3, 70)
    assert query.integers("heads") == [0, 11]
    assert query.strings("keys") == ["0"]
    query.reject_unknown()


def test_what_is_not_given_has_a_default_or_is_missed() -> None:
    query = Query([])
    assert (query.text("mix", "each"), query.integer("count", 32)) == ("each", 32)
    assert (query.flag("exact"), query.strings("keys"), query.optional("x")) == (False, None, None)
    with pytest.raises(DataError, match="'layer' is missing"):
        query.integer("layer")


@pytest.mark.parametrize("value", ["", " 1", "-1", "+1", "1.0", "1e3", "0x1", "NaN", "inf", "١", "9" * 10, "1\n"])
def test_what_is_no_whole_number(value: str) -> None:
    reads: list[Callable[[Query], Any]] = [
        lambda query: query.integer("a"),
        lambda query: query.integers("a"),
        lambda query: query.span("b"),
    ]
    for read in reads:
        with pytest.raises(DataError, match="integer, 0 or more"):
            read(Query([("a", value), ("b", f"0:{value}")]))


def test_a_flag_is_0_or_1() -> None:
    with pytest.raises(DataError, match="must be 0 or 1"):
        Query([("exact", "true")]).flag("exact")


def test_a_name_nobody_reads_is_a_mistake_and_the_nearest_is_named() -> None:
    query = Query([("leyer", "3")])
    query.optional("layer")
    with pytest.raises(DataError, match="unknown parameter 'leyer'; allowed here: layer; nearest: 'layer'"):
        query.reject_unknown()


def test_a_name_twice_is_a_mistake() -> None:
    with pytest.raises(DataError, match="duplicate parameter"):
        Query([("layer", "3"), ("layer", "4")])
