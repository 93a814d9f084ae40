"""Streams: the same rows, in an order that the seed decides, and on from any place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from glassformer import ConfigError, DataError
from glassformer.data.rows import read_rows
from glassformer.data.streams import RowStream, stream_rows

ROWS = [{"text": f"row {number}", "n": number} for number in range(150)]


def csv(path: Path) -> Any:
    lines = ["text,n", *(f'"{row["text"]}\nmore",{row["n"]}' for row in ROWS)]
    path.with_suffix(".csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return path.with_suffix(".csv.gz")


def shards(path: Path) -> Any:
    for number in range(3):
        some = ROWS[number * 50 : number * 50 + 50]
        path.with_name(f"{number}.jsonl").write_text("\n\n".join(map(json.dumps, some)))
    return str(path.with_name("*.jsonl"))


def one_list(path: Path) -> Any:
    path.with_suffix(".json").write_text(json.dumps(ROWS, indent=1))
    return path.with_suffix(".json")


def sentences(path: Path) -> Any:
    path.with_suffix(".conll").write_text("\n\n".join(f"{row['text']}\tO\nx\tB" for row in ROWS))
    return path.with_suffix(".conll")


def pairs(path: Path) -> Any:
    for end in ("a", "b"):
        path.with_suffix("." + end).write_text("\n".join(end + row["text"] for row in ROWS))
    return str(path.with_suffix(".{a,b}"))


def columns(path: Path) -> Any:
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'glassformer[data]'")
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist(ROWS), path.with_suffix(".parquet"), row_group_size=40)
    return path.with_suffix(".parquet")


def memory(path: Path) -> Any:
    return ROWS


class Again:
    """Rows without a length, which can be gone through again."""

    def __iter__(self) -> Any:
        return iter(ROWS)


def endless(path: Path) -> Any:
    return Again()


@pytest.mark.parametrize("make", [csv, shards, one_list, sentences, pairs, columns, memory, endless])
def test_a_stream_goes_on_from_any_place(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    source = make(tmp_path / "rows")
    rows = list(read_rows(source))
    assert len(rows) == 150
    assert list(stream_rows(source, buffer=1)) == rows

    def stream(**given: Any) -> RowStream:
        return stream_rows(source, **{"buffer": 32, "seed": 1, **given})

    shuffled = list(stream())
    assert shuffled != rows and sorted(map(str, shuffled)) == sorted(map(str, rows))
    assert shuffled == list(stream()) != list(stream(seed=2))
    assert list(stream(epoch=1)) not in (shuffled, list(stream(seed=2)))
    for taken in (0, 1, 31, 32, 33, 49, 50, 77, 149, 150):
        first = stream()
        assert list(islice(first, taken)) == shuffled[:taken]
        state = json.loads(json.dumps(first.state()))
        again = stream(epoch=5).restore(state)
        assert again.where == first.where
        assert list(again) == shuffled[taken:] and next(again, None) is None


def test_the_state_is_small_and_shuffling_has_a_reach(tmp_path: Path) -> None:
    source = shards(tmp_path / "rows")
    stream = stream_rows(source, buffer=100, seed=3)
    order = [row["n"] for row in stream]
    assert len(json.dumps(stream.state())) < 500
    assert all(abs(place - number) < 100 for place, number in enumerate(order))
    borders = {next(stream_rows(source, buffer=100, epoch=epoch))["n"] for epoch in range(8)}
    assert len(borders) > 3


def test_windows_differ_in_their_order(tmp_path: Path) -> None:
    order = [row["n"] for row in stream_rows(ROWS, buffer=30, seed=4)]
    first = next(
        size
        for size in range(1, 31)
        if sorted(order[:size]) == list(range(size)) and sorted(order[size : size + 30]) == list(range(size, size + 30))
    )
    windows = [[number - start for number in order[start : start + 30]] for start in range(first, first + 90, 30)]
    assert all(sorted(window) == list(range(30)) for window in windows)
    assert windows[0] != windows[1] != windows[2]


def test_where_the_last_row_stood(tmp_path: Path) -> None:
    source = csv(tmp_path / "rows")
    stream = stream_rows(source, buffer=1)
    next(stream)
    assert next(stream)["n"] == "1" and stream.where == f"{source}: line 4"


def test_states_of_something_else(tmp_path: Path) -> None:
    source = shards(tmp_path / "rows")
    state = stream_rows(source, seed=1).state()
    with pytest.raises(DataError, match="another seed: 1, and here it is 2"):
        stream_rows(source, seed=2).restore(state)
    with pytest.raises(DataError, match="another buffer"):
        stream_rows(source, seed=1, buffer=7).restore(state)
    with pytest.raises(DataError, match="not the state of a stream"):
        stream_rows(source).restore({})
    with pytest.raises(DataError, match="another source"):
        stream_rows(source, seed=1, kind="text").restore(state)
    (tmp_path / "1.jsonl").write_text('{"text": "other", "n": 5}')
    with pytest.raises(DataError, match="another source"):
        stream_rows(source, seed=1).restore(state)


def test_rows_are_looked_at_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n{"n": "x"}\n')
    stream = stream_rows(tmp_path / "a.jsonl", buffer=1, columns=["n"])
    assert [next(stream), next(stream)] == [{"n": 1}, {"n": 2}]
    resumed = stream_rows(tmp_path / "a.jsonl", buffer=1, columns=["n"]).restore(stream.state())
    for each in (stream, resumed):  # what was seen before is not forgotten
        with pytest.raises(DataError, match=r"a\.jsonl: line 3: 'n' is 'x', a text, where the rows before"):
            next(each)
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": null}\n{"n": "x"}\n')
    stream = stream_rows(tmp_path / "a.jsonl", buffer=1)
    assert [next(stream), next(stream)] == [{"n": 1}, {"n": None}]
    with pytest.raises(DataError, match="line 3: 'n' is 'x', a text, where the rows before have a number"):
        next(stream_rows(tmp_path / "a.jsonl", buffer=1).restore(stream.state()))
    (tmp_path / "b.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"b\.jsonl: holds no row"):
        list(stream_rows([tmp_path / "b.jsonl", tmp_path / "a.jsonl"]))


def test_what_cannot_be_streamed() -> None:
    with pytest.raises(ConfigError, match="buffer is 0 rows"):
        stream_rows(ROWS, buffer=0)
    with pytest.raises(ConfigError, match="seed is -1"):
        stream_rows(ROWS, seed=-1)
    with pytest.raises(DataError, match="a generator can be read only once"):
        next(stream_rows(row for row in ROWS))
    with pytest.raises(DataError, match="the list: row 0 is a; a row is a dict"):
        next(stream_rows(Words()))


class Words:
    def __iter__(self) -> Any:
        return iter("abc")
