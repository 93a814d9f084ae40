"""Waves are those of the reference library; a sound never depends on those next to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import Wav2Vec2FeatureExtractor

from glassformer.audio.features import Waveform
from tests.audio.sounds import RATE_HZ, speech_like

SOUNDS = [
    speech_like(1.0),
    speech_like(0.4) * 1e-3 + 0.7,  # quiet, far from 0
    np.zeros(3_000, np.float32),
    np.ones(1, np.float32),
    np.random.default_rng(0).uniform(-1, 1, 9_000).astype(np.float32),
]


def ours(front: Waveform, *sounds: np.ndarray) -> dict[str, Tensor]:
    return front([torch.from_numpy(sound) for sound in sounds])


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("padding_value", [0.0, -1.5])
def test_a_masked_batch_equals_the_references(normalised: bool, padding_value: float) -> None:
    theirs = Wav2Vec2FeatureExtractor(do_normalize=normalised, return_attention_mask=True, padding_value=padding_value)
    expected = theirs(SOUNDS, sampling_rate=RATE_HZ, padding=True, return_tensors="pt")
    batch = ours(Waveform(normalised=normalised, masked=True, padding_value=padding_value), *SOUNDS)
    assert batch.keys() == {"input_values", "attention_mask"}
    assert torch.equal(batch["attention_mask"], expected["attention_mask"].long())
    torch.testing.assert_close(batch["input_values"], expected["input_values"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("sound", SOUNDS, ids=len)
def test_a_sound_alone_equals_the_references(sound: np.ndarray, normalised: bool) -> None:
    theirs = Wav2Vec2FeatureExtractor(do_normalize=normalised, return_attention_mask=False)
    expected = theirs(sound, sampling_rate=RATE_HZ, return_tensors="pt")
    batch = ours(Waveform(normalised=normalised), sound)
    assert batch.keys() == {"input_values"}
    torch.testing.assert_close(batch["input_values"], expected["input_values"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("masked", [True, False])
def test_a_row_alone_equals_the_row_in_a_batch(masked: bool) -> None:
    batch = ours(Waveform(masked=masked), *SOUNDS)["input_values"]
    for row, sound in zip(batch, SOUNDS, strict=True):
        alone = ours(Waveform(masked=masked), sound)["input_values"][0]
        torch.testing.assert_close(row[: len(sound)], alone, atol=1e-6, rtol=1e-5)
        assert not row[len(sound) :].any()


def test_mean_and_variance() -> None:
    batch = ours(Waveform(), *SOUNDS)["input_values"]
    for row, sound in zip(batch, SOUNDS, strict=True):
        heard = row[: len(sound)].double()
        assert heard.mean().abs() < 1e-3
        expected = float(sound.var() / (sound.var() + 1e-7))
        assert float(heard.var(correction=0)) == pytest.approx(expected, abs=1e-3)
