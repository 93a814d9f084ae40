"""The loop itself, killed: one process and two end with the weights of a run that nobody killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.crews import together
from tests.training.kill import survives
from tests.training.tiny import some, trainer_of

pytestmark = pytest.mark.usefixtures("no_flush")
WEIGHTS = "run/model/model.safetensors"


def train(folder: Path) -> None:
    trainer_of(folder / "run", steps=24, save_every=3, validate_every=6, validation=some(10, seed=3)).train()


def train_in_two(folder: Path) -> None:
    together(lambda: train(folder), folder)


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.soak)])
def test_one_process_killed(tmp_path: Path, kills: int) -> None:
    survives(train, tmp_path, WEIGHTS, kills=kills, in_saves=kills * 2 // 5, seed=1)


@pytest.mark.soak  # one process is killed above; two that train together, in test_distributed.py
def test_two_processes_killed(tmp_path: Path) -> None:
    (tmp_path / "warm").mkdir()
    train(tmp_path / "warm")  # here, so that the forks have what torch imports when it first trains
    survives(train_in_two, tmp_path, WEIGHTS, kills=6, in_saves=3, seed=1)
