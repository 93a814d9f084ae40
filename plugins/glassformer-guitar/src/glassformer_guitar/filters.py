"""Filters and delays that instruments and effects are made of.

Biquads: y[n] = (b0 x[n] + b1 x[n-1] + b2 x[n-2] - a1 y[n-1] - a2 y[n-2]) / a0
Source: Bristow-Johnson 1998, "Cookbook formulae for audio equalizer biquad filter coefficients".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import import_optional

Samples = NDArray[np.float64]


def lowpass(x: Samples, rate: int, hz: float, quality: float = 0.707) -> Samples:
    """Remove what lies above a frequency."""
    cos, alpha = _angle(rate, hz, quality)
    return _biquad(x, ((1 - cos) / 2, 1 - cos, (1 - cos) / 2), (1 + alpha, -2 * cos, 1 - alpha))


def highpass(x: Samples, rate: int, hz: float, quality: float = 0.707) -> Samples:
    """Remove what lies below a frequency."""
    cos, alpha = _angle(rate, hz, quality)
    return _biquad(x, ((1 + cos) / 2, -1 - cos, (1 + cos) / 2), (1 + alpha, -2 * cos, 1 - alpha))


def bandpass(x: Samples, rate: int, hz: float, quality: float) -> Samples:
    """Keep what lies around a frequency."""
    cos, alpha = _angle(rate, hz, quality)
    return _biquad(x, (alpha, 0.0, -alpha), (1 + alpha, -2 * cos, 1 - alpha))


def peak(x: Samples, rate: int, hz: float, gain_db: float, quality: float) -> Samples:
    """Raise or lower what lies around a frequency."""
    cos, alpha = _angle(rate, hz, quality)
    gain = 10.0 ** (gain_db / 40.0)
    return _biquad(x, (1 + alpha * gain, -2 * cos, 1 - alpha * gain), (1 + alpha / gain, -2 * cos, 1 - alpha / gain))


def shelf(x: Samples, rate: int, hz: float, gain_db: float, *, high: bool) -> Samples:
    """Raise or lower all that lies above a frequency, or below it."""
    cos, alpha = _angle(rate, hz, 0.707)
    gain, side = 10.0 ** (gain_db / 40.0), 1.0 if high else -1.0
    root = 2.0 * math.sqrt(gain) * alpha
    b = (
        gain * (gain + 1 + side * (gain - 1) * cos + root),
        -2 * side * gain * (gain - 1 + side * (gain + 1) * cos),
        gain * (gain + 1 + side * (gain - 1) * cos - root),
    )
    a = (
        gain + 1 - side * (gain - 1) * cos + root,
        2 * side * (gain - 1 - side * (gain + 1) * cos),
        gain + 1 - side * (gain - 1) * cos - root,
    )
    return _biquad(x, b, a)


def delayed(x: Samples, delay: Samples | float) -> Samples:
    """x, later by a delay in samples, which may differ from sample to sample and need not be whole."""
    times = np.arange(len(x), dtype=np.float64)
    later: Samples = np.interp(times - delay, times, x, left=0.0)
    return later


def _angle(rate: int, hz: float, quality: float) -> tuple[float, float]:
    omega = 2.0 * math.pi * min(hz, 0.49 * rate) / rate
    return math.cos(omega), math.sin(omega) / (2.0 * quality)


def _biquad(x: Samples, b: tuple[float, ...], a: tuple[float, ...]) -> Samples:
    lfilter = import_optional("scipy.signal", "scipy", "audio", "a filter").lfilter
    filtered: Samples = lfilter(b, a, x)
    return filtered
