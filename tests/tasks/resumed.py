"""A run of a task that is stopped, and resumed: with the weights of one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.types import Dataset
from glassformer.training.callbacks import Callback
from glassformer.training.trainer import Trainer


class Stop(Callback):
    def on_step(self, trainer: Any, report: Any) -> None:
        if report.step == 3:
            raise InterruptedError("stopped")


def assert_resumes(make: Callable[[], Task], rows: Dataset, folder: Path) -> None:
    """Train six steps at once; and again, stopped in the middle and resumed from the checkpoint of step 2."""
    options = TrainingOptions(steps=6, batch_size=4, learning_rate=1e-2, save_every=2)

    def trained(name: str, *callbacks: Callback) -> dict[str, torch.Tensor]:
        task = make()
        trainer = Trainer(task.model, task, options, train=task.encode(rows), folder=folder / name, callbacks=callbacks)
        assert trainer.train().steps == 6
        return dict(trainer.network.state_dict())

    before = {name: x.clone() for name, x in make().model.network.state_dict().items()}
    whole = trained("whole")
    with pytest.raises(InterruptedError, match="stopped"):
        trained("resumed", Stop())
    assert (folder / "resumed" / "checkpoints" / "step-00000002").is_dir()
    resumed = trained("resumed")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert any(not torch.equal(whole[name], before[name]) for name in whole)
