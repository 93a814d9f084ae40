"""Examples kept: what was put in comes out, in memory and from files, whatever happens to the files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import DataError
from glassformer.data.store import ExampleStore

EXAMPLES: list[dict[str, Any]] = [
    {"input_ids": list(range(number % 7)), "labels": number % 3, "weights": np.full((number % 2 + 1, 2), 0.5)}
    for number in range(1, 1_101)
]


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def unasked() -> Iterator[Any]:
    raise AssertionError("the examples were asked for again")
    yield


def test_what_is_put_in_comes_out(tmp_path: Path) -> None:
    stores = [
        ExampleStore.make(EXAMPLES),
        ExampleStore.make(iter(EXAMPLES), tmp_path, "k"),
        ExampleStore.make(unasked(), tmp_path, "k"),
    ]
    for store in stores:
        assert len(store) == 1_100 and all(map(same, store, EXAMPLES)) and same(store[-1], EXAMPLES[-1])
        assert store[4]["input_ids"].dtype == np.int32 and store[4]["weights"].dtype == np.float64
        assert type(store[4]["labels"]) is int
        assert store.lengths.tolist() == [number % 7 for number in range(1, 1_101)]
        assert store.fingerprint == stores[0].fingerprint
        with pytest.raises(IndexError, match="no example 1100 among 1,100"):
            store[1_100]
    assert repr(stores[0]).startswith("1,100 examples of 3,298 tokens: input_ids (int32), labels (int64), weights")
    assert ExampleStore.make(EXAMPLES[::-1]).fingerprint != stores[0].fingerprint
    assert ExampleStore.make(EXAMPLES[:5], tmp_path, "another").lengths.tolist() == [1, 2, 3, 4, 5]
    assert len(list(tmp_path.iterdir())) == 2


VECTORS = st.lists(st.integers(-5, 2**31 - 1), max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(VECTORS, st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1, max_size=8))
def test_any_numbers(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    examples = [{"a": a, "b": b, "c": c} for a, b, c in rows]
    store = ExampleStore.make(examples, tmp_path_factory.mktemp("kept"), "k")
    assert [{**example, "a": example["a"].tolist()} for example in store] == examples


def test_lengths() -> None:
    pairs = [{"input_ids": [1] * n, "decoder_input_ids": [2] * (2 * n)} for n in (1, 3)]
    assert ExampleStore.make(pairs).lengths.tolist() == [3, 9]
    assert ExampleStore.make([{"pixel_values": np.zeros((3, 2, 2))}] * 4).lengths.tolist() == [1] * 4
    assert ExampleStore.make([{"input_ids": [1], "length": 7}]).lengths.tolist() == [7]


def test_what_comes_out_can_be_changed(tmp_path: Path) -> None:
    for store in (ExampleStore.make(EXAMPLES), ExampleStore.make(EXAMPLES, tmp_path, "k")):
        store[3]["input_ids"][0] = 99
        assert same(store[3], EXAMPLES[3])


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "no example to store"),
        ([{}], "the first example is empty"),
        ([1], "example 0 is 1, a number; an example is a dict of names and arrays or numbers"),
        ([{"a": 1}, [2]], r"example 1 is \[2\], a list; an example is a dict"),
        ([{1: 2}], "example 0 is {1: 2}"),
        ([{"a": "text"}], "the first example: 'a' is 'text'; it must be a number, or an array"),
        ([{"a": [[1], [1, 2]]}], "the first example: 'a' is"),
        ([{"a": 1}, {"a": 1, "b": 2}], "example 1 has a, b, and the first has a"),
        ([{"a": 1}, {"b": 1}], "example 1 has b, and the first has a"),
        ([{"a": 1}, {"a": [1]}], r"example 1: 'a' has shape \[1\], and before it of a number"),
        ([{"a": np.ones((2, 3))}, {"a": np.ones((2, 4))}], r"'a' has shape \[2, 4\], and before it \[n, 3\]"),
        ([{"a": [1]}, {"a": [1.5]}], r"example 1: 'a' is \[1.5\], which is no int32"),
        ([{"a": [1]}, {"a": [2**31]}], "which is no int32"),
        ([{"a": np.ones(2, np.uint8)}, {"a": np.array([-1, 2])}], "which is no uint8"),
    ],
)
def test_examples_that_do_not_fit(tmp_path: Path, examples: list[Any], message: str) -> None:
    for path in (None, tmp_path):
        with pytest.raises(DataError, match=message):
            ExampleStore.make(examples, path, "k")
    assert not list(tmp_path.iterdir())


def test_a_store_in_a_folder_needs_a_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is found again by its key"):
        ExampleStore.make(EXAMPLES, tmp_path)


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["input_ids.values", "labels.values", "input_ids.offsets", "store.json"])
@pytest.mark.parametrize("harm", [_flip, Path.unlink, lambda file: os.truncate(file, 8)])
def test_a_damaged_store_is_made_anew(tmp_path: Path, name: str, harm: Any) -> None:
    ExampleStore.make(EXAMPLES, tmp_path, "k")
    (place,) = tmp_path.iterdir()
    harm(place / name)
    assert all(map(same, ExampleStore.make(EXAMPLES, tmp_path, "k"), EXAMPLES))
    assert all(map(same, ExampleStore.make(unasked(), tmp_path, "k"), EXAMPLES))
    assert list(tmp_path.iterdir()) == [place]


def test_an_error_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Any]:
        yield from EXAMPLES
        raise DataError("train.csv: line 7 is wrong")

    with pytest.raises(DataError, match="line 7 is wrong"):
        ExampleStore.make(broken(), tmp_path, "k")
    assert not list(tmp_path.iterdir())


def test_a_killed_process_leaves_nothing_that_counts(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from glassformer.data.store import ExampleStore
def examples():
    for number in range(5_000):
        yield {{"input_ids": [1] * 100}}
    os._exit(9)
ExampleStore.make(examples(), Path({str(tmp_path)!r}), "k")
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    (part,) = tmp_path.iterdir()
    assert ".part." in part.name and (part / "input_ids.values").stat().st_size > 0
    assert len(ExampleStore.make(EXAMPLES[:3], tmp_path, "k")) == 3
    assert not part.exists()


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="examples cannot be stored there: No space left on device; make room"):
        ExampleStore.make(EXAMPLES, tmp_path, "k")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file: examples cannot be stored there"):
        ExampleStore.make(EXAMPLES, tmp_path / "file", "k")


def test_the_first_writer_wins(tmp_path: Path) -> None:
    """Two processes that make the same store: the second finds the first's in its place."""

    inode: list[int] = []

    def slow() -> Iterator[Any]:
        yield EXAMPLES[0]
        ExampleStore.make(EXAMPLES[:2], tmp_path / "other", "k")
        (tmp_path / "other").rename(tmp_path / "moved")
        (made,) = (tmp_path / "moved").iterdir()
        made.rename(tmp_path / made.name)
        (tmp_path / "moved").rmdir()
        inode.append((tmp_path / made.name / "store.json").stat().st_ino)
        yield EXAMPLES[1]

    store = ExampleStore.make(slow(), tmp_path, "k")
    (place,) = tmp_path.iterdir()
    assert len(store) == 2 and [(place / "store.json").stat().st_ino] == inode


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, ["input_ids", "O", True, []]),
        (0, ["input_ids", "U4", True, []]),
        (0, ["input_ids", "int32", True, [-1]]),
        (0, ["input_ids", "int32", True, ["a"]]),
        (0, ["../../outside", "int32", True, []]),
        (0, 3),
        (1, ["labels", "int16", False, []]),
        (1, ["labels", "int8", False, []]),
    ],
)
def test_odd_metadata_is_no_store(tmp_path: Path, column: int, value: Any) -> None:
    """Bytes of a file that were taken for Python's objects would end the process, or worse."""
    (folder,) = (ExampleStore.make(EXAMPLES, tmp_path, "k"), *tmp_path.iterdir())[1:]
    metadata = json.loads((folder / "store.json").read_text())
    metadata["columns"][column] = value
    (folder / "store.json").write_text(json.dumps(metadata))
    assert ExampleStore._open(folder, "k") is None
    assert all(map(same, ExampleStore.make(EXAMPLES, tmp_path, "k"), EXAMPLES))


