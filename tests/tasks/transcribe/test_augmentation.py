"""Data augmentation of speech: drawn by example and epoch, in training alone, and as strong as asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.data.order import example_generator
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.transcribe.augmentation import Augmentation, at_speed
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.training.batch_loader import BatchLoader, BatchSampler
from tests.tasks.transcribe.tones import RATE_HZ

ALL = {
    "speed": [0.9, 1.0, 1.1],
    "gain_db": 6,
    "noise_db": [10, 20],
    "time_masks": 2,
    "mel_masks": 1,
    "mel_mask_bins": 4,
}


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)).astype(np.float32)


def test_it_follows_from_seed_epoch_and_example(whisper_of_bytes: Path, clips: Path) -> None:
    model = glassformer.load(whisper_of_bytes, task="automatic-speech-recognition", offline=True)
    task = Transcribe(model, audio_context="sound", augmentation=ALL)
    examples = task.encode(read_rows(str(clips))[:8])
    options = TrainingOptions(batch_size=8, seed=3)

    def step(epoch: int, tokens: int) -> list[Any]:
        loader = BatchLoader(task, examples, BatchSampler(options, examples.lengths), (0, 1))
        batches = loader._load(epoch, 0, tokens, 0)
        rows = [(i, batch.batch.input_features[k]) for batch in batches for k, i in enumerate(batch.indices)]  # type: ignore[index]
        return [row for _, row in sorted(rows, key=lambda pair: pair[0])]

    whole, again, cut, later = step(0, 10_000), step(0, 10_000), step(0, 60), step(1, 10_000)
    assert all(bool((a == b).all()) for a, b in zip(whole, again, strict=True))
    for a, b in zip(whole, cut, strict=True):  # next to others or alone
        frames = min(a.shape[1], b.shape[1])
        np.testing.assert_allclose(a[:, :frames], b[:, :frames], atol=1e-5)
    assert not any(a.shape == b.shape and bool((a == b).all()) for a, b in zip(whole, later, strict=True))
    plain = Transcribe(model, audio_context="sound").collate([examples[0]])
    shown = task.collate([task.augment(examples[0], example_generator(0, 0, 0))])
    same: Any = plain.batch.input_features == shown.batch.input_features
    assert bool(same.all()), "validation sees recordings as they are"


def test_speed_changes_length_and_pitch() -> None:
    fast = at_speed(tone(1_000), 1.1)
    assert len(fast) == pytest.approx(RATE_HZ / 1.1, abs=2)
    spectrum = np.abs(np.fft.rfft(fast[1_000:9_000]))
    assert spectrum.argmax() * RATE_HZ / 8_000 == pytest.approx(1_100, abs=3)
    assert at_speed(fast, 1.0) is fast


def test_noise_gain_and_spans_are_as_strong_as_asked_for() -> None:
    draw, clean = np.random.default_rng(0), tone(440)
    noisy = Augmentation(noise_db=(20, 20)).samples(clean, draw)
    ratio = np.square(clean).sum() / np.square(noisy - clean).sum()
    assert 10 * np.log10(ratio) == pytest.approx(20, abs=0.3)
    levels = [np.abs(Augmentation(gain_db=6).samples(clean, draw)).max() / 0.3 for _ in range(40)]
    assert 0.5 <= min(levels) < 0.7 and 1.4 < max(levels) <= 2.0
    spec = Augmentation(time_masks=2, time_mask_seconds=0.1, mel_masks=1, mel_mask_bins=5)
    for _ in range(50):
        spans = spec.spans(30, 100.0, 16, draw)
        assert spans[:, 0].tolist() == [0, 1, 1]
        assert (spans[:, 1] >= 0).all() and (spans[:, 2] <= [16, 30, 30]).all()
        assert (spans[:, 2] - spans[:, 1] <= [5, 10, 10]).all()
    silence = np.zeros(100, np.float32)
    assert np.isfinite(Augmentation(noise_db=(0, 0), gain_db=3).samples(silence, draw)).all()
    assert not Augmentation() and Augmentation(mel_masks=1).masks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": (0.1,)}, r"augmentation\.speed .*from 0\.5 to 2"),
        ({"gain_db": -1}, "augmentation.gain_db is -1"),
        ({"noise_db": (40, 10)}, "two numbers, from and to"),
        ({"noise_db": (10,)}, "two numbers, from and to"),
        ({"time_mask_seconds": 0.0}, "a number above 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Augmentation(**options)
