"""Kinds of labels: one class of several, any of several labels, or a number. All that differs between them is here.

    column "label"            kind               loss                   predicted                  metrics
    joy · anger · joy         SingleLabel        cross-entropy          the most likely class      accuracy, F1
    ["bug"] · [] · bug|docs   MultiLabel         binary cross-entropy   those above 0.5, or none   F1, subset accuracy
    3.8 · 0.25                RegressionTarget   squared error          the number                 Pearson's r, MSE, …

Training, evaluation and the pipeline ask the same object, so what a pipeline answers is what a report has scored.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.heads import Head
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr
from glassformer.tasks.columns import listed
from glassformer.tasks.metrics.classes import (
    ClassificationMetric,
    ClassificationScores,
    MultiLabelMetric,
    MultiLabelScores,
)
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.metrics.regression import RegressionMetric, RegressionScores
from glassformer.tasks.types import Prediction

PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}
"""Our name of a kind of labels → the name in `config.json`."""

THRESHOLD = 0.5
"""From which probability on a label of several holds."""

TOP = 5
"""Of this many classes a prediction keeps the probabilities."""


# ----------------------------------------------------------------------------------- labels as files write them

WHOLE = re.compile(r"(-?\d+)\.0+")
"""A whole number that is written with a fraction."""


def name_of(value: object) -> str:
    """What a class is called: a text as it is, a whole number or a truth by its letters.

        1, 1.0, "1", "1.0" → "1": where a cell of a column is empty, programs write whole numbers with a fraction

    Raises: DataError: nothing of these.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (bool, int)):
        return str(value).lower()  # "true", as JSON and most tables write it
    if not isinstance(value, str) or not value.strip():
        if value is None or (isinstance(value, str) and not value.strip()):
            raise DataError("the label is empty; write one into the row, or remove the row")
        raise DataError(
            f"the label is {safe_repr(value)}; a class is a text or a whole number (of a column of numbers alone, some "
            "with a fraction, the model predicts the number)"
        )
    return whole[1] if (whole := WHOLE.fullmatch(value)) else value


def labels_in(value: object, separator: str | None) -> list[str]:
    """The names of several labels: those of a list, or of a text between the separators.

    Raises: DataError: neither.
    """
    if isinstance(value, str) and separator is not None:
        return [name_of(part.strip()) for part in value.split(separator) if part.strip()]
    if (parts := listed(value)) is None:
        hint = "" if separator else ", or a text with separator='|', or what is between them"
        raise DataError(f"the label is {safe_repr(value)}; several labels are a list{hint}")
    return [name_of(part) for part in parts]


