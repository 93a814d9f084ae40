"""A task as one object: what it reads of a row, what the network predicts, and how that is scored.

    row ──encode──> Example ──augment──> (masked, noised) ──collate──> MicroBatch ──network──> Output
                                                                                    │
        training: the head's loss  <────────────────────────────────────────────────┤
        validation: metric().update(output, batch), compute()  <────────────────────┤
        pipelines, evaluation: unbatch ──decode──> Prediction ──metrics──> scores with confidence intervals

Who adds a task writes one subclass and registers it (`register`; docs/adding-a-task.md). Training and
evaluation build on this, and not on each other.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from glassformer.audio.listening import SoundExample
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.lazy import imported
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.metrics.metric import METRICS, Bootstrap, BootstrapUnion, Metric, RowMetric
from glassformer.tasks.microbatch import collate_inputs, run_examples
from glassformer.tasks.predictions import is_readable
from glassformer.tasks.registry import TASKS, task_class, task_name
from glassformer.tasks.types import Baseline, Dataset, Example, Examples, MicroBatch, Prediction, TrainingPart

Progress = Callable[[int], None]
"""Called with how many more rows are done."""


@dataclass(frozen=True)
class EvaluationOptions:
    """How a model is asked when it is evaluated.

    tokens: of a micro-batch at most; it changes the time it takes, and no score
    """

    tokens: int = 4_096


class Task(ABC):
    """What a model learns from rows and is evaluated on. One is made for a model, and options of its own.

    HEAD: the head that the model needs, by Hugging Face's name of its task
    READS_TEXT: a model from scratch needs a tokenizer for it
    COLUMNS: what it reads of a row, by role: role → the column's usual name
    TARGETS: roles that are to be predicted; others are inputs
    EVALUATION: options of an evaluation, if there is one
    METRIC: the primary metric of an evaluation
    VALIDATION_METRIC: the one that chooses the best model in training; of the class or, where labels decide it, of the
        instance
    WHOLE_BATCH: the loss compares the examples of a batch with one another (contrastive learning), so no token budget
        may cut it: `micro_batch_size` examples, or else all of a step, are one call of the network; of the class or,
        where the loss is an option, of the instance
    CACHES_GRADIENTS: such a batch may be computed in parts all the same, by gradient caching: its loss is one of a
        vector a text, by a `VectorHead`
    PIPELINE: the pipeline of a task of a plug-in: `pipeline(NAME)` and `glassformer predict NAME`
    BASELINES: "module:function" of its baselines, imported when they are asked for; it takes the task, and what
        `baselines` does
    columns: those that this one reads: role → column
    given_options: keyword arguments that it was made with
    initial_model: gives the model that training began with, where it is known: baselines may use its vectors
    train_examples: gives the examples of the training rows, where they are at hand: baselines may learn from them
    training_parts: parts of the network that only training has; the model is saved without them

    Args:
        model: with the head of this task
    """

    HEAD: ClassVar[str]
    COLUMNS: ClassVar[Mapping[str, str]]
    TARGETS: ClassVar[tuple[str, ...]] = ()
    METRIC: str = "loss"
    VALIDATION_METRIC: str = "loss"
    EVALUATION: ClassVar[type | None] = EvaluationOptions
    WHOLE_BATCH: bool = False
    CACHES_GRADIENTS: bool = False
    PIPELINE: ClassVar[type[Any] | None] = None
    BASELINES: ClassVar[str] = ""
    READS_TEXT: ClassVar[bool] = True
    columns: Mapping[str, str]
    given_options: Mapping[str, Any]
    initial_model: Callable[[], LoadedModel] | None = None
    train_examples: Callable[[], Examples] | None = None
    training_parts: Sequence[TrainingPart] = ()

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        task = super().__new__(cls)
        task.given_options = options
        return task

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        # One stack for text keeps the texts of a packed row apart; two, or pictures and sounds, need rectangles.
        self.packs = list(model.network.stacks()) == ["text"]
        self.evaluation: Any = self.EVALUATION() if self.EVALUATION else None

    @property
    def loss_head(self) -> Head | None:
        """The head whose loss is trained: the network's, or one of the task's own, which has no weights."""
        return self.model.network.head

    def check_training(self, examples: Examples, compared: int) -> None:
        """Check that these examples can be learned from.

        Args:
            compared: how many examples of a step are compared with one another, of a task with `WHOLE_BATCH`
        Raises: ConfigError, DataError: why nothing can be learned.
        """
        return

    @property
    def training_identity(self) -> str:
        """The name by which a checkpoint knows the task: a run is resumed for the same one only."""
        return type(self).__name__

    @classmethod
    def options(cls) -> list[str]:
        """The names of its own options, besides the model and the columns."""
        own = inspect.signature(cls).parameters.values()
        return [p.name for p in own if p.kind is not p.VAR_KEYWORD and p.name not in ("model", "columns")]

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
        """The model's config with the head that these rows need, such as one output for each label.

        Args:
            config: of the checkpoint
            own: whether it has a head for this very task
            columns, options: as the task will be made with
        """
        return dict(config)

    @classmethod  # noqa: B027 - most tasks know none
    def initialise(cls, model: LoadedModel, options: Mapping[str, Any]) -> None:
        """Give a model from scratch better weights to begin with, where the task knows some."""

    @classmethod
    def corpus(cls, rows: Dataset, columns: Mapping[str, str]) -> Iterator[str]:
        """The texts of rows that a new tokenizer is trained on; `columns`: role → column, where named."""
        names = [name for name in {**cls.COLUMNS, **columns}.values() if name in rows.columns]
        values = (row[name] for row in iter(rows) for name in names)
        several = (value if isinstance(value, list) else [value] for value in values)
        return (text for parts in several for text in parts if isinstance(text, str))

    def for_evaluation(self, **options: Any) -> Self:
        """The same task with options of evaluation, such as `beams`, checked before the model is asked.

        Raises: UnsupportedError: it cannot be evaluated. ConfigError: it has no such option.
        """
        if self.EVALUATION is None:
            raise UnsupportedError(f"{type(self).__name__} has no evaluation beyond its validation metric")
        known = [field.name for field in fields(self.EVALUATION)]
        for option in options:
            if option not in known:
                raise ConfigError(
                    f"evaluation: {safe_repr(option)} is no option of {type(self).__name__}{nearest(option, known)}; "
                    f"allowed: {', '.join(known)}"
                )
        task = copy(self)
        task.evaluation = self.EVALUATION(**options)
        task.check_evaluation()
        return task

    def check_evaluation(self) -> None:
        """Raises: MissingExtraError: a package that scores it is missing; ConfigError: its evaluation options."""
        return

    # ------------------------------------------------------------------------------- from rows to the network

    @abstractmethod
    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        """The examples that rows make; `cache`: a folder to keep them in, found there the next time.

        Raises: DataError: a row that makes none, with its file and line.
        """

    def length(self, example: Example) -> int:
        """How many tokens, frames or patches an example takes of a micro-batch."""
        if "length" in example:
            return int(example["length"])
        if "input_ids" not in example:
            return 1
        return len(example["input_ids"]) + len(example.get("decoder_input_ids", ()))

    def with_siblings(self, examples: Examples, indices: np.ndarray) -> np.ndarray:
        """A sample of examples, with the others of the same rows where a row is scored by all of its examples."""
        return indices

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        """An example as it is shown this time; `draw` depends on (seed, epoch, example) alone."""
        return example

    def perturb(self, example: Example, draw: np.random.Generator) -> Example:
        """Data augmentation, in training alone and before `augment`, whose noise is part of the task; same `draw`."""
        return example

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        """Examples of like length as one call of the network reads them: packed, padded or stacked."""
        pad = self.model.tokenizer.pad_token_id if self.model.has_tokenizer else None
        return collate_inputs(examples, pad or 0, packed=self.packs)

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        """The same with its labels."""
        batch, flow = self.collate_inputs(examples)
        tokens = sum(len(e["input_ids"]) if "input_ids" in e else self.length(e) for e in examples)
        return MicroBatch(batch, flow, self.labels(examples, flow), tuple(indices), tokens)

    def before_step(self, batches: Sequence[MicroBatch]) -> list[MicroBatch]:
        """The training micro-batches of a step as they are learned from now, with the weights that the network has.

        They are collated while the step before runs; a task whose model writes what it learns from replaces them here.
        """
        return list(batches)

    @abstractmethod
    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor | dict[str, Tensor]:
        """The labels of these examples, as the head takes them for its loss, in the layout of their batch."""

    # -------------------------------------------------------------------------- from the network to predictions

    def split_packed(self, output: Output, batch: MicroBatch) -> Output:
        """The output in the layout of the labels, for a head that needs it."""
        return output

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """What the head gives for each example of a micro-batch: its logits, [labels] or [tokens, labels]."""
        logits = output.logits
        assert logits is not None  # heads without logits have tasks that override this
        if batch.flow.packing is not None and logits.dim() == 3:
            return list(logits[0].split(list(batch.flow.packing.lengths)))
        if batch.flow.keep is not None and logits.dim() == 3:
            return [row[: int(n)] for row, n in zip(logits, batch.flow.keep[:, -1].sum(-1), strict=True)]
        return list(logits)

    def decode(self, logits: Any, example: Example) -> dict[str, Any]:
        """The fields of the prediction that one example's logits make: label, predicted, correct, loss, details.

        For tasks of one example a row; others override `predict`.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither decode nor predict")

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The model's prediction for each row, in their order.

        Raises: DataError: a row that cannot be predicted, with its file and line.
        """
        examples = self.encode(rows)
        inputs = {role: name for role, name in self.columns.items() if role not in self.TARGETS}
        outputs = run_examples(self, examples, tokens=self.evaluation.tokens, progress=progress)
        for index, logits in enumerate(outputs):
            row = rows[index]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={role: row[name] for role, name in inputs.items() if is_readable(row.get(name))},
                **self.decode(logits.float().cpu(), examples[index]),
            )

    # ---------------------------------------------------------------------------------------------- scores

    @abstractmethod
    def metric(self) -> Metric:
        """A fresh metric for a validation."""

    def note_validation(self, metrics: Mapping[str, float]) -> None:  # noqa: B027 - most tasks note nothing
        """Keep with the model what the best validation so far has found, such as a threshold; it is saved next."""

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        """The scores of predictions, for any resample of them."""
        raise NotImplementedError(f"{type(self).__name__} does not say how predictions are scored")

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        """What simple means predict for the same rows, having seen the training rows, if there are any."""
        if self.BASELINES:
            yield from imported(self.BASELINES)(self, train, predictions)

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """Sounds of each row next to what the model makes of them, such as original and decoded, for a page.

        Raises: UnsupportedError: the task is not about sound. DataError: a row without a sound, with its file and line.
        """
        can = [name for name, kind in TASKS.items() if gives_sounds(kind)]
        own = next((name for name, kind in TASKS.items() if kind is type(self)), type(self).__name__)
        raise UnsupportedError(f"the task {own} gives nothing to listen to; tasks that do: {', '.join(can)}")

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        """What should be known besides the scores, and besides their own notes: texts that were cut, …"""
        return []


def metrics_of(task: Task, predictions: Sequence[Prediction]) -> Bootstrap:
    """The scores of predictions by the metrics of a task and those that were registered for it.

    Raises: ConfigError: a registered metric has the name of another. DataError: it gives no number for a row.
    """
    own = task.metrics(predictions)
    added = [metric.bootstrap(name, predictions) for name, metric in added_metrics(task, own.methods).items()]
    return BootstrapUnion(own, *added) if added else own


def added_metrics(task: Task, own: Container[str]) -> dict[str, RowMetric]:
    """The metrics that were registered for a task, by name. Raises: ConfigError: one has the name of its `own`."""
    added = {
        name: metric
        for name, metric in METRICS.usable()
        if not metric.tasks or isinstance(task, tuple(map(task_class, metric.tasks)))
    }
    if taken := [name for name in added if name in own]:
        raise ConfigError(f"the task has a metric {safe_repr(taken[0])}; register yours by another name")
    return added


def gives_sounds(task: type[Task]) -> bool:
    """Whether there is something to listen to: see `Task.listen`."""
    return task.listen is not Task.listen


def register(name: str, task: type[Task]) -> None:
    """Add a task of your own for the rest of this program, so that it can be named like the others.

    Raises: ConfigError: it is no task, or the name is taken by another class.
    """
    TASKS.register(name, task)


def check_evaluates(name: str) -> None:
    """Raises: UnsupportedError: a task without an evaluation, or one that there is not."""
    if task_name(name) not in TASKS or task_class(name).EVALUATION is None:
        able = [other for other, kind in TASKS.items() if kind.EVALUATION is not None]
        raise UnsupportedError(
            f"the task {safe_repr(name)} cannot be evaluated{nearest(name, able)}; those that can: {', '.join(able)}"
        )
