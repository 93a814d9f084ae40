"""Scores of a codec: how near a reconstruction is to the sound, and how many of the codes are used.

si_snr_db       scale-invariant signal-to-noise ratio of the waveforms, in dB; more is better
mel_distance    mean difference of log-mel spectrograms, in dB; less is better
chroma          correlation of the energies of the twelve pitch classes: whether the chord is the same; 1 is best
code_perplexity among how many codes a codebook is undecided, a mean over codebooks
dead_codes      share of codes that nothing was encoded by
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.tasks.metrics.metric import BootstrapSums, Metric
from glassformer.tasks.types import MicroBatch

SMALLEST = 1e-8  # energy that is added to both, so that silence has a score
RANGE_DB = 80.0
"""Below the loudest band of a sound by so much, differences do not count."""
PITCHES_HZ = (75.0, 1_500.0)
"""Where fundamentals and their first partials are."""
METHODS = {
    "si_snr_db": "scale-invariant signal-to-noise ratio, a mean over recordings (Le Roux et al. 2019)",
    "mel_distance": "mean |difference| of 80 log-mel bands in dB, to 80 dB below the sound's loudest band",
    "chroma": "correlation of the magnitudes of the twelve pitch classes, 75 to 1,500 Hz, a mean over recordings",
    "code_perplexity": "exp(entropy) of the codes used, a mean over codebooks",
    "dead_codes": "share of codes that were not used, of all codebooks",
}


def si_snr_db(wave: Tensor, target: Tensor) -> Tensor:
    """Scale-invariant signal-to-noise ratio of waveforms without their means, in dB. [B, samples] → [B]

        10 log₁₀ |a y|² / |a y - x|²,     a = ⟨x, y⟩ / |y|²

    Source: Le Roux et al. 2019, "SDR - half-baked or well done?", section 3.
    """
    x, y = (one.double() - one.double().mean(1, keepdim=True) for one in (wave, target))
    scaled = (x * y).sum(1, keepdim=True) / (y.square().sum(1, keepdim=True) + SMALLEST) * y
    noise = (scaled - x).square().sum(1)
    return 10 * ((scaled.square().sum(1) + SMALLEST) / (noise + SMALLEST)).log10()


def mel_distance(wave: Tensor, target: Tensor, rate_hz: int) -> Tensor:
    """Mean difference of log-mel spectrograms in dB, within 80 dB of the target's loudest band. [B, samples] → [B]"""
    mel = LogMel(sample_rate_hz=rate_hz, window_samples=round(0.025 * rate_hz), hop_samples=round(0.01 * rate_hz))
    short = max(mel.window_samples - wave.shape[1], 0)
    ours, theirs = (10 * mel.log_power(torch.nn.functional.pad(x.float().cpu(), (0, short))) for x in (wave, target))
    floor = theirs.amax((1, 2), keepdim=True) - RANGE_DB
    return (torch.maximum(ours, floor) - torch.maximum(theirs, floor)).abs().mean((1, 2))


def chroma(wave: Tensor, rate_hz: int) -> Tensor:
    """Magnitudes of the twelve pitch classes, from A, means over the sound. [B, samples] → [B, 12]

    Each frequency of a Fourier transform of a quarter of a second counts for the class of the nearest pitch.
    Source: Müller 2015, "Fundamentals of Music Processing", section 3.1.2.
    """
    window = round(0.25 * rate_hz)
    padded = torch.nn.functional.pad(wave.float().cpu(), (0, max(window - wave.shape[1], 0)))
    hann = torch.hann_window(window)
    spectrum = torch.stft(padded, window, window // 4, window=hann, center=False, return_complex=True).abs().mean(2)
    hz = torch.fft.rfftfreq(window, 1 / rate_hz)
    heard = (hz > PITCHES_HZ[0]) & (hz < PITCHES_HZ[1])
    classes = (12 * (hz[heard] / 440.0).log2()).round().long() % 12
    return torch.zeros(len(wave), 12).index_add_(1, classes, spectrum[:, heard])


def chroma_correlation(wave: Tensor, target: Tensor, rate_hz: int) -> Tensor:
    """Correlation of the pitch classes of two sounds; 0 where one is silent. [B, samples] → [B]"""
    ours, theirs = (x - x.mean(1, keepdim=True) for x in (chroma(wave, rate_hz), chroma(target, rate_hz)))
    return torch.nn.functional.cosine_similarity(ours, theirs)


def code_counts(codes: Tensor, entries: int) -> Tensor:
    """How often each code is used. [B, K, T] → [K, entries]"""
    return torch.stack([torch.bincount(book.flatten(), minlength=entries) for book in codes.unbind(1)])


def perplexity_of_counts(counts: np.ndarray) -> np.ndarray:
    """exp(entropy) of each codebook, a mean over them. [..., K, entries] → [...]"""
    shares = counts / np.maximum(counts.sum(-1, keepdims=True), 1)
    entropy = -(shares * np.log(np.maximum(shares, 1e-30))).sum(-1)
    mean: np.ndarray = np.exp(entropy).mean(-1)
    return mean


class CodecMetric(Metric):
    """The losses of a codec, its signal-to-noise ratio and the use of its codes, over segments.

    Args:
        head: whose losses
        books, entries: of the quantiser
    """

    def __init__(self, head: Head, parts: Sequence[str], books: int, entries: int) -> None:
        super().__init__(head, parts)
        self.entries = entries
        self.add_state("si_snr.sum")
        self.add_state("codes", books, entries)

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert output.audio_values is not None and output.audio_codes is not None and isinstance(batch.labels, Tensor)
        wave = output.audio_values
        self.state["si_snr.sum"] += si_snr_db(wave, batch.labels[:, : wave.shape[1]]).sum().cpu()
        self.state["codes"] += code_counts(output.audio_codes, self.entries).cpu()

    def compute(self) -> dict[str, float]:
        scores = super().compute()
        count = float(self.state[f"{self.parts[0]}.count"])
        parts = {f"{part}_loss": float(self.state[f"{part}.sum"]) / count for part in self.parts}
        counts = self.state["codes"].numpy()
        return {
            **scores,
            **parts,
            "si_snr_db": float(self.state["si_snr.sum"]) / count,
            "code_perplexity": float(perplexity_of_counts(counts)),
            "dead_codes": float((counts == 0).mean()),
        }


def bootstrap_of(rows: Sequence[Mapping[str, float]], counts: np.ndarray | None) -> BootstrapSums:
    """The scores of recordings, for any resample; counts: of the codes of each [N, K, entries], where there are any."""
    names = [name for name in METHODS if name in rows[0]]
    values = np.array([[*(row[name] for name in names), 1.0] for row in rows])
    width = values.shape[1]
    books = (0, 0) if counts is None else counts.shape[1:]
    statistics = values if counts is None else np.concatenate([values, counts.reshape(len(rows), -1)], axis=1)

    def of(sums: np.ndarray) -> dict[str, np.ndarray]:
        scores = {name: sums[:, column] / sums[:, width - 1] for column, name in enumerate(names)}
        if counts is not None:
            used = sums[:, width:].reshape(-1, *books)
            scores |= {"code_perplexity": perplexity_of_counts(used), "dead_codes": (used == 0).mean((1, 2))}
        return scores

    use = () if counts is None else ("code_perplexity", "dead_codes")
    methods = {name: METHODS[name] for name in (*names, *use)}
    return BootstrapSums(statistics, of, methods)
