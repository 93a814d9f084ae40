"""Frames: byte for byte as the page reads them, and nothing else is taken for one."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import DataError
from glassformer.explorer.binary_frames import DTYPES, decode, encode


def test_the_bytes_of_a_frame() -> None:
    """As a reader in another language sees them: no part of our decoder is used."""
    frame = encode(
        "row",
        {
            "a": torch.tensor([1, 2, 3], dtype=torch.uint8),
            "b": torch.tensor([[0.5, -2.0]], dtype=torch.float64),
        },
        {"map": "self", "query": 3},
    )
    magic, version, kind, header_bytes, body_bytes = struct.unpack("<4sHHII", frame[:16])
    assert (magic, version, kind) == (b"GLAS", 2, 0)
    assert json.loads(frame[16 : 16 + header_bytes]) == {
        "frame": "row",
        "arrays": [
            {"name": "a", "dtype": "u8", "shape": [3]},
            {"name": "b", "dtype": "f64", "shape": [1, 2]},
        ],
        "map": "self",
        "query": 3,
    }
    start = -(-(16 + header_bytes) // 8) * 8
    assert frame[16 + header_bytes : start] == bytes(start - 16 - header_bytes)
    assert frame[start:] == b"\1\2\3\0\0\0\0\0" + struct.pack("<dd", 0.5, -2.0)
    assert body_bytes == len(frame) - start == 24


def test_an_infinite_score_goes_through() -> None:
    scores = torch.tensor([0.5, float("-inf")])
    assert decode(encode("row", {"scores": scores}, {})).arrays["scores"].tolist() == [0.5, -np.inf]


@given(
    kind=st.sampled_from(["row", "lens", "a view of a plug-in"]),
    shapes=st.lists(st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=3)), max_size=4),
    words=st.dictionaries(
        st.text(min_size=1).filter(lambda name: name != "arrays"),
        st.one_of(st.text(), st.integers(0, 9), st.booleans()),
        max_size=3,
    ),
)
def test_what_is_put_in_comes_out(kind: str, shapes: list[Any], words: dict[str, Any]) -> None:
    arrays = {
        f"array {i}": np.arange(int(np.prod(shape)), dtype=DTYPES[dtype]).reshape(shape)
        for i, (dtype, shape) in enumerate(shapes)
    }
    frame = decode(encode(kind, arrays, words))
    assert (frame.kind, frame.fields, list(frame.arrays)) == (kind, words, list(arrays))
    for name, array in arrays.items():
        assert frame.arrays[name].dtype == array.dtype
        assert frame.arrays[name].shape == array.shape
        assert (frame.arrays[name] == array).all()


def resized(frame: bytes, spoken_text: bytes) -> bytes:
    """With another length of its array in the header, as long as the true one."""
    return frame.replace(b'"shape":[30]', b'"shape":[' + spoken_text + b"]")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda frame: frame[:10], "at least 16 bytes"),
        (lambda frame: b"GLAZ" + frame[4:], "no frame of version 2"),
        (lambda frame: frame[:4] + b"\3\0" + frame[6:], "no frame of version 2"),
        (lambda frame: frame[:-8], "and it has"),
        (lambda frame: frame + bytes(8), "and it has"),
        (lambda frame: resized(frame, b"99"), "beyond the end"),
        (lambda frame: resized(frame, b"10"), "belong to no array"),
    ],
)
def test_a_damaged_frame_is_refused(damage: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decode(damage(encode("row", {"a": torch.zeros(30)}, {})))


def test_numbers_that_json_cannot_say_are_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode("row", {}, {"scale": float("nan")})