@pytest.mark.parametrize("offsets", [[0, 5, 3], [-4, 0, 5], [1, 2, 5], [0, 1 << 62, 5]])
def test_offsets_that_do_not_divide_the_values(tmp_path: Path, offsets: list[int]) -> None:
    ExampleStore.make([{"a": [1, 2, 3]}, {"a": [4, 5]}], tmp_path, "k")
    (folder,) = tmp_path.iterdir()
    content = np.array(offsets, np.int64).tobytes()
    (folder / "a.offsets").write_bytes(content)
    metadata = json.loads((folder / "store.json").read_text())
    metadata["digests"]["a.offsets"] = hashlib.sha256(content).hexdigest()
    (folder / "store.json").write_text(json.dumps(metadata))
    assert ExampleStore._open(folder, "k") is None


@pytest.mark.parametrize("name", ["input_ids.values", "store.json"])
def test_a_pipe_or_a_link_out_of_a_store_is_not_read(tmp_path: Path, name: str) -> None:
    ExampleStore.make(EXAMPLES, tmp_path, "k")
    (folder,) = tmp_path.iterdir()
    (folder / name).rename(tmp_path / "outside")
    os.mkfifo(folder / name)
    assert ExampleStore._open(folder, "k") is None
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "outside")
    assert (ExampleStore._open(folder, "k") is None) is (name != "store.json")


def test_a_stray_name_next_to_a_store_is_left_alone(tmp_path: Path) -> None:
    ExampleStore.make(EXAMPLES, tmp_path, "k")
    (folder,) = tmp_path.iterdir()
    stray = tmp_path / f"{folder.name}.part.{socket.gethostname()}.notes"
    folder.rename(stray)
    assert len(ExampleStore.make(EXAMPLES, tmp_path, "k")) == len(EXAMPLES)
    assert stray.is_dir()
