"""Trainings of studies: resumed where they were interrupted, and never repeated where they are finished."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.lock import FolderLock
from glassformer.reports.amounts import amount
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.runs.config import RunConfig, parse_config
from glassformer.runs.curves import write_page
from glassformer.runs.data import read_splits
from glassformer.runs.folder import CHECKPOINTS, MODEL
from glassformer.tasks.base import task_class
from glassformer.training.callbacks import Callback
from glassformer.training.card import write_card
from glassformer.training.run import make_trainer
from glassformer.training.trainer import Trainer

FINISHED = "finished.json"


@dataclass(frozen=True)
class StudyRun:
    """One model of a study.

    of: its training set
    size: rows of the set that grows in it
    """

    name: str
    of: str
    size: int | None
    seed: int
    config: RunConfig

    @property
    def folder(self) -> Path:
        return Path(self.config.output)


@dataclass(frozen=True)
class StudyTraining:
    """A training in a folder of its own.

    at_least_steps: minimum steps: few rows take more epochs
    """

    config: RunConfig
    at_least_steps: int | None = None

    @property
    def folder(self) -> Path:
        return Path(self.config.output)

    def trainer(self, callbacks: Sequence[Callback] = ()) -> Trainer:
        """The trainer, with its data and model read."""
        config = self.config
        trainer = make_trainer(config, callbacks)
        min_steps = self.at_least_steps or 0
        if config.training.steps is not None or trainer.steps >= min_steps:
            return trainer
        return make_trainer(replace(config, training=replace(config.training, steps=min_steps)), callbacks)

    def train(self, trainer: Trainer) -> dict[str, Any]:
        """Train; the facts of it are saved in its folder, with its curves and the card of its model."""
        start = time.perf_counter()
        trainer.train()
        write_page(self.folder, self.folder / "curves.html")
        write_card(trainer, self.folder / MODEL)
        rows, made_of = self._provenance()
        facts = {
            "made_of": made_of,
            "rows": rows,
            "steps": trainer.state.step,
            "tokens": trainer.state.tokens,
            "seconds": time.perf_counter() - start,
        }
        write_json(self.folder / FINISHED, facts)
        # Checkpoints take three times the space of the model, and there is nothing left to resume.
        shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)
        return facts

    def finished(self) -> dict[str, Any] | None:
        """The facts of the finished training; None where it is not finished.

        Raises: ConfigError: it was trained with another configuration; what differs.
        """
        path = self.folder / FINISHED
        if not path.is_file():
            return None
        facts = dict(read_json_object(path, DataError))
        saved, current = facts.get("made_of", {}), self._provenance()[1]
        # after writing and reading JSON, as what was saved: tuples have become lists
        if changed := [name for name, x in json.loads(json.dumps(current)).items() if saved.get(name) != x]:
            name = changed[0]
            raise ConfigError(
                f"{self.folder}: was trained otherwise: {name} was {safe_repr(saved.get(name))}, is now "
                f"{safe_repr(current[name])}; choose another output, or remove that folder to train it again"
            )
        return facts

    def _provenance(self) -> tuple[int, dict[str, Any]]:
        """The number of training rows, and everything that the result depends on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the training has given them
            rows = read_splits(self.config, task_class(self.config.task))[0]
        config = asdict(self.config)
        for name in ("output", "device", "trackers"):
            del config[name]
        return len(rows), {**config, "at_least_steps": self.at_least_steps, "rows": rows.fingerprint}


@dataclass(frozen=True)
class PlannedTraining:
    """What a training would take.

    examples: of its set
    tokens: that all its steps read
    """

    name: str
    seed: int
    examples: int
    steps: int
    tokens: int
    finished: bool


@dataclass(frozen=True, repr=False)
class PlannedStudy(Report, kind="planned-study"):
    """The trainings of a study, before they start.

    test_sets: name → rows that each is evaluated on
    """

    trainings: list[PlannedTraining]
    test_sets: dict[str, int]

    def tables(self) -> list[Table]:
        """A table with one row a training."""
        rows = [
            [
                each.name,
                str(each.seed),
                f"{each.examples:,}",
                f"{each.steps:,}",
                amount(each.tokens),
                "finished" if each.finished else "",
            ]
            for each in self.trainings
        ]
        return [Table(["training", "seed", "examples", "steps", "tokens", ""], rows)]

    def remarks(self) -> list[str]:
        """What is left to train."""
        left = sum(each.tokens for each in self.trainings if not each.finished)
        rows, names = sum(self.test_sets.values()), ", ".join(self.test_sets)
        return [f"to train: {amount(left)} tokens; then each is evaluated on {rows:,} rows of {names}"]


def planned_training(run: StudyRun, trainer: Trainer, *, finished: bool) -> PlannedTraining:
    """What a training would take: examples, steps and tokens."""
    examples, steps = trainer.train_examples, trainer.steps
    epochs = steps / trainer.batch_sampler.steps_per_epoch(0)
    tokens = round(int(examples.lengths.sum()) * epochs)
    return PlannedTraining(run.name, run.seed, len(examples), steps, tokens, finished)


def trainings_to_do(finished: Sequence[Mapping[str, Any] | None]) -> str:
    """How many trainings there are, and how many are finished: "3 trainings (2 finished before)"."""
    count, done = len(finished), sum(facts is not None for facts in finished)
    return f"{counted(count, 'training')}" + (f" ({done} finished before)" if done else "")


def lock_folder(folder: Path) -> FolderLock:
    """The lock of a study's folder, which is made: two studies in one folder would train the same runs.

    Raises: ConfigError: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; give a folder for the study")
    folder.mkdir(parents=True, exist_ok=True)
    return FolderLock(folder / "lock")


class StudyProgress:
    """Callbacks of a running study; each does nothing until a subclass overrides it."""

    def start(self, what: str) -> None:
        """Before all of it: what will be done, in a sentence."""

    def training(self, number: int, count: int, run: StudyRun) -> None:
        """Before each training: its number, of how many."""

    def evaluating(self, run: StudyRun, test_set: str, rows: int) -> None:
        """Before each evaluation on a test set of this many rows."""

    def rows(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Around work on this many rows; the function it gives is called with how many more are done."""
        return nullcontext(lambda done: None)

    def callbacks(self) -> list[Callback]:
        """Callbacks for the trainer of the next training."""
        return []


def base_config(values: Mapping[str, Any], output: str | None, folder: str | None) -> RunConfig:
    """The configuration of all runs of a study.

    Args:
        output, folder: of the study and of its data files, where they are others than the file says
    Raises: ConfigError: an invalid key or value.
    """
    merged = {**values, "output": output or values.get("output") or "runs/study"}
    if folder is not None:
        merged["data"] = {**merged["data"], "folder": folder}
    return parse_config(merged)
