"""Transcribe: speech recognition, learnt from recordings with transcripts, scored by word and character error rate.

    file, text ─ samples, ids ─ quality filters ─> Example ─ augmentation ─ network ─ loss
                                                                              └─ search ─ transcript ─ WER, CER

Validation and evaluation search for the transcript as `Model.transcribe` does with a window; only the loss
reads the true transcript.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import parse
from glassformer.loaded_model import LoadedModel
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcribe import transcribe
from glassformer.tasks.base import Progress
from glassformer.tasks.columns import RowTask, check_columns, head_of, placed, text_of
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.metrics.normalisers import letters_of, normaliser_of
from glassformer.tasks.metrics.speech import error_counts
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.transcribe.augmentation import Augmentation
from glassformer.tasks.transcribe.language import LanguageFilter, TextLanguageFilter, language_filter
from glassformer.tasks.transcribe.passages import (
    SEGMENTS,
    TIMES,
    AudioPassage,
    joined,
    late_segment,
    passage_of,
    passages,
)
from glassformer.tasks.transcribe.quality import DroppedRow, QualityFilters, QualityReport
from glassformer.tasks.transcribe.recognisers import Recogniser, recogniser_of
from glassformer.tasks.transcribe.scores import SpeechBatch, TranscriptionEvaluation, TranscriptMetric, scores_of
from glassformer.tasks.transcribe.sounds import RowSounds, to_float, to_int16
from glassformer.tasks.types import Baseline, Dataset, Example, MicroBatch, Prediction

ROWS_AT_ONCE = 128
"""Recordings that are held at once where rows are predicted."""


class Transcribe(RowTask):
    """Transcripts of recordings.

    dropped: the rows that were left out so far, and why

    Args:
        columns: `audio`, the recording (a path, bytes or samples), and `text`, its transcript; `start` and `end` of a
            stretch of it, and with timestamps `segments`: see passages.py
        language: of the recordings, for a multilingual model
        translate: transcripts are English translations
        timestamps: rows with times are learnt with timestamp tokens
        folder: of the audio files; None = that of the table that names them
        audio_context: the encoder context of a model with windows: the "window", or as long as the "sound"
        normaliser: of texts before they are scored: "basic", "none", "english" or "ukrainian"
        filters: see `QualityFilters`
        report: a JSON Lines file that rows which are left out are written to
        augmentation: in training, see `Augmentation`
    Raises: ConfigError: options that the model cannot have. UnsupportedError: it transcribes nothing.
    """

    HEAD = "automatic-speech-recognition"
    COLUMNS: ClassVar[Mapping[str, str]] = {"audio": "file", "text": "text", **{role: role for role in TIMES}}
    TARGETS = ("text", "segments")
    METRIC = VALIDATION_METRIC = "wer"
    EVALUATION = TranscriptionEvaluation
    evaluation: TranscriptionEvaluation

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        language: str | None = None,
        translate: bool = False,
        timestamps: bool = False,
        folder: str | None = None,
        audio_context: str = "window",
        normaliser: str = "basic",
        filters: Mapping[str, Any] | QualityFilters | None = None,
        report: str | None = None,
        augmentation: Mapping[str, Any] | Augmentation | None = None,
    ) -> None:
        super().__init__(model, columns)
        if not timestamps:
            if SEGMENTS in (columns or {}):
                raise ConfigError(f"a column for {SEGMENTS!r} is read with timestamps: true")
            self.columns = {role: name for role, name in self.columns.items() if role != SEGMENTS}
        normaliser_of(normaliser)
        self._speech = language, "translate" if translate else "transcribe"
        self.recogniser: Recogniser = recogniser_of(model, *self._speech, audio_context)
        if timestamps and not self.recogniser.writes_times:
            raise ConfigError(
                "a model of a letter a frame writes no times, and has them from its frames: no timestamps"
            )
        self._predicted: Dataset | None = None
        self.folder, self.normaliser, self.report = folder, normaliser, report
        self.filters = _parsed(QualityFilters, filters, "task_options.filters")
        self.augmentation = _parsed(Augmentation, augmentation, "task_options.augmentation")
        if self.augmentation.masks and not self.recogniser.masks:
            raise ConfigError(
                "a model of waveforms has no spectrogram to mask, and masks its frames by itself: leave time_masks and "
                "mel_masks out, and say how much: overrides: {mask_time_prob: 0.05, mask_time_length: 10}"
            )
        self.dropped: list[DroppedRow] = []
        self.how = {"speech": self._speech, "context": audio_context, "filters": repr(self.filters)}
        for name in ("min_language_probability", "min_text_language_probability"):
            if getattr(self.filters, name) is not None and self.language is None:
                raise ConfigError(f"filters.{name} is of the language of the recordings: language=uk")

    @classmethod
    def corpus(cls, rows: Dataset, columns: Mapping[str, str]) -> Iterator[str]:
        """Transcripts in lower case, without punctuation but apostrophes: the letters of a vocabulary made of them."""
        column = {**cls.COLUMNS, **columns}["text"]
        check_columns(rows, {"text": column})
        return (letters_of(text_of(row, column)) for row in iter(rows))

    # ------------------------------------------------------------------------------------------------ examples

    def inputs(self) -> list[str]:
        return []  # an empty path is an error

    def columns_read(self) -> dict[str, str]:
        return {role: column for role, column in self.columns.items() if role not in TIMES}

    @property
    def language(self) -> str | None:
        """Of the recordings, where it is known."""
        return self.recogniser.language or self._speech[0]

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [self._sounds(rows).files]

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        report, sounds = QualityReport(0, []), self._sounds(rows)
        longest = self.recogniser.longest_seconds if SEGMENTS in self.columns else 0.0
        for passage in joined(passages(rows, self.columns), longest):
            example = self._example(rows, sounds, passage, report)
            if example is not None:
                report.used += 1
                yield example
        for note in self.recogniser.notes():
            warnings.warn(note, stacklevel=2)
        self.dropped += report.dropped
        if self.report is not None:
            QualityReport(0, self.dropped).save(Path(self.report))
        report.tell()

    def _sounds(self, rows: Dataset) -> RowSounds:
        return RowSounds(rows, self.columns["audio"], self.folder, self.recogniser.rate_hz)

    def _example(
        self, rows: Dataset, sounds: RowSounds, passage: AudioPassage, report: QualityReport
    ) -> Example | None:
        """The example of a row, or of several; None where it is left out, and the report then says why."""
        problem: tuple[str, str] | None
        with placed(rows, passage.index):
            try:
                samples = sounds.stretch(passage.index, passage.begin, passage.end)
            except DataError as error:
                if not self.filters.skip_unreadable:
                    raise
                problem = "unreadable", str(error)
            else:
                labels = self.recogniser.labels(passage.text, passage.segments)
                problem = self._problem(samples, labels, passage)
                if problem is None:
                    return self._made(to_int16(samples), labels, passage.text)
        report.dropped.append(DroppedRow(rows.where(passage.index), *problem))
        return None

    def _problem(self, samples: np.ndarray, labels: Sequence[int], passage: AudioPassage) -> tuple[str, str] | None:
        """Why a passage is left out: a reason, and its figure; None = it is kept."""
        problem = self._misfit(samples, labels, passage)
        if problem is None and self._language_filter is not None:
            problem = self._language_filter.problem(samples, self.recogniser.rate_hz)
        return problem

    def _misfit(self, samples: np.ndarray, labels: Sequence[int], passage: AudioPassage) -> tuple[str, str] | None:
        """The same, but for the language of the sound, which takes a model to tell."""
        rate = self.recogniser.rate_hz
        problem = late_segment(passage, len(samples) / rate)
        problem = problem or self.filters.problem(samples, rate, passage.text, passage.index)
        if problem is None and self._text_language_filter is not None:
            problem = self._text_language_filter.problem(passage.text)
        if problem is None and (misfit := self.recogniser.problem(len(samples), labels)):
            problem = misfit, ""
        return problem

    @cached_property
    def _language_filter(self) -> LanguageFilter | None:
        return language_filter(self.filters, self.model, self.language or "")

    @cached_property
    def _text_language_filter(self) -> TextLanguageFilter | None:
        least = self.filters.min_text_language_probability
        return None if least is None else TextLanguageFilter(self.language or "", least)

    def _made(self, samples: np.ndarray, labels: Sequence[int], text: str) -> dict[str, Any]:
        return {
            "samples": samples,
            "labels": np.array(labels, dtype=np.int32),
            "text": np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8),
            "length": self.recogniser.positions(len(samples)) + len(labels),
        }

    def perturb(self, example: Example, draw: np.random.Generator) -> Example:
        if not self.augmentation:
            return example
        samples, labels = self.augmentation.samples(to_float(example["samples"]), draw), example["labels"]
        slower = len(samples) / len(example["samples"])
        if self.recogniser.problem(len(samples), self.recogniser.stretched(labels, slower)):  # it may not fit any more
            samples, slower = to_float(example["samples"]), 1.0
        length = self.recogniser.positions(len(samples)) + len(labels)
        labels = self.recogniser.stretched(labels, slower)
        changed: dict[str, Any] = {**example, "samples": samples, "labels": labels, "length": length}
        if self.augmentation.masks:
            changed["spans"] = self.augmentation.spans(*self.recogniser.spectrogram(len(samples)), draw)
        return changed

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        sounds = [torch.from_numpy(to_float(example["samples"])) for example in examples]
        return self.recogniser.inputs(sounds, [example.get("spans", np.zeros((0, 3), int)) for example in examples])

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> SpeechBatch:
        batch, flow = self.collate_inputs(examples)
        batch, labels = self.recogniser.batch_labels(batch, [example["labels"] for example in examples])
        texts = tuple(example["text"].tobytes().decode("utf-8") for example in examples)
        tokens = sum(int(example["length"]) for example in examples)
        return SpeechBatch(batch, flow, labels, tuple(indices), tokens, texts=texts)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return self.recogniser.batch_labels(Batch(), [example["labels"] for example in examples])[1]

    # ---------------------------------------------------------------------------------------------- transcripts

    def metric(self) -> Metric:
        if any(hasattr(parameter, "full_tensor") for parameter in self.model.network.parameters()):
            # Each process would search for as many tokens as its own rows need, and wait for the others' shards.
            raise ConfigError("transcripts are searched for in each validation, by whole weights; set sharded: false")
        options = TranscriptionEvaluation().search()
        return TranscriptMetric(self.head, partial(self.recogniser.transcripts, options=options), self.normaliser)

    def check_evaluation(self) -> None:
        error_counts("a", "a")
        self._search  # noqa: B018 # its language model is read now

    @cached_property
    def _search(self) -> TranscriptionOptions:
        return self.evaluation.search()

    def for_evaluation(self, **options: Any) -> Transcribe:
        task = super().for_evaluation(**options)
        task.__dict__.pop("_search", None)
        return task

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        self._predicted = rows
        heard = self.heard(rows, self._read, lambda samples: (self.transcribed(samples, self._search), None))
        for index, (about, (text, loss)) in enumerate(heard):
            yield self._prediction(rows, index, text, loss, about)
            if progress is not None:
                progress(1)

    def heard(
        self, rows: Dataset, read: Callable[[Output, MicroBatch], list[Any]], alone: Callable[[np.ndarray], Any]
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """The details of each row, and its output: its seconds, and why it is in no training, where it is in none.

        Args:
            read: of a batch
            alone: of what does not fit
        """
        check_columns(rows, self.columns_read())
        sounds = self._sounds(rows)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            made = [self._to_predict(rows, sounds, i) for i in range(first, min(first + ROWS_AT_ONCE, len(rows)))]
            fitting = [example for example, fits, _ in made if fits]
            outputs = iter(run_examples(self, fitting, read=read, tokens=self._tokens))
            for example, fits, problem in made:
                about = {"seconds": len(example["samples"]) / self.recogniser.rate_hz}
                yield about | problem, next(outputs) if fits else alone(example["samples"])

    @property
    def _tokens(self) -> int:
        """Tokens of a micro-batch; 1 = a sound alone, of a network whose numbers depend on its neighbours' lengths."""
        return self.evaluation.tokens if self.recogniser.batches_exactly else 1

    def _to_predict(self, rows: Dataset, sounds: RowSounds, index: int) -> tuple[dict[str, Any], bool, dict[str, str]]:
        """The example of a row, whatever its quality, whether it fits the model as it is, and its detail `left_out`."""
        with placed(rows, index):
            passage = passage_of(index, rows[index], self.columns)
            samples = sounds.stretch(index, passage.begin, passage.end)
            if not len(samples):
                raise DataError(f"the recording has no sound from {passage.begin:g} to {passage.end:g} s")
            labels = self.recogniser.labels(passage.text)
        fits = self.recogniser.problem(len(samples), labels) is None
        problem = self._misfit(samples, labels, passage)
        left_out = {} if problem is None else {"left_out": problem[0]}
        return self._made(to_int16(samples), labels, passage.text), fits, left_out

    def transcribed(self, samples: np.ndarray, options: TranscriptionOptions) -> str:
        """The transcript of a recording that does not fit: longer than a window, or shorter than a frame."""
        options = replace(options, language=self.recogniser.language)
        return transcribe(self.model, to_float(samples), options, self.recogniser.rate_hz).text

    def _read(self, output: Output, batch: MicroBatch) -> list[tuple[str, float]]:
        texts = self.recogniser.transcripts(output, batch.flow, self._search)
        return list(zip(texts, self._losses(output, batch), strict=True))

    def _losses(self, output: Output, batch: MicroBatch) -> Iterator[float]:
        """The mean loss of each row."""
        assert isinstance(batch.labels, Tensor) and output.logits is not None
        for i, labels in enumerate(batch.labels.split(1)):
            frames = None if output.frames is None else output.frames[i : i + 1]
            row = Output(logits=output.logits[i : i + 1], frames=frames)
            total, count = self.head.output_loss_sums(row, labels)["loss"], self.head.label_counts(labels)["loss"]
            yield float(total) / max(count, 1)

    def _prediction(
        self, rows: Dataset, index: int, text: str, loss: float | None, about: Mapping[str, Any]
    ) -> Prediction:
        row = rows[index]
        reference = row[self.columns["text"]]
        counts = error_counts(reference, text, normaliser=self.normaliser)
        return Prediction(
            index=index,
            where=rows.where(index),
            row={"audio": sound} if isinstance(sound := row.get(self.columns["audio"]), str) else {},
            label=reference,
            predicted=text,
            correct=counts[0] == 0,
            loss=loss,
            details={"counts": counts, **about},
        )

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return scores_of(self.error_counts(predictions), predictions, self.normaliser)

    def error_counts(self, predictions: Sequence[Prediction]) -> np.ndarray:
        """Word errors, words, character errors and characters of each row. [N, 4]"""
        again = partial(error_counts, normaliser=self.normaliser)
        counts = [x.details.get("counts") or again(x.label, x.predicted) for x in predictions]
        return np.array(counts, dtype=np.float64)

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        initial = None if self.initial_model is None else self.initial_model()
        if initial is None or initial.task != self.HEAD or self._predicted is None:
            return  # it had no letters before the training
        before = copy(self)
        before.model, before.head = initial, head_of(initial, self.HEAD)
        before.recogniser = recogniser_of(initial, *self._speech, "window")
        about = "the model that training began with, in whole windows, with the same search"
        yield Baseline("before training", about, list(before.predict(self._predicted)))

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        asked = self.evaluation
        search = "greedy search" if asked.beams == 1 else f"beam search with {asked.beams} beams"
        how = "its texts rescored by" if asked.rescore else "with shallow fusion of"
        fusion = f", {how} {asked.language_model}, alpha {asked.alpha:g}, beta {asked.beta:g}"
        notes = [f"transcripts by {search}{fusion if asked.language_model else ''}"]
        reasons = Counter(x.details["left_out"] for x in predictions if "left_out" in x.details)
        if reasons:
            parts = "; ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
            notes.append(
                f"{reasons.total():,} of {len(predictions):,} recordings count here and in no validation, which "
                f"leaves them out: {parts}"
            )
        return notes


def _parsed(kind: type[Any], given: Any, path: str) -> Any:
    """Options of a task as their dataclass."""
    return given if isinstance(given, kind) else parse(kind, given or {}, path)
