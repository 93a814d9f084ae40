"""Mapped index files: what is cut, changed, or of another kind or version is refused in a sentence before it counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.retrieval import approximate, inverted_index
from glassformer.retrieval.approximate import ApproximateVectors, write_approximate
from glassformer.retrieval.inverted_index import InvertedIndex
from glassformer.retrieval.mapped import map_arrays, write_arrays
from glassformer.weights.header import read_file_header
from tests.retrieval import test_inverted_index as words
from tests.retrieval.made import place_of, unit_vectors

VECTORS = unit_vectors(3_000, 32)


class Kind(NamedTuple):
    """A kind of index: it is written, and opened."""

    write: Callable[[Path], object]
    open: Callable[[Path], Any]
    kinds: tuple[str, ...]
    unchecked: tuple[str, ...]


KINDS = {
    "words.bm25": Kind(
        lambda path: words.write(path, words.TEXTS, words.IDS),
        InvertedIndex,
        (inverted_index.KIND,),
        ("rows", "counts"),
    ),
    "vectors.ann": Kind(
        lambda path: write_approximate(path, np.arange(3_000), VECTORS),
        lambda path: ApproximateVectors(path, lambda ids: VECTORS[ids]),
        tuple(approximate.KINDS.values()),
        ("codes",),
    ),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    for name, kind in KINDS.items():
        kind.write(folder / name)
    return folder


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    copy = tmp_path / request.param
    copy.write_bytes((written / request.param).read_bytes())
    return copy


def opened(path: Path) -> Any:
    return KINDS[path.name].open(path)


@pytest.mark.parametrize("size", [0, 7, 10, 500, 5_000, -1, "longer"])
def test_a_cut_file(path: Path, size: int | str) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" if isinstance(size, str) else whole[:size])
    with pytest.raises(DataError, match=rf"{path.name}: the index is damaged: .*make the index again"):
        opened(path)


def test_a_changed_byte_anywhere(path: Path) -> None:
    """Refused where the file opens, or where its part is first read."""
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    names = list(read_file_header(path).tensors)
    header = min(place_of(path, name).start for name in names)
    inside = list(range(header))
    for part in (place_of(path, name) for name in names):
        assert part.stop > part.start
        inside += [int(draw.integers(part.start, part.stop)) for _ in range(8)]
    for place in inside:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(draw.integers(8))
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"make the index again"):
            opened(path).verify()


def test_another_version_or_kind(path: Path) -> None:
    _, arrays = map_arrays(path, KINDS[path.name].kinds, KINDS[path.name].unchecked)
    for kind in ("words, version 2", "", "vectors by euclid, version 1"):
        write_arrays(path, kind, arrays)
        with pytest.raises(DataError, match=f"cannot be searched: it is of the kind '{kind}'; make the index again"):
            map_arrays(path, KINDS[path.name].kinds)
    (other,) = KINDS.keys() - {path.name}
    write_arrays(path, next(iter(KINDS[other].kinds)), arrays, KINDS[path.name].unchecked)
    with pytest.raises(DataError, match="cannot be searched: it is of the kind"):
        opened(path)


def test_what_is_no_such_file(path: Path) -> None:
    path.write_bytes(bytes(9_000))
    with pytest.raises(DataError, match="the index is damaged: its header does not start with"):
        opened(path)
    path.unlink()
    with pytest.raises(DataError, match="cannot be opened"):
        opened(path)
    os.mkfifo(path)
    with pytest.raises(DataError, match="is not a regular file"):
        opened(path)
