"""Sounds to be compared: what is refused, wav files that say what they are, and names of files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from glassformer.audio.listening import AttentionOverTime, Sound, SoundExample, write_sounds
from glassformer.errors import DataError

WAVE = np.sin(np.arange(800) * 0.1).astype(np.float32) * 0.5


def test_a_wav_file_holds_the_samples() -> None:
    samples, rate = soundfile.read(io.BytesIO(Sound("a", WAVE, 8_000).wav()), dtype="float32")
    assert rate == 8_000 and np.abs(samples - WAVE).max() < 1e-4
    loud, _ = soundfile.read(io.BytesIO(Sound("a", torch.tensor([3.0, -3.0]), 8_000).wav()))
    assert loud.tolist() == pytest.approx([1.0, -1.0], abs=1e-4), "clipped, not wrapped around"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples": np.zeros(0, np.float32)}, r"floats \[samples\], one at least"),
        ({"samples": np.zeros((2, 9))}, "shape \\[2, 9\\]"),
        ({"samples": np.zeros(9, np.int16)}, "int16"),
        ({"samples": np.array([0.0, np.nan])}, "NaN or infinite"),
        ({"sample_rate_hz": 1_000}, "browsers play 8000 to 96000"),
        ({"sample_rate_hz": 16_000.0}, "16000.0 Hz"),
        ({"codes": np.zeros((2, 5)), "frame_rate_hz": 50.0}, "numbers from 0 up"),
        ({"codes": np.zeros(5, int), "frame_rate_hz": 50.0}, "\\[K, T\\]"),
        ({"codes": np.array([[1, -1]]), "frame_rate_hz": 50.0}, "numbers from 0 up"),
        ({"codes": np.array([[1, 1]])}, "need their frame_rate_hz; got None"),
        ({"codes": np.array([[1, 7]]), "frame_rate_hz": 50.0, "shades": np.zeros((1, 7))}, r"shades .* are \[1, 7\]"),
    ],
)
def test_what_is_no_sound_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sound(**{"name": "it", "samples": WAVE, "sample_rate_hz": 8_000, **fields})


def test_examples_as_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'none' has no sounds"):
        SoundExample("none", [])
    examples = [SoundExample("../Em & more", [Sound("dry", WAVE, 8_000), Sound("wet", WAVE, 8_000)])]
    paths = list(write_sounds(examples, tmp_path / "sounds"))
    assert [path.name for path in paths] == ["01-em-more-dry.wav", "01-em-more-wet.wav"]
    assert soundfile.info(paths[1]).frames == 800
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        list(write_sounds(examples, tmp_path / "file"))


def test_as_data() -> None:
    coded = Sound("a", WAVE, 8_000, codes=torch.tensor([[1, 2]]), frame_rate_hz=20.0)
    assert SoundExample("t", [coded], facts={"n": "1"}).to_dict() == {
        "title": "t",
        "facts": {"n": "1"},
        "sounds": [
            {"name": "a", "seconds": 0.1, "sample_rate_hz": 8_000, "codes": [[1, 2]], "frame_rate_hz": 20.0},
        ],
    }


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (np.zeros((2, 3, 3)), r"shape \[2, 3, 3\] for 1 heads"),
        (np.full((1, 3, 3), 1.5), "no probabilities"),
        (np.full((1, 3, 3), np.nan), "no probabilities"),
    ],
)
def test_what_is_no_attention_is_refused(probs: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        AttentionOverTime(["head 0"], probs, 50.0)
