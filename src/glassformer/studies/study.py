"""How much data, and from where: one model trained on several sets, and judged on several others.

    train:   de    fr-250  fr-500 … fr-2000    de+fr        a run each, for each seed
    judge:   de    en      fr     it                        the same rows for all of them
                        ↓
    a table, trained on × judged on; a curve over the rows of fr; study.json, study.html

runs/transfer/study.json                 runs/transfer/fr-250/seed-0/        a run as any, without its checkpoints
                study.html                   finished.json                   what it was made of: it is not made again
                                             evaluation/fr/report.json       how it did on fr

A study is what `glassformer train` reads, without `data.train`, and under `study` what a `Plan` holds.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.sequence import Joined, Rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import REPORT, evaluate
from glassformer.evaluation.report import Report
from glassformer.evaluation.runs import Run, open_run
from glassformer.evaluation.slices import drawn
from glassformer.files import shown
from glassformer.files.parsing import read_record
from glassformer.files.strict_json import read_object
from glassformer.runs.config import Config, config_of
from glassformer.runs.data import rows_of, without_leaks
from glassformer.runs.folder import CHECKPOINTS, MODEL, seed_folder
from glassformer.runs.lock import Lock
from glassformer.studies.plan import Plan
from glassformer.studies.results import Found, Trained
from glassformer.tasks.evaluator import judge_of, objective_class
from glassformer.tasks.metrics.intervals import Interval
from glassformer.training.callbacks import Callback
from glassformer.training.run import make_trainer
from glassformer.training.trainer import Trainer
from glassformer.weights.write import write_json

FINISHED = "finished.json"


@dataclass(frozen=True)
class Training:
    """One of the trainings of a study. size: rows of what grows in the set"""

    name: str
    of: str
    size: int | None
    seed: int
    config: Config

    @property
    def folder(self) -> Path:
        return Path(self.config.output)


class Watch:
    """Who is told how far a study is: does nothing."""

    def training(self, number: int, count: int, training: Training) -> None:
        """Before each training: the how manieth of how many."""

    def judging(self, training: Training, judged: str, rows: int) -> None:
        """Before each judging."""

    def callbacks(self) -> list[Callback]:
        """For the trainer of the next training."""
        return []


@dataclass(frozen=True)
class Study:
    """A training configuration and a plan. base: what all trainings share; `output` is the folder of the study"""

    base: Config
    plan: Plan

    def trainings(self, seeds: Sequence[int] | None = None) -> list[Training]:
        """All trainings, seed by seed. seeds: None = that of the configuration"""
        return [
            Training(self.plan.called(name, size), name, size, seed, self._config(name, size, seed))
            for seed in seeds or [self.base.training.seed]
            for name in self.plan.train
            for size in self.plan.sizes(name)
        ]

    def _config(self, name: str, size: int | None, seed: int) -> Config:
        files, limit = self.plan.drawn(name, size)
        made = replace(
            self.base,
            output=str(self._place(self.plan.called(name, size), seed)),
            data=replace(self.base.data, train=files, limit=limit),
            training=replace(self.base.training, seed=seed),
            overrides=self.overrides,
        )
        if (begin := self.plan.train[name].begin) is None:
            return made
        return replace(made, model=str(self._place(begin, seed) / MODEL), scratch=None, tokenizer=None)

    def _place(self, name: str, seed: int) -> Path:
        return seed_folder(Path(self.base.output, name), seed)

    @cached_property
    def pool(self) -> Rows:
        """All rows that anything may be learnt from. Raises: DataError: a set draws more than there are."""
        parts = []
        for name, each in self.plan.train.items():
            if each.files:
                parts.append(self._read(each.files))
                most, there = max(each.sizes, default=0), len(parts[-1])
                if most > there:
                    raise DataError(
                        f"study.train.{name}: {most:,} rows cannot be had of {there:,}; ask for fewer"
                    )
        return parts[0] if len(parts) == 1 else Joined(parts)

    def _read(self, files: str | list[str]) -> Rows:
        return self.base.data.read(files)

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """The keys of config.json that all trainings share: the labels of all rows, which a small slice may lack."""
        from glassformer.model import load

        base, kind = self.base, objective_class(self.base.task)
        read: Mapping[str, Any] = {}
        own = False
        if base.model is not None:
            seen = load(base.model, task=kind.TASK, device="meta")
            read, own = seen.config, not seen.report.new
        headed = kind.head_config(self.pool, read, own=own, columns=base.data.columns, options=base.objective)
        return {**{key: x for key, x in headed.items() if read.get(key) != x}, **base.overrides}

    @cached_property
    def judged(self) -> dict[str, Rows]:
        """The rows to judge on, the same for all trainings."""
        kind, found = objective_class(self.base.task), {}
        for name, files in self.plan.judge.items():
            rows = self._read(files)
            if self.base.data.without_leaks:
                rows = without_leaks(self.base, kind, self.pool, rows)
            found[name] = drawn(rows, self.plan.limit)
        return found

    # ------------------------------------------------------------------------------------------ from plan to result

    def planned(self, seeds: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """What would be trained: rows, steps and tokens of each, having read everything and trained nothing."""
        for number, training in enumerate(self.trainings(seeds)):
            trainer = self._trainer(training, [], anew=True)
            if not number:
                self._check_judged(trainer)
            examples, steps = trainer.train_examples, trainer.steps
            yield {
                "name": training.name,
                "seed": training.seed,
                "examples": len(examples),
                "steps": steps,
                "tokens": round(int(examples.lengths.sum()) * steps / trainer.plan.steps(0)),
                "finished": (training.folder / FINISHED).is_file(),
            }

    def run(self, seeds: Sequence[int] | None = None, watch: Watch | None = None) -> Found:
        """Train and judge what is still to come.

        The folder tells after each training what is known by then. Finished trainings are kept, one that was stopped
        goes on.

        Raises: ConfigError: the folder holds a training made otherwise. DataError: rows that cannot be read.
            Stopped: by Ctrl-C; what was trained is saved.
        """
        watch, trainings, done = watch or Watch(), self.trainings(seeds), []
        place = Path(self.base.output)
        if place.exists() and not place.is_dir():
            raise ConfigError(f"{place}: is a file; give a folder for the study")
        place.mkdir(parents=True, exist_ok=True)
        with Lock(place / "lock"):
            kept = [
                self._finished(training) for training in trainings
            ]  # all that is wrong is said before training
            found: Found | None = None
            for number, (training, facts) in enumerate(zip(trainings, kept, strict=True), start=1):
                if facts is None:
                    watch.training(number, len(trainings), training)
                    facts = self._train(training, watch.callbacks(), first=number == kept.index(None) + 1)
                done.append(self._judge(training, facts, watch))
                found = self._found(done, len(trainings))
                found.save(place)
        assert found is not None  # a plan has a set, and a set a training
        return found

    def _trainer(self, training: Training, callbacks: Sequence[Callback], anew: bool = False) -> Trainer:
        """anew: with the study's own model, also where it would begin with one that is still to be trained"""
        config = training.config
        if anew and self.plan.train[training.of].begin is not None:
            config = replace(
                config, model=self.base.model, scratch=self.base.scratch, tokenizer=self.base.tokenizer
            )
        trainer = make_trainer(config, callbacks)
        least = self.plan.at_least_steps or 0
        if config.training.steps is not None or trainer.steps >= least:
            return trainer
        return make_trainer(replace(config, training=replace(config.training, steps=least)), callbacks)

    def _train(self, training: Training, callbacks: Sequence[Callback], *, first: bool) -> dict[str, Any]:
        from glassformer.runs.curves import write_page
        from glassformer.training.card import write_card

        trainer, began = self._trainer(training, callbacks), time.perf_counter()
        if first:
            self._check_judged(trainer)
        trainer.train()
        write_page(training.folder, training.folder / "curves.html")
        write_card(trainer, training.folder / MODEL)
        rows = self._rows(training)
        facts = {
            "made_of": self._made_of(training, rows),
            "rows": len(rows),
            "steps": trainer.state.step,
            "tokens": trainer.state.tokens,
            "seconds": time.perf_counter() - began,
        }
        write_json(training.folder / FINISHED, facts)
        # They are three times the model, to go on from what is over.
        shutil.rmtree(training.folder / CHECKPOINTS, ignore_errors=True)
        return facts

    def _check_judged(self, trainer: Trainer) -> None:
        """Raises: DataError, UnsupportedError: rows that cannot be judged; said before hours of training, not after."""
        judge_of(self.base.task, trainer.objective)
        for rows in self.judged.values():
            trainer.objective.examples(rows)

    def _made_of(self, training: Training, rows: Rows) -> dict[str, Any]:
        """All that decides what comes of a training."""
        config = asdict(training.config)
        for name in ("output", "device", "trackers"):
            del config[name]
        return {**config, "at_least_steps": self.plan.at_least_steps, "rows": rows.fingerprint}

    def _rows(self, training: Training) -> Rows:
        """What a training learns from, read once more; of what is odd about it the training has told."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return rows_of(training.config, objective_class(self.base.task))[0]

    def _finished(self, training: Training) -> dict[str, Any] | None:
        """What is known of a finished training; None where there is none.

        Raises: ConfigError: it was made otherwise; what differs.
        """
        path = training.folder / FINISHED
        if not path.is_file():
            return None
        facts = dict(read_object(path, DataError))
        theirs, ours = facts.get("made_of", {}), self._made_of(training, self._rows(training))
        if changed := [name for name in ours if theirs.get(name) != _as_json(ours[name])]:
            what = changed[0]
            raise ConfigError(
                f"{training.folder}: was trained otherwise: {what} was {shown(theirs.get(what))}, is now "
                f"{shown(ours[what])}; choose another output, or remove that folder to train it again"
            )
        return facts

    def _judge(self, training: Training, facts: Mapping[str, Any], watch: Watch) -> Trained:
        run = open_run(training.folder)
        reports = {name: self._report(run, training, name, rows, watch) for name, rows in self.judged.items()}
        metric = next(iter(reports.values())).metric
        baselines: dict[str, dict[str, Interval]] = {
            name: {other: x.figures[metric] for other, x in report.baselines.items()}
            for name, report in reports.items()
        }
        return Trained(
            name=training.name,
            of=training.of,
            size=training.size,
            seed=training.seed,
            **{name: facts[name] for name in ("rows", "steps", "tokens", "seconds")},
            folder=str(training.folder.relative_to(self.base.output)),
            figures={name: report.figures[metric] for name, report in reports.items()},
            baselines=baselines if self.plan.baselines else {},
        )

    def _report(self, run: Run, training: Training, name: str, rows: Rows, watch: Watch) -> Report:
        """The report on a judged set, which is kept where the rows are the same."""
        path = run.place(name) / REPORT
        if path.is_file():
            report = Report.load(path)
            if report.data.get("fingerprint") == rows.fingerprint and (
                report.baselines or not self.plan.baselines
            ):
                return report
        watch.judging(training, name, len(rows))
        found = evaluate(
            run.config.task,
            run.judge(),
            rows,
            train=run.parts[0] if self.plan.baselines else None,
            name=training.name,
            files=self._files(name),
            seed=training.seed,
            baselines=self.plan.baselines,
        )
        found.save(run.place(name))
        return found.report

    def _files(self, judged: str) -> list[str]:
        files = self.plan.judge[judged]
        return [Path(file).name for file in ([files] if isinstance(files, str) else files)]

    def _found(self, done: Sequence[Trained], planned: int) -> Found:
        first = next(iter(self.judged))
        report = Report.load(Path(self.base.output, done[0].folder, "evaluation", first, REPORT))
        return Found(
            task=self.base.task,
            metric=report.metric,
            higher=report.higher,
            method=report.methods.get(report.metric, ""),
            judged={
                name: {"files": self._files(name), "rows": len(rows)} for name, rows in self.judged.items()
            },
            trainings=list(done),
            planned=planned,
            curve=self.plan.drawn_curve,
        )


def study_of(values: Mapping[str, Any], output: str | None = None) -> Study:
    """A study from the names and values of a file.

    Raises: ConfigError: what is wrong with any of it.
    """
    given = dict(values)
    plan = read_record(Plan, given.pop("study", None) or {}, "study")
    data = given.get("data") or {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"data: expected names and values, got {shown(data)}")
    if set_by_plan := [name for name in ("train", "limit") if name in data]:
        raise ConfigError(f"data.{set_by_plan[0]}: a study says under study.train which rows, and how many")
    given["data"] = {**data, "train": plan.drawn(next(iter(plan.train)), None)[0]}
    given["output"] = output or given.get("output") or "runs/study"
    return Study(config_of(given), plan)


def _as_json(value: Any) -> Any:
    """A value as it comes back from a file."""
    import json

    return json.loads(json.dumps(value))
