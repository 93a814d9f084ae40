"""Voice activity by energy: what is loud is heard, also where it is quieter than elsewhere; windows end in silence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from glassformer.audio.features import LogMel
from glassformer.speech.batched import speech_windows
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.voice import Span, cut_windows, speech_by_energy
from tests.audio.sounds import speech_like


def silence(seconds: float) -> np.ndarray:
    noise: np.ndarray = np.random.default_rng(0).normal(size=round(seconds * 16_000)).astype(np.float32)
    return noise * np.float32(1e-4)


def spectrogram(*parts: np.ndarray) -> Spectrogram:
    return Spectrogram(LogMel(), [np.concatenate(parts).astype(np.float32)])


def test_speech_between_silences() -> None:
    spans = speech_by_energy(spectrogram(silence(3), speech_like(4), silence(3), speech_like(2) * 0.05, silence(8)))
    assert len(spans) == 2
    for span, (start, end) in zip(spans, [(3, 7), (10, 12)], strict=True):
        assert span.start == pytest.approx(start, abs=0.5)
        assert span.end == pytest.approx(end, abs=0.5)


def test_digital_silence_is_no_speech() -> None:
    assert speech_by_energy(spectrogram(np.zeros(48_000))) == []
    assert speech_by_energy(spectrogram(np.zeros(10))) == []


def test_windows_are_short_and_leave_nothing_out() -> None:
    parts = [part for seconds in (12, 3, 50, 7, 1) for part in (speech_like(seconds), silence(1.5))]
    sound = spectrogram(*parts)
    spans, windows = speech_by_energy(sound), speech_windows(sound)
    assert all(0 < window.end - window.start <= 30.0001 for window in windows)
    assert all(left.end <= right.start for left, right in pairwise(windows))
    for moment in np.arange(0, sound.duration, 0.1):
        if any(span.start < moment < span.end for span in spans):
            assert any(window.start <= moment <= window.end for window in windows), moment


def test_a_span_without_silence_is_cut_at_its_quietest_moment() -> None:
    windows = cut_windows([Span(0, 70)], 30.0, lambda start, end: (start + end) / 2)
    assert windows == [Span(0, 22.5), Span(22.5, 45.0), Span(45.0, 70)]
    assert cut_windows([], 30.0, lambda start, end: start) == []
