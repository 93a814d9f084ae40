"""A signal that comes behind the last step of a training stops what would follow it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from glassformer.runs.config import parse_config
from glassformer.studies.study import parse_study
from glassformer.studies.trained import train_run
from glassformer.training.callbacks import Callback, TrainingStopped
from glassformer.training.run import make_trainer
from glassformer.training.trainer import Trainer
from tests.studies.samples import Heard, sizes_values


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return sizes_values(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_behind_the_last_step_stops_the_study_after_that_training(
    values: dict[str, Any], number: signal.Signals, tmp_path: Path
) -> None:
    class Asked(Callback):
        def on_end(self, trainer: Trainer, result: Any) -> None:
            os.kill(os.getpid(), number)

    class Stopped(Heard):
        def callbacks(self) -> list[Callback]:
            return [Asked()]

    heard, again = Stopped(), Heard()
    with pytest.raises(TrainingStopped, match="the same command continues"):
        parse_study(values).run(progress=heard)
    assert heard.trained == ["1/5 far, seed 0"] and not heard.evaluated
    report = parse_study(values).run(progress=again)
    assert len(again.evaluated) == 10 and len(report.cells) == report.planned
    log = (tmp_path / "study" / "far" / "seed-0" / "journal.jsonl").read_text()
    assert log.count('"end"') == 1 and report.cells[0].costs["steps"].value == 3
    assert report.cells[0].costs["seconds"].value > 0


def test_a_signal_behind_the_last_step_stops_before_the_evaluation_of_the_run(
    values: dict[str, Any], tmp_path: Path
) -> None:
    class Asked(Callback):
        def on_end(self, trainer: Trainer, result: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    del values["study"]
    values["data"] |= {"train": "far.csv", "validation": "test.csv"}
    config = parse_config(values)
    with pytest.raises(TrainingStopped, match="behind the last step"):
        train_run(config, make_trainer(config, [Asked()]))
    assert not (tmp_path / "study" / "curves.html").exists()
    assert train_run(config, make_trainer(config)).report is not None
