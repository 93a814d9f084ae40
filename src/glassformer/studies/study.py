"""Data studies: one model trained on several sets, and evaluated on several others.

    train:   de    fr-250  fr-500 … fr-2000    de+fr        a run each, for each seed
    judge:   de    en      fr     it                        test sets, the same for all of them
                        ↓
    a table, trained on × evaluated on; a learning curve over the rows of fr; study.json, study.html

runs/transfer/study.json                 runs/transfer/fr-250/seed-0/        a run folder, without its checkpoints
                study.html                   finished.json                   what it depends on: it is not trained again
                                             evaluation/fr/report.json       its metrics on fr

The configuration of a study is that of `glassformer train`, without `data.train`, and with a `StudyPlan` under `study`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.sequence import RowSequence
from glassformer.data.views import ConcatenatedRows
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.parsing import parse_dataclass
from glassformer.runs.config import RunConfig, parse_config
from glassformer.runs.data import drop_leaked_rows, sample_rows
from glassformer.runs.folder import MODEL, seed_folder
from glassformer.studies.plan import StudyPlan
from glassformer.studies.results import StudyResults
from glassformer.studies.runner import FINISHED, StudyProgress, StudyRunner
from glassformer.tasks.registry import task_class
from glassformer.training.callbacks import Callback
from glassformer.training.run import make_trainer
from glassformer.training.trainer import Trainer


@dataclass(frozen=True)
class StudyRun:
    """One training of a study. of: its training set · size: rows of the set that grows in it"""

    name: str
    of: str
    size: int | None
    seed: int
    config: RunConfig

    @property
    def folder(self) -> Path:
        return Path(self.config.output)


@dataclass(frozen=True)
class Study:
    """A data study. base: configuration of all runs, its `output` the folder of the study · plan: the sets"""

    base: RunConfig
    plan: StudyPlan

    def runs(self, seeds: Sequence[int] | None = None) -> list[StudyRun]:
        """All runs, seed by seed. seeds: None = that of the configuration"""
        return [
            StudyRun(self.plan.run_name(name, size), name, size, seed, self._run_config(name, size, seed))
            for seed in seeds or [self.base.training.seed]
            for name in self.plan.train
            for size in self.plan.sizes(name)
        ]

    def _run_config(self, name: str, size: int | None, seed: int) -> RunConfig:
        files, limit = self.plan.files_and_limits(name, size)
        config = replace(
            self.base,
            output=str(self._run_folder(self.plan.run_name(name, size), seed)),
            data=replace(self.base.data, train=files, limit=limit),
            training=replace(self.base.training, seed=seed),
            overrides=self.overrides,
        )
        if (begin := self.plan.train[name].begin) is None:
            return config
        return replace(config, model=str(self._run_folder(begin, seed) / MODEL), scratch=None, tokenizer=None)

    def _run_folder(self, name: str, seed: int) -> Path:
        return seed_folder(Path(self.base.output, name), seed)

    @cached_property
    def training_rows(self) -> RowSequence:
        """The rows of all training sets. Raises: DataError: a set samples more rows than there are."""
        parts = []
        for name, training_set in self.plan.train.items():
            if training_set.files:
                parts.append(self.base.data.read(training_set.files))
                size, available = max(training_set.sizes, default=0), len(parts[-1])
                if size > available:
                    raise DataError(
                        f"study.train.{name}: {size:,} rows cannot be sampled from {available:,}; use fewer"
                    )
        return parts[0] if len(parts) == 1 else ConcatenatedRows(parts)

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """The keys of config.json that all runs share: the labels of all rows, as a small sample may lack some."""
        from glassformer.model import load

        base, kind = self.base, task_class(self.base.task)
        known: Mapping[str, Any] = {}
        own = False
        if base.model is not None:
            header = load(base.model, task=kind.HEAD, device="meta")
            known, own = header.config, not header.report.new
        changed = kind.head_config(
            self.training_rows, known, own=own, columns=base.data.columns, options=base.objective
        )
        return {**{key: x for key, x in changed.items() if known.get(key) != x}, **base.overrides}

    @cached_property
    def test_rows(self) -> dict[str, RowSequence]:
        """The rows of each test set, the same for all runs."""
        kind, test_rows = task_class(self.base.task), {}
        for name, files in self.plan.judge.items():
            rows = self.base.data.read(files)
            if self.base.data.without_leaks:
                rows = drop_leaked_rows(self.base, kind, self.training_rows, rows)
            test_rows[name] = sample_rows(rows, self.plan.limit)
        return test_rows

    # ------------------------------------------------------------------------------------------ from plan to result

    def dry_run(self, seeds: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """What would be trained: examples, steps and tokens of each run; reads all data, and trains nothing."""
        for number, run in enumerate(self.runs(seeds)):
            trainer = self.trainer(run, [], anew=True)
            if not number:
                self.check_test_rows(trainer)
            examples, steps = trainer.train_examples, trainer.steps
            yield {
                "name": run.name,
                "seed": run.seed,
                "examples": len(examples),
                "steps": steps,
                "tokens": round(
                    int(examples.lengths.sum()) * steps / trainer.batch_sampler.steps_per_epoch(0)
                ),
                "finished": (run.folder / FINISHED).is_file(),
            }

    def run(self, seeds: Sequence[int] | None = None, progress: StudyProgress | None = None) -> StudyResults:
        """Train and evaluate what is missing, see `StudyRunner.run`."""
        return StudyRunner(self, progress).run(seeds)

    def trainer(self, run: StudyRun, callbacks: Sequence[Callback], anew: bool = False) -> Trainer:
        """The trainer of a run.

        Args: anew: from the study's own model, also where the run begins with one that is still to be trained
        """
        config = run.config
        if anew and self.plan.train[run.of].begin is not None:
            config = replace(
                config, model=self.base.model, scratch=self.base.scratch, tokenizer=self.base.tokenizer
            )
        trainer = make_trainer(config, callbacks)
        min_steps = self.plan.at_least_steps or 0
        if config.training.steps is not None or trainer.steps >= min_steps:
            return trainer
        return make_trainer(replace(config, training=replace(config.training, steps=min_steps)), callbacks)

    def check_test_rows(self, trainer: Trainer) -> None:
        """Raises: DataError, UnsupportedError: rows that cannot be evaluated; before hours of training, not after."""
        trainer.task.for_evaluation()
        for rows in self.test_rows.values():
            trainer.task.encode(rows)


def parse_study(values: Mapping[str, Any], output: str | None = None) -> Study:
    """A study from the keys and values of its YAML file.

    Raises: ConfigError: an invalid key or value.
    """
    merged = dict(values)
    plan = parse_dataclass(StudyPlan, merged.pop("study", None) or {}, "study")
    data = merged.get("data") or {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"data: expected names and values, got {safe_repr(data)}")
    if set_by_plan := [name for name in ("train", "limit") if name in data]:
        raise ConfigError(f"data.{set_by_plan[0]}: a study says under study.train which rows, and how many")
    merged["data"] = {**data, "train": plan.files_and_limits(next(iter(plan.train)), None)[0]}
    merged["output"] = output or merged.get("output") or "runs/study"
    return Study(parse_config(merged), plan)
