"""One of two processes that train together is killed: the other says so and ends, and both go on to the last bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from glassformer.training.callbacks import TrainingStopped
from tests.training.crews import together
from tests.training.tiny import digest, trainer_of

pytestmark = pytest.mark.usefixtures("no_flush")


def trained(folder: Path, sharded: bool) -> Any:
    trainer = trainer_of(folder / "run", steps=8, save_every=2, sharded=sharded)
    trainer.train()
    return digest(trainer)


def killed_at(trainer: Any, moment: str) -> None:
    """In the fifth step; or in the second save, before the file that makes it one."""
    if moment == "step":
        step = trainer.train_step
        trainer.train_step = lambda: os.kill(os.getpid(), signal.SIGKILL) if trainer.state.step == 4 else step()
        return
    save = trainer.save

    def dies() -> None:
        if trainer.state.step == 4:
            os.replace = os.rename = lambda *given, **options: os.kill(os.getpid(), signal.SIGKILL)
            if not trainer.distributed.is_main:
                os.kill(os.getpid(), signal.SIGKILL)
        save()

    trainer.save = dies


@pytest.mark.parametrize(
    ("sharded", "moment", "victim"),
    [
        (False, "step", 1),
        *(
            pytest.param(sharded, moment, victim, marks=pytest.mark.soak)
            for sharded in (False, True)
            for moment in ("step", "save")
            for victim in (0, 1)
            if (sharded, moment, victim) != (False, "step", 1)
        ),
    ],
)
def test_one_of_two_is_killed(tmp_path: Path, sharded: bool, moment: str, victim: int) -> None:
    """A process that waited for ever would be ended by `together`, without its word."""
    heard = tmp_path / "heard"

    def work() -> None:
        trainer = trainer_of(tmp_path / "run", steps=8, save_every=2, sharded=sharded)
        if trainer.distributed.rank == victim:
            killed_at(trainer, moment)
        with pytest.raises(TrainingStopped, match="another one has ended or does not answer") as stopped:
            trainer.train()
        heard.write_text(str(stopped.value))
        os._exit(0)

    with pytest.raises(AssertionError, match="the processes ended with"):
        together(work, tmp_path)
    assert f"process {1 - victim} of 2" in heard.read_text()
    resumed = together(lambda: trained(tmp_path, sharded), tmp_path)
    (tmp_path / "straight").mkdir()
    assert resumed == together(lambda: trained(tmp_path / "straight", sharded), tmp_path)
