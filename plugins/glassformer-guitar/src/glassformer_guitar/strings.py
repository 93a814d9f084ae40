"""Plucked strings by the Karplus-Strong algorithm: a burst of noise that runs around a loop of one period.

    noise ─ pick position ─> (+) ─────────────┬─ pickup position ─ body ─ samples
                              └── damping ─ delay ┘

The loop is one linear filter, computed a period at a time.
Source: Karplus and Strong 1983; Jaffe and Smith 1983 (tuning, pick position, damping); Välimäki et al. 1996 (fractional
delays by Lagrange interpolation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.errors import import_optional
from glassformer_guitar.filters import Samples, delayed, lowpass, peak

TUNING = (40, 45, 50, 55, 59, 64)
"""MIDI numbers of the open strings, from the lowest: E A D G B E."""
FRETS = 15
"""As far as riffs are written; higher frets are for solos."""
SHORT_DELAY = 64
"""Of a loop in samples: below it, blocks are this many that a recursive filter is faster."""
BODY = ((105.0, 4.0, 1.5), (210.0, 3.0, 2.0), (420.0, 2.0, 2.5))
"""Resonances of the body: Hz, dB, quality."""


@dataclass(frozen=True, slots=True)
class Guitar:
    """An instrument: where it is plucked and heard, how bright and how long its strings ring.

    pick, pickup: distance from the bridge, as a share of the string
    brightness: of the pick, 0 to 1
    ring: seconds until an open string has lost 60 dB
    body: share of the body's resonance in the sound, 0 to 1
    """

    pick: float = 0.13
    pickup: float = 0.2
    brightness: float = 0.7
    ring: float = 4.0
    body: float = 0.5


def frequency_hz(midi: float) -> float:
    """The frequency of a MIDI number, A4 = 440 Hz."""
    return float(440.0 * 2.0 ** ((midi - 69.0) / 12.0))


def pluck(
    guitar: Guitar, midi: int, samples: int, rate: int, draw: np.random.Generator, *, damped: float = 1.0
) -> Samples:
    """One plucked string.

    Args:
        samples: how many
        damped: share of the time that it rings, below 1 for a palm on the strings
    Returns: the displacement under the pickup. [samples]
    """
    period = rate / frequency_hz(midi)
    # Shorter strings ring more shortly.
    seconds = max(guitar.ring * damped * (frequency_hz(TUNING[0]) / frequency_hz(midi)) ** 0.4, 0.05)
    # The loop's damping takes 1 - 2 s (1 - cos ω) of each turn, so that high partials fade first, at any rate.
    damping = min((0.05 - 0.045 * guitar.brightness) * (rate / 16_000) ** 2, 0.25)
    string = _loop(_excitation(guitar, period, samples, draw), period, seconds, damping, rate)
    return _comb(string, guitar.pickup * period, 0.9)


def body(guitar: Guitar, sound: Samples, rate: int) -> Samples:
    """The sound with the resonances of the body."""
    resonant = sound
    for hz, gain_db, quality in BODY:
        resonant = peak(resonant, rate, hz, gain_db, quality)
    return (1 - guitar.body) * sound + guitar.body * resonant


def _excitation(guitar: Guitar, period: float, samples: int, draw: np.random.Generator) -> Samples:
    """A period of noise, softened by the pick, with the notches of the place where it is plucked."""
    length = min(int(np.ceil(period)), samples)
    heard = min(2 * length + 512, samples)  # then both filters are silent: 0.9⁵¹² is 4e-24
    burst = np.zeros(heard)
    burst[:length] = draw.uniform(-1.0, 1.0, length)
    burst[:length] -= burst[:length].mean()
    soft = 0.9 - 0.6 * guitar.brightness
    lfilter = import_optional("scipy.signal", "scipy", "audio", "a plucked string").lfilter
    burst = lfilter([1.0 - soft], [1.0, -soft], burst)
    return np.pad(_comb(burst, guitar.pick * period, 1.0), (0, samples - heard))


def _loop(excitation: Samples, period: float, seconds: float, damping: float, rate: int) -> Samples:
    """What a burst becomes that runs around the loop: y[n] = x[n] + gain · Σ taps[k] · y[n - whole - k]."""
    gain = 10.0 ** (-3.0 * period / rate / seconds)
    delay = period - 1.0  # the damping takes one sample
    whole = int(delay) - 1
    taps = gain * np.convolve([damping, 1.0 - 2.0 * damping, damping], _lagrange(delay - whole))
    return _fed_back(excitation, taps, whole)


def _fed_back(x: Samples, taps: Samples, delay: int) -> Samples:
    """y[n] = x[n] + Σ taps[k] · y[n - delay - k], in blocks of `delay` samples, each a convolution of those before it.

    A recursive filter would multiply by the zeros of its first `delay` coefficients: six times the work for a low E.
    """
    if delay < SHORT_DELAY:
        feedback = np.concatenate([[1.0], np.zeros(delay - 1), -taps])
        lfilter = import_optional("scipy.signal", "scipy", "audio", "a plucked string").lfilter
        filtered: Samples = lfilter([1.0], feedback, x)
        return filtered
    padding = len(taps) - 1
    y = np.concatenate([np.zeros(delay + padding), x])
    for start in range(delay + padding, len(y), delay):
        end = min(start + delay, len(y))
        y[start:end] += np.convolve(y[start - delay - padding : end - delay], taps, "valid")
    return y[delay + padding :]


def _lagrange(delay: float) -> Samples:
    """The four taps that delay by 1 to 2 samples: Lagrange interpolation of the third order."""
    points = np.arange(4)
    return np.array([np.prod([(delay - m) / (k - m) for m in points if m != k]) for k in points])


def _comb(x: Samples, delay: float, depth: float) -> Samples:
    """x minus itself, later by a fractional delay: what a string gives at a place."""
    return x - depth * delayed(x, delay)


def soften(sound: Samples, rate: int, cutoff_hz: float = 5_000.0) -> Samples:
    """The sound as a pickup gives it, without the highest frequencies."""
    return lowpass(sound, rate, min(cutoff_hz, 0.45 * rate))
