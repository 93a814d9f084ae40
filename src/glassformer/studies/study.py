"""Data studies: one model trained on several sets, and evaluated on several others.

    train:   de    fr-250  fr-500 … fr-2000    de+fr        a run each, for each seed
    test_sets:  de    en      fr     it                        test sets, the same for all of them
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
from glassformer.evaluation.evaluate import REPORT, EvaluationReport, evaluate
from glassformer.evaluation.runs import TrainedRun, open_run
from glassformer.files import safe_repr
from glassformer.files.schema import parse
from glassformer.runs.config import RunConfig
from glassformer.runs.data import drop_leaked_rows, read_usable, sample_rows
from glassformer.runs.folder import MODEL, seed_folder
from glassformer.studies.plan import StudyPlan
from glassformer.studies.results import StudyResults, TrainedModel
from glassformer.studies.training import (
    FINISHED,
    PlannedStudy,
    PlannedTraining,
    StudyProgress,
    StudyRun,
    StudyTraining,
    base_config,
    lock_folder,
    planned_training,
    trainings_to_do,
)
from glassformer.tasks.base import task_class
from glassformer.training.run import head_overrides
from glassformer.training.trainer import Trainer


@dataclass(frozen=True)
class Study:
    """A data study.

    base: configuration of all runs, its `output` the folder of the study
    plan: the sets
    """

    base: RunConfig
    plan: StudyPlan

    def runs(self, seeds: Sequence[int] | None = None) -> list[StudyRun]:
        """All runs, seed by seed.

        Args:
            seeds: None = that of the configuration
        """
        # In the order of the plan, so that a set's model is there before the runs that begin with it.
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
                parts.append(read_usable(self.base.data, task_class(self.base.task), training_set.files))
                if (size := max(training_set.sizes, default=0)) > (available := len(parts[-1])):
                    raise DataError(
                        f"study.train.{name}: {size:,} rows cannot be sampled from {available:,}; use fewer"
                    )
        return parts[0] if len(parts) == 1 else ConcatenatedRows(parts)

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """The keys of config.json that all runs share: the labels of all rows, as a small sample may lack some."""
        changed = head_overrides(self.base, task_class(self.base.task), self.training_rows)
        return {**changed, **self.base.overrides}

    @cached_property
    def test_rows(self) -> dict[str, RowSequence]:
        """The rows of each test set, the same for all runs."""
        kind, test_rows = task_class(self.base.task), {}
        for name, files in self.plan.test_sets.items():
            rows = read_usable(self.base.data, kind, files)
            if self.base.data.without_leaks:
                rows = drop_leaked_rows(self.base, kind, self.training_rows, rows)
            test_rows[name] = sample_rows(rows, self.plan.limit)
        return test_rows

    def dry_run(self, seeds: Sequence[int] | None = None) -> PlannedStudy:
        """What would be trained: examples, steps and tokens of each run; reads all data, and trains nothing."""
        return PlannedStudy(list(self._planned(seeds)), {name: len(rows) for name, rows in self.test_rows.items()})

    def _planned(self, seeds: Sequence[int] | None) -> Iterator[PlannedTraining]:
        for number, run in enumerate(self.runs(seeds)):
            trainer = self.trainer(run)
            if not number:
                self.check_test_rows(trainer)
            yield planned_training(run, trainer, finished=(run.folder / FINISHED).is_file())

    def run(self, seeds: Sequence[int] | None = None, progress: StudyProgress | None = None) -> StudyResults:
        """Train and evaluate what is missing, see `StudyRunner.run`."""
        return StudyRunner(self, progress or StudyProgress()).run(seeds)

    def training(self, run: StudyRun) -> StudyTraining:
        return StudyTraining(run.config, self.plan.at_least_steps)

    def trainer(self, run: StudyRun) -> Trainer:
        """The trainer of a dry run: from the study's own model also where it begins with one still to be trained."""
        config = run.config
        if self.plan.train[run.of].begin is not None:
            config = replace(config, **{x: getattr(self.base, x) for x in ("model", "scratch", "tokenizer")})
        return StudyTraining(config, self.plan.at_least_steps).trainer()

    def check_test_rows(self, trainer: Trainer) -> None:
        """Raises: DataError, UnsupportedError: rows that cannot be evaluated; before hours of training, not after."""
        trainer.task.for_evaluation()
        for rows in self.test_rows.values():
            trainer.task.encode(rows)


