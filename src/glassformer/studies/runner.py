"""Runs a study: trains what is not trained yet, evaluates every model on every test set, and collects the results."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import REPORT, evaluate
from glassformer.evaluation.report import EvaluationReport
from glassformer.evaluation.runs import TrainedRun, open_run
from glassformer.files import safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.strict_json import read_json_object
from glassformer.runs.data import read_splits
from glassformer.runs.folder import CHECKPOINTS, MODEL
from glassformer.runs.lock import RunLock
from glassformer.studies.results import StudyResults, TrainedModel
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.registry import task_class
from glassformer.training.callbacks import Callback

if TYPE_CHECKING:
    from glassformer.studies.study import Study, StudyRun

FINISHED = "finished.json"


class StudyProgress:
    """Callbacks of a running study; each does nothing until a subclass overrides it."""

    def training(self, number: int, count: int, run: StudyRun) -> None:
        """Before each training: its number, of how many."""

    def judging(self, run: StudyRun, test_set: str, rows: int) -> None:
        """Before each evaluation on a test set of so many rows."""

    def callbacks(self) -> list[Callback]:
        """Callbacks for the trainer of the next training."""
        return []


class StudyRunner:
    """Trains and evaluates the runs of a study."""

    def __init__(self, study: Study, progress: StudyProgress | None = None) -> None:
        self.study, self.base, self.plan = study, study.base, study.plan
        self.progress = progress or StudyProgress()

    def run(self, seeds: Sequence[int] | None = None) -> StudyResults:
        """Train and evaluate what is missing.

        The results are written after each run. Finished runs are not trained again, an interrupted one is resumed.

        Args: seeds: None = that of the configuration
        Raises: ConfigError: the folder holds a run of another configuration. DataError: rows that cannot be read.
            TrainingStopped: by Ctrl-C; what was trained is saved.
        """
        runs, done = self.study.runs(seeds), []
        folder = Path(self.base.output)
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder}: is a file; give a folder for the study")
        folder.mkdir(parents=True, exist_ok=True)
        with RunLock(folder / "lock"):
            finished = [self._load_finished(run) for run in runs]  # errors first, before hours of training
            results: StudyResults | None = None
            for number, (run, facts) in enumerate(zip(runs, finished, strict=True), start=1):
                if facts is None:
                    self.progress.training(number, len(runs), run)
                    facts = self._train_one(run, first=number == finished.index(None) + 1)
                done.append(self._evaluate(run, facts))
                results = self._results(done, len(runs))
                results.save(folder)
        assert results is not None  # a plan has a set, and a set a run
        return results

    def _train_one(self, run: StudyRun, *, first: bool) -> dict[str, Any]:
        from glassformer.runs.curves import write_page
        from glassformer.training.card import write_card

        trainer, start = self.study.trainer(run, self.progress.callbacks()), time.perf_counter()
        if first:
            self.study.check_test_rows(trainer)
        trainer.train()
        write_page(run.folder, run.folder / "curves.html")
        write_card(trainer, run.folder / MODEL)
        rows = self._training_rows_of(run)
        facts = {
            "made_of": self._provenance(run, rows),
            "rows": len(rows),
            "steps": trainer.state.step,
            "tokens": trainer.state.tokens,
            "seconds": time.perf_counter() - start,
        }
        write_json(run.folder / FINISHED, facts)
        # Checkpoints take three times the space of the model, and there is nothing left to resume.
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        return facts

    def _provenance(self, run: StudyRun, rows: RowSequence) -> dict[str, Any]:
        """Everything that the result of a run depends on."""
        config = asdict(run.config)
        for name in ("output", "device", "trackers"):
            del config[name]
        return {**config, "at_least_steps": self.plan.at_least_steps, "rows": rows.fingerprint}

    def _training_rows_of(self, run: StudyRun) -> RowSequence:
        """The training rows of a run, read again; the training has given the warnings about them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return read_splits(run.config, task_class(self.base.task))[0]

    def _load_finished(self, run: StudyRun) -> dict[str, Any] | None:
        """The facts of a finished run; None where it is not finished.

        Raises: ConfigError: it was trained with another configuration; what differs.
        """
        path = run.folder / FINISHED
        if not path.is_file():
            return None
        facts = dict(read_json_object(path, DataError))
        saved, current = facts.get("made_of", {}), self._provenance(run, self._training_rows_of(run))
        if changed := [name for name in current if saved.get(name) != _json_roundtrip(current[name])]:
            name = changed[0]
            raise ConfigError(
                f"{run.folder}: was trained otherwise: {name} was {safe_repr(saved.get(name))}, is now "
                f"{safe_repr(current[name])}; choose another output, or remove that folder to train it again"
            )
        return facts

    def _evaluate(self, run: StudyRun, facts: Mapping[str, Any]) -> TrainedModel:
        trained = open_run(run.folder)
        reports = {
            name: self._evaluation_report(trained, run, name, rows)
            for name, rows in self.study.test_rows.items()
        }
        metric = next(iter(reports.values())).metric
        baselines: dict[str, dict[str, Interval]] = {
            name: {other: x.metrics[metric] for other, x in report.baselines.items()}
            for name, report in reports.items()
        }
        return TrainedModel(
            name=run.name,
            of=run.of,
            size=run.size,
            seed=run.seed,
            **{name: facts[name] for name in ("rows", "steps", "tokens", "seconds")},
            folder=str(run.folder.relative_to(self.base.output)),
            metrics={name: report.metrics[metric] for name, report in reports.items()},
            baselines=baselines if self.plan.baselines else {},
        )

    def _evaluation_report(
        self, trained: TrainedRun, run: StudyRun, name: str, rows: RowSequence
    ) -> EvaluationReport:
        """The report on a test set; one that is there already is read, where its rows are the same."""
        path = trained.evaluation_folder(name) / REPORT
        if path.is_file():
            report = EvaluationReport.load(path)
            if report.data.get("fingerprint") == rows.fingerprint and (
                report.baselines or not self.plan.baselines
            ):
                return report
        self.progress.judging(run, name, len(rows))
        evaluation = evaluate(
            trained.config.task,
            trained.task_for_evaluation(),
            rows,
            train=trained.splits[0] if self.plan.baselines else None,
            name=run.name,
            files=self._test_files(name),
            seed=run.seed,
            baselines=self.plan.baselines,
        )
        evaluation.save(trained.evaluation_folder(name))
        return evaluation.report

    def _test_files(self, test_set: str) -> list[str]:
        files = self.plan.judge[test_set]
        return [Path(file).name for file in ([files] if isinstance(files, str) else files)]

    def _results(self, done: Sequence[TrainedModel], planned: int) -> StudyResults:
        first = next(iter(self.study.test_rows))
        report = EvaluationReport.load(Path(self.base.output, done[0].folder, "evaluation", first, REPORT))
        return StudyResults(
            task=self.base.task,
            metric=report.metric,
            higher=report.higher,
            method=report.methods.get(report.metric, ""),
            test_sets={
                name: {"files": self._test_files(name), "rows": len(rows)}
                for name, rows in self.study.test_rows.items()
            },
            models=list(done),
            planned=planned,
            curve=self.plan.shown_curve,
        )


def _json_roundtrip(value: Any) -> Any:
    """A value as it is after writing and reading JSON: tuples become lists."""
    return json.loads(json.dumps(value))
