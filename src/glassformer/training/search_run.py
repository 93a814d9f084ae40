"""Hyperparameter search of a configuration: each trial is a training run with some of its values changed.

configuration ── `search`: space ──> trials ──> trials.json, trials.html, best.yaml
      └── all other keys, with the settings of a trial in place of theirs ──> a run, whose folder is deleted afterwards
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import atomic_file, disk_errors, remove_folder
from glassformer.files.lock import FolderLock
from glassformer.files.schema import parse
from glassformer.runs.config import parse_config
from glassformer.runs.folder import RESULTS, read_config
from glassformer.runs.options import SearchOptions, SearchPlan, set_value, with_values
from glassformer.runs.several import refuse_runs
from glassformer.runs.unfinished import ProgressFile
from glassformer.tasks.metrics.metric import greater_is_better
from glassformer.tasks.registry import task_class
from glassformer.training.callbacks import Callback
from glassformer.training.run import make_trainer
from glassformer.training.search import TrialCallback, search
from glassformer.training.trials import SearchResult, Trial


def search_config(
    config: Path,
    options: SearchOptions,
    *,
    callbacks: Callable[[], Sequence[Callback]] = tuple,
    progress: Callable[[Trial, str], None] = lambda trial, metric: None,
) -> SearchResult:
    """Search, and save the results and the configuration of the best trial into the output folder.

    Args:
        callbacks: makes those of the trainer of each trial
        progress: called with each trial that is done, and the metric to optimise
    Raises: ConfigError: no section `search`, no validation data, several runs; see `search`.
    """
    values = read_config(config)
    if "search" not in values:
        raise ConfigError(
            f"{config}: a search needs a section `search` with the settings to vary, such as "
            "search: {space: {training.learning_rate: [1.0e-5, 1.0e-4]}}; to train once: glassformer train"
        )
    plan = parse(SearchPlan, values.pop("search", None) or {}, "search")
    folder = options.folder(values)
    refuse_runs(values, "a search")
    if options.data is not None:
        set_value(values, "data.folder", options.data)
    base = parse_config({**values, "output": str(folder)})
    if base.data.validation is None:
        raise ConfigError(
            "a search compares trials on validation data; give data.validation: files, or a fraction such as 0.1"
        )
    metric = plan.metric or base.training.metric or task_class(base.task).VALIDATION_METRIC
    values["training"] = {**values.get("training", {}), "metric": metric}
    folder.mkdir(parents=True, exist_ok=True)

    def run_trial(settings: dict[str, Any], trial: TrialCallback) -> Mapping[str, float]:
        run = folder / f"trial-{trial.number}"
        return _run_trial(with_values(values, settings), run, [trial, *callbacks()], plan.keep_models)

    file = ProgressFile(folder, "trial", trials := options.trials or plan.trials)
    with FolderLock(folder / "lock"):
        results = search(
            run_trial,
            plan.space,
            metric=metric,
            direction="maximize" if greater_is_better(metric) else "minimize",
            trials=trials,
            storage=folder / "trials.log",
            seed=base.training.seed,
            progress=lambda trial: progress(trial, metric),
            begins=lambda so_far: _begin(file, so_far),
        )
        file.end()
        # A killed search leaves the folder of the trial that it was at; where that trial is not wanted any more, here.
        _remove(folder / f"trial-{len(results.trials)}")
    results.write(folder)
    if results.best is not None:
        with atomic_file(folder / "best.yaml") as stream:
            best = with_values(values, results.best.settings)
            stream.write(yaml.safe_dump(best, sort_keys=False).encode())
    return results


def _begin(file: ProgressFile, so_far: SearchResult) -> None:
    """Before a trial: write the results so far, and which it is."""
    so_far.save(file.path.with_name(RESULTS["trial"]))
    file.begin(f"trial {len(so_far.trials)}", len(so_far.trials))


def _run_trial(
    values: Mapping[str, Any], folder: Path, callbacks: Sequence[Callback], keep: bool
) -> Mapping[str, float]:
    """Train one trial from its start; its folder is deleted afterwards, unless models are kept."""
    _remove(folder)
    try:
        trainer = make_trainer(parse_config({**values, "output": str(folder)}), callbacks)
        return trainer.train().metrics
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove the folder of a trial that was interrupted. Raises: DataError: the system refuses."""
    with disk_errors(folder, DataError, remains="remove this folder of an interrupted trial, and search again"):
        remove_folder(folder)
