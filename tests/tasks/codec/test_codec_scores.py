"""Scores of a codec by hand: SI-SNR, mel distance, use of codes, and their resamples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.tasks.codec.scores import (
    bootstrap_of,
    chroma,
    chroma_correlation,
    code_counts,
    mel_distance,
    perplexity_of_counts,
    si_snr_db,
)
from glassformer.tasks.metrics.metric import greater_is_better, intervals

DRAW = torch.Generator().manual_seed(0)
SOUND = torch.randn(2, 8_000, generator=DRAW)


def test_si_snr_is_the_level_of_the_noise_whatever_the_scale() -> None:
    noise = torch.randn(2, 8_000, generator=DRAW)
    noise -= (noise * SOUND).sum(1, keepdim=True) / SOUND.square().sum(1, keepdim=True) * SOUND  # nothing of the sound
    noise *= SOUND.norm(dim=1, keepdim=True) / noise.norm(dim=1, keepdim=True) * 10 ** (-15 / 20)
    for scale in (0.1, 1.0, 7.0):
        assert si_snr_db(scale * (SOUND + noise), SOUND).tolist() == pytest.approx([15, 15], abs=0.02)
    assert bool((si_snr_db(SOUND, SOUND) > 80).all())
    assert bool(si_snr_db(torch.zeros_like(SOUND), SOUND).isfinite().all())


def test_mel_distance_is_in_decibels() -> None:
    assert mel_distance(SOUND, SOUND, 16_000).tolist() == [0, 0]
    assert mel_distance(0.5 * SOUND, SOUND, 16_000).tolist() == pytest.approx([6.02, 6.02], abs=0.01)
    assert mel_distance(torch.zeros_like(SOUND), SOUND, 16_000).tolist() < [80.01, 80.01]
    assert mel_distance(SOUND[:, :50], SOUND[:, :50], 16_000).tolist() == [0, 0]  # shorter than a window


def test_chroma_is_the_pitch_class_in_any_octave() -> None:
    times = torch.arange(8_000) / 16_000
    tones = torch.stack([torch.sin(2 * torch.pi * hz * times) for hz in (220.0, 880.0, 440.0 * 2 ** (4 / 12))])
    assert chroma(tones, 16_000).argmax(1).tolist() == [0, 0, 4]  # from A: A, A, C sharp
    assert chroma_correlation(0.3 * tones[:1], tones[1:2], 16_000).item() > 0.9
    assert chroma_correlation(tones[:1], tones[2:], 16_000).item() < 0.1
    assert chroma_correlation(torch.zeros(1, 50), tones[:1, :50], 16_000).item() == 0  # silent, and short


def test_use_of_codes() -> None:
    codes = torch.tensor([[[0, 1, 2, 3], [2, 2, 2, 2]]])
    counts = code_counts(codes, 4)
    assert counts.tolist() == [[1, 1, 1, 1], [0, 0, 4, 0]]
    assert float(perplexity_of_counts(counts.numpy())) == pytest.approx((4 + 1) / 2)


def test_scores_of_recordings_and_their_resamples() -> None:
    rows = [{"si_snr_db": 3.0, "mel_distance": 2.0}, {"si_snr_db": 5.0, "mel_distance": 4.0}]
    counts = np.array([[[3.0, 0, 0, 0]], [[0, 3.0, 0, 0]]])
    bootstrap = bootstrap_of(rows, counts)
    values = bootstrap.values()
    assert values["si_snr_db"] == 4 and values["mel_distance"] == 3
    assert values["code_perplexity"] == pytest.approx(2) and values["dead_codes"] == 0.5
    twice = bootstrap.scores(np.array([[2, 0]]))
    assert twice["dead_codes"].tolist() == [0.75] and twice["si_snr_db"].tolist() == [3]
    assert intervals(bootstrap, resamples=20)["mel_distance"].low is not None
    assert set(bootstrap_of(rows, None).values()) == {"si_snr_db", "mel_distance"}
    assert not greater_is_better("mel_distance") and not greater_is_better("dead_codes")
    assert greater_is_better("si_snr_db")
