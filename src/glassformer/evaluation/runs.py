"""Trained runs: a run folder with its model, task, data and options, to be evaluated; its splits with their reports.

run = open_run("runs/mood")
run.evaluate().report                          on its own validation rows
run.evaluate("test.csv", baselines=False)      on other rows
evaluated_split(run, "train")                  a split with report and predictions, evaluated now where they are missing
evaluate_model("a/model", "classify", "test.csv", columns={"label": "mood"})      a model without a run folder

runs/mood/evaluation/validation/   report.json   examples.jsonl   errors.html   …
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.rows import RowSequence, read_rows
from glassformer.data.views import RenamedColumns
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError, nearest
from glassformer.evaluation.evaluate import (
    LEARN_OTHERWISE,
    PREDICTIONS,
    REPORT,
    TRAIN_LONGER,
    Evaluation,
    EvaluationReport,
    evaluate,
    file_names,
    loss_remarks,
)
from glassformer.evaluation.groups import check_group_column
from glassformer.evaluation.options import ListeningOptions
from glassformer.files import as_path, file_sha256, read_json_object, safe_repr
from glassformer.files.lazy import imported
from glassformer.hub.find import scorer_folder
from glassformer.model import Model, load
from glassformer.reports.page import shown_path
from glassformer.reports.report import Display, SeveralReports
from glassformer.runs.config import RunConfig, config_values, parse_task_options, run_config, seen_from_here
from glassformer.runs.data import check_unused_columns, read_splits, read_usable, sample_rows
from glassformer.runs.folder import CONFIG, MODEL, check_run, no_run, run_name
from glassformer.tasks.base import Task, check_evaluates
from glassformer.tasks.classify.scored import ScoredClassification
from glassformer.tasks.classify.scorer import TextScorer
from glassformer.tasks.classify.task import Classify, label_names
from glassformer.tasks.columns import columns_of
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.registry import task_class
from glassformer.tasks.types import Prediction

EVALUATION, VALIDATION, TRAIN = "evaluation", "validation", "train"


@dataclass(frozen=True)
class TrainedRun(SeveralReports):
    """A run folder that `glassformer train` wrote; at the end of a notebook's cell, its page.

    columns: role → column, where the rows to evaluate on have other names than its own
    ignore: unused columns of the rows to evaluate on, in addition to those of its configuration
    format: how other files than its own are read; None = as its own
    """

    folder: Path
    config: RunConfig
    columns: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = field(default=())
    format: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """What a notebook stores next to its page, without the folders of this machine."""
        return f"{type(self).__name__}({shown_path(self.folder)!r}, task={self.config.task!r})"

    def reports(self) -> Sequence[Display]:
        """As its page has them."""
        reports: Sequence[Display] = imported("glassformer.evaluation.run_page:reports_of_folder")(self.folder)
        return reports

    @cached_property
    def model(self) -> Model:
        """The best model of the run. Raises: WeightsError: there is none (yet)."""
        if not (self.folder / MODEL).is_dir():
            raise WeightsError(
                f"{self.folder}: holds no model yet; resume training: glassformer train {self.folder / CONFIG}"
            )
        return load_trained_model(self.folder / MODEL, self.config.task, self.config.device)

    @property
    def scorer(self) -> Path | None:
        """The folder of its classifier, where that is no network to look into."""
        return scorer_folder(self.folder)

    @cached_property
    def task(self) -> Task:
        """Its task, with the options of its configuration."""
        kind, separator = task_class(self.config.task), self.config.task_options.get("separator")
        if self.scorer is not None:
            scorer = TextScorer.load(self.scorer, device=self.config.device)
            return ScoredClassification(scorer, columns=self.config.data.columns, separator=separator)
        task: Task = kind(self.model, columns=self.config.data.columns or None, **self.config.task_options)
        return task

    @cached_property
    def splits(self) -> tuple[RowSequence, RowSequence | None]:
        """Its training and validation rows."""
        try:
            return read_splits(self.config, task_class(self.config.task))
        except DataError as error:
            raise DataError(
                f"{error} (the paths of a run are relative to the folder in which it was trained, which is not known "
                f"of a run that was moved: run the command there, or move it back to {self.config.output})"
            ) from error

    def evaluation_folder(self, split: str = VALIDATION) -> Path:
        """The folder of an evaluation. Raises: ConfigError: the name cannot be that of a folder."""
        if Path(split).name != split or split in ("", ".", ".."):
            raise ConfigError(f"{safe_repr(split)} cannot name an evaluation; take the name of a folder, such as test")
        return self.folder / EVALUATION / split

    def weights_digest(self) -> str | None:
        """SHA-256 of its weights, which a training that continues writes again; None where there are none any more."""
        digest, files = hashlib.sha256(), sorted((self.folder / MODEL).glob("*.safetensors"))
        for path in files:
            digest.update(f"{path.name} {file_sha256(path)}\n".encode())
        return digest.hexdigest() if files else None

    def is_evaluated(self, split: str = VALIDATION) -> bool:
        """Whether there is a report on a split by the weights that it has now, if it has any.

        No time of a file decides: clocks are set back, and copies have the times of the copying.
        """
        path = self.evaluation_folder(split) / REPORT
        if not path.is_file():
            return False
        data, weights = read_json_object(path, DataError).get("data"), self.weights_digest()
        return weights is None or (isinstance(data, dict) and data.get("weights") == weights)

    def task_for_evaluation(self, **options: Any) -> Task:
        """Its task with the evaluation options that the run names, and these.

        Raises: UnsupportedError: it cannot be evaluated. ConfigError: it has no such option.
        """
        check_evaluates(self.config.task)  # before the model is loaded
        task = self.task.for_evaluation(**{**self.config.evaluation, **options})
        if (initial := self.config.model) is not None:
            given = self.config.overrides  # such as fewer layers
            task.initial_model = lambda: load(initial, device=self.config.device, offline=True, overrides=given)
        if self.config.data.cache and (folder := self.folder / "examples" / "train").is_dir():
            task.train_examples = lambda: self.task.encode(self.splits[0], cache=folder)
        return task

    def read_rows(
        self, files: str | list[str] | RowSequence | None = None, *, format: Mapping[str, Any] | None = None
    ) -> RowSequence:
        """Its validation rows, or those of other files, with their columns renamed to its own.

        Args:
            files: paths, whatever `data.folder` is; or rows
            format: options of reading them; None = those of the run
        Raises: DataError: a run without validation rows, and no files; no such column. ConfigError: no such role.
        """
        data, usual = self.config.data, task_class(self.config.task).COLUMNS
        columns_of(usual, self.columns)  # roles are checked before any file is read
        if isinstance(files, RowSequence):
            rows = files
        elif files is not None:
            format = self.format if format is None else format
            options = data.for_other_files.format if format is None else dict(format)
            theirs = replace(data, folder="", format=options, columns={**data.columns, **self.columns})
            rows = read_usable(theirs, task_class(self.config.task), files)
        elif (held_out := self.splits[1]) is not None:
            rows = held_out
        else:
            folder = shlex.quote(str(self.folder))
            raise DataError(
                f"{self.folder}: was trained without validation rows; evaluate it on other rows, with "
                f"`glassformer evaluate {folder} --data FILE`: compare then takes {self.folder / EVALUATION}/NAME, and "
                "errors takes --part NAME"
            )
        own = columns_of(usual, data.columns)
        names = {name: own[role] for role, name in self.columns.items() if name != own[role]}
        return RenamedColumns(rows, names) if names else rows

    def evaluate(
        self,
        files: str | list[str] | RowSequence | None = None,
        *,
        format: Mapping[str, Any] | None = None,
        baselines: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
        resamples: int | None = None,
        **options: Any,
    ) -> Evaluation:
        """Evaluate it on its validation rows, or on other rows.

        Args:
            files, format: as in `read_rows`; or the rows themselves, with the columns of its own
            options: of the evaluation
            others: as in `evaluate` of evaluate.py
        Raises: DataError: no rows, or some that do not fit. ConfigError: an unused column.
            UnsupportedError: the task cannot be evaluated. WeightsError: there is no model.
        """
        task, data = self.task_for_evaluation(**options), self.config.data
        rows = files if isinstance(files, RowSequence) else self.read_rows(files, format=format)
        # a column that the training ignored need not be in another file
        ignored = [x for x in data.unread if x in ("*", *rows.columns)]
        if by is not None:
            check_group_column(rows, by)
            ignored.append(by)
        check_unused_columns(rows, self.task.columns, [*ignored, *self.ignore])
        names = file_names(rows)
        if files is None and isinstance(data.validation, float):
            names = [f"{name} ({100 * data.validation:g}% held out)" for name in names]
        evaluation = evaluate(
            self.config.task,
            task,
            rows,
            train=self.splits[0] if baselines else None,
            name=run_name(self.folder),
            files=names,
            seed=self.config.training.seed,
            baselines=baselines,
            by=by,
            progress=progress,
            advice=TRAIN_LONGER if self.config.method is None else LEARN_OTHERWISE,
            **({} if resamples is None else {"resamples": resamples}),
        )
        evaluation.report.notes.extend(loss_remarks(evaluation.report, self.folder, config_values(self.config)))
        evaluation.report.data["weights"] = self.weights_digest()
        return evaluation

    def ensure_evaluated(self, progress: Callable[[int], None] | None = None) -> Path:
        """The folder of the evaluation on its validation rows; evaluated now where that is missing or outdated."""
        if not self.is_evaluated():
            self.evaluate(progress=progress).save(self.evaluation_folder())
        return self.evaluation_folder()


def open_run(
    folder: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    device: str | None = None,
    config: RunConfig | None = None,
) -> TrainedRun:
    """Open a run folder.

    Args:
        columns, ignore: of the rows to evaluate on, see `TrainedRun`
        device: None = that of the training
        config: the effective configuration, where it is known; None = it is read from the folder
    Raises: ConfigError: the folder holds no run.
    """
    path = as_path(folder, "folder")
    check_run(path)
    config = seen_from_here(run_config(path / CONFIG) if config is None else config, path)
    return TrainedRun(path, replace(config, device=device or config.device), columns or {}, ignore)


# ------------------------------------------------------------------------------------------ splits, evaluated


@dataclass(frozen=True)
class EvaluatedSplit:
    """A split with its report and predictions.

    name: of the split and its folder
    data: files, where the rows are not the run's own
    """

    run: TrainedRun
    name: str
    data: list[str] | None
    report: EvaluationReport
    records: list[Prediction]

    def labels(self) -> list[str]:
        """The names of the model's labels."""
        return label_names(read_json_object(self.run.folder / MODEL / "config.json", DataError))

    def rows(self) -> RowSequence:
        """Read its rows, with all their columns.

        Raises: DataError: they are not (any more) those that were evaluated.
        """
        rows = split_rows(self.run, self.name, self.data)
        if rows.fingerprint != self.report.data.get("fingerprint"):
            raise DataError(
                f"{rows.file(0)}: its rows are not those that were evaluated; the file was changed, or is another one: "
                "evaluate again"
            )
        return rows


