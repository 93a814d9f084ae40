"""Log-mel spectrograms of recordings, in windows as long as the encoder reads.

    |────── 2 s ──────|────── 2 s ──────|        the last window ends where the recording does
                               |────── 2 s ──────|

Each window has a peak of 1 before it is transformed: how loud a recording is says nothing of its pedals.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.audio.processor import AudioProcessor
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.files.schema import at_least, check
from glassformer.loaded_model import LoadedModel
from glassformer.models.whisper.foreign_names import preprocessor_config
from glassformer_guitar.naming.cepstrum import BANDS, cepstral_bands

WINDOWS_AT_ONCE = 64  # bounds the memory of their spectrograms
SILENCE_DB = -60.0
"""A window that is quieter than the peak of its recording by more is silence, and names no pedal."""
QUIETEST = 1e-4
"""Peak of a recording that is silent: -80 dB of full scale."""


class Windows:
    """Windows of recordings, as an encoder over spectrograms reads them.

    samples: of a window
    cepstrum: whether bands of a cepstrum are below those of the spectrogram

    Args:
        model: its processor says how spectrograms are made; a new one has the one that is asked for
        window_samples, hop_samples: length of the Fourier transform and from one frame to the next; None = as it has
        cepstrum: whether the last 138 of the model's `num_mel_bins` are of a cepstrum; None = as it has
    Raises: ConfigError: its processor has others.
    """

    def __init__(
        self,
        model: LoadedModel,
        window_samples: int | None = None,
        hop_samples: int | None = None,
        cepstrum: bool | None = None,
    ) -> None:
        wanted = {"n_fft": window_samples, "hop_length": hop_samples}
        for name, value in (("window_samples", window_samples), ("hop_samples", hop_samples)):
            check(Annotated[int, at_least(16, words="a whole number of samples from 16 up")] | None, value, name)
        if cepstrum not in (None, True, False):
            raise ConfigError(f"cepstrum is {safe_repr(cepstrum)}; it must be true or false")
        positions, rows = int(model.config["max_source_positions"]), int(model.config["num_mel_bins"])
        if not model.has_processor:
            if cepstrum and rows <= BANDS:
                raise ConfigError(f"num_mel_bins is {rows}, of which {BANDS} are bands of the cepstrum; give it more")
            made = preprocessor_config(rows - BANDS * bool(cepstrum), positions)
            made |= {name: value for name, value in wanted.items() if value is not None}
            made["chunk_length"] = max(1, round(2 * positions * made["hop_length"] / made["sampling_rate"]))
            model.processor = AudioProcessor.from_config(made)
        processor: Any = model.processor
        self.extractor: LogMel = processor.extractor
        held = {"n_fft": self.extractor.window_samples, "hop_length": self.extractor.hop_samples}
        for name, value in wanted.items():
            if value not in (None, held[name]):
                raise ConfigError(f"the model reads spectrograms with {name} {held[name]}, not {value}; leave it out")
        self.cepstrum = rows == self.extractor.bins + BANDS
        if cepstrum not in (None, self.cepstrum):
            has = "a" if self.cepstrum else "no"
            raise ConfigError(f"the model reads {has} cepstrum, and cepstrum is {cepstrum}; leave it out")
        self.samples = 2 * positions * self.extractor.hop_samples

    def features(self, wave: Tensor) -> Tensor:
        """The spectrogram of a recording's first window, padded with silence. [samples] → [M, frames]"""
        return self._spectrograms(self._padded(wave[: self.samples])[None])[0]

    def all_features(self, wave: Tensor) -> Tensor:
        """The spectrograms of all windows of a recording that are not silent; of a silent one, all.

        Args:
            wave: [samples]
        Returns: [W, M, frames]
        """
        wave = self._padded(wave)
        starts = [*range(0, len(wave) - self.samples, self.samples), len(wave) - self.samples]
        floor = float(wave.abs().max()) * 10.0 ** (SILENCE_DB / 20.0)
        views = wave.unfold(0, self.samples, 1)  # from every sample on; nothing is copied
        parts = (views[numbers] for numbers in torch.tensor(starts).split(WINDOWS_AT_ONCE))
        loud = (part[part.abs().amax(1) >= floor] for part in parts)
        return torch.cat([self._spectrograms(part) for part in loud if len(part)])

    def _padded(self, wave: Tensor) -> Tensor:
        return torch.nn.functional.pad(wave, (0, max(self.samples - len(wave), 0)))

    def _spectrograms(self, windows: Tensor) -> Tensor:
        peaks = windows.abs().amax(1, keepdim=True)
        waves = windows / peaks.clamp(min=1e-9)
        mels = self.extractor.features(waves)
        if not self.cepstrum:
            return mels
        bands = cepstral_bands(waves, self.extractor.sample_rate_hz, self.extractor.hop_samples)
        return torch.cat([mels, bands], 1)