def parse_study(values: Mapping[str, Any], output: str | None = None, folder: str | None = None) -> Study:
    """A study from the keys and values of its YAML file.

    Args:
        output, folder: of the study and of its data files, where they are others than the file says
    Raises: ConfigError: an invalid key or value.
    """
    merged = dict(values)
    plan = parse(StudyPlan, merged.pop("study", None) or {}, "study")
    data = merged.get("data") or {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"data: expected names and values, got {safe_repr(data)}")
    if set_by_plan := [name for name in ("train", "limit") if name in data]:
        raise ConfigError(f"data.{set_by_plan[0]}: a study says under study.train which rows, and how many")
    merged["data"] = {**data, "train": plan.files_and_limits(next(iter(plan.train)), None)[0]}
    return Study(base_config(merged, output, folder), plan)


# ------------------------------------------------------------------------------------------------- running


class StudyRunner:
    """Trains and evaluates the runs of a study."""

    def __init__(self, study: Study, progress: StudyProgress) -> None:
        self.study, self.base, self.plan, self.progress = study, study.base, study.plan, progress

    def run(self, seeds: Sequence[int] | None = None) -> StudyResults:
        """Train and evaluate what is missing.

        The results are written after each run. Finished runs are not trained again, an interrupted one is resumed.

        Args:
            seeds: None = that of the configuration
        Raises: ConfigError: the folder holds a run of another configuration. DataError: rows that cannot be read.
            TrainingStopped: by Ctrl-C; what was trained is saved.
        """
        runs, done = self.study.runs(seeds), []
        folder = Path(self.base.output)
        with lock_folder(folder):
            finished = [self.study.training(run).finished() for run in runs]  # errors first, before hours of training
            test_rows, names = sum(map(len, self.study.test_rows.values())), ", ".join(self.study.test_rows)
            self.progress.start(f"{trainings_to_do(finished)}; each is evaluated on {test_rows:,} rows of {names}")
            for number, (run, facts) in enumerate(zip(runs, finished, strict=True), start=1):
                if facts is None:
                    self.progress.training(number, len(runs), run)
                    facts = self._train_one(run, first=number == finished.index(None) + 1)
                done.append(self._evaluate(run, facts))
                self._results(done, len(runs)).write(folder)
        return self._results(done, len(runs))

    def _train_one(self, run: StudyRun, *, first: bool) -> dict[str, Any]:
        training = self.study.training(run)
        trainer = training.trainer(self.progress.callbacks())
        if first:
            self.study.check_test_rows(trainer)
        return training.train(trainer)

    def _evaluate(self, run: StudyRun, facts: Mapping[str, Any]) -> TrainedModel:
        trained = open_run(run.folder)
        reports = {
            name: self._evaluation_report(trained, run, name, rows) for name, rows in self.study.test_rows.items()
        }
        metric = next(iter(reports.values())).metric
        baselines = {
            name: {other: x.metrics[metric] for other, x in report.baselines.items()}
            for name, report in (reports.items() if self.plan.baselines else ())
        }
        return TrainedModel(
            name=run.name,
            of=run.of,
            size=run.size,
            seed=run.seed,
            **{name: facts[name] for name in ("rows", "steps", "tokens", "seconds")},
            folder=str(run.folder.relative_to(self.base.output)),
            metrics={name: report.metrics[metric] for name, report in reports.items()},
            baselines=baselines,
        )

    def _evaluation_report(self, trained: TrainedRun, run: StudyRun, name: str, rows: RowSequence) -> EvaluationReport:
        """The report on a test set; one that is there already is read, where its rows are the same."""
        path = trained.evaluation_folder(name) / REPORT
        if path.is_file():
            report = EvaluationReport.load(path)
            complete = report.baselines or not self.plan.baselines
            if complete and report.data.get("fingerprint") == rows.fingerprint:
                return report
        self.progress.evaluating(run, name, len(rows))
        evaluation = evaluate(
            trained.config.task,
            trained.task_for_evaluation(),
            rows,
            train=trained.splits[0] if self.plan.baselines else None,
            name=run.name,
            files=self.plan.test_files(name),
            seed=run.seed,
            baselines=self.plan.baselines,
        )
        evaluation.save(trained.evaluation_folder(name))
        return evaluation.report

    def _results(self, done: Sequence[TrainedModel], planned: int) -> StudyResults:
        first = next(iter(self.study.test_rows))
        report = EvaluationReport.load(Path(self.base.output, done[0].folder, "evaluation", first, REPORT))
        return StudyResults(
            task=self.base.task,
            metric=report.metric,
            higher=report.higher,
            method=report.methods.get(report.metric, ""),
            test_sets={
                name: {"files": self.plan.test_files(name), "rows": len(rows)}
                for name, rows in self.study.test_rows.items()
            },
            trainings=list(done),
            planned=planned,
            curve=self.plan.shown_curve,
        )
