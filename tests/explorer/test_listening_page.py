"""The page of sounds as a file: its sounds, pictures and codes are those that it was given, and its size is bounded."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from glassformer.audio.listening import AttentionOverTime, Sound, SoundExample, SoundMark
from glassformer.errors import DataError
from glassformer.explorer import binary_frames
from glassformer.explorer.listening_page import ListeningPage
from tests.explorer.conftest import HOSTILE
from tests.explorer.reader import Reader

RATE = 16_000


def tone(hz: float, seconds: float = 0.5, level: float = 0.5, rate: int = RATE) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def pieces(page: ListeningPage) -> tuple[Reader, dict[str, str]]:
    """The page, and its blocks by key."""
    read = Reader("".join(page.parts()))
    return read, {str(attributes["data-key"]): text for attributes, text in read.scripts() if "data-key" in attributes}


def test_what_a_page_holds(page_files: Path, tmp_path: Path) -> None:
    codes = np.array([[3, 300, 7], [1, 2, 0]])
    shades = np.linspace(0, 1, 2 * 301).reshape(2, 301)
    marks = [SoundMark("A4", 0.0, 0.5, 69), SoundMark("from here", 0.3)]
    sounds = [
        Sound(HOSTILE[1], tone(440), RATE, marks=marks),
        Sound("quiet", tone(440, level=0.05), RATE, codes=codes, frame_rate_hz=6.0, shades=shades),
    ]
    page = ListeningPage([SoundExample("A4", sounds, "One note.", {"level": "−6 dB"})], "Notes", command="made so")
    read, blocks = pieces(page)
    about = read.json("listening")
    assert (about["title"], about["command"], about["left_out"]) == ("Notes", "made so", [])
    (example,) = about["examples"]
    assert example["facts"] == [["level", "−6 dB"]] and example["about"] == "One note."
    assert [(sound["name"], sound["coded"]) for sound in example["sounds"]] == [(HOSTILE[1], False), ("quiet", True)]
    assert example["sounds"][0]["marks"] == [
        {"label": "A4", "start": 0.0, "end": 0.5, "pitch": 69},
        {"label": "from here", "start": 0.3, "end": None, "pitch": None},
    ]
    assert set(blocks) == {"wav/0/0", "wav/0/1", "mel/0/0", "mel/0/1", "codes/0/1"}
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(blocks["wav/0/0"])), dtype="float32")
    assert rate == RATE and np.abs(samples - tone(440)).max() < 1e-4
    frames = read.frames()
    stored = binary_frames.decode(frames["codes/0/1"])
    assert stored.arrays["codes"].tolist() == codes.tolist() and stored.fields["rate"] == 6.0
    assert np.abs(stored.arrays["shades"] / 255 - shades).max() < 0.002
    loud, quiet = (binary_frames.decode(frames[f"mel/0/{at}"]) for at in (0, 1))
    assert loud.arrays["values"].shape == (80, 50) and loud.fields == {"rate": 100.0, "top": 8_000.0}
    assert loud.arrays["values"].max() == 255, "the loudest cell of an example"
    assert quiet.arrays["values"].max() == pytest.approx(255 * (1 - 20 / 80), abs=3), "20 dB below it"
    assert page.save(tmp_path / "page.html") == (tmp_path / "page.html").stat().st_size


def test_the_pitch_of_a_tone_is_where_its_spectrogram_is_strong(page_files: Path) -> None:
    for rate in (8_000, 16_000, 44_100):
        sounds = [Sound(str(hz), tone(hz, rate=rate), rate) for hz in (200, 3_000)]
        read, _ = pieces(ListeningPage([SoundExample("tones", sounds)], "Tones"))
        rows = [
            int(binary_frames.decode(read.frames()[f"mel/0/{at}"]).arrays["values"][:, 25].argmax()) for at in (0, 1)
        ]
        assert rows == pytest.approx([80 * 3 / 45.2, 80 * 30.9 / 45.2], abs=2), f"mels of 45.2 in all, at {rate} Hz"


def test_its_size_is_bounded(page_files: Path) -> None:
    """Examples for which there is no room are named; those that follow may fit."""
    examples = [SoundExample(f"{s} s", [Sound("one", tone(100, s), RATE)]) for s in (1.0, 60.0, 2.0)]
    page = ListeningPage(iter(examples), "Tones", cap_bytes=200_000)
    read, blocks = pieces(page)
    assert page.left_out == read.json("listening")["left_out"] == ["60.0 s"]
    assert set(blocks) == {"wav/0/0", "mel/0/0", "wav/1/0", "mel/1/0"}
    with pytest.raises(DataError, match=r"larger than the 0\.001 MB that a page holds; cut them, or write wav files"):
        list(ListeningPage(examples, "Tones", cap_bytes=1_000).parts())
    with pytest.raises(DataError, match="no sounds to listen to"):
        list(ListeningPage([], "Nothing").parts())


def test_very_short_sounds_have_pictures(page_files: Path) -> None:
    read, _ = pieces(ListeningPage([SoundExample("click", [Sound("one", np.ones(3, np.float32), RATE)])], "Click"))
    assert binary_frames.decode(read.frames()["mel/0/0"]).arrays["values"].shape == (80, 1)


def test_attention_travels_as_roots(page_files: Path) -> None:
    probs = np.array([[[1.0, 0.0], [0.25, 0.75]], [[0.01, 0.0], [0.0, 0.04]]])
    attention = AttentionOverTime(["head 0", "head 1"], probs, 50.0, 1, "It looks back.")
    read, _ = pieces(ListeningPage([SoundExample("a", [Sound("one", tone(100), RATE, attention=attention)])], "A"))
    assert read.json("listening")["examples"][0]["sounds"][0]["heads"] == ["head 0", "head 1"]
    frame = binary_frames.decode(read.frames()["attention/0/0"])
    assert frame.fields == {"rate": 50.0, "opening": 1, "sentence": "It looks back."}
    most = frame.arrays["most"][:, None, None]
    assert most.ravel().tolist() == pytest.approx([1.0, 0.04])
    assert np.abs(most * (frame.arrays["values"] / 255.0) ** 2 - probs).max() < 0.004


def test_a_page_is_heard_in_a_notebook(page_files: Path, tmp_path: Path) -> None:
    page = ListeningPage(iter([SoundExample("A4", [Sound("tone", tone(440), RATE)])]), "Notes")
    assert repr(page) == "Notes: run the cell to hear and see it"
    shown = page._repr_html_()
    assert shown.startswith('<iframe srcdoc="') and "data-key=&quot;wav/0/0&quot;" in shown
    assert page._repr_html_() == shown and page.save(tmp_path / "page.html") > len("".join(page.parts())) // 2
