"""Transcripts as files: what players and programs read."""

from __future__ import annotations

import json

import pytest

from glassformer.speech.results import Segment, TimedWord, Transcription
from glassformer.speech.subtitles import WRITERS, clock

WORDS = (TimedWord(" So", 0.0, 0.4, 0.9), TimedWord(" what?", 0.4, 1.25, 0.8))
TWO = Transcription(
    "So what? <b> --> &",
    (Segment(0.0, 1.25, " So what?", words=WORDS), Segment(3661.0, 3662.5, " <b>\t--> &\n")),
    3700.0,
    "en",
)
EXPECTED = {
    "txt": "So what?\n<b> -> &\n",
    "srt": "1\n00:00:00,000 --> 00:00:01,250\nSo what?\n\n2\n01:01:01,000 --> 01:01:02,500\n<b> -> &\n\n",
    "vtt": "WEBVTT\n\n00:00:00.000 --> 00:00:01.250\nSo what?\n\n01:01:01.000 --> 01:01:02.500\n&lt;b> -> &amp;\n\n",
    "tsv": "start\tend\ttext\n0\t1250\tSo what?\n3661000\t3662500\t<b> -> &\n",
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_formats(kind: str) -> None:
    assert WRITERS[kind](TWO) == EXPECTED[kind]


def test_json_has_all() -> None:
    document = json.loads(WRITERS["json"](TWO))
    assert document["language"] == "en"
    assert document["segments"][0]["words"][1] == {"word": " what?", "start": 0.4, "end": 1.25, "probability": 0.8}
    assert "words" not in document["segments"][1]
    assert "language_probability" not in document


def test_nothing_was_said() -> None:
    empty = Transcription("", (), 1.0)
    assert [WRITERS[kind](empty) for kind in ("txt", "srt", "vtt")] == ["", "", "WEBVTT\n\n"]


def test_clocks_round_to_milliseconds() -> None:
    assert [clock(s, ",") for s in (59.9996, 3599.9999, -1.0)] == ["00:01:00,000", "01:00:00,000", "00:00:00,000"]
