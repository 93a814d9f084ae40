"""Parameters are read strictly: each of its kind, each once, none unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.explorer.query import Query


def test_what_is_given_is_read() -> None:
    pairs = {"map": "self", "layer": "12", "exact": "1", "rows": "3:70", "heads": "0,11", "keys": "0,"}
    query = Query(pairs.items())
    assert query.text("map") == "self"
    assert query.whole("layer") == 12
    assert query.flag("exact") is True
    assert query.span("rows") == (3, 70)
    assert query.wholes("heads") == [0, 11]
    assert query.words("keys") == ["0"]
    query.done()


def test_what_is_not_given_has_a_default_or_is_missed() -> None:
    query = Query([])
    assert (query.text("mix", "each"), query.whole("count", 32)) == ("each", 32)
    assert (query.flag("exact"), query.words("keys"), query.maybe("x")) == (False, None, None)
    with pytest.raises(DataError, match="'layer' is missing"):
        query.whole("layer")


@pytest.mark.parametrize(
    "value", ["", " 1", "-1", "+1", "1.0", "1e3", "0x1", "NaN", "inf", "١", "9" * 10, "1\n"]
)
def test_what_is_no_whole_number(value: str) -> None:
    reads: list[Callable[[Query], Any]] = [
        lambda query: query.whole("a"),
        lambda query: query.wholes("a"),
        lambda query: query.span("b"),
    ]
    for read in reads:
        with pytest.raises(DataError, match="whole number from 0 up"):
            read(Query([("a", value), ("b", f"0:{value}")]))


def test_a_flag_is_0_or_1() -> None:
    with pytest.raises(DataError, match="must be 0 or 1"):
        Query([("exact", "true")]).flag("exact")


def test_a_name_nobody_reads_is_a_mistake_and_the_nearest_is_named() -> None:
    query = Query([("leyer", "3")])
    query.maybe("layer")
    with pytest.raises(DataError, match="unknown parameter 'leyer'; allowed here: layer; nearest: 'layer'"):
        query.done()


def test_a_name_twice_is_a_mistake() -> None:
    with pytest.raises(DataError, match="twice"):
        Query([("layer", "3"), ("layer", "4")])
