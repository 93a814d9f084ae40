"""Mapped index files: what is cut, changed, or of another kind or version is refused in a sentence before it counts."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.retrieval.approximate import ApproximateVectors, write_approximate
from glassformer.retrieval.inverted_index import InvertedIndex
from glassformer.retrieval.mapped import MAX_HEADER, PREFIX
from tests.retrieval import test_inverted_index as words
from tests.retrieval.made import unit_vectors

VECTORS = unit_vectors(3_000, 32)


class Kind(NamedTuple):
    """A kind of index: it is written, and opened."""

    write: Callable[[Path], object]
    open: Callable[[Path], Any]


KINDS = {
    "words.bm25": Kind(lambda path: words.write(path, words.TEXTS, words.IDS), InvertedIndex),
    "vectors.ann": Kind(
        lambda path: write_approximate(path, np.arange(3_000), VECTORS),
        lambda path: ApproximateVectors(path, lambda ids: VECTORS[ids]),
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


@pytest.mark.parametrize("size", [0, 10, MAX_HEADER, MAX_HEADER + 100, -1, "longer"])
def test_a_cut_file(path: Path, size: int | str) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" if isinstance(size, str) else whole[:size])
    with pytest.raises(DataError, match=rf"{path.name}: the index is damaged: .*make the index again"):
        opened(path)


def test_a_changed_byte_anywhere(path: Path) -> None:
    """Refused where the file opens, or where its part is first read; a byte between the arrays changes nothing."""
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    places = opened(path).header.places()
    inside = [*range(40), *(int(draw.integers(part.start, part.stop)) for part in places.values() for _ in range(8))]
    for place in inside:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(draw.integers(8))
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"make the index again|is not valid JSON"):
            opened(path).verify()
    assert len(inside) == 40 + 8 * len(places) and all(part.stop > part.start for part in places.values())
    end = max(place for place in range(MAX_HEADER) if whole[place]) + 1
    gap = next((part.stop for part in list(places.values())[:-1] if part.stop % 64), end)
    path.write_bytes(whole[:gap] + b"\1" + whole[gap + 1 :])
    opened(path).verify()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "format is 2"),
        ({"newer": 1}, "'newer' is no option"),
        ({"crc32": {}}, "its (large|steps) differ"),
        ({"newest": -1}, "newest is -1"),
        ({"passages": 0, "count": 0}, "(passages|count) is 0"),
        ({"postings": 10**14, "clusters": 10**14}, "was written with"),
        ({"terms": 10**14, "count": 10**14}, "was written with"),
        ({"mean_length": "no", "measure": "euclid"}, "(mean_length|measure) is '"),
    ],
)
def test_a_header_of_another_version_or_size(path: Path, changes: dict[str, object], said: str) -> None:
    data = path.read_bytes()
    magic, length, _ = PREFIX.unpack_from(data)
    header = json.loads(data[PREFIX.size : PREFIX.size + length])
    both = {"format", "newer", "crc32", "newest"}
    header |= {name: value for name, value in changes.items() if name in both or name in header}
    text = json.dumps(header).encode()
    start = (PREFIX.pack(magic, len(text), zlib.crc32(text)) + text).ljust(MAX_HEADER, b"\0")
    path.write_bytes(start + data[MAX_HEADER:])
    with pytest.raises(DataError, match=said):
        opened(path)


def test_what_is_no_such_file(path: Path) -> None:
    path.write_bytes(bytes(9_000))
    with pytest.raises(DataError, match="are not those of an index"):
        opened(path)
    path.unlink()
    with pytest.raises(DataError, match="cannot be opened"):
        opened(path)
    os.mkfifo(path)
    with pytest.raises(DataError, match="is not a regular file"):
        opened(path)
