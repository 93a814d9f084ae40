"""Examples by a function: the second run finds them; another function, argument or row does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glassformer import ConfigError
from glassformer.data.mapping import map_rows
from glassformer.data.rows import read_rows

ROWS = [{"text": "ab" * number} for number in range(1, 26)]


def bytes_of(some: list[dict[str, Any]], *, shift: int = 0) -> list[dict[str, Any]]:
    return [{"input_ids": [byte + shift for byte in row["text"].encode()]} for row in some]


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    def count(some: list[dict[str, Any]]) -> Any:
        calls.append(len(some))
        return function(some)

    return count, calls


def test_batches() -> None:
    function, calls = counted(bytes_of)
    store = map_rows(read_rows(ROWS), function, batch=10)
    assert calls == [10, 10, 5]
    assert [bytes(example["input_ids"].tolist()).decode() for example in store] == [
        row["text"] for row in ROWS
    ]
    with pytest.raises(ConfigError, match="batch is 0"):
        map_rows(read_rows(ROWS), bytes_of, batch=0)


def test_the_second_run_uses_the_cache(tmp_path: Path) -> None:
    rows = read_rows(ROWS)
    function, calls = counted(bytes_of)
    first = map_rows(rows, function, cache=tmp_path, key="bytes")
    again = map_rows(read_rows(ROWS), function, cache=tmp_path, key="bytes")
    assert calls == [25] and again.fingerprint == first.fingerprint
    map_rows(rows, function, cache=tmp_path, key="other")
    map_rows(rows[1:], function, cache=tmp_path, key="bytes")
    map_rows(rows, function, cache=tmp_path, key="bytes", batch=5)
    assert calls == [25, 25, 24, 5, 5, 5, 5, 5]


def test_without_a_key_the_function_and_its_arguments_are_looked_at(tmp_path: Path) -> None:
    rows = read_rows(ROWS)
    for shift in (0, 1, 1, 0):
        store = map_rows(rows, partial(bytes_of, shift=shift), cache=tmp_path)
        assert store[0]["input_ids"].tolist() == [97 + shift, 98 + shift]
    assert len(list(tmp_path.iterdir())) == 2
    tokenizer = object()
    with pytest.raises(ConfigError, match=r"a object does not show what it holds.* give key="):
        map_rows(rows, lambda some: [{"a": id(tokenizer)}], cache=tmp_path)
    assert len(map_rows(rows, lambda some: [{"a": id(tokenizer)}])) == 1
