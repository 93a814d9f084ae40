"""Pedals from sound: an encoder reads a log-mel spectrogram, a decoder writes the chain.

    recording ─ log-mel ─ encoder ─ memory ─ decoder:  <start> <overdrive> <delay>  →  <overdrive> <delay> <end>

The network is an encoder-decoder over spectrograms (the family whisper) whose vocabulary is the pedals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.audio.listening import Sound, SoundExample
from glassformer.core.flow import Batch, Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.data.guitar.pedals import PEDALS, check_pedal
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.models._seq2seq import shift_right
from glassformer.tasks.base import Baseline, Dataset, Progress
from glassformer.tasks.columns import RowTask, placed
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.microbatch import Example, MicroBatch, padded
from glassformer.tasks.pedals.baselines import mel_means, predict_pedals
from glassformer.tasks.pedals.scores import chain_scores
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.transcribe.recognisers import ensure_processor
from glassformer.tasks.transcribe.sounds import RowSounds, note_marks, sound_title

PADDING, START, END = 0, 1, 2
TOKENS = ("<padding>", "<start>", "<end>", *(f"<{name}>" for name in PEDALS))
"""The vocabulary."""
ROWS_AT_ONCE = 64


class NamePedals(RowTask):
    """Recordings, each with the chain of pedals that it went through.

    A recording is cut or padded to the length that the encoder reads.
    Args: folder: of the audio files; None = that of the table · columns: role → column, where it has another name
    Raises: ConfigError: the model reads no spectrograms, or has another vocabulary.
    """

    HEAD = "automatic-speech-recognition"
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file", "pedals": "pedals"}
    TARGETS = ("pedals",)
    METRIC = "exact"
    CACHE_KEY = "pedals"
    REQUIRES = "a recording with its pedals is needed"
    READS_TEXT = False

    def __init__(self, model: Model, *, folder: str | None = None, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(model, columns)
        if model.network.READS[0] != "input_features" or model.network.target_vocabulary != len(TOKENS):
            raise ConfigError(
                f"a {model.family.model_type!r} model with {model.network.target_vocabulary} tokens does not write "
                f"pedals; take the family whisper, from scratch, whose vocab_size is then {len(TOKENS)}"
            )
        ensure_processor(model)
        processor: Any = model.processor
        positions = int(model.config["max_source_positions"])
        extractor: LogMel = processor.extractor
        self.samples = 2 * positions * extractor.hop_samples
        self.extractor, self.folder = extractor, folder
        self.how = {"extractor": str(extractor), "samples": self.samples}

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
        for index in range(len(rows)):
            with placed(rows, index):
                chain = self.chain(rows[index])
                features = self.features(sounds.read(index))
            labels = [*(3 + list(PEDALS).index(name) for name in chain), END]
            yield {
                "input_features": features.numpy(),
                "labels": np.array(labels, dtype=np.int32),
                "length": features.shape[1] // 2 + len(labels),
            }

    def features(self, samples: np.ndarray) -> Tensor:
        """The log-mel spectrogram of a recording, cut or padded. [M, frames]"""
        wave = torch.zeros(1, self.samples)
        wave[0, : len(samples)] = torch.from_numpy(samples[: self.samples])
        return self.extractor.features(wave)[0]

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
                    features.append(self.features(sounds.read(index)))
            stacked = torch.stack(features)
            for index, chain, named, means in zip(
                indices, chains, self.write(stacked), mel_means(stacked), strict=True
            ):
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
            (named,) = self.write(self.features(samples)[None])
            sound = Sound("recording", samples, self.extractor.sample_rate_hz, marks=note_marks(row))
            facts = [("pedals named", chain_text(named))]
            if true is not None:
                facts += [("truly", chain_text(true)), ("exact", "yes" if named == true else "no")]
            yield SoundExample(sound_title(rows, index), [sound], facts=facts)

    @torch.inference_mode()
    def write(self, features: Tensor) -> list[list[str]]:
        """The chains that the decoder writes, each token the most likely one. [N, M, frames] → N chains"""
        network, device = self.model.network, self.model.device
        training = network.training
        network.eval()
        memory = network.memory(Batch(input_features=features.to(device)), Flow())
        ids = torch.full((len(features), 1), START, device=device)
        for _ in range(len(PEDALS) + 1):
            logits = network(Batch(decoder_input_ids=ids), Flow(memory=memory)).logits[:, -1]
            logits[:, [PADDING, START]] = -torch.inf
            following = logits.argmax(-1).where(~(ids == END).any(1), END)
            ids = torch.cat([ids, following[:, None]], 1)
        network.train(training)
        names = list(PEDALS)
        return [[names[token - 3] for token in row if token > END] for row in ids.tolist()]

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return chain_scores([(one.label, one.predicted) for one in predictions])

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        yield Baseline("no pedals", "the empty chain", [one.by_baseline([], not one.label) for one in predictions])
        if train is None:
            return
        sounds = self._sounds(train)
        features = torch.stack([self.features(sounds.read(index)) for index in range(len(train))])
        chains = [self.chain(train[index]) for index in range(len(train))]
        inputs = torch.tensor([one.details["mel_means"] for one in predictions])
        named = predict_pedals(mel_means(features), chains, inputs)
        about = "logistic regression of each pedal on mean and deviation of each mel band, in the order of a board"
        yield Baseline(
            "mel means",
            about,
            [one.by_baseline(chain, chain == one.label) for one, chain in zip(predictions, named, strict=True)],
        )

    def _sounds(self, rows: Dataset) -> RowSounds:
        return RowSounds(rows, self.columns["file"], self.folder, self.extractor.sample_rate_hz)


def chain_text(pedals: Sequence[str]) -> str:
    """A chain of pedals as it is shown: `overdrive → delay`."""
    return " → ".join(pedals) or "none"
