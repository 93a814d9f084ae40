"""Data types of tasks: rows, examples, micro-batches and predictions, and what a loop over examples needs of a task.

    Dataset ──> Example … Examples ──> MicroBatch ──> Output ──> Prediction, of a Baseline too

Tasks, metrics and the loops that run them import these, and so need not import each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Labels
from glassformer.loaded_model import LoadedModel

Example = Mapping[str, Any]
"""One example: arrays by the names of a `Batch`, with its labels; see `Task`."""


class Examples(Protocol):
    """Examples by number: in memory, or mapped from files (`data/store.py`).

    lengths: tokens of each, which decide who shares a micro-batch. [N]
    fingerprint: another for other content
    """

    lengths: np.ndarray
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Example: ...


class Dataset(Protocol):
    """Rows by number, each a mapping from column to value (`data/rows.py`)."""

    columns: Sequence[str]
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    def where(self, index: int) -> str:
        """The file and line of a row, for messages: `train.csv: line 17`."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One call of the network: its inputs and labels.

    indices: which examples of the data these are, for messages
    tokens: how many are not padding
    whole: number of the batch that it is a part of, where a loss compares the examples of several micro-batches
    """

    batch: Batch
    flow: Flow
    labels: Labels
    indices: tuple[int, ...] = ()
    tokens: int = 0
    whole: int = 0

    def to(self, device: torch.device) -> MicroBatch:
        """The same on a device."""
        if device.type == "cpu":
            return self
        batch = {
            f.name: x.to(device, non_blocking=True)
            for f in fields(self.batch)
            if (x := getattr(self.batch, f.name)) is not None
        }
        keep, positions = (
            None if x is None else x.to(device, non_blocking=True) for x in (self.flow.keep, self.flow.positions)
        )
        return replace(
            self,
            batch=Batch(**batch),
            flow=replace(self.flow, keep=keep, positions=positions),
            labels=_moved(self.labels, device),
        )


def _moved(labels: Any, device: torch.device) -> Any:
    """Labels on a device: a tensor, or those of several losses by name, some of which are pairs or dicts themselves."""
    if isinstance(labels, dict):
        return {name: _moved(x, device) for name, x in labels.items()}
    if isinstance(labels, tuple):
        return tuple(_moved(x, device) for x in labels)
    return labels.to(device, non_blocking=True)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A row, its label, and what was predicted.

    index: of the row among those evaluated
    where: its file and line
    row: its inputs, by role: {"text": …}, {"tokens": […]}, {"source": …}
    label, predicted: as the task has them: a class, a list of labels, a number; a tag for each word; a text
    correct: whether both agree, where that can be said
    loss: of this row alone, in nats
    details: what else the task knows: `scores` of the most likely classes, `losses` of each word, …
    """

    index: int
    where: str
    row: dict[str, Any]
    label: Any
    predicted: Any
    correct: bool | None = None
    loss: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def by_baseline(
        self, predicted: Any, correct: bool | None, loss: float | None = None, **details: Any
    ) -> Prediction:
        """A baseline's prediction for the same row."""
        return replace(self, predicted=predicted, correct=correct, loss=loss, details=details)


@dataclass(frozen=True)
class Baseline:
    """The predictions of something simple for the same rows.

    name: such as "most frequent"
    about: how it predicts, in half a sentence
    predictions: as the model's, in order
    """

    name: str
    about: str
    predictions: Sequence[Prediction]


class VectorHead(Protocol):
    """What gradient caching needs of a head: a loss of one vector a text, apart from the network that makes them."""

    def vectors(self, output: Output, labels: Labels) -> Tensor:
        """The vectors of a micro-batch, in the order of its examples. [texts, D]"""

    def vector_losses(self, vectors: Tensor, labels: Sequence[Labels]) -> dict[str, Tensor]:
        """The losses of the vectors of several micro-batches, end to end, as sums; and the labels of each."""


class TrainingPart(Protocol):
    """A part of a network that only training has: adapters, masks, projections to a teacher's width."""

    def merge(self) -> None:
        """Leave the network as it is to be saved."""

    def unmerge(self) -> None:
        """Continue to train it."""

    def remove(self) -> None:
        """Leave the network for good."""


class RunnableTask(Protocol):
    """What `run_batches` needs of a task: how its examples become calls of the network; see `Task`."""

    WHOLE_BATCH: bool
    CACHES_GRADIENTS: bool

    @property
    def model(self) -> LoadedModel: ...

    def length(self, example: Example) -> int: ...
    def augment(self, example: Example, draw: np.random.Generator) -> Example: ...
    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]: ...
    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch: ...
    def split_packed(self, output: Output, batch: MicroBatch) -> Output: ...
    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]: ...