def number_of(value: object) -> float | None:
    """A number that can be computed with, from itself or from its letters; None = there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # a whole number beyond floats
        return None
    return number if math.isfinite(number) else None


def score_bounds(bounds: Sequence[float]) -> list[float]:
    """The lowest and the highest score of `score_range`; none = scores are as they are. Raises: ConfigError."""
    limits = [float(x) for x in bounds]
    if limits and (len(limits) != 2 or not limits[0] < limits[1]):
        raise ConfigError(f"score_range is {list(bounds)}; it must be the lowest and the highest score: [0, 5]")
    return limits


def scaled(score: float, bounds: Sequence[float], what: str) -> float:
    """A score by its bounds, as a number from 0 to 1.

    Args:
        what: it is, for the error
    Raises: DataError: it is out of bounds.
    """
    low, high = bounds
    if not low <= score <= high:
        raise DataError(f"{what} is {score:g}; by score_range it is from {low:g} to {high:g}")
    return (score - low) / (high - low)


MAX_DIGITS = 19
"""Of a class that is called by a number; longer names are names."""


def is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and len(name) <= MAX_DIGITS


def sorted_names(names: Iterable[str]) -> list[str]:
    """In the order of their letters; where all are whole numbers, by size."""
    ordered = list(names)
    return sorted(ordered, key=int) if all(map(is_whole, ordered)) else sorted(ordered)


# ------------------------------------------------------------------------------------------ kinds of labels


class LabelKind(ABC):
    """A kind of labels.

    PROBLEM: its name, where the config has one for it
    DTYPE: what the head takes
    METRIC, VALIDATION_METRIC: the primary metrics, as of a `Task`
    names: of the outputs of the head, by number
    """

    PROBLEM: ClassVar[str | None] = None
    DTYPE: ClassVar[torch.dtype] = torch.int64
    METRIC: str
    VALIDATION_METRIC: str

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)}: {_first_ten(self.names)})"

    @abstractmethod
    def read(self, value: object) -> np.ndarray:
        """A row's label as the head takes it.

        Raises: DataError: no label of this kind, or one that is not known.
        """

    @abstractmethod
    def value_of(self, label: np.ndarray) -> Any:
        """A label that was read, as predictions have it."""

    @abstractmethod
    def fits(self, names: Sequence[str]) -> bool:
        """Can a head whose outputs have these names predict every label of this kind?"""

    def problem_config(self) -> dict[str, Any]:
        """The key of `config.json` that says which kind this is."""
        return {"problem_type": PROBLEMS[self.PROBLEM]} if self.PROBLEM else {}

    def config(self) -> dict[str, Any]:
        """The keys of `config.json` that say all this; a new head is made as large as they say."""
        return {
            "id2label": {str(number): name for number, name in enumerate(self.names)},
            "label2id": {name: number for number, name in enumerate(self.names)},
            "num_labels": len(self.names),
            **self.problem_config(),
        }

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label, or the number. [labels] → [labels]"""

    def chosen(self, probabilities: Tensor, threshold: float | None = None) -> int:
        """How many of the labels, most probable first, are predicted.

        Args:
            threshold: None = the usual
        """
        return 1

    @abstractmethod
    def decode(self, logits: Tensor, label: np.ndarray) -> dict[str, Any]:
        """The fields of a prediction: label, predicted, correct, loss, details.

        Args:
            logits: [labels]
        """

    @abstractmethod
    def metric(self, head: Head) -> Metric:
        """A fresh metric for a validation."""

    @abstractmethod
    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        """The scores of predictions."""


class SingleLabel(LabelKind):
    """Single-label classification: one class of several."""

    PROBLEM: ClassVar[str | None] = "single"
    METRIC = "f1_weighted"
    VALIDATION_METRIC = "f1_macro"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        # A model of elsewhere may call a class "1.0", which rows may write as 1; its own name counts more.
        own = {name: number for number, name in enumerate(names)}
        self._numbers = {match[1]: own[name] for name in names if (match := WHOLE.fullmatch(name))} | own
        # Where no class is called by a number, a number can only be the index of one.
        self._by_number = not any(map(is_whole, names))

    def read(self, value: object) -> np.ndarray:
        return np.array(self.number(value), dtype=np.int64)

    def value_of(self, label: np.ndarray) -> Any:
        return self.names[int(label)]

    def number(self, value: object) -> int:
        """The number of a class."""
        name = name_of(value)
        if name in self._numbers:
            return self._numbers[name]
        if self._by_number and is_whole(name) and 0 <= int(name) < len(self.names):
            return int(name)
        raise self.unknown(name)

    def unknown(self, name: str) -> DataError:
        """The error for a name that no class has."""
        return DataError(
            f"the label {safe_repr(name)} is none of the {len(self.names)} that the model knows"
            f"{nearest(name, self.names)}: {_first_ten(self.names)}; correct it, leave the row out, or train on rows "
            "that have it"
        )

    def fits(self, names: Sequence[str]) -> bool:
        there = type(self)(names)
        try:
            return all(there.number(name) >= 0 for name in self.names)
        except DataError:
            return False

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def decode(self, logits: Tensor, label: np.ndarray) -> dict[str, Any]:
        log_probs = logits.log_softmax(-1)
        best = log_probs.topk(min(TOP, len(self.names)))
        true, predicted = int(label), int(log_probs.argmax())
        scores = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        return {
            "label": self.names[true],
            "predicted": self.names[predicted],
            "correct": true == predicted,
            "loss": -float(log_probs[true]),
            "details": {"scores": {self.names[number]: score for number, score in scores}},
        }

    def metric(self, head: Head) -> Metric:
        return ClassificationMetric(head, self.names)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return ClassificationScores(self.names, *_sides(predictions, self.number, np.int64))


