"""Reconstruction: an audio codec learns to give sounds back from their codes.

recording ─ a segment of `seconds`, another each time ─ codec ─ losses of waveform, spectra and codes
evaluated: the whole recording ─ encode ─ codes ─ decode ─ SI-SNR, mel distance, chroma, use of codes
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.listening import Sound, SoundExample
from glassformer.core.flow import Flow
from glassformer.engine.codec import decode_audio, decoded_sound, encode_audio, require_codec
from glassformer.errors import UnsupportedError
from glassformer.files.schema import at_least, check
from glassformer.loaded_model import LoadedModel
from glassformer.models._codec_losses import CodecLoss
from glassformer.tasks.base import Progress
from glassformer.tasks.codec.scores import (
    CodecMetric,
    bootstrap_of,
    chroma_correlation,
    code_counts,
    mel_distance,
    si_snr_db,
)
from glassformer.tasks.columns import RowTask, placed
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.transcribe.sounds import RowSounds, note_marks, sound_title, to_float, to_int16
from glassformer.tasks.types import Baseline, Dataset, Example, Prediction


class Reconstruct(RowTask):
    """Recordings of any length, as files or samples, that a codec learns to reconstruct.

    Args:
        seconds: of the segments it is trained on; shorter recordings are padded with silence
        waveform, spectral: weights of these two losses
        folder: of the audio files; None = that of the table
        columns: role → column, where a column has another name
    Raises: ConfigError: no such length. UnsupportedError: the model is no codec.
    """

    HEAD = "audio-codec"
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file"}
    METRIC = "mel_distance"
    CACHE_KEY = "sounds"
    REQUIRES = "a recording is needed"
    READS_TEXT = False

    def __init__(
        self,
        model: LoadedModel,
        *,
        seconds: float = 1.0,
        waveform: float = 1.0,
        spectral: float = 1.0,
        folder: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, columns)
        check(Annotated[float, at_least(0.02, 60.0)], seconds, "seconds")
        for name, weight in (("waveform", waveform), ("spectral", spectral)):
            check(Annotated[float, at_least(0.0, 1e6, "a weight from 0 up")], weight, name)
            setattr(self.head, name, float(weight))
        self.codec = require_codec(model.network)
        spec = self.codec.spec
        if spec.channels > 1:
            raise UnsupportedError(
                f"reconstruction is learnt from mono sounds, and this codec has {spec.channels} channels; "
                "train one with audio_channels: 1, such as the sizes of facebook/encodec_24khz or encodec_32khz"
            )
        self.rate_hz, self.folder = spec.sample_rate_hz, folder
        self.segment = math.ceil(seconds * self.rate_hz / spec.hop) * spec.hop  # whole frames
        self.how = {"rate": self.rate_hz}

    # -------------------------------------------------------------------------------------------- training

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [self._sounds(rows).files]

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        sounds = self._sounds(rows)
        for index in range(len(rows)):
            with placed(rows, index):
                yield {"input_values": to_int16(sounds.read(index))}

    def length(self, example: Example) -> int:
        return self.segment // self.codec.spec.hop

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        """A segment, wherever it begins."""
        samples = example["input_values"]
        start = int(draw.integers(max(len(samples) - self.segment, 0) + 1))
        part = to_float(samples[start : start + self.segment])
        return {"input_values": np.pad(part, (0, self.segment - len(part)))}

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return torch.from_numpy(np.stack([example["input_values"] for example in examples]))

    def metric(self) -> Metric:
        spec = self.codec.spec.quantizer
        return CodecMetric(self.head, CodecLoss.LOSSES, spec.books, spec.entries)

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """The original, and what its codes decode to."""
        sounds, spec = self._sounds(rows), self.codec.spec
        bits = spec.frame_rate_hz * spec.quantizer.books * math.log2(spec.quantizer.entries)
        for index in range(len(rows)):
            with placed(rows, index):
                samples = torch.from_numpy(sounds.read(index))
                encoded = encode_audio(self.codec, samples, self.rate_hz)
            original = Sound("original", samples, self.rate_hz, marks=note_marks(rows[index]))
            about = f"from {spec.quantizer.books} codes a frame"
            decoded = decoded_sound(self.codec, "decoded", encoded, about=about)
            scores = self._scores(torch.as_tensor(decoded.samples), samples)
            facts = {
                "mel distance": f"{scores['mel_distance']:.2f} dB",
                "SI-SNR": f"{scores['si_snr_db']:.1f} dB",
                "bit rate": f"{bits / 1000:.3g} kbit/s, of {16 * self.rate_hz / 1000:.0f} as 16-bit samples",
            }
            yield SoundExample(sound_title(rows, index), [original, decoded], facts=facts)

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The scores of each recording as a whole, and how often it uses each code."""
        sounds, self._evaluated = self._sounds(rows), rows
        for index in range(len(rows)):
            with placed(rows, index):
                samples = torch.from_numpy(sounds.read(index))
                encoded = encode_audio(self.codec, samples, self.rate_hz)
            made = decode_audio(self.codec, encoded)
            counts = code_counts(encoded.codes[None].cpu(), self.codec.spec.quantizer.entries)
            used = [[int(code), int(n)] for code, n in enumerate(counts.flatten().tolist()) if n]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={},
                label=None,
                predicted=None,
                details={**self._scores(made, samples), "codes": used},
            )
            if progress is not None:
                progress(1)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        spec = self.codec.spec.quantizer
        if any("codes" not in one.details for one in predictions):
            return bootstrap_of([one.details for one in predictions], None)
        counts = np.zeros((len(predictions), spec.books * spec.entries))
        for row, one in zip(counts, predictions, strict=True):
            for code, count in one.details["codes"]:
                row[code] = count
        return bootstrap_of(
            [one.details for one in predictions], counts.reshape(len(predictions), spec.books, spec.entries)
        )

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        """The same number of bits spent on samples: the lowest frequencies, in 8 bits a sample."""
        if self._evaluated is None:
            return
        spec = self.codec.spec
        bits = spec.frame_rate_hz * spec.quantizer.books * math.log2(spec.quantizer.entries)
        sounds = self._sounds(self._evaluated)
        own = []
        for one in predictions:
            samples = torch.from_numpy(sounds.read(one.index))
            own.append(one.by_baseline(None, None, **self._scores(coarse(samples, bits / 8, self.rate_hz), samples)))
        about = f"{bits:,.0f} bits a second as samples of 8 bits, {bits / 8:,.0f} a second"
        yield Baseline("samples", about, own)

    _evaluated: Dataset | None = None

    def _scores(self, made: Tensor, samples: Tensor) -> dict[str, float]:
        target = samples[None, : len(made)]
        return {
            "si_snr_db": float(si_snr_db(made[None], target)),
            "mel_distance": float(mel_distance(made[None], target, self.rate_hz)),
            "chroma": float(chroma_correlation(made[None], target, self.rate_hz)),
        }

    def _sounds(self, rows: Dataset) -> RowSounds:
        return RowSounds(rows, self.columns["file"], self.folder, self.rate_hz)


def coarse(samples: Tensor, per_second: float, rate_hz: int) -> Tensor:
    """Samples as so few a second would give them, each of 8 bits."""
    spectrum = torch.fft.rfft(samples)
    spectrum[max(round(len(samples) * per_second / 2 / rate_hz), 1) :] = 0
    low = torch.fft.irfft(spectrum, len(samples))
    top = low.abs().max().clamp(min=1e-9)
    rounded: Tensor = (low / top * 127).round() / 127 * top
    return rounded
