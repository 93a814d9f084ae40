"""What a trainer tells while it trains: trackers, the progress line, and whatever else wants to know, listen here.

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
class Report:
    """One step.

    epoch: how far through the data, 1.5 = half of the second time · loss: of the step, before it was applied
    grad_norm: before clipping · tokens: of the step, padding left out · tokens_per_s: of the step
    """

    step: int
    epoch: float
    loss: float
    lr: float
    grad_norm: float
    tokens: int
    tokens_per_s: float


class State(Protocol):
    """How far a training is. step: done · best: the best value of its metric so far"""

    @property
    def step(self) -> int: ...
    @property
    def best(self) -> float | None: ...


class Training(Protocol):
    """A trainer as callbacks see it.

    options: a dataclass · folder: of the run, if it has one · steps: how many it will take
    metric: the figure that says which model is best
    """

    @property
    def options(self) -> Any: ...
    @property
    def state(self) -> State: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def metric(self) -> str: ...


class Callback:
    """Hears of what happens in a training; each method does nothing until a subclass says what.

    class StopClock(Callback):
        def on_step(self, trainer, report):
            print(report.step, report.tokens_per_s)
    """

    def on_begin(self, trainer: Training) -> None:
        """Before the first step, also of a resumed run: `trainer.state.step` says where it stands."""

    def on_step(self, trainer: Training, report: Report) -> None:
        """After a step was applied."""

    def on_validation(self, trainer: Training, figures: Mapping[str, float]) -> None:
        """After the figures of a validation are known."""

    def on_checkpoint(self, trainer: Training, folder: Path | None) -> None:
        """After a checkpoint was saved whole, where the run has a folder."""

    def on_end(self, trainer: Training, result: Any) -> None:
        """When it is over: done, interrupted, or failed (`result` is None then)."""
