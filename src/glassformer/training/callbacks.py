"""Training callbacks: trackers, the progress line and early pruning listen here to what happens in a training.

    begin ── step ── step ── validation ── checkpoint ── step ── … ── end

A callback sees the trainer and may read all of it. An error that one raises ends the training, as one of the loop
would: what must not end it (a tracker without a network) catches its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report of one training step.

    epoch: how far through the data, 1.5 = half of the second epoch · loss: of the step, before it was applied
    grad_norm: before clipping · tokens: of the step, padding left out · tokens_per_s: of the step
    """

    step: int
    epoch: float
    loss: float
    lr: float
    grad_norm: float
    tokens: int
    tokens_per_s: float


class TrainingProgress(Protocol):
    """The progress of a training. step: steps done · best: the best value of its metric so far"""

    @property
    def step(self) -> int: ...
    @property
    def best(self) -> float | None: ...


class TrainerView(Protocol):
    """The trainer, as callbacks see it.

    options: a dataclass · folder: of the run, if it has one · steps: of the whole training
    metric: the metric that says which model is best
    """

    @property
    def options(self) -> Any: ...
    @property
    def state(self) -> TrainingProgress: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def metric(self) -> str: ...


class Callback:
    """Base class of training callbacks; each method does nothing until a subclass overrides it.

    class StopClock(Callback):
        def on_step(self, trainer, report):
            print(report.step, report.tokens_per_s)
    """

    def on_begin(self, trainer: TrainerView) -> None:
        """Before the first step, also of a resumed run: `trainer.state.step` steps are done."""

    def on_step(self, trainer: TrainerView, report: StepReport) -> None:
        """After a step was applied."""

    def on_validation(self, trainer: TrainerView, metrics: Mapping[str, float]) -> None:
        """After a validation, with its metrics by name."""

    def on_checkpoint(self, trainer: TrainerView, folder: Path | None) -> None:
        """After a checkpoint was saved; its folder, where the run has one."""

    def on_end(self, trainer: TrainerView, result: Any) -> None:
        """At the end; `result` is None where the training was interrupted or failed."""
