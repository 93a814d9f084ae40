"""Codes as tokens: each pattern by hand, and back exactly for any codes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.audio.code_patterns import CodePattern, Kind
from glassformer.errors import ConfigError, DataError

KINDS: list[Kind] = ["flattened", "delayed", "parallel"]
CODES = torch.tensor([[0, 1, 2], [3, 4, 5]])


def pattern(kind: Kind, **changes: Any) -> CodePattern:
    return CodePattern(**{"kind": kind, "books": 2, "entries": 6, **changes})


def test_by_hand() -> None:
    assert pattern("flattened").tokens(CODES).tolist() == [0, 9, 1, 10, 2, 11]
    assert pattern("parallel").tokens(CODES).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert pattern("delayed").tokens(CODES).tolist() == [[0, 6], [1, 3], [2, 4], [6, 5]]
    assert [pattern(kind).vocabulary for kind in KINDS] == [13, 7, 7]
    assert [pattern(kind).padding for kind in KINDS] == [12, 6, 6]


@given(
    kind=st.sampled_from(KINDS),
    books=st.integers(1, 12),
    frames=st.integers(1, 40),
    entries=st.integers(1, 1024),
    seed=st.integers(0, 2**31),
)
def test_round_trip(kind: Kind, books: int, frames: int, entries: int, seed: int) -> None:
    codes = torch.randint(entries, (books, frames), generator=torch.Generator().manual_seed(seed))
    layout = CodePattern(kind=kind, books=books, entries=entries)
    ids = layout.tokens(codes)
    assert torch.equal(layout.codes(ids), codes)
    assert int(ids.max()) < layout.vocabulary and ids.dtype == torch.int64
    assert int((ids != layout.padding).sum()) == codes.numel()


@given(books=st.integers(1, 6), frames=st.integers(1, 9))
def test_a_delayed_step_holds_earlier_frames_of_later_codebooks(books: int, frames: int) -> None:
    """What a step predicts has its own frame's earlier codebooks in the steps before it."""
    codes = torch.arange(books)[:, None] * 100 + torch.arange(frames)
    ids = CodePattern(kind="delayed", books=books, entries=1000).tokens(codes)
    for step, row in enumerate(ids.tolist()):
        for book, number in enumerate(row):
            frame = step - book
            assert number == (book * 100 + frame if 0 <= frame < frames else 1000)


@pytest.mark.parametrize(
    ("kind", "ids", "message"),
    [
        ("flattened", torch.tensor([0, 9, 1]), "the last frame is incomplete: leave out the last 1"),
        ("flattened", torch.tensor([0, 0]), "the token of frame 0, codebook 1 is no code of that codebook"),
        ("flattened", torch.tensor([0, 13]), "ids lie from 0 to 13; allowed: 0 to 12"),
        ("flattened", torch.tensor([[0, 9]]), r"of shape \[1, 2\]; they must be whole numbers of shape \[frames\]"),
        ("parallel", torch.tensor([[0, 6]]), "the token of frame 0, codebook 1 is no code"),
        ("parallel", torch.tensor([[0, 1, 2]]), r"they must be whole numbers of shape \[frames, 2\]"),
        ("delayed", torch.tensor([[0, 6]]), "delayed by 1, they hold no whole frame"),
        ("delayed", torch.tensor([[0, 1], [6, 2]]), "ids hold 1 at step 0, codebook 1, where nothing can be"),
        ("delayed", torch.tensor([[0, 6], [6, 6]]), "the token of frame 0, codebook 1 is no code"),
        ("delayed", torch.ones(2, 2), "ids are torch.float32"),
        ("parallel", [[0, 1]], "ids are"),
    ],
)
def test_ids_that_are_no_codes(kind: Kind, ids: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pattern(kind).codes(ids)


@pytest.mark.parametrize(
    "codes", [torch.zeros(3, 4).long(), torch.zeros(2, 0).long(), torch.full((2, 2), 6), CODES - 1]
)
def test_codes_of_another_codec(codes: Tensor) -> None:
    for kind in KINDS:
        with pytest.raises(DataError, match=r"codes (are|lie)"):
            pattern(kind).tokens(codes)


@pytest.mark.parametrize("wrong", [{"kind": "zigzag"}, {"books": 0}, {"entries": True}])
def test_patterns_that_there_are_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is"):
        pattern(**{"kind": "parallel", **wrong})
