"""Windows in batches, and the rests of those whose text ends before they do."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.core.flow import EncoderOutput
from glassformer.speech.batched import batched_steps
from glassformer.speech.results import Attempt
from glassformer.speech.sequential import Step
from glassformer.speech.voice import Span
from glassformer.speech.window import Decoded

STAMP = 100
"""The first timestamp; those after it are 0.02 s apart, and smaller ids are words."""


class Spectrogram:
    """One whose frames are their own numbers, of 100 a second."""

    frames_per_second, frames = 100, 6_000

    def window(self, begin: int, end: int, **options: Any) -> Tensor:
        return torch.tensor([[begin, end]])

    def silence_from(self, begin: int) -> int:
        return 0


class Decoder:
    """One that hears what is written down for the second in which a window begins; windows of a batch are noted."""

    quiet_frames = 0
    vocabulary = SimpleNamespace(first_timestamp=STAMP, seconds=lambda token: (token - STAMP) * 0.02)

    def __init__(self, texts: dict[float, list[int]], size: int = 2) -> None:
        self.texts, self.options, self.batches = texts, SimpleNamespace(batch_size=size), list[list[float]]()

    def encode(self, features: Tensor, frames: Any) -> EncoderOutput:
        return EncoderOutput(features)

    def decode(self, memory: EncoderOutput, language: str, previous: Any) -> list[Decoded]:
        begins = [row[0, 0].item() / 100 for row in memory.states]
        self.batches.append(begins)
        return [Decoded(tuple(self.texts[each]), "", 0.0, (Attempt(0.0, 0.0, 1.0),)) for each in begins]

    def is_silent(self, decoded: Decoded) -> bool:
        return not decoded.tokens

    def text(self, tokens: Any) -> str:
        return "".join(f" {token}" for token in tokens if token < STAMP)


def at(seconds: float) -> int:
    return STAMP + round(seconds / 0.02)


def run(texts: dict[float, list[int]], spans: list[tuple[float, float]], size: int = 2) -> tuple[list[Step], Decoder]:
    decoder = Decoder(texts, size)
    windows = [Span(*each) for each in spans]
    return list(batched_steps(decoder, Spectrogram(), windows, "en")), decoder  # type: ignore[arg-type]


def said(steps: list[Step]) -> list[tuple[float, float, str]]:
    return [(round(x.start, 2), round(x.end, 2), x.text.strip()) for step in steps for x in step.segments]


WHOLE = [STAMP, 1, at(9)]


def test_windows_whose_texts_reach_their_ends() -> None:
    steps, decoder = run({0: WHOLE, 10: WHOLE, 20: WHOLE}, [(0, 9.5), (10, 19.5), (20, 29.5)])
    assert decoder.batches == [[0, 10], [20]]
    assert said(steps) == [(0, 9, "1"), (10, 19, "1"), (20, 29, "1")]


@pytest.mark.parametrize(
    "early",
    [[STAMP, 1, at(4)], [STAMP, 1, at(4), at(4), 7], [STAMP, 2, at(1), at(1), 1, at(4)]],
    ids=["its end", "a segment without an end", "two segments"],
)
def test_the_rest_of_a_text_that_ends_early(early: list[int]) -> None:
    """It is decoded with the next batch, and comes before the windows after it."""
    steps, decoder = run({0: early, 4: [STAMP, 3, at(5)], 10: WHOLE, 20: WHOLE}, [(0, 9.5), (10, 19.5), (20, 29.5)])
    assert decoder.batches == [[0, 10], [4, 20]]
    assert said(steps)[-4:] == [(0 if len(early) < 6 else 1, 4, "1"), (4, 9, "3"), (10, 19, "1"), (20, 29, "1")]
    assert [(step.window.start, step.window.end) for step in steps] == [(0, 4), (4, 9.5), (10, 19.5), (20, 29.5)]


def test_a_rest_has_rests() -> None:
    texts = {0.0: [STAMP, 1, at(3)], 3.0: [STAMP, 2, at(3)], 6.0: [STAMP, 3, at(3.4)]}
    steps, decoder = run(texts, [(0, 9.5)])
    assert decoder.batches == [[0], [3], [6]] and said(steps) == [(0, 3, "1"), (3, 6, "2"), (6, 9.4, "3")]


@pytest.mark.parametrize(
    "tokens",
    [[STAMP, 1, at(8.6)], [STAMP, 1, at(0.2)], [STAMP, 1], []],
    ids=["little left", "nothing", "no end", "silent"],
)
def test_what_has_no_rest(tokens: list[int]) -> None:
    _, decoder = run({0: tokens}, [(0, 9.5)])
    assert decoder.batches == [[0]]


def test_every_window_is_decoded_whatever_is_heard() -> None:
    """Texts that end anywhere: steps are in order, touch where one is the rest of another, and reach every end."""
    draw = np.random.default_rng(0)
    for size in (1, 2, 3, 8):
        texts: Any = type("Texts", (dict,), {"__missing__": lambda self, key: [STAMP, 1, at(draw.uniform(0, 12))]})()
        spans = [(10.0 * i, 10.0 * i + 9) for i in range(5)]
        steps, decoder = run(texts, spans, size)
        assert all(len(batch) <= size for batch in decoder.batches)
        starts = [step.window.start for step in steps]
        assert starts == sorted(set(starts)) and len(starts) == sum(map(len, decoder.batches))
        for start, end in spans:
            inside = [step.window for step in steps if start <= step.window.start < end]
            assert inside[0].start == start and inside[-1].end == end
            assert all(a.end == b.start for a, b in pairwise(inside))
