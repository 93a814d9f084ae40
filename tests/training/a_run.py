"""A training that is only told of: what callbacks and readers of logs are tested with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from glassformer.runs.folder import EventLog, event_log_path
from glassformer.training.callbacks import Callback, StepReport


@dataclass
class Options:
    learning_rate: float = 1e-3
    seed: int = 1


@dataclass
class Trainer:
    """The part of a trainer that callbacks see."""

    folder: Path
    options: Any = field(default_factory=Options)
    state: Any = field(default_factory=lambda: SimpleNamespace(step=0, best=None))
    steps: int = 6
    metric: str = "f1"

    def train(self, callback: Callback, *, begin: int = 0, end: int | None = None) -> None:
        """Tell of steps `begin + 1` to `end`; each third has a validation and a checkpoint."""
        self.state.step = begin
        callback.on_begin(self)
        for step in range(begin + 1, (end or self.steps) + 1):
            self.state.step = step
            callback.on_step(self, report(step))
            if step % 3 == 0:
                self.state.best = step / 10
                callback.on_validation(self, {"f1": step / 10, "loss": 1.0})
                callback.on_checkpoint(self, self.folder / f"step-{step:08}")
        callback.on_end(self, None)


def report(step: int) -> StepReport:
    return StepReport(
        step=step,
        epoch=step / 4,
        loss=1 / step,
        lr=1e-3 / step,
        grad_norm=2.0,
        tokens=100,
        tokens_per_s=1000.0,
    )


def write_run(folder: Path, *, steps: int = 60, seed: int = 0, options: dict[str, Any] | None = None) -> Path:
    """A run folder with the log of a training that is like a real one, a step left out for its NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    best = math.inf
    with EventLog(event_log_path(folder)) as journal:
        journal.write("begin", options={"learning_rate": 1e-3, "seed": seed, **(options or {})})
        for step in range(1, steps + 1):
            falling = 0.3 + 2.5 * math.exp(-4 * step / steps)
            if step == steps // 3:
                journal.write("skipped", step=step, loss=math.nan, indices=[4, 9], module="blocks.0.ffn")
                continue
            journal.write(
                "step",
                step=step,
                epoch=3 * step / steps,
                loss=falling * math.exp(0.12 * draw.normal()),
                lr=1e-3 * min(step / (0.1 * steps), 1) * (1 - step / steps),
                grad_norm=abs(draw.normal(2, 0.4)),
                tokens=1000 * step,
                tokens_per_s=draw.normal(3000, 100),
            )
            if step % max(steps // 10, 1) == 0:
                figures = {"loss": falling * 1.1 + (step / steps) ** 4 * 0.2, "f1": 0.9 - falling / 4}
                journal.write("validation", step=step, metrics=figures, best=figures["loss"] < best)
                journal.write("checkpoint", step=step)
                best = min(best, figures["loss"])
        journal.write("end", steps=steps)
    return folder
