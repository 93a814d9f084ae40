"""Log-mel spectrogram: how loud a sound is at each moment in each band of pitch, on scales like those of the ear.

samples ─ padded ─ windows of 25 ms, one every 10 ms ─ |Fourier|² ─ bands of pitch ─ log10 ─ clamp ─> [M, frames]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

HIGHEST_HZ = 8000.0
STRAIGHT_HZ, STRAIGHT_MELS = 1000.0, 15.0
"""Up to 1000 Hz, pitch follows frequency; from there on its logarithm, 27 mels to a factor of 6.4."""
STEP = math.log(6.4) / 27.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LogMel:
    """Sounds → log-mel spectrograms of one length.

        S = log10(max(F |stft(x)|², 1e-10));      S = (max(S, max(S) - 8) + 4) / 4

    F [M, frequencies] weighs frequencies into bands. Nothing is more than 80 dB below a window's loudest moment.

    bins: M, bands of pitch · window_samples: of the Fourier transform · hop_samples: from one frame to the next
    seconds: how long a window is; shorter sounds are padded with `padding_value`
    Source: Radford et al. 2022 (Whisper), section 2.2, and its released code.
    """

    sample_rate_hz: int = 16_000
    bins: int = 80
    window_samples: int = 400
    hop_samples: int = 160
    seconds: int = 30
    padding_value: float = 0.0

    @property
    def samples(self) -> int:
        """How many samples a window has."""
        return self.seconds * self.sample_rate_hz

    def __call__(self, sounds: Sequence[Float[Tensor, "samples"]]) -> dict[str, Tensor]:
        """Sounds, none longer than a window, → `input_features` [N, M, frames]."""
        padded = torch.full((len(sounds), self.samples), self.padding_value)
        for row, sound in zip(padded, sounds, strict=True):
            row[: len(sound)] = sound
        return {"input_features": self.features(padded)}

    def features(self, x: Float[Tensor, "N samples"]) -> Float[Tensor, "N M frames"]:
        """Log-mel spectrograms of whole windows."""
        hann = torch.hann_window(self.window_samples)
        spectrum = torch.stft(
            x, self.window_samples, self.hop_samples, window=hann, center=True, return_complex=True
        )
        power = spectrum[..., :-1].abs().square()  # the last frame stands where the next window begins
        mels = mel_filters(self.bins, self.window_samples, self.sample_rate_hz) @ power
        logs = mels.clamp(min=1e-10).log10()
        floor = logs.amax(dim=(1, 2), keepdim=True) - 8.0
        return (torch.maximum(logs, floor) + 4.0) / 4.0


def mel_filters(bins: int, window_samples: int, sample_rate_hz: int) -> Float[Tensor, "M frequencies"]:
    """Triangles, equally wide in mels, that overlap by half; each has the same area in Hz.

        1 ┤  ╱╲╱╲ ╱╲  ╱╲   ╱╲
          ┤ ╱ ╳  ╳  ╲╱   ╲╱     ╲
        0 ┼──────────────────────────── Hz

    Source: Slaney 1998, "Auditory Toolbox", as librosa has it.
    """
    highest = STRAIGHT_MELS + math.log(HIGHEST_HZ / STRAIGHT_HZ) / STEP
    corners = hertz(torch.linspace(0.0, highest, bins + 2, dtype=torch.float64))[:, None]
    frequencies = torch.linspace(0.0, sample_rate_hz // 2, window_samples // 2 + 1, dtype=torch.float64)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return (triangles * 2.0 / (right - left)).float()


def hertz(mels: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Frequencies of pitches: a straight line up to 1000 Hz, then an exponential."""
    straight = mels * (STRAIGHT_HZ / STRAIGHT_MELS)
    curved = STRAIGHT_HZ * torch.exp((mels - STRAIGHT_MELS) * STEP)
    return torch.where(mels < STRAIGHT_MELS, straight, curved)
