"""Fine-tuning with few labels: a classifier on the encoder, trained whole.

    one label         all labelled texts are learned from, for 150 steps or more; the last weights are taken
    several labels    a quarter is held out: thresholds are chosen there, and the weights have the lowest loss there

A quarter of 32 rows is too few to tell a good step from a bad one, and its lowest loss comes long before the best
predictions: what it teaches is worth more than the choice, which `held_out` makes nevertheless. Results differ much
between seeds.
Source: Devlin et al. 2019, section 4.1; more steps, and a warm-up, for few rows: Mosbach et al. 2021, "On the Stability
of Fine-tuning BERT"; Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning".
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.data.sequence import InMemoryRows
from glassformer.few_labels.method import Method, Setting
from glassformer.few_labels.rows import LabelledTexts
from glassformer.few_labels.thresholds import best_thresholds
from glassformer.files.schema import Count, Doc, Positive, Schema, Share
from glassformer.model import load
from glassformer.reports.table import Table
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.classify.task import Classify, relabelled
from glassformer.tasks.microbatch import run_batches
from glassformer.tasks.types import MicroBatch
from glassformer.training.callbacks import Callback
from glassformer.training.state import seed_all
from glassformer.training.trainer import Trainer

SEVERAL_HELD_OUT = 0.25
ONE_STEP = {"steps": 1, "epochs": 1, "most_epochs": 1}
TINY = 1e-9
"""A probability above 0, whose logarithm is finite."""


@dataclass(frozen=True, kw_only=True)
class FineTuningOptions(Schema):
    """Length and rate of the training, and how much is held out."""

    learning_rate: Annotated[Positive, Doc("Peak learning rate.")] = 3e-4
    batch_size: Annotated[Count, Doc("Examples a step.")] = 8
    steps: Annotated[Count, Doc("Steps, at least, unless texts would be read too often.")] = 150
    epochs: Annotated[Count, Doc("How often each text is read, at least.")] = 3
    most_epochs: Annotated[Count, Doc("How often each text is read, at most.")] = 40
    held_out: Annotated[
        Share | None,
        Doc(
            "Share of the labelled texts that is held out, to choose the best step. Default: 0; of several labels 0.25."
        ),
    ] = None

    def divided(self, labelled: LabelledTexts, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
        """Texts to learn from, and those that are held out, which may be none."""
        share = SEVERAL_HELD_OUT * labelled.several if self.held_out is None else self.held_out
        return labelled.held_out(share, seed) if share else (labelled, labelled.select(()))


class FineTuning(Method[FineTuningOptions]):
    """Fine-tuning of the encoder, with a linear classifier."""

    OPTIONS = FineTuningOptions
    BRIEF = ONE_STEP

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        tuned = fine_tuned(labelled, self.options, self.setting)
        self.task, self.best, self.withheld = tuned.task, tuned.step, len(tuned.validation)
        if labelled.several and self.withheld:
            self.thresholds = best_thresholds(self.scores(tuned.validation.texts), tuned.validation.holds)
        return None

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return scores_of(self.task, texts)

    def saved(self) -> Classify:
        return self.task

    def tables(self) -> list[Table]:
        """The step whose weights are taken."""
        return [Table(["", "fine-tuning"], [["held out", str(self.withheld)], ["step", self.best]], folded=True)]


# ---------------------------------------------------------------------------------- a classifier and its training


def new_classifier(model: str, labelled: LabelledTexts, setting: Setting) -> Classify:
    """An encoder with a new classifier for these labels."""
    header = load(model, task="text-classification", device="meta")
    config = relabelled(header.config, labelled.kind, own=False)
    changed = {name: value for name, value in config.items() if header.config.get(name) != value}
    loaded = load(model, task="text-classification", overrides=changed)
    return Classify(loaded, max_tokens=setting.tokens_of(loaded))


@dataclass(frozen=True, kw_only=True)
class TunedClassifier:
    """A classifier after fine-tuning, which is trained no further.

    step: the step whose weights it has, of how many
    train, validation: texts that it learned from, and those that were held out
    made_of: all that it depends on
    seconds: that it took
    random: state of the random numbers after it
    """

    task: Classify
    step: str
    train: LabelledTexts
    validation: LabelledTexts
    made_of: Any
    seconds: float
    random: Tensor


def fine_tuned(labelled: LabelledTexts, options: FineTuningOptions, setting: Setting) -> TunedClassifier:
    """A new classifier, fine-tuned; the last one of the study where all is the same, and charged for its time.

    Random numbers that are drawn afterwards do not depend on which of both it was.
    """
    own = {x.name: getattr(options, x.name) for x in fields(FineTuningOptions)}
    made_of = (setting.model, setting.seed, setting.max_tokens, own, labelled.texts, labelled.labels)
    tuned: TunedClassifier | None = setting.recent.get("fine-tuned")
    if tuned is None or tuned.made_of != made_of:
        start = time.perf_counter()
        train, validation = options.divided(labelled, setting.seed)
        seed_all(setting.seed)  # of the new head
        task = new_classifier(setting.model, labelled, setting)
        step = fine_tune(task, train, validation, options, setting)
        seconds = time.perf_counter() - start
        tuned = TunedClassifier(
            task=task, step=step, train=train, validation=validation, made_of=made_of, seconds=seconds,
            random=torch.get_rng_state(),
        )  # fmt: skip
        setting.recent["fine-tuned"] = tuned
    else:
        setting.vectors.borrowed += tuned.seconds
        torch.set_rng_state(tuned.random)
    return tuned


class BestWeights(Callback):
    """Callback that holds a copy of the weights of the best validation, in memory."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}

    def on_validation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        if trainer.state.best_step == trainer.state.step:
            self.weights = weights_of(trainer.network)


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights of a network."""
    return {name: x.detach().clone() for name, x in network.state_dict().items()}


def fine_tune(
    task: Classify, train: LabelledTexts, validation: LabelledTexts, options: FineTuningOptions, setting: Setting
) -> str:
    """Train a classifier; with validation texts it has the weights of the step with the lowest loss there.

    Returns: the step whose weights it has, of how many.
    """
    batch = min(options.batch_size, len(train))
    per_epoch, steps = -(-len(train) // batch), steps_of(options, len(train))
    training = TrainingOptions(
        steps=steps, batch_size=batch, learning_rate=options.learning_rate, warmup=0.1, seed=setting.seed,
        validate_every=max(per_epoch, steps // 10), metric="loss",
    )  # fmt: skip
    best = BestWeights()
    trainer = Trainer(
        task.model, task, training, train=examples_of(task, train),  # type: ignore[arg-type] # loaded by `new_classifier`
        validation=examples_of(task, validation) if len(validation) else None, callbacks=[best],
    )  # fmt: skip
    result = trainer.train()
    if best.weights:
        task.model.network.load_state_dict(best.weights)
    return f"{result.best_step or result.steps} of {result.steps}"


def steps_of(options: FineTuningOptions, count: int) -> int:
    """The steps of a training on so many examples."""
    per_epoch = -(-count // min(options.batch_size, count))
    return max(min(options.steps, options.most_epochs * per_epoch), options.epochs * per_epoch)


def examples_of(task: Classify, labelled: LabelledTexts) -> Any:
    """Labelled texts as examples of a task."""
    rows = [{"text": text, "label": label} for text, label in zip(labelled.texts, labelled.labels, strict=True)]
    return task.encode(InMemoryRows(rows, name="the labelled texts"))


def scores_of(task: Classify, texts: Sequence[str]) -> np.ndarray:
    """The probabilities of each label by a classifier. [N, L]"""
    examples, _ = task.encoded(list(texts), None)
    return scores_of_examples(task, examples)


def scores_of_examples(
    task: Classify, examples: Sequence[Any], call: Callable[[MicroBatch], Output] | None = None
) -> np.ndarray:
    """The same of encoded texts. [N, L]

    Args:
        call: runs a batch, as that of `run_batches`
    """
    scores = np.zeros((len(examples), len(task.kind.names)), dtype=np.float64)
    for output, batch in run_batches(task, examples, labelled=False, call=call):
        logits = torch.stack([x.float() for x in task.unbatch(output, batch)])
        scores[list(batch.indices)] = task.kind.probabilities(logits).cpu().numpy()
    return scores


def held_out_loss(task: Classify, validation: LabelledTexts) -> float:
    """The mean negative log-likelihood of the labels of held-out texts."""
    scores = np.clip(scores_of(task, validation.texts), TINY, 1 - TINY)
    if not validation.several:
        return float(-np.log(scores[validation.holds]).mean())
    return float(-np.log(np.where(validation.holds, scores, 1 - scores)).mean())


def shown_loss(loss: float) -> str:
    """A held-out loss as a cell of a table; without held-out texts there is none."""
    return "–" if math.isnan(loss) else f"{loss:.3f}"
