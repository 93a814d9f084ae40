"""Log-mel spectrograms are those of the reference library, and what the formula says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor

from glassformer.audio.features import LogMel, mel_filters, mel_to_hz
from glassformer.audio.read import read_audio
from tests.audio.sounds import RATE_HZ, speech_like

SOUNDS = {
    "speech-like": speech_like(3.0),
    "a whole window": speech_like(30.0),
    "silence": np.zeros(20_000, np.float32),
    "one sample": np.ones(1, np.float32),
    "noise": np.random.default_rng(0).uniform(-1, 1, 50_000).astype(np.float32),
    "very quiet": speech_like(2.0) * 1e-6,
    "beyond full loudness": speech_like(2.0) * 50,
}


def features(front: LogMel, *sounds: np.ndarray) -> torch.Tensor:
    return front([torch.from_numpy(sound) for sound in sounds])["input_features"]


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("name", SOUNDS)
def test_equals_the_reference(name: str, bins: int) -> None:
    theirs = WhisperFeatureExtractor(feature_size=bins)
    expected = theirs(SOUNDS[name], sampling_rate=RATE_HZ, return_tensors="pt")["input_features"]
    mine = features(LogMel(bins=bins), SOUNDS[name])
    assert mine.shape == (1, bins, 3000) and mine.dtype == torch.float32
    torch.testing.assert_close(mine, expected, atol=1e-4, rtol=0)


def test_equals_the_references_other_settings() -> None:
    """Another window, hop, length and padding, as fine-tuned models have them."""
    theirs = WhisperFeatureExtractor(
        feature_size=40, n_fft=512, hop_length=128, chunk_length=7, padding_value=0.01, sampling_rate=24_000
    )
    expected = theirs(SOUNDS["speech-like"], sampling_rate=24_000, return_tensors="pt")["input_features"]
    front = LogMel(sample_rate_hz=24_000, bins=40, window_samples=512, hop_samples=128, seconds=7, padding_value=0.01)
    torch.testing.assert_close(features(front, SOUNDS["speech-like"]), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("bins", [80, 128])
def test_equals_the_reference_on_real_speech(shared: Path, bins: int) -> None:
    folder = shared / "data" / "speech"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/speech next to the repository")
    paths = [folder / "jfk.flac", *sorted(folder.rglob("*.ogg"))[::6], *sorted(folder.rglob("*.wav"))]
    assert len(paths) > 6
    sounds = [read_audio(path, RATE_HZ) for path in paths]
    theirs = WhisperFeatureExtractor(feature_size=bins)
    expected = theirs(sounds, sampling_rate=RATE_HZ, return_tensors="pt")["input_features"]
    torch.testing.assert_close(features(LogMel(bins=bins), *sounds), expected, atol=1e-4, rtol=0)


def test_a_row_alone_equals_the_row_in_a_batch() -> None:
    sounds = list(SOUNDS.values())
    batch = features(LogMel(), *sounds)
    for row, sound in zip(batch, sounds, strict=True):
        torch.testing.assert_close(row, features(LogMel(), sound)[0], atol=1e-6, rtol=0)


def test_silence_is_flat_and_nothing_is_more_than_80_db_down() -> None:
    assert torch.equal(features(LogMel(), SOUNDS["silence"]), torch.full((1, 80, 3000), -1.5))
    for sound in SOUNDS.values():
        spectrogram = features(LogMel(), sound)
        assert spectrogram.amax() - spectrogram.amin() <= 2.0 + 1e-6  # 8 powers of ten, a quarter each


@pytest.mark.parametrize("hz", [300.0, 1_000.0, 4_000.0])
def test_a_tone_stands_in_its_own_band_and_its_own_time(hz: float) -> None:
    tone = np.zeros(3 * RATE_HZ, np.float32)
    t = np.arange(RATE_HZ) / RATE_HZ
    tone[RATE_HZ : 2 * RATE_HZ] = 0.5 * np.sin(2 * math.pi * hz * t)
    spectrogram = features(LogMel(), tone)[0]
    top = 15 + math.log(8) / math.log(6.4) * 27
    centres = mel_to_hz(torch.linspace(0, top, 82, dtype=torch.float64))[1:-1]
    assert int(spectrogram[:, 150].argmax()) == int((centres - hz).abs().argmin())
    loud = (spectrogram.amax(dim=0) > spectrogram.amax() - 0.1).nonzero().flatten()
    assert 98 <= int(loud.min()) <= 101 and 198 <= int(loud.max()) <= 201  # frames of 10 ms


@pytest.mark.parametrize("bins", [1, 20, 80, 128])
def test_filters_are_triangles_of_equal_area(bins: int) -> None:
    filters = mel_filters(bins, 4096, RATE_HZ)  # fine enough to measure areas by sums
    assert filters.shape == (bins, 2049) and (filters >= 0).all()
    areas = filters.double().sum(dim=1) * (RATE_HZ / 4096)
    torch.testing.assert_close(areas, torch.ones(bins, dtype=torch.float64), atol=0.02, rtol=0)
    for row in filters:  # up, then down
        rises = (row.diff() > 0).nonzero().flatten()
        falls = (row.diff() < 0).nonzero().flatten()
        assert rises.max() < falls.min()
    peaks = filters.argmax(dim=1)
    assert (peaks.diff() > 0).all()


def test_the_scale_is_straight_below_1_khz_and_logarithmic_above() -> None:
    below = mel_to_hz(torch.tensor([0.0, 3.0, 15.0], dtype=torch.float64))
    assert below.tolist() == pytest.approx([0.0, 200.0, 1000.0])
    assert mel_to_hz(torch.tensor([42.0], dtype=torch.float64)).item() == pytest.approx(
        6400.0
    )  # 27 mels, a factor of 6.4
