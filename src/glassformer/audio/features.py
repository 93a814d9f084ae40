"""Audio features: log-mel spectrograms (power by time frame and mel band), and normalised raw waveforms.

samples ─ pad ─ windows of 25 ms, one every 10 ms ─ |Fourier|² ─ mel bands ─ log10 ─ clamp ─> [M, frames]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_HZ = 8000.0  # of the highest filter: half of 16 kHz
LINEAR_HZ, LINEAR_MELS = 1000.0, 15.0
"""Slaney's mel scale is linear up to 1000 Hz, then logarithmic: 27 mels to a factor of 6.4."""
LOG_STEP = math.log(6.4) / 27.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LogMel:
    """Log-mel spectrogram extractor, with windows of one length.

        S = log10(max(F |stft(x)|², 1e-10));      S = (max(S, max(S) - 8) + 4) / 4

    F [M, frequencies] is the mel filter bank. The dynamic range is 80 dB below the maximum of a window.

    bins: M, mel bands
    window_samples: length of the Fourier transform
    hop_samples: from one frame to the next
    seconds: length of a window; shorter recordings are padded with `padding_value`
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
        """The number of samples of a window."""
        return self.seconds * self.sample_rate_hz

    def __call__(self, sounds: Sequence[Float[Tensor, "samples"]]) -> dict[str, Tensor]:
        """Recordings, none longer than a window → `input_features` [N, M, frames]."""
        padded = torch.full((len(sounds), self.samples), self.padding_value)
        for row, sound in zip(padded, sounds, strict=True):
            row[: len(sound)] = sound
        return {"input_features": self.features(padded)}

    def features(self, x: Float[Tensor, "N samples"]) -> Float[Tensor, "N M frames"]:
        """Log-mel spectrograms of full windows."""
        half = self.window_samples // 2
        around = torch.nn.functional.pad(x[:, None], (half, half), mode="reflect")[:, 0]
        logs = self.log_power(around)[..., :-1]  # as in the reference: the last frame belongs to the next window
        return self.scale(logs, logs.amax(dim=(1, 2), keepdim=True))

    def log_power(self, x: Float[Tensor, "N samples"]) -> Float[Tensor, "N M frames"]:
        """log10 of the power in each mel band, of every window of the Fourier transform that lies in x as a whole."""
        hann = torch.hann_window(self.window_samples)
        spectrum = torch.stft(x, self.window_samples, self.hop_samples, window=hann, center=False, return_complex=True)
        mels = mel_filters(self.bins, self.window_samples, self.sample_rate_hz) @ spectrum.abs().square()
        return mels.clamp(min=1e-10).log10()

    @staticmethod
    def scale(logs: Tensor, peak: Tensor) -> Tensor:
        """Clamp to 80 dB below the peak, and scale to about -1 to 1."""
        return (torch.maximum(logs, peak - 8.0) + 4.0) / 4.0


@cache
def mel_filters(bins: int, window_samples: int, sample_rate_hz: int) -> Float[Tensor, "M frequencies"]:
    """Mel filter bank: triangles, equally wide in mels, that overlap by half; each has the same area in Hz.

        1 ┤  ╱╲╱╲ ╱╲  ╱╲   ╱╲
          ┤ ╱ ╳  ╳  ╲╱   ╲╱     ╲
        0 ┼──────────────────────────── Hz

    Source: Slaney 1998, "Auditory Toolbox", as librosa has it.
    """
    highest = LINEAR_MELS + math.log(MAX_HZ / LINEAR_HZ) / LOG_STEP
    corners = mel_to_hz(torch.linspace(0.0, highest, bins + 2, dtype=torch.float64))[:, None]
    frequencies = torch.linspace(0.0, sample_rate_hz // 2, window_samples // 2 + 1, dtype=torch.float64)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return (triangles * 2.0 / (right - left)).float()


def mel_to_hz(mels: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Mels to Hz: linear up to 1000 Hz, then exponential."""
    straight = mels * (LINEAR_HZ / LINEAR_MELS)
    curved = LINEAR_HZ * torch.exp((mels - LINEAR_MELS) * LOG_STEP)
    return torch.where(mels < LINEAR_MELS, straight, curved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waveform:
    """Waveform extractor: a batch of waveforms, each normalised to mean 0 and variance 1, padded to the longest.

        x → (x - mean(x)) / √(variance(x) + 1e-7)

    normalised: whether to normalise
    masked: return an attention mask
    padding_value: of padding samples
    multiple: pad to a multiple of this many samples, as the frames of a codec are
    channels: 1, or 2 of stereo
    chunk: samples of a chunk of a codec, and from one to the next; pad to whole ones
    Source: Baevski et al. 2020 (wav2vec 2.0), section 4.2.
    Differs: the reference library, where it gives no mask, computes mean and variance over a recording and its padding
    together, so that it depends on the others of its batch; here never.
    """

    sample_rate_hz: int = 16_000
    normalised: bool = True
    masked: bool = False
    padding_value: float = 0.0
    multiple: int = 1
    channels: int = 1
    chunk: tuple[int, int] | None = None

    def __call__(self, sounds: Sequence[Float[Tensor, "samples"]]) -> dict[str, Tensor]:
        """Recordings → `input_values` [N, samples], and `attention_mask` [N, samples]: 1 for audio, 0 for padding.

        Those of stereo, [samples, 2], → [N, 2, samples].
        """
        x = torch.nn.utils.rnn.pad_sequence(list(sounds), batch_first=True)
        missing = -x.shape[1] % self.multiple
        if self.chunk is not None:
            length, stride = self.chunk
            missing = max((math.ceil(x.shape[1] / stride) - 1) * stride + length - x.shape[1], 0)
        if self.channels > 1:
            return {"input_values": torch.nn.functional.pad(x.mT, (0, missing), value=self.padding_value)}
        x = torch.nn.functional.pad(x, (0, missing))
        lengths = torch.tensor([len(sound) for sound in sounds])[:, None]
        keep = torch.arange(x.shape[1]) < lengths  # [N, samples]
        if self.normalised:
            x = x - x.sum(dim=1, keepdim=True) / lengths  # padding is 0 and adds nothing
            variance = (x * keep).square().sum(dim=1, keepdim=True) / lengths
            x = x / (variance + 1e-7).sqrt()
        x = x.masked_fill(~keep, self.padding_value)
        return {"input_values": x, "attention_mask": keep.long()} if self.masked else {"input_values": x}
