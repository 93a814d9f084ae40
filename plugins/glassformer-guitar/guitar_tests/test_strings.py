"""Plucked strings: in tune, ringing as long as they should, brighter where they are plucked nearer to the bridge."""

from __future__ import annotations

import numpy as np
import pytest
from glassformer_guitar.strings import TUNING, Guitar, body, frequency_hz, pluck

DRAW = np.random.default_rng(0)


def spectrum(x: np.ndarray, rate: int) -> tuple[np.ndarray, float]:
    """Magnitudes, and the Hz of a bin."""
    size = 1 << 20
    return np.abs(np.fft.rfft(x * np.hanning(len(x)), size)), rate / size


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("midi", [*TUNING, 79])
def test_strings_are_in_tune(rate: int, midi: int) -> None:
    string = pluck(Guitar(), midi, rate, rate, np.random.default_rng(1))
    magnitudes, bin_hz = spectrum(string[rate // 8 :], rate)
    wanted = frequency_hz(midi)
    low, high = int(0.94 * wanted / bin_hz), int(1.06 * wanted / bin_hz)
    heard = (low + magnitudes[low:high].argmax()) * bin_hz
    assert abs(1200 * np.log2(heard / wanted)) < 2  # cents


def test_concert_pitch() -> None:
    assert frequency_hz(69) == 440.0 and frequency_hz(57) == pytest.approx(220.0)


def test_a_string_rings_as_long_as_it_should() -> None:
    rate = 16_000
    guitar = Guitar(ring=2.0, brightness=1.0)
    string = pluck(guitar, TUNING[0], 2 * rate, rate, np.random.default_rng(1))
    early, late = (np.square(string[at : at + 4_000]).mean() for at in (8_000, 24_000))
    assert 10 * np.log10(early / late) == pytest.approx(30, abs=5)  # 60 dB in 2 s, hence 30 in one
    damped = pluck(guitar, TUNING[0], 2 * rate, rate, np.random.default_rng(1), damped=0.1)
    assert np.square(damped[8_000:]).sum() < 0.01 * np.square(string[8_000:]).sum()


def test_a_string_that_is_plucked_in_the_middle_has_no_even_partials() -> None:
    rate = 16_000
    string = pluck(Guitar(pick=0.5, pickup=0.11), TUNING[1], rate, rate, np.random.default_rng(2))
    magnitudes, bin_hz = spectrum(string, rate)
    partials = [magnitudes[int((n - 0.2) * 110 / bin_hz) : int((n + 0.2) * 110 / bin_hz)].max() for n in range(1, 5)]
    assert max(partials[1], partials[3]) < 0.1 * min(partials[0], partials[2])


def test_a_body_adds_its_resonances() -> None:
    noise = np.random.default_rng(3).standard_normal(1 << 14)
    before, bin_hz = spectrum(noise, 16_000)
    after, _ = spectrum(body(Guitar(body=1.0), noise, 16_000), 16_000)
    at, far = int(210 / bin_hz), int(4_000 / bin_hz)
    assert after[at] > 1.3 * before[at] and after[far] == pytest.approx(before[far], rel=0.05)
    assert np.allclose(body(Guitar(body=0.0), noise, 16_000), noise)
