"""Cells that are trainings: a model trained on several sets, sizes and settings, evaluated on several test sets.

    train:   de    fr-250  fr-500 … fr-2000    de+fr        a run each, for each setting and each seed
    test_sets:  de    en      fr     it                     test sets, the same for all of them
    language_model:   without LM   with LM                  of a speech recogniser: see fusion.py

runs/transfer/study.json                 runs/transfer/fr-250/seed-0/        a run folder, without its checkpoints
                study.html                   finished.json                   what it depends on: it is not trained again
                                             evaluation/fr/cell.json         its scores on fr; and a report as any

The configuration is that of `glassformer train`, with a `StudyPlan` under `study`.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

from glassformer.data.sequence import RowSequence
from glassformer.data.views import ConcatenatedRows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.costs import measure_latency, read_cost
from glassformer.evaluation.evaluate import PREDICTIONS, evaluate, file_names
from glassformer.evaluation.runs import load_trained_model, open_run
from glassformer.files import counted, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.schema import parse
from glassformer.reports.table import clock
from glassformer.runs.config import RunConfig, parse_config
from glassformer.runs.curves import write_page
from glassformer.runs.data import drop_leaked_rows, read_splits, read_usable, sample_rows
from glassformer.runs.folder import CHECKPOINTS, MODEL, seed_folder
from glassformer.runs.several import merged_values, refuse_runs
from glassformer.studies.cells import Cell, CellResult, Level, changed, folder_name, label_of, scored
from glassformer.studies.fusion import BEAMS, WEIGHTS, Fusion
from glassformer.studies.plan import EVALUATED_ON, PRETRAINED, SEARCH, SEARCHES, StudyPlan
from glassformer.studies.report import Example, PlannedCell, PlannedStudy, StudyReport
from glassformer.studies.study import Evaluator, Study, StudyProgress
from glassformer.tasks.base import Task, metrics_of
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.registry import task_class
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.tasks.types import Prediction
from glassformer.training.callbacks import Callback
from glassformer.training.card import write_card
from glassformer.training.run import head_overrides, make_trainer
from glassformer.training.trainer import Trainer

FINISHED = "finished.json"
MAX_EXAMPLES = 20


@dataclass(frozen=True)
class StudyRun:
    """One model of a study, in a folder of its own.

    levels: the factors that it depends on
    config: its configuration
    begins: the study's own model, in place of one that is still to be trained
    at_least_steps: minimum steps: few rows take more epochs
    trained: False = the model before training
    """

    name: str
    levels: dict[str, Level]
    config: RunConfig
    begins: RunConfig
    at_least_steps: int | None = None
    trained: bool = True

    @property
    def seed(self) -> int:
        return self.config.training.seed

    @property
    def folder(self) -> Path:
        return Path(self.config.output)

    def trainer(self, callbacks: Sequence[Callback] = (), *, dry: bool = False) -> Trainer:
        """The trainer, with its data and model read; of a dry run from the study's own model."""
        config = self.config
        if dry:
            config = replace(config, **{x: getattr(self.begins, x) for x in ("model", "scratch", "tokenizer")})
        trainer, min_steps = make_trainer(config, callbacks), self.at_least_steps or 0
        if config.training.steps is not None or trainer.steps >= min_steps:
            return trainer
        return make_trainer(replace(config, training=replace(config.training, steps=min_steps)), callbacks)

    def train(self, trainer: Trainer) -> dict[str, Any]:
        """Train; the facts of it are saved in its folder, with its curves and the card of its model."""
        trainer.train()
        seconds = trainer.state.seconds  # of all sessions
        write_page(self.folder, self.folder / "curves.html")
        write_card(trainer, self.folder / MODEL)
        rows, made_of = self._provenance()
        facts = {
            "made_of": made_of,
            "rows": rows,
            "steps": trainer.state.step,
            "tokens": trainer.state.tokens,
            "seconds": seconds,
            "weights": open_run(self.folder).weights_digest(),
        }
        write_json(self.folder / FINISHED, facts)
        # Checkpoints take three times the space of the model, and there is nothing left to resume.
        shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)
        return facts

    def finished(self) -> dict[str, Any] | None:
        """The facts of the finished training; None where it is not finished.

        Raises: ConfigError: it was trained with another configuration; what differs.
        """
        facts, what = self.saved_facts()
        if what:
            raise ConfigError(
                f"{self.folder}: was trained otherwise: {what}; choose another output, or remove that folder to train "
                "it again"
            )
        return facts

    def saved_facts(self) -> tuple[dict[str, Any] | None, str]:
        """The facts of a training that is there, and in what it was trained otherwise."""
        path = self.folder / FINISHED
        if not path.is_file():
            return None, ""
        facts = dict(read_json_object(path, DataError))
        return facts, changed(facts.get("made_of"), self._provenance()[1])

    def _provenance(self) -> tuple[int, dict[str, Any]]:
        """The number of training rows, and everything that the result depends on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the training has given them
            rows = read_splits(self.config, task_class(self.config.task))[0]
        config = asdict(self.config)
        for name in ("output", "device", "trackers"):
            del config[name]
        return len(rows), {**config, "at_least_steps": self.at_least_steps, "rows": rows.fingerprint}


class TrainingEvaluator(Evaluator):
    """Trains the models of a study, and evaluates them.

    Args:
        values: keys and values of the configuration, with which settings are merged
        base: the configuration of all runs, its `output` the folder of the study
        metrics: those that are kept; none = the main one
    """

    REPEATS = True  # an evaluation is fast next to a training, which is refused

    def __init__(self, values: Mapping[str, Any], base: RunConfig, plan: StudyPlan, metrics: Sequence[str]) -> None:
        self.values, self.base, self.plan, self.metrics = values, base, plan, list(metrics)
        self.factors = plan.factors_of(base)
        self._trained: list[Path] = []
        self._facts: dict[Path, dict[str, Any]] = {}
        self._checked = False
        self._loaded: tuple[Path, Task] | None = None
        self._heads: dict[str, dict[str, Any]] = {}
        names, levels = list(plan.factors), map(list, plan.factors.values())
        self._settings: list[dict[str, Level]] = [dict(zip(names, each, strict=True)) for each in product(*levels)]

    def _configured(self, settings: Mapping[str, Level]) -> RunConfig:
        """The configuration with levels of settings."""
        values = self.values
        for name, level in settings.items():
            values = merged_values(values, self.plan.keys_of(name, level))
        return replace(parse_config(values), output=self.base.output) if settings else self.base

    def runs(self, seeds: Sequence[int] | None = None) -> list[StudyRun]:
        """All models: before training, then seed by seed.

        Args:
            seeds: None = that of the configuration
        """
        runs = []
        for settings in self._settings if self.plan.with_pretrained(self.base) else []:
            runs.append(self._run(PRETRAINED, None, settings, self.base.training.seed))
        # In the order of the plan, so that a set's model is there before the runs that begin with it.
        for seed in seeds or [self.base.training.seed]:
            for settings in self._settings:
                for of, size in self.plan.run_levels(self.base):
                    runs.append(self._run(of, size, settings, seed))
        return runs

    def _run(self, of: str, size: int | None, settings: dict[str, Level], seed: int) -> StudyRun:
        plan, base = self.plan, self._configured(settings)
        name = plan.run_name(of, size)
        config = replace(
            base,
            output=str(self._folder(name, settings, seed)),
            training=replace(base.training, seed=seed),
            overrides=self._overrides(base),
        )
        if of in plan.train:
            files, limit = plan.files_and_limits(of, size)
            config = replace(config, data=replace(config.data, train=files, limit=limit))
            if (begin := plan.train[of].begin) is not None:
                model = str(self._folder(begin, settings, seed) / MODEL)
                config = replace(config, model=model, scratch=None, tokenizer=None)
        levels: dict[str, Level] = {plan.trained_on: of}
        levels |= {plan.grown: size} if plan.grown in self.factors else {}
        named, trained = label_of({"name": name, **settings}), name != PRETRAINED
        return StudyRun(named, {**levels, **settings}, config, base, plan.at_least_steps, trained)

    def _folder(self, name: str, settings: dict[str, Level], seed: int) -> Path:
        return seed_folder(Path(self.base.output, folder_name({"name": name, **settings})), seed)

    # ------------------------------------------------------------------------------------------------ rows

    @cached_property
    def kind(self) -> type[Task]:
        return task_class(self.base.task)

    @cached_property
    def training_rows(self) -> RowSequence:
        """The rows of all training sets. Raises: DataError: a set samples more rows than there are."""
        if not self.plan.train:
            return self._splits[0]
        parts = []
        for name, training_set in self.plan.train.items():
            if training_set.files:
                parts.append(read_usable(self.base.data, self.kind, training_set.files))
                if (size := max(training_set.sizes, default=0)) > (available := len(parts[-1])):
                    raise DataError(
                        f"study.train.{name}: {size:,} rows cannot be sampled from {available:,}; use fewer"
                    )
        return parts[0] if len(parts) == 1 else ConcatenatedRows(parts)

    @cached_property
    def _splits(self) -> tuple[RowSequence, RowSequence | None]:
        return read_splits(self.base, self.kind)

    def _overrides(self, config: RunConfig) -> dict[str, Any]:
        """The keys of config.json that all runs share: the labels of all rows, as a small sample may lack some."""
        if not self.plan.train and not self.plan.factors:
            return config.overrides
        key = repr((config.model, config.scratch, config.task_options, config.overrides))
        if key not in self._heads:
            self._heads[key] = head_overrides(config, self.kind, self.training_rows)
        return {**self._heads[key], **config.overrides}

    @cached_property
    def test_rows(self) -> dict[str, RowSequence]:
        """The rows of each test set, the same for all runs."""
        test_rows = {}
        for name, files in self.plan.test_sets.items():
            rows = read_usable(self.base.data.for_other_files, self.kind, files)
            if self.base.data.without_leaks:
                rows = drop_leaked_rows(self.base, self.kind, self.training_rows, rows)
            test_rows[name] = sample_rows(rows, self.plan.limit)
        return test_rows

    @cached_property
    def fusion(self) -> Fusion | None:
        """The language model; None = there is none."""
        if self.plan.language_model is None:
            return None
        validation = self._splits[1]
        assert validation is not None  # `trained_study` asks for its files
        parts = {"train": self.training_rows, "validation": validation, **self.test_rows}
        return Fusion(self.plan.language_model, self.base, parts, self.plan.speaker)

    def check_test_rows(self, trainer: Trainer) -> None:
        """Raises: DataError, UnsupportedError: rows that cannot be evaluated; before hours of training, not after."""
        trainer.task.for_evaluation()
        for rows in self.test_rows.values():
            trainer.task.encode(rows)

    # ----------------------------------------------------------------------------------------------- cells

    def cells(self, seeds: Sequence[int] | None) -> list[Cell]:
        cells = []
        for run in self.runs(seeds):
            for search in SEARCHES if self.plan.language_model else [""]:
                for test_set in self.plan.test_sets:
                    fused = search == SEARCHES[1]
                    folder = run.folder / "evaluation" / (f"{test_set}+lm" if fused else test_set)
                    levels = {**run.levels, **({SEARCH: search} if search else {}), EVALUATED_ON: test_set}
                    ordered = {name: levels[name] for name in self.factors}
                    cells.append(Cell(ordered, run.seed, folder, about=(run, test_set, fused)))
        return cells

    def _planned(self, run: StudyRun) -> PlannedCell:
        """What a training would take: examples, steps and tokens."""
        trainer = run.trainer(dry=True)
        examples, steps = trainer.train_examples, trainer.steps
        tokens = round(int(examples.lengths.sum()) * steps / trainer.batch_sampler.steps_per_epoch(0))
        counts = {"examples": len(examples), "steps": steps, "tokens": tokens}
        facts, otherwise = run.saved_facts()
        return PlannedCell(run.name, run.seed, facts is not None and not otherwise, counts, otherwise)

    def planned(self, seeds: Sequence[int] | None) -> PlannedStudy:
        runs = [run for run in self.runs(seeds) if run.trained]
        if self.fusion is not None:
            self.fusion.overlap()
        else:
            self.check_test_rows(runs[0].trainer(dry=True))
        return PlannedStudy(list(map(self._planned, runs)), {name: len(rows) for name, rows in self.test_rows.items()})

    def check(self, cells: Sequence[Cell]) -> str:
        runs = _runs_of(cells)
        finished = {run.folder: run.finished() for run in runs if run.trained}
        self._trained = list(finished)
        self._facts = {folder: facts for folder, facts in finished.items() if facts is not None}
        done = f" ({len(self._facts)} finished before)" if self._facts else ""
        trainings = counted(len(finished), "training") + done
        rows = sum(map(len, self.test_rows.values()))
        if self.fusion is None:
            return f"{trainings}; each is evaluated on {rows:,} rows of {', '.join(self.test_rows)}"
        self.fusion.overlap()
        each = self.fusion.searches * len(self.fusion.tuning_rows) + 2 * rows  # without and with the language model
        return (
            f"{trainings} on {len(self.training_rows):,} recordings; then {each:,} transcripts by "
            f"{self.base.evaluation['beams']} beams of each of {len(runs)} models"
        )

    def made_of(self, cell: Cell) -> dict[str, Any]:
        run, test_set, fused = cell.about
        made = {"rows": self.test_rows[test_set].fingerprint, **self._depends_on(run)}
        made |= {"baselines": self.plan.baselines, "latency": self.plan.latency, "metrics": self.metrics}
        return made | (self.fusion.made_of() if self.fusion is not None and fused else {})

    def _depends_on(self, run: StudyRun) -> dict[str, Any]:
        """All that the predictions of a model depend on."""
        config, weights = run.config, self._facts.get(run.folder, {}).get("weights")
        options = {"task_options": config.task_options, "evaluation": config.evaluation}
        return {"weights": weights, "model": config.model, **options}

    def evaluate(self, cell: Cell, progress: StudyProgress) -> CellResult:
        run, test_set, fused = cell.about
        rows, costs = self.test_rows[test_set], dict[str, float]()
        if run.trained:
            if run.folder not in self._facts:
                self._train(run, progress)
            facts = self._facts[run.folder]
            costs = {name: facts[name] for name in ("rows", "steps", "tokens", "seconds")}
            if self.plan.factors:
                costs |= {name: x for name in ("parameters", "bytes") if (x := getattr(read_cost(run.folder), name))}
        search: dict[str, Any] = {}
        task = self._task(run)
        if self.fusion is not None and fused:
            assert isinstance(task, Transcribe)
            search = self.fusion.search(task, run.name, run.folder, self._depends_on(run), progress)
        elif self.base.evaluation.get("rescore"):
            search = {"rescore": False}  # there is nothing to rescore with
        task = task.for_evaluation(**{**run.config.evaluation, **search})
        where = f"{run.name} on {len(rows):,} rows of {test_set}{' with LM' * fused}"
        progress.evaluating(where)
        with progress.rows(where, len(rows)) as advance:
            evaluation = evaluate(
                self.base.task,
                task,
                rows,
                train=open_run(run.folder).splits[0] if self.plan.baselines and run.trained else None,
                name=run.name,
                files=file_names(rows),
                seed=run.seed,
                baselines=self.plan.baselines,
                progress=advance,
            )
        evaluation.save(cell.folder)
        if self.plan.latency:
            costs["latency"] = measure_latency(task, rows).mean
        report = evaluation.report
        baselines = {name: x.metrics[report.metric] for name, x in report.baselines.items()}
        result = scored(metrics_of(task, evaluation.predictions), costs, rows=rows.fingerprint, baselines=baselines)
        names = self.metrics or [report.metric]
        known = {name: result.scores[name] for name in names if name in result.scores}
        return replace(
            result, scores=known if len(known) == len(names) else result.scores
        )  # `Study` says what is missing

    def _train(self, run: StudyRun, progress: StudyProgress) -> None:
        progress.training(self._trained.index(run.folder) + 1, len(self._trained), f"{run.name}, seed {run.seed}")
        trainer = run.trainer(progress.callbacks())
        if self.fusion is None and not self._checked:
            self.check_test_rows(trainer)
            self._checked = True
        self._facts[run.folder] = run.train(trainer)

    def _task(self, run: StudyRun) -> Task:
        """The task with the model of a run, which is kept until another is loaded."""
        if self._loaded is None or self._loaded[0] != run.folder:
            self._loaded = run.folder, _loaded(run)
        return self._loaded[1]

    def completed(self, report: StudyReport, cells: Sequence[Cell]) -> StudyReport:
        runs = _runs_of(cells)
        seconds = sum(self._facts[run.folder]["seconds"] for run in runs if run.trained)
        sets = {name: {"files": file_names(rows), "rows": len(rows)} for name, rows in self.test_rows.items()}
        facts: dict[str, Any] = {"task": self.base.task, "test_sets": sets}
        trained = sum(run.trained for run in runs)
        shown = ", ".join(f"{len(rows):,} rows of {name}" for name, rows in self.test_rows.items())
        notes = [f"{counted(trained, 'training')} in {clock(seconds)}, evaluated on {shown}"]
        if self.fusion is None:
            return replace(report, facts=facts, notes=notes)
        tuned = [
            {"name": run.name, "seed": run.seed, **{name: saved[name] for name in ("alpha", "beta")}}
            for run in runs
            if (run.folder / WEIGHTS).is_file() and (saved := read_json_object(run.folder / WEIGHTS, DataError))
        ]
        facts |= {"training_rows": len(self.training_rows), "tuned": tuned, "overlap": self.fusion.overlap()}
        notes += [f"{len(self.training_rows):,} training recordings", *self.fusion.notes(tuned)]
        return replace(report, facts=facts, notes=notes, examples=list(self._examples(report, cells)))

    def _examples(self, report: StudyReport, cells: Sequence[Cell]) -> Iterator[Example]:
        """Rows that not all combinations answer equally, and at least one wrongly, by the first seed of each."""
        for test_set in self.plan.test_sets:
            systems = {}
            for cell in cells:
                name = label_of({factor: cell[factor] for factor in report.varied})
                if cell.about[1] == test_set and name not in systems:
                    systems[name] = read_predictions(cell.folder / PREDICTIONS)
            yield from islice(_differing(test_set, systems), MAX_EXAMPLES)


def _differing(test_set: str, systems: Mapping[str, Sequence[Prediction]]) -> Iterator[Example]:
    for row in zip(*systems.values(), strict=True):
        texts = dict(zip(systems, (str(x.predicted) for x in row), strict=True))
        wrong = any(x.details["counts"][0] if "counts" in x.details else x.label != x.predicted for x in row)
        if wrong and len({*texts.values()}) > 1:
            yield Example(test_set=test_set, reference=str(row[0].label), outputs=texts)


def _runs_of(cells: Sequence[Cell]) -> list[StudyRun]:
    """The models of cells, each once."""
    return list({cell.about[0].folder: cell.about[0] for cell in cells}.values())


def _loaded(run: StudyRun) -> Task:
    """The task with the model of a run."""
    if run.trained:
        alone = {"rescore": False} if run.config.evaluation.get("rescore") else {}  # before there is a language model
        return open_run(run.folder).task_for_evaluation(**alone)
    config = run.config
    model = load_trained_model(config.model or "", config.task, config.device)
    # A recogniser hears whole windows, unless it has been trained to hear less.
    options = dict(config.task_options)
    if "audio_context" in options:
        options["audio_context"] = "window"
    task: Task = task_class(config.task)(model, columns=config.data.columns or None, **options)
    return task


def trained_study(values: Mapping[str, Any], output: str | None = None, folder: str | None = None) -> Study:
    """A study of trainings from the keys and values of its YAML file.

    Args:
        output, folder: of the study and of its data files, where they are others than the file says
    Raises: ConfigError: an invalid key or value.
    """
    refuse_runs(values, "a study")
    merged: dict[str, Any] = {**values, "output": output or values.get("output") or "runs/study"}
    plan = parse(StudyPlan, merged.pop("study"), "study")
    data = merged.get("data") or {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"data: expected names and values, got {safe_repr(data)}")
    merged["data"] = dict(data) if folder is None else {**data, "folder": folder}
    if plan.train:
        if set_by_plan := [name for name in ("train", "limit") if name in data]:
            raise ConfigError(f"data.{set_by_plan[0]}: a study says under study.train which rows, and how many")
        merged["data"]["train"] = plan.files_and_limits(next(iter(plan.train)), None)[0]
    over = plan.report.intervals or ("seeds" if plan.language_model is None else "rows")
    report = replace(plan.report, columns=plan.report.columns or EVALUATED_ON, intervals=over)
    if plan.language_model is not None:
        merged["evaluation"] = {"beams": BEAMS, **(merged.get("evaluation") or {})}
        report = replace(report, metric=report.metric or "wer", more=report.more or ["cer"])
    base = parse_config(merged)
    if plan.language_model is not None:
        if base.task != "transcribe":
            raise ConfigError(f"study.language_model is for task: transcribe; this is task: {base.task}")
        if base.data.validation is None or isinstance(base.data.validation, float):
            raise ConfigError(
                "data.validation must name files: on them the weights of the language model are tuned, and they must "
                "be the same for all seeds; glassformer data split makes them"
            )
    metrics = list(filter(None, [report.metric, *report.more]))
    evaluator = TrainingEvaluator(merged, base, plan, metrics)
    return Study(evaluator.factors, evaluator, base.output, options=report)
