"""Audio to audio: an encoder-decoder makes one recording of another, both as codes: dry → wet, or wet → dry.

source ─ codec ─ codes [T, K] ─ encoder ─ memory
target ─ codec ─ codes ─ delayed ids ─ decoder ─ the codes one step on
evaluated: the target that it writes, decoded, beside the true one, by the distance of log-mel spectrograms
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.listening import Sound, SoundExample
from glassformer.core.flow import Batch, Flow
from glassformer.engine.codec import decode_audio
from glassformer.errors import DataError
from glassformer.generation.audio_codes import convert_codes
from glassformer.tasks.audio_codes.codes_task import CodesTask
from glassformer.tasks.base import Baseline, Dataset, Progress
from glassformer.tasks.codec.scores import mel_distance
from glassformer.tasks.columns import placed
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapMeans
from glassformer.tasks.microbatch import Example, MicroBatch, padded, padding_keep
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.transcribe.sounds import note_marks, sound_title


class AudioToAudio(CodesTask):
    """Pairs of recordings of one length, the second of which is made of the first. Args, Raises: as of `CodesTask`"""

    HEAD = "translation"
    COLUMNS: ClassVar[Mapping[str, str]] = {"source": "source", "target": "target"}
    TARGETS = ("target",)
    SOUNDS = ("source", "target")
    METRIC = "mel_distance"
    CACHE_KEY = "pairs of codes"
    REQUIRES = "a pair of recordings is needed"

    @classmethod
    def head_config(
        cls, rows: Dataset, config: Mapping[str, Any], *, own: bool, columns: Mapping[str, str] | None, options: Any
    ) -> dict[str, Any]:
        pattern, _ = cls.codec_sizes(options)
        special = dict.fromkeys(("pad_token_id", "bos_token_id", "decoder_start_token_id"), pattern.padding)
        return {**config, "codebooks": pattern.books, "vocab_size": pattern.vocabulary, **special}

    # -------------------------------------------------------------------------------------------- training

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        for _, source, target in self._pairs(rows):
            yield {"source": self.codes_of(source), "labels": self.codes_of(target)}

    def _pairs(self, rows: Dataset) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The number of each row, and its two recordings. Raises: DataError: of different lengths."""
        sources, targets = (self.sounds(rows, role) for role in self.SOUNDS)
        for index in range(len(rows)):
            with placed(rows, index):
                source, target = sources.read(index), targets.read(index)
                if abs(len(source) - len(target)) > 0.05 * self.rate_hz:
                    raise DataError(
                        f"the source has {len(source) / self.rate_hz:.2f} seconds and the target "
                        f"{len(target) / self.rate_hz:.2f}; they must be as long"
                    )
            samples = min(len(source), len(target))
            yield index, source[:samples], target[:samples]

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        sources = [example["source"] for example in examples]
        even = len(set(map(len, sources))) == 1
        return Batch(input_ids=padded(sources, self.pattern.padding)), Flow(
            keep=None if even else padding_keep(sources)
        )

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        batch, flow = self.collate_inputs(examples)
        labels = self.labels(examples, flow)
        batch = Batch(input_ids=batch.input_ids, decoder_input_ids=self.shifted(labels))
        return MicroBatch(batch, flow, labels, tuple(indices), sum(len(example["labels"]) for example in examples))

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """The source, what the model makes of it, and the true target: before, after, truth."""
        for index, source, target in self._pairs(rows):
            codes = torch.from_numpy(self.codes_of(source)).T
            made = self.decoded("after", convert_codes(self.model.network, codes, seed=index), about="by the model")
            distances = [
                (name, f"{self._distance(torch.as_tensor(samples), target):.2f} dB from the truth")
                for name, samples in (("after", made.samples), ("before", source))
            ]
            before = Sound("before", source, self.rate_hz, codes=codes, frame_rate_hz=self.frame_rate_hz)
            truth = Sound("truth", target, self.rate_hz, marks=note_marks(rows[index]))
            yield SoundExample(sound_title(rows, index), [before, made, truth], facts=distances)

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """What the model makes of each source, drawn by its probabilities; the seed is the number of the row."""
        for index, source, target in self._pairs(rows):
            own, codes = (torch.from_numpy(self.codes_of(samples)).T for samples in (source, target))
            made = convert_codes(self.model.network, own, seed=index)
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={},
                label=None,
                predicted=None,
                details={
                    "mel_distance": self._distance(decode_audio(self.codec, made), target),
                    "code_accuracy": float((made == codes).float().mean()),
                    "source": self._distance(torch.from_numpy(source), target),
                    "source codes": self._distance(decode_audio(self.codec, own), target),
                    "target codes": self._distance(decode_audio(self.codec, codes), target),
                },
            )
            if progress is not None:
                progress(1)

    def _distance(self, made: Tensor, target: np.ndarray) -> float:
        return float(mel_distance(made[None, : len(target)], torch.from_numpy(target)[None, : len(made)], self.rate_hz))

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        about = {
            "mel_distance": "mean difference of log-mel spectrograms to the true target, in dB",
            "code_accuracy": "share of codes that are those of the true target",
        }
        names = [name for name in about if all(name in one.details for one in predictions)]
        values = {name: np.array([one.details[name] for one in predictions]) for name in names}
        return BootstrapMeans(values, {name: about[name] for name in names})

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        for name, about in (
            ("source", "the source as it is"),
            ("source codes", "the source through the codec"),
            ("target codes", "the true target through the codec: no model over its codes is nearer, but by chance"),
        ):
            rows = [one.by_baseline(None, None, mel_distance=one.details[name]) for one in predictions]
            yield Baseline(name, about, rows)
