"""Transcripts as files: what players and programs read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from glassformer import ConfigError
from glassformer.speech.results import Segment, TimedWord, Transcription
from glassformer.speech.subtitles import WRITERS, LineLimits, clock, write

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


@pytest.mark.parametrize("limits", [None, LineLimits(20, 2)])
@pytest.mark.parametrize("kind", ["srt", "vtt", "tsv", "txt"])
def test_no_text_is_read_as_markup_of_the_file(kind: str, limits: LineLimits | None) -> None:
    texts = (
        " a ---> b",
        "-------->",
        "--\x00> c",
        "d\n\n00:00:01.000 --> 00:00:02.000\ne",
        "f\x00\x1b[2J\x85g\u2028h\ri",
    )
    segments = tuple(Segment(float(n), n + 1.0, text) for n, text in enumerate(texts))
    written = write(kind, Transcription("", segments, 5.0), limits)
    lines = written.split("\n")
    assert not [x for x in lines if "-->" in x and not re.fullmatch(r"\d\d:\d\d:\d\d[.,]\d{3} --> \S+", x)]
    assert not [x for x in written if x in "\0\x1b\x85\u2028\r"]
    assert "".join("f [2J g h i".split()) in "".join(written.split())


def test_json_has_all() -> None:
    document = json.loads(WRITERS["json"](TWO))
    assert document["language"] == "en"
    assert document["segments"][0]["words"][1] == {"word": " what?", "start": 0.4, "end": 1.25, "probability": 0.8}
    assert (document["kind"], document["version"]) == ("transcription", 1)
    assert document["segments"][1]["words"] is None and document["language_probability"] is None


def test_in_a_notebook_a_transcription_is_its_segments_and_printed_its_text() -> None:
    html = replace(TWO, language_probability=0.5)._repr_html_()
    assert "language en (50%)" in html and html.count("<tr>") == 1 + len(TWO.segments)
    assert str(TWO) == repr(TWO) == TWO.text


def test_nothing_was_said() -> None:
    empty = Transcription("", (), 1.0)
    assert [WRITERS[kind](empty) for kind in ("txt", "srt", "vtt")] == ["", "", "WEBVTT\n\n"]


def test_clocks_round_to_milliseconds() -> None:
    assert [clock(s, ",") for s in (59.9996, 3599.9999, -1.0)] == ["00:01:00,000", "01:00:00,000", "00:00:00,000"]


SAID = "And so, my fellow Americans, ask not what your country can do for you; ask what you can do for your country."


def timed(text: str) -> tuple[TimedWord, ...]:
    return tuple(TimedWord(f" {word}", i / 2, i / 2 + 0.4, 0.9) for i, word in enumerate(text.split()))


@pytest.mark.parametrize("words", [timed(SAID), None], ids=["word times", "none"])
@pytest.mark.parametrize(("width", "count"), [(42, 2), (42, 1), (20, 2), (10, 3), (4, 1)])
def test_lines_fit_and_nothing_is_lost(words: tuple[TimedWord, ...] | None, width: int, count: int) -> None:
    whole = Segment(0.0, 12.0, " " + SAID, words=words)
    cues = list(LineLimits(width, count).cues([whole]))
    assert all(len(line) <= width for cue in cues for line in cue.text.split("\n"))
    assert all(len(cue.text.split("\n")) <= count for cue in cues)
    assert "".join("".join(cue.text for cue in cues).split()) == "".join(SAID.split())
    assert cues[0].start == 0.0 and cues[-1].end == 12.0
    assert all(before.end <= after.start for before, after in pairwise(cues))


def test_a_cue_ends_after_punctuation_and_at_a_word() -> None:
    first, second = LineLimits(42, 2).cues([Segment(0.0, 12.0, SAID, words=timed(SAID))])
    assert first.text == "And so, my fellow Americans, ask not what\nyour country can do for you;"
    assert (first.end, second.start) == (6.9, 7.0)
    spaceless = Segment(0.0, 2.0, "\u4f60\u597d" * 8)
    assert [cue.text for cue in LineLimits(10, 1).cues([spaceless])] == ["\u4f60\u597d" * 5, "\u4f60\u597d" * 3]


def test_limits_are_of_subtitles_alone() -> None:
    recorded = Transcription(SAID, (Segment(0.0, 12.0, SAID),), 12.0)
    limits = LineLimits(30, 1)
    assert write("srt", recorded, limits).count("-->") > 3
    assert "00:00:00.000 --> " in write("vtt", recorded, limits)
    assert all(write(kind, recorded, limits) == WRITERS[kind](recorded) for kind in ("txt", "tsv", "json"))
    assert list(limits.cues([Segment(0.0, 1.0, " ")])) == []
    with pytest.raises(ConfigError, match="4 or more"):
        LineLimits(3)
