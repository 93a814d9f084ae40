"""Windows over a long text: each token is answered for once, by the window that sees most of what is around it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.text.windows import TextWindow, windows


@pytest.mark.parametrize("keep", ["middle", "context"])
def test_each_token_is_answered_for_once(keep: str) -> None:
    draw = random.Random(0)
    for _ in range(500):
        length, size = draw.randint(0, 90), draw.randint(1, 30)
        stride = draw.randint(0, size - 1)
        starts = set(draw.sample(range(length), draw.randint(0, length)))
        parts = windows(length, size, stride, keep=keep, begins_word=starts.__contains__)
        outputs = [torch.tensor([[i, w.start, w.end] for i in range(w.start, w.end)]).view(-1, 3) for w in parts]
        assert all(0 < w.end - w.start <= size for w in parts) and [i for w in parts for i in w.keep] == list(
            range(length)
        )
        assert all(w.start <= w.keep.start and w.keep.stop <= w.end for w in parts)
        assert all(a.end - b.start >= stride for a, b in pairwise(parts)), "neighbours share these"
        if not length:
            assert parts == []
            continue
        merged = torch.cat([window.own(output) for window, output in zip(parts, outputs, strict=True)])
        assert merged[:, 0].tolist() == list(range(length))
        for place, start, end in merged.tolist():
            reading = [w for w in parts if w.start <= place < w.end]
            before = max(place - w.start for w in reading)
            if keep == "context":
                assert place - start == before, "the window with the longest context answers"
            else:  # how far it is from where the text was cut; the text's own ends are no cuts
                far = [
                    min(place - w.start + 999 * (not w.start), w.end - place + 999 * (w.end == length)) for w in reading
                ]
                own = min(place - start + 999 * (not start), end - place + 999 * (end == length))
                assert own >= max(far) - 1


def test_what_the_drawing_shows() -> None:
    assert windows(10, 6, 3) == [
        TextWindow(0, 6, range(4)),
        TextWindow(3, 9, range(4, 7)),
        TextWindow(6, 10, range(7, 10)),
    ]
    assert [w.keep for w in windows(10, 6, 3, keep="context")] == [range(6), range(6, 9), range(9, 10)]
    assert windows(5, None) == windows(5, 5) == [TextWindow(0, 5, range(5))]


def test_windows_begin_with_words_where_they_can() -> None:
    spans = [(w.start, w.end) for w in windows(10, 4, 1, begins_word={0, 3, 8}.__contains__)]
    assert spans == [(0, 4), (3, 7), (6, 10)], "no word begins near 6"
    apart = windows(10, 4, begins_word={0, 3, 7}.__contains__)
    assert [(w.start, w.end) for w in apart] == [(0, 3), (3, 7), (7, 10)], "no token is read twice"


@pytest.mark.parametrize(
    ("size", "stride", "message"),
    [
        (0, 0, "leave no room for text"),
        (4, 4, "stride is 4; windows of 4 tokens share 0 to 3"),
        (4, -1, "stride is -1"),
    ],
)
def test_windows_without_room(size: int, stride: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        windows(9, size, stride)
