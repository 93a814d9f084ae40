"""Pedals from sound: an encoder reads a log-mel spectrogram, a decoder writes the chain.

    recording ─ log-mel ─ encoder ─ memory ─ decoder:  <start> <overdrive> <delay>  →  <overdrive> <delay> <end>

The network is an encoder-decoder over spectrograms (the family whisper) whose vocabulary is the pedals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.listening import Sound, SoundExample
from glassformer.core.flow import Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.data.splits import sample
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.schema import parse
from glassformer.loaded_model import LoadedModel
from glassformer.models._seq2seq import shift_right
from glassformer.tasks.base import Progress
from glassformer.tasks.columns import RowTask, placed
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.microbatch import padded
from glassformer.tasks.transcribe.augmentation import Augmentation
from glassformer.tasks.transcribe.sounds import RowSounds, note_marks, sound_title
from glassformer.tasks.types import Baseline, Dataset, Example, MicroBatch, Prediction
from glassformer_guitar.naming.baselines import mel_means, predict_pedals
from glassformer_guitar.naming.cepstrum import BANDS
from glassformer_guitar.naming.chains import (
    END,
    PADDING,
    START,
    TOKENS,
    chain_ids,
    chain_names,
    chain_text,
    write_chains,
    writes_pedals,
)
from glassformer_guitar.naming.pipeline import PedalNames
from glassformer_guitar.naming.scores import chain_scores
from glassformer_guitar.naming.windows import QUIETEST, Windows
from glassformer_guitar.pedals import check_pedal

ROWS_AT_ONCE = 64  # bounds the memory of recordings and their features
MOST_CLIPS = 5_000
"""The baseline learns 256 weights a pedal of this many clips at most: making them takes longer than learning."""
MASKS = ("time_masks", "time_mask_seconds", "mel_masks", "mel_mask_bins")
"""The augmentation that a spectrogram can have."""


class NamePedals(RowTask):
    """Recordings, each with the chain of pedals that it went through.

    A recording is cut or padded to the length that the encoder reads.

    Args:
        window_samples, hop_samples: of the spectrogram of a new model: length of the Fourier transform, and from one
            frame to the next; None = 400 and 160 at 16 kHz
        cepstrum: whether the last 138 of `num_mel_bins` are bands of a cepstrum, of a new model: see cepstrum.py
        augmentation: in training, spans of time and of mel bins that are masked (SpecAugment), see `Augmentation`
        folder: of the audio files; None = that of the table
        columns: role → column, where it has another name
    Raises: ConfigError: the model reads no spectrograms, others than these, or has another vocabulary.
    """

    PIPELINE = PedalNames
    HEAD = "automatic-speech-recognition"
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file", "pedals": "pedals"}
    TARGETS = ("pedals",)
    METRIC = "exact"
    CACHE_KEY = "pedals"
    REQUIRES = "a recording with its pedals is needed"
    READS_TEXT = False

    def __init__(
        self,
        model: LoadedModel,
        *,
        window_samples: int | None = None,
        hop_samples: int | None = None,
        cepstrum: bool | None = None,
        augmentation: Mapping[str, Any] | None = None,
        folder: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, columns)
        if not writes_pedals(model):
            raise ConfigError(
                f"a {model.family.model_type!r} model with {model.network.target_vocabulary} tokens does not write "
                f"pedals; take the family whisper, from scratch, whose vocab_size is then {len(TOKENS)}"
            )
        self.windows = Windows(model, window_samples, hop_samples, cepstrum)
        self.augmentation = _masks(augmentation)
        self.folder = folder
        self.how = {"extractor": str(self.windows.extractor), "samples": self.windows.samples, "peak": 1.0}
        if self.windows.cepstrum:
            self.how["cepstrum"] = BANDS

    @classmethod
    def head_config(
        cls,
        rows: Dataset,
        config: Mapping[str, Any],
        *,
        own: bool,
        columns: Mapping[str, str] | None,
        options: Any,
    ) -> dict[str, Any]:
        special = {"pad_token_id": PADDING, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}
        return {**config, "vocab_size": len(TOKENS), "is_encoder_decoder": True, **special}

    # -------------------------------------------------------------------------------------------- training

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        sounds = self._sounds(rows)
        return (self._example(rows, sounds, index) for index in range(len(rows)))

    def _example(self, rows: Dataset, sounds: RowSounds, index: int) -> Example:
        with placed(rows, index):
            labels = chain_ids(self.chain(rows[index]))
            features = self.windows.features(torch.from_numpy(sounds.read(index)))
        return {
            "input_features": features.numpy().astype(np.float16),  # steps of 0.04 dB at most, half the disk
            "labels": np.array(labels, dtype=np.int32),
            "length": features.shape[1] // 2 + len(labels),
        }

    def perturb(self, example: Example, draw: np.random.Generator) -> Example:
        if not self.augmentation:
            return example
        extractor = self.windows.extractor
        features = example["input_features"].astype(np.float32)
        frames_per_second = extractor.sample_rate_hz / extractor.hop_samples
        spans = self.augmentation.spans(features.shape[1], frames_per_second, extractor.bins, draw)
        for axis, begin, end in spans.tolist():
            features[(slice(None),) * axis + (slice(begin, end),)] = 0.0
        return {**example, "input_features": features}

    def chain(self, row: Mapping[str, Any]) -> list[str]:
        """The pedals of a row. Raises: DataError: no list, or an unknown pedal."""
        pedals = row.get(self.columns["pedals"])
        if not isinstance(pedals, list):
            raise DataError(f"{self.columns['pedals']!r} is {safe_repr(pedals)}; it must be a list of pedals")
        return [check_pedal(name) for name in pedals]

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        batch, flow = self.collate_inputs(examples)
        labels = self.labels(examples, flow)
        batch = replace(batch, decoder_input_ids=shift_right(labels, START, PADDING))
        return MicroBatch(batch, flow, labels, tuple(indices), sum(int(example["length"]) for example in examples))

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return padded([example["labels"] for example in examples], IGNORE_INDEX)

    def metric(self) -> Metric:
        return Metric(self.head)

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        sounds = self._sounds(rows)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            indices = range(first, min(first + ROWS_AT_ONCE, len(rows)))
            features, chains = [], []
            for index in indices:
                with placed(rows, index):
                    chains.append(self.chain(rows[index]))
                    features.append(self.windows.features(torch.from_numpy(sounds.read(index))))
            stacked = torch.stack(features)
            written = write_chains(self.model, stacked, [1] * len(stacked))
            for index, chain, written_chain, means in zip(
                indices, chains, written, self._mel_means(stacked), strict=True
            ):
                named = [name for name, _ in written_chain]
                yield Prediction(
                    index=index,
                    where=rows.where(index),
                    row={},
                    label=chain,
                    predicted=named,
                    correct=chain == named,
                    details={"mel_means": means.tolist()},
                )
                if progress is not None:
                    progress(1)

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """Each recording with the pedals that the model hears, and the true ones where the row has them."""
        sounds = self._sounds(rows)
        for index in range(len(rows)):
            row = rows[index]
            with placed(rows, index):
                samples = sounds.read(index)
                true = self.chain(row) if row.get(self.columns["pedals"]) is not None else None
            features = self.windows.all_features(torch.from_numpy(samples))
            (chain,) = write_chains(self.model, features, [len(features)])
            named = [name for name, _ in chain]
            silent = float(np.abs(samples).max(initial=0.0)) < QUIETEST
            sound = Sound("recording", samples, self.windows.extractor.sample_rate_hz, marks=note_marks(row))
            facts = {"pedals named": "none can be heard: it is silent" if silent else chain_text(named)}
            if true is not None:
                facts |= {"truly": chain_text(true), "exact": "yes" if named == true else "no"}
            yield SoundExample(sound_title(rows, index), [sound], facts=facts)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return chain_scores([(one.label, one.predicted) for one in predictions])

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        yield Baseline("no pedals", "the empty chain", [one.by_baseline([], not one.label) for one in predictions])
        if train is None:
            return
        numbers = sample(len(train), MOST_CLIPS).tolist() if len(train) > MOST_CLIPS else list(range(len(train)))
        stored = None if self.train_examples is None else self.train_examples()
        sounds, means, chains = self._sounds(train), list[Tensor](), list[list[str]]()
        for number in numbers:
            example = self._example(train, sounds, number) if stored is None else stored[number]
            spectrogram = torch.from_numpy(np.asarray(example["input_features"], np.float32))
            means.append(self._mel_means(spectrogram[None]))
            chains.append(chain_names(example["labels"]))
        inputs = torch.tensor([one.details["mel_means"] for one in predictions])
        named = predict_pedals(torch.cat(means), chains, inputs)
        about = "logistic regression of each pedal on mean and deviation of each mel band, in the order of a board"
        yield Baseline(
            "mel means",
            f"{about}; learnt from {len(numbers):,} of {len(train):,} training rows",
            [one.by_baseline(chain, chain == one.label) for one, chain in zip(predictions, named, strict=True)],
        )

    def _mel_means(self, features: Tensor) -> Tensor:
        return mel_means(features[:, : self.windows.extractor.bins])

    def _sounds(self, rows: Dataset) -> RowSounds:
        return RowSounds(rows, self.columns["file"], self.folder, self.windows.extractor.sample_rate_hz)


def _masks(augmentation: Mapping[str, Any] | None) -> Augmentation:
    """Augmentation of spectrograms. Raises: ConfigError: one that only samples can have, or a value of no such kind."""
    parsed: Augmentation = parse(Augmentation, augmentation or {}, "task_options.augmentation")
    for field in fields(Augmentation):
        if field.name not in MASKS and getattr(parsed, field.name) != field.default:
            raise ConfigError(
                f"task_options.augmentation: {field.name} changes samples, and pedals are learnt from stored "
                f"spectrograms; allowed: {', '.join(MASKS)}"
            )
    return parsed