class MultiLabel(SingleLabel):
    """Any number of labels, none included: a list, or a text with separators between them."""

    PROBLEM = "multi"
    DTYPE = torch.float32
    METRIC = VALIDATION_METRIC = "f1_micro"

    def __init__(self, names: Sequence[str], separator: str | None = None) -> None:
        super().__init__(names)
        self.separator = separator

    def read(self, value: object) -> np.ndarray:
        holds = np.zeros(len(self.names), dtype=np.float32)
        holds[[self.number(label) for label in labels_in(value, self.separator)]] = 1.0
        return holds

    def value_of(self, label: np.ndarray) -> list[str]:
        return [name for name, yes in zip(self.names, (label > 0.5).tolist(), strict=True) if yes]

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def chosen(self, probabilities: Tensor, threshold: float | None = None) -> int:
        return int((probabilities > (THRESHOLD if threshold is None else threshold)).sum())

    def decode(self, logits: Tensor, label: np.ndarray) -> dict[str, Any]:
        target = torch.from_numpy(np.array(label))
        probabilities = self.probabilities(logits)
        true, predicted = self.value_of(label), self.value_of((probabilities > THRESHOLD).numpy())
        return {
            "label": true,
            "predicted": predicted,
            "correct": true == predicted,
            "loss": float(F.binary_cross_entropy_with_logits(logits, target)),
            "details": {"scores": dict(zip(self.names, probabilities.tolist(), strict=True))},
        }

    def metric(self, head: Head) -> Metric:
        return MultiLabelMetric(head, self.names)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return MultiLabelScores(self.names, *_sides(predictions, self.read, np.bool_))


LARGEST_TARGET = 1e18
"""Of a regression: the square of its error, and the sum of some squares, are finite in fp32."""


class RegressionTarget(LabelKind):
    """Regression: the label is a number."""

    PROBLEM = "regression"
    DTYPE = torch.float32
    METRIC = VALIDATION_METRIC = "pearson"

    def read(self, value: object) -> np.ndarray:
        number = number_of(value)
        if number is None:
            raise DataError(f"the label is {safe_repr(value)}; it must be a number")
        if abs(number) > LARGEST_TARGET:
            raise DataError(
                f"the label is {safe_repr(value)}; it must be from -{LARGEST_TARGET:.0e} to {LARGEST_TARGET:.0e}: "
                "beyond that its squared error is infinite in 32 bits; rescale the labels, or correct this one"
            )
        return np.array(number, dtype=np.float32)

    def value_of(self, label: np.ndarray) -> float:
        return float(label)

    def fits(self, names: Sequence[str]) -> bool:
        return len(names) == 1

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits

    def decode(self, logits: Tensor, label: np.ndarray) -> dict[str, Any]:
        predicted, true = float(logits.flatten()[0]), self.value_of(label)
        return {"label": true, "predicted": predicted, "loss": (predicted - true) ** 2}

    def metric(self, head: Head) -> Metric:
        return RegressionMetric(head)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return RegressionScores(*_sides(predictions, float, np.float64))


def _sides(predictions: Sequence[Prediction], read: Callable[[Any], Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is true, and what was predicted. [N, …] each"""
    true, predicted = (
        np.array([read(x) for x in side], dtype=dtype)
        for side in ([x.label for x in predictions], [x.predicted for x in predictions])
    )
    return true, predicted


def _first_ten(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
