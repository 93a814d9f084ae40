"""Audio frame classification: a label for each frame of a sound, such as speech and music, or the pauses between.

    file        a.wav                       one frame every 20 ms ─ network ─ a class for each frame
    segments    0.4 to 1.2 s: speech        the frames whose middle is in it; all others are "none"

Source: Yang et al. 2021, "SUPERB", section 3, "speaker diarization".
Differs: a frame has one class, and padding has none; the reference library learns the frames of padding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models.wav2vec2.network import SpeechEncoder
from glassformer.tasks.classify.kinds import LabelKind, SingleLabel, name_of, number_of
from glassformer.tasks.classify.media import ClassifyAudio
from glassformer.tasks.classify.task import count_names, label_kind_of
from glassformer.tasks.columns import check_columns, listed, placed, tell_cut
from glassformer.tasks.metrics.classes import ClassificationScores
from glassformer.tasks.metrics.metric import Bootstrap
from glassformer.tasks.microbatch import padded
from glassformer.tasks.types import Baseline, Dataset, Example, MicroBatch, Prediction

OUTSIDE = "none"
"""The class of frames that are in no segment."""

Segment = tuple[float, float, str]
"""Begin and end in seconds, and the label."""


class TagAudio(ClassifyAudio):
    """Recordings with labelled segments: a list of {"start": seconds, "end": seconds, "label": …}, which may be empty.

    The arguments are those of `ClassifyAudio`.

    Raises: ConfigError: the model has another head, or several labels a frame. UnsupportedError: it has no frames.
    """

    HEAD = "audio-frame-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file", "label": "segments"}

    def __init__(self, model: LoadedModel, **options: Any) -> None:
        super().__init__(model, **options)
        if not isinstance(model.network, SpeechEncoder):
            raise UnsupportedError(f"a {model.family.model_type!r} model has no frames of sound; wav2vec 2.0 has")
        self.features = model.network.features

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> LabelKind:
        kind = label_kind_of(config)
        if kind.PROBLEM != "single":
            raise ConfigError(
                "config.json: a frame has one class of several; set problem_type to single_label_classification"
            )
        return kind

    @staticmethod
    def kind_of_rows(rows: Dataset, columns: Mapping[str, str], separator: str | None) -> LabelKind:
        column = columns["label"]
        check_columns(rows, {"label": column})
        values = [row.get(column) for row in iter(rows)]
        counts, _ = count_names(rows, values, lambda value: [label for *_, label in segments_of(value, column)])
        if not counts:
            raise DataError(f"{rows.where(0)}: no row has a segment in {column!r}; there is nothing to tell apart")
        return SingleLabel([OUTSIDE, *sorted(set(counts) - {OUTSIDE})])

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        self._cut, reader = 0, self.reader(rows)
        for index in range(len(rows)):
            with placed(rows, index):
                segments = segments_of(rows[index].get(self.columns["label"]), self.columns["label"])
                example = self.read(reader, index)
                yield {**example, "labels": self._classes(segments, len(example["input_values"]))}
        tell_cut("recordings", self._cut, len(rows), f"{self.max_seconds:g} s")

    def _classes(self, segments: Sequence[Segment], samples: int) -> np.ndarray:
        """The class of each frame of a sound of `samples` samples, by where its middle is. [frames]"""
        frames = self.features.frames(samples)
        if frames < 1:
            raise DataError(f"the sound has {samples} samples, fewer than a frame ({self.features.spec.samples})")
        middles = self._middles(frames)
        classes = np.full(frames, int(self.kind.read(OUTSIDE)), dtype=np.int64)
        for start, end, label in segments:
            classes[(middles >= start) & (middles < end)] = int(self.kind.read(label))
        return classes

    def _middles(self, frames: int) -> np.ndarray:
        """Where the middle of each frame is, in seconds. [frames]"""
        spec = self.features.spec
        middles: np.ndarray = (np.arange(frames) * spec.hop + spec.samples / 2) / self._processor.sample_rate_hz
        return middles

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return padded([example["labels"] for example in examples], IGNORE_INDEX)

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """The logits of each sound's frames. [frames, classes] each"""
        assert output.logits is not None and isinstance(batch.labels, Tensor)
        lengths = (batch.labels != IGNORE_INDEX).sum(-1).tolist()
        return [logits[:length] for logits, length in zip(output.logits, lengths, strict=True)]

    def decode(self, logits: Tensor, example: Example) -> dict[str, Any]:
        true, log_probabilities = np.asarray(example["labels"]), logits.log_softmax(-1).numpy()
        return {
            "label": [self._text(true)],
            "loss": -float(log_probabilities[np.arange(len(true)), true].mean()),
            **self._answered(true, log_probabilities.argmax(-1)),
        }

    def _answered(self, true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        """The fields of a prediction that depend on the answer, of the model or of a baseline."""
        segments = [
            {"start": round(start, 3), "end": round(end, 3), "label": label}
            for start, end, label in self._segments(predicted)
            if label != OUTSIDE
        ]
        runs = [_runs(true), _runs(predicted)]
        return {
            "predicted": self._text(predicted),
            "correct": bool((true == predicted).all()),
            "details": {"segments": segments, "runs": runs},
        }

    def _segments(self, classes: np.ndarray) -> Iterator[Segment]:
        """Neighbouring frames of one class as segments."""
        seconds, begin = self.features.spec.hop / self._processor.sample_rate_hz, 0
        for number, count in _runs(classes):
            yield begin * seconds, (begin + count) * seconds, self.kind.names[number]
            begin += count

    def _text(self, classes: np.ndarray) -> str:
        """Segments as a text: none 0–0.4, speech 0.4–1.2."""
        return ", ".join(f"{label} {start:.2f}–{end:.2f}" for start, end, label in self._segments(classes))

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        true, predicted = ([_frames(x.details["runs"][side]) for x in predictions] for side in (0, 1))
        rows = np.repeat(np.arange(len(true)), list(map(len, true)))
        scores = ClassificationScores(self.kind.names, np.concatenate(true), np.concatenate(predicted), rows)
        scores.item = "frame"
        return scores

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        if train is None:
            return
        counts = np.zeros(len(self.kind.names), dtype=np.int64)
        examples = self.encode(train)
        for number in range(len(examples)):
            counts += np.bincount(examples[number]["labels"], minlength=len(counts))
        often = int(counts.argmax())
        same = []
        for x in predictions:
            true = _frames(x.details["runs"][0])
            answer = self._answered(true, np.full_like(true, often))
            same.append(x.by_baseline(answer["predicted"], answer["correct"], **answer["details"]))
        about = f"always {self.kind.names[often]!r}, the class that most training frames have"
        yield Baseline("most frequent", about, same)


def segments_of(value: object, column: str) -> list[Segment]:
    """The segments of a row, by time.

    Raises: DataError: no list of segments, or segments that overlap.
    """
    given = [] if value is None else listed(value)
    segments = []
    for each in given if given is not None else [value]:
        start, end, label = (
            each.get(name) if isinstance(each, Mapping) else None for name in ("start", "end", "label")
        )
        begin, stop = number_of(start), number_of(end)
        if begin is None or stop is None or not 0 <= begin < stop:
            raise DataError(
                f"{column!r} has {safe_repr(each)}; a segment is {{'start': 0.4, 'end': 1.2, 'label': 'speech'}}, in "
                "seconds"
            )
        segments.append((begin, stop, name_of(label)))
    segments.sort()
    for (_, stop, first), (begin, _, second) in pairwise(segments):
        if begin < stop:
            raise DataError(
                f"{column!r}: {first!r} ends at {stop:g} s, and {second!r} begins at {begin:g} s; a frame has one "
                "label, so segments must not overlap"
            )
    return segments


def _runs(classes: np.ndarray) -> list[list[int]]:
    """Classes of frames as runs of equal ones: the class, and how many."""
    return [[int(number), len(list(group))] for number, group in groupby(classes.tolist())]


def _frames(runs: Sequence[Sequence[int]]) -> np.ndarray:
    """The classes of frames, from runs of them. [frames]"""
    classes, counts = np.array(runs).T
    return np.repeat(classes, counts)
