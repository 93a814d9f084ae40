"""Evaluation by options: of a run, of the runs of several seeds, or of a model that is no run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from glassformer.data.options import ReadingOptions
from glassformer.data.rows import is_data_set, read_rows
from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError
from glassformer.evaluation.compare.seeds import SeedSummary, summarise_seeds
from glassformer.evaluation.evaluate import Evaluation
from glassformer.evaluation.groups import group_names, metrics_by_group
from glassformer.evaluation.options import EvaluationRequest, RowOptions
from glassformer.evaluation.runs import (
    VALIDATION,
    EvaluatedSplit,
    evaluate_model,
    evaluated_split,
    evaluation_name,
    open_run,
)
from glassformer.progress import Bar, no_bar
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import seed_folders
from glassformer.tasks.base import check_evaluates


def evaluate_by_options(run: str, options: EvaluationRequest, bar: Bar = no_bar) -> tuple[Evaluation, Path | None]:
    """Evaluate a run, or with a task a model; with the folder of the run to save the evaluation in.

    Args:
        run: its folder; with a task, a model's folder or name on the Hub
        bar: shows progress, such as `glassformer.progress.progress_bar`
    Raises: ConfigError: no run; see `TrainedRun.evaluate` and `evaluate_model`.
    """
    return _of_run(run, options, bar) if options.task is None else (_of_model(run, options.task, options, bar), None)


def evaluate_seeds(run: str, options: EvaluationRequest, bar: Bar = no_bar) -> SeedSummary:
    """Evaluate the runs of several seeds, each of which is saved; mean and standard deviation of their metrics.

    Raises: ConfigError: `by` is of one run.
    """
    folders, name = seed_folders(run), None
    if options.by is not None:
        raise ConfigError(f"by= is of one run, and {run} has {len(folders)} seeds; name one: {folders[0]}")
    for folder in folders if options.data or options.limit is not None else []:
        evaluation, saved = _of_run(str(folder), options, bar)
        evaluation.save(saved)
        name = saved.name
    with bar("evaluating", None) as progress:
        return summarise_seeds(run, progress, name)


def evaluated_rows(
    run: Path,
    options: RowOptions,
    by: str | None = None,
    notify: Callable[[str], None] = lambda message: None,
    progress: Callable[[int, int], None] = lambda done, of: None,
    *,
    reading: ReadingOptions | None = None,
) -> EvaluatedSplit:
    """Rows of a run with their predictions, evaluated now where they are missing.

    Args:
        by: a column that groups rows: their metrics are in the report, and the model is not asked again
        notify, progress: see `evaluated_split`
        reading: how the files of `data` are read; None, or no option = as those of the run
    Raises: DataError: there is no such split or column. ConfigError: no run; `reading` without files.
    """
    ignored = [*_ignored(options, reading.kind if reading else None), *([] if by is None else [by])]
    opened = open_run(run, columns=dict(options.columns), ignore=ignored)
    if reading is not None and (format := reading.keywords()):
        if not options.data:
            raise ConfigError(f"{next(iter(format))}= is of the files of data=; give data= too")
        opened = replace(opened, format=format)
    split = evaluated_split(opened, options.part, list(options.data) or None, notify, progress)
    if by is None:
        return split
    names = group_names(split.rows(), by)
    groups = metrics_by_group(split.run.task_for_evaluation(), split.records, by, names, shown=None)
    return replace(split, report=replace(split.report, groups=groups))


def _of_run(folder: str, options: EvaluationRequest, bar: Bar) -> tuple[Evaluation, Path]:
    if not Path(folder, "config.yaml").is_file() and Path(folder, "config.json").is_file():
        raise ConfigError(
            f"{folder}: is a model, not a run; give its task and the test data: --task classify --data FILE"
        )
    kind = (options.format or {}).get("kind")
    run = open_run(folder, columns=dict(options.columns), ignore=_ignored(options, kind), device=options.device)
    check_evaluates(run.config.task)
    data = list(options.data)
    all_rows = run.read_rows(data or None, format=options.format)
    rows = _sample(all_rows, options)
    own = not data and len(rows) == len(all_rows)
    saved_in = run.evaluation_folder(
        options.name or (VALIDATION if own else evaluation_name(data[0]) if data else f"{VALIDATION}-{len(rows)}")
    )
    with bar("evaluating", len(rows)) as advance:
        evaluation = run.evaluate(
            None if own else rows,
            baselines=options.baselines,
            by=options.by,
            progress=advance,
            **options.part("evaluation"),
        )
        return evaluation, saved_in


def _of_model(model: str, task: str, options: EvaluationRequest, bar: Bar) -> Evaluation:
    reading = dict(options.format or {})
    rows = _sample(read_rows(list(options.data), **reading), options)
    training_rows = read_rows(list(options.train), **reading) if options.train else None
    with bar("evaluating", len(rows)) as advance:
        return evaluate_model(
            model,
            task,
            rows,
            train=training_rows,
            columns=options.columns,
            ignore=_ignored(options, reading.get("kind")),
            options=options.part("task_options"),
            evaluation=options.part("evaluation"),
            device=options.device or "cpu",
            baselines=options.baselines,
            by=options.by,
            progress=advance,
        )


def _ignored(options: EvaluationRequest | RowOptions, kind: object) -> list[str]:
    """The columns to ignore; of a published data set all that the task does not read."""
    return [*options.ignore, *(["*"] if is_data_set(kind) else [])]


def _sample(rows: RowSequence, options: EvaluationRequest) -> RowSequence:
    return sample_rows(rows, count=options.limit, seed=options.seed)
