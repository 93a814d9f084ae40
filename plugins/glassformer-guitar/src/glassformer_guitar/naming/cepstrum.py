"""Cepstrum of sounds, by frame: which copies of itself a sound has behind it, by their delay.

    x + a · x delayed by τ   →   log |spectrum|² has ripples 1/τ Hz apart   →   its inverse Fourier transform peaks at τ

A flanger's copies are 1 to 8 ms behind, those of a chorus 18 to 26 ms: two places in a cepstrum, and one ripple in a
mel band. Strings have peaks of their own, at multiples of their period.
Source: Bogert, Healy and Tukey 1963, "The quefrency alanysis of time series for echoes".
"""

from __future__ import annotations

import torch
from torch import Tensor

WINDOW_SECONDS = 0.128
"""Of the Fourier transform: several times the longest delay."""
SHORTEST_SECONDS, BAND_SECONDS, BANDS = 0.0005, 0.00025, 138
"""Delays from 0.5 to 35 ms, in bands; below are the formants, above the echoes that frames show."""
FLOOR = 1e-6
"""Of a power spectrum, as a share of its maximum: logarithms of noise would drown the ripples."""


def cepstral_bands(x: Tensor, sample_rate_hz: int, hop_samples: int) -> Tensor:
    """The logarithm of the mean cepstrum in bands of delay, about -1 to 1.

    Args:
        x: [N, samples]
    Returns: [N, bands, samples // hop_samples]
    """
    band = max(1, round(BAND_SECONDS * sample_rate_hz))
    first = round(SHORTEST_SECONDS * sample_rate_hz)
    window = 2 * round(WINDOW_SECONDS * sample_rate_hz / 2)
    hann = torch.hann_window(window)
    spectrum = torch.stft(x, window, hop_samples, window=hann, center=True, return_complex=True)[..., :-1]
    power = spectrum.abs().square()
    logs = (power + FLOOR * power.amax((1, 2), keepdim=True).clamp(min=1e-9)).log()
    cepstrum = torch.fft.irfft(logs, dim=1)[:, first : first + BANDS * band].abs()  # [N, delays, frames]
    bands: Tensor = (cepstrum.unflatten(1, (BANDS, band)).mean(2) + 1e-3).log10() + 2.0
    return bands