def evaluated_split(
    run: TrainedRun,
    name: str = VALIDATION,
    data: list[str] | None = None,
    notify: Callable[[str], None] = lambda message: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvaluatedSplit:
    """Read the evaluation of a split from the run folder; where there is none, the model is evaluated now.

    Args:
        name: validation, train, or the name that `evaluate --data` has given
        data: other files than the run's; without a name such a split is named after the first
        notify: called with messages: that it is evaluated now, or that the report is of other weights
        progress: of the evaluation, called with the rows done and their total
    Raises: DataError: there is no such split.
    """
    if data and name == VALIDATION:
        name = evaluation_name(data[0])
    folder = run.evaluation_folder(name)
    if not (folder / REPORT).is_file() or not (folder / PREDICTIONS).is_file():
        notify(f"{run.folder}: has no evaluation of {name!r} yet; evaluating it now")
        rows, done = split_rows(run, name, data), 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            progress(done, len(rows))

        own = name == VALIDATION and not data
        # baselines learn from the training rows: on those they would be flattered
        run.evaluate(None if own else rows, baselines=name != TRAIN, progress=count).save(folder)
    elif not run.is_evaluated(name):
        notify(f"{folder}: is of other weights than the model now; `glassformer evaluate {run.folder}` evaluates again")
    report, records = EvaluationReport.load(folder / REPORT), read_predictions(folder / PREDICTIONS)
    if not records:
        raise DataError(f"{folder / PREDICTIONS}: is empty; evaluate again")
    return EvaluatedSplit(run, name, data, report, records)


def saved_split(folder: Path) -> EvaluatedSplit | None:
    """The evaluation of a run on its validation rows as it was saved, without its model; None = there is none.

    Raises: ConfigError: the folder holds no run. DataError: the evaluation is damaged.
    """
    saved = folder / EVALUATION / VALIDATION
    if not (saved / REPORT).is_file() or not (saved / PREDICTIONS).is_file():
        return None
    run, notes = open_run(folder), list[str]()
    split = evaluated_split(run, notify=notes.append)
    if notes:
        split.report.notes.append("Metrics and rows are of other weights than the model has now; evaluate it again.")
    return split


def split_rows(run: TrainedRun, name: str, data: list[str] | None) -> RowSequence:
    """Read the rows of a split. Raises: DataError: there is no such split, or it has no rows."""
    if data:
        return run.read_rows(data)
    if name == TRAIN:
        return run.splits[0]
    if name != VALIDATION:
        evaluated = sorted(path.parent.name for path in (run.folder / EVALUATION).glob(f"*/{REPORT}"))
        if name in evaluated:
            folder = run.evaluation_folder(name)
            files = ", ".join(EvaluationReport.load(folder / REPORT).data.get("files", []))
            raise DataError(
                f"{folder}: its rows are from files of their own ({files}); name them too: --data FILE --part {name}"
            )
        known = list(dict.fromkeys([VALIDATION, TRAIN, *evaluated]))
        raise DataError(
            f"no split {name!r} of {run.folder}; there are {', '.join(known)}{nearest(name, known)}; give other rows "
            "with --data FILE"
        )
    return run.read_rows()


# ------------------------------------------------------------------------------------- a model without a run


def evaluate_model(
    model: str | Path,
    task: str,
    rows: RowSequence,
    *,
    train: RowSequence | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    device: str = "cpu",
    baselines: bool = True,
    by: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate a model without a run folder of ours: a folder, or a name on the Hub.

    Args:
        task: of `glassformer train`
        columns: role → column
        options: of the task, such as {"max_tokens": 128}
        evaluation: of the evaluation
        train: training rows of the baselines
        others: as in `TrainedRun.evaluate`
    Raises: as `TrainedRun.evaluate`.
    """
    check_evaluates(task)
    own = trained_task(model, task, columns, options, device=device)
    if by is not None:
        check_group_column(rows, by)
    check_unused_columns(rows, own.columns, [*ignore, *([] if by is None else [by])])
    return evaluate(
        task,
        own.for_evaluation(**(evaluation or {})),
        rows,
        train=train,
        name=as_path(model, "model").name,
        files=file_names(rows),
        baselines=baselines,
        by=by,
        progress=progress,
        advice=LEARN_OTHERWISE if isinstance(own, ScoredClassification) else TRAIN_LONGER,
    )


def trained_task(
    model: str | Path | Model,
    task: str,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    **loading: Any,
) -> Task:
    """The task of a model without a run, which is loaded if it is named.

    Args:
        columns: role → column
        options: of the task
        loading: options of `load`
    Raises: WeightsError: it has no head for the task. ConfigError: an option of the task that there is not.
    """
    kind: Any = task_class(task)
    given = parse_task_options(kind, options or {})
    if kind is Classify and (folder := scorer_folder(model)) is not None:
        scorer = TextScorer.load(folder, **loading)
        return ScoredClassification(scorer, columns=columns, separator=given.get("separator"))
    loaded = model if isinstance(model, Model) else load_trained_model(model, task, **loading)
    own: Task = kind(loaded, columns=columns or None, **given)
    return own


def check_network(model: str | Path) -> None:
    """Raises: UnsupportedError: a classifier of few labels that is no network."""
    if scorer_folder(model) is not None:
        raise UnsupportedError(
            f"{model}: holds a classifier of a method of few labels, which is no network: it predicts and is "
            "evaluated, and cannot be measured or changed as one"
        )


def load_trained_model(model: str | Path, task: str, device: str = "cpu", **loading: Any) -> Model:
    """Load a model with the trained head of a task. Raises: WeightsError: it has none, or not all of it."""
    loaded = load(model, task=task_class(task).HEAD, device=device, **loading)
    if new := loaded.report.new_in_head:
        raise WeightsError(
            f"{model}: holds no head for the task {task!r} ({', '.join(new[:3])} would be random, and with it "
            "every prediction); use a model that was trained for it"
        )
    return loaded


def evaluation_name(file: str) -> str:
    """The name of an evaluation on a file: `test` for test.csv.gz; never that of the validation rows of the run."""
    name = Path(file).name
    stem = name.partition(".")[0]
    return name if stem in ("", VALIDATION) else stem


AUDIO = (".wav", ".flac", ".mp3", ".m4a", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".webm")


def heard_rows(run: str, options: ListeningOptions) -> tuple[Task, RowSequence]:
    """The task with its model, and the rows that `Task.listen` is for: a random sample, as many as options say.

    Args:
        run: its folder; with a task, a model's folder or name on the Hub
    Raises: ConfigError: no run, and no task. Else as `open_run` and `read_rows`.
    """
    task, rows = _task_and_rows(run, options)
    return task, sample_rows(rows, count=options.rows, seed=options.seed)


def _task_and_rows(run: str, options: ListeningOptions) -> tuple[Task, RowSequence]:
    reading = None if options.format is None else dict(options.format)
    if options.task is None:
        if not Path(run, CONFIG).is_file():
            problem = no_run(run, "is no run") if Path(run).exists() else f"{run}: is no run"
            raise ConfigError(f"{problem}; give the task of the model, such as task= reconstruct")
        opened = open_run(run, device=options.device)
        task = opened.task
        return task, _audio_rows(task, options) or opened.read_rows(list(options.data) or None, format=reading)
    kind = task_class(options.task)
    task = kind(load_trained_model(run, options.task, options.device or "cpu"))
    if options.data:
        return task, _audio_rows(task, options) or read_rows(list(options.data), **(reading or {}))
    raise ConfigError(f"{run} is no run, so it has no rows of its own; give sounds to listen to: data= FILE.wav")


def _audio_rows(task: Task, options: ListeningOptions) -> RowSequence | None:
    """The rows of `data`, where it names audio files."""
    files = options.data
    if not files or not all(name.lower().endswith(AUDIO) for name in files):
        return None
    column = task.columns.get("file") or task.columns["source"]  # of pairs, what is converted
    return read_rows([{column: name} for name in files])
