"""Losses of a codec: waveform, multi-scale spectra, and what its quantiser adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, single_tensor
from glassformer.core.losses import refuse_smoothing
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float

WINDOWS = (2048, 1024, 512, 256, 128, 64)
"""Lengths of the Fourier transforms, in samples; each hops by a quarter."""
FLOOR = 1e-4
"""Added to a magnitude before its logarithm: a tone of full scale has 1, so that the range is 80 dB."""
QUIET = 1e-2
"""What is added to the loudness that differences of waveforms are measured by, so that silence has losses too."""


def spectral_distance(wave: Float[Tensor, "B samples"], target: Float[Tensor, "B samples"]) -> Float[Tensor, "B"]:
    """Multi-scale spectral distance of waveforms, a mean over the windows.

        Σ_w  mean |S_w(x) - S_w(y)| / (mean S_w(y) + quiet)  +  mean |log S_w(x) - log S_w(y)|

    S_w is the magnitude of the short-time Fourier transform with windows of w samples; a quiet tone is a peak of about
    two of its w / 2 frequencies.
    Source: Engel et al. 2020 (DDSP), section 4.2.1, by the loudness of the target; Yamamoto et al. 2020, eq. 5-6.
    """
    total = torch.zeros(wave.shape[0], device=wave.device)
    windows = [window for window in WINDOWS if window <= wave.shape[1]] or [WINDOWS[-1]]
    for window in windows:
        ours, theirs = (magnitudes(x, window) for x in (wave, target))
        linear = (ours - theirs).abs().mean((1, 2)) / (theirs.mean((1, 2)) + 4 * QUIET / window + FLOOR)
        logs = ((ours + FLOOR).log() - (theirs + FLOOR).log()).abs().mean((1, 2))
        total = total + linear + logs
    return total / len(windows)


def magnitudes(wave: Float[Tensor, "B samples"], window: int) -> Float[Tensor, "B frames frequencies"]:
    """Magnitudes of a short-time Fourier transform; a tone of full scale has 1."""
    hop = window // 4
    padded = torch.nn.functional.pad(wave.float(), (window // 2, window // 2))
    quarters = padded[:, : padded.shape[1] // hop * hop].unflatten(1, (-1, hop))
    # Side by side instead of strided over each other: the gradients are four sums, and no scatter.
    frames = torch.cat([quarters[:, first : quarters.shape[1] - 3 + first] for first in range(4)], 2)
    spectrum = torch.fft.rfft(frames * (torch.hann_window(window, device=wave.device) / hop))
    # The root of a square has no gradient at 0, where silence is.
    return (torch.view_as_real(spectrum).square().sum(-1) + 1e-10 / hop**2).sqrt()


class CodecLoss(Head):
    """The losses that train a codec to give its own input back; it has no parameters.

        waveform · mean |x - y| / mean |y|  +  spectral · spectral_distance(x, y)  +  commitment and codebook loss

    Labels are waveforms [B, samples], and every row counts once.
    Differs: no discriminators, which Kumar et al. 2023 (section 3.4) train against.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("audio_values",)
    LOSSES: ClassVar[tuple[str, ...]] = ("waveform", "spectral", "codes")

    def __init__(self, waveform: float = 1.0, spectral: float = 1.0) -> None:
        super().__init__()
        self.waveform, self.spectral = waveform, spectral

    def label_counts(self, labels: Labels) -> dict[str, int]:
        return dict.fromkeys(self.LOSSES, single_tensor(labels).shape[0])

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        refuse_smoothing(smoothing, "a codec has no classes to spread a target over")
        target, wave, codes = single_tensor(labels), output.audio_values, output.loss
        assert wave is not None and codes is not None
        if target.dim() != 2 or target.shape[0] != wave.shape[0] or target.shape[1] < wave.shape[1]:
            raise DataError(
                f"labels have the shape {list(target.shape)}; they must be those of input_values, {list(wave.shape)}"
            )
        target = target[:, : wave.shape[1]].to(wave.dtype)
        return {
            "waveform": self.waveform * ((wave - target).abs().mean(1) / (target.abs().mean(1) + QUIET)).sum(),
            "spectral": self.spectral * spectral_distance(wave, target).sum(),
            "codes": codes * wave.shape[0],
        }

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return Output(audio_values=x)
