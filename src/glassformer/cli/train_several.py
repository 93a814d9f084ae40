"""Several runs of `glassformer train`, one after the other: of several seeds, or those of one configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError
from glassformer.progress import progress_bar

if TYPE_CHECKING:
    from glassformer.evaluation.compare.seeds import SeedSummary
    from glassformer.evaluation.evaluate import EvaluationReport
    from glassformer.runs.config import RunConfig


def train_seeds(
    config: RunConfig, seeds: str, run: Callable[[RunConfig], Any], *, fresh: bool, quiet: bool
) -> SeedSummary:
    """Train into OUTPUT/seed-0, OUTPUT/seed-1, …, skipping finished runs; then evaluate and summarise them.

    Args: run: trains one run, given its configuration
    Raises: ConfigError: invalid seeds, several processes, or a folder that holds a single run already.
    """
    from glassformer.evaluation.compare.seeds import parse_seeds, summarise_seeds
    from glassformer.runs.folder import CONFIG, seed_folder

    numbers = parse_seeds(seeds)
    _check_one_process("--seeds trains several runs one after the other, in one process; with torchrun, give --seed")
    if (Path(config.output) / CONFIG).is_file():
        raise ConfigError(f"{config.output}: holds a run of a single seed already; choose another folder")
    for number in numbers:
        folder = seed_folder(config.output, number)
        run_config = replace(config, output=str(folder), training=replace(config.training, seed=number))
        if not quiet:
            print(f"seed {number}, in {folder}", file=sys.stderr)
        if fresh or not is_finished(folder, run_config):
            run(run_config)
    with progress_bar("evaluating", None) as progress:
        return summarise_seeds(config.output, progress)


def train_runs(
    configs: Mapping[str, RunConfig],
    run: Callable[[RunConfig], dict[str, Any]],
    *,
    evaluate: bool,
    fresh: bool,
    quiet: bool,
) -> dict[str, dict[str, Any]]:
    """Train the runs of one configuration, skipping finished ones; the facts of each, by its name.

    Args: run: trains one run, given its configuration · evaluate: one without a report is not finished
    Raises: ConfigError: several processes.
    """
    _check_one_process("a configuration of several runs trains them one after the other, in one process")
    results = {}
    for number, (name, config) in enumerate(configs.items(), 1):
        finished = None if fresh else finished_facts(config, evaluated=evaluate)
        if not quiet:
            state = "" if finished is None else ": finished already"
            print(f"{name}, {number} of {len(configs)}, in {config.output}{state}", file=sys.stderr)
        results[name] = run(config) if finished is None else finished
    return results


def finished_facts(config: RunConfig, *, evaluated: bool) -> dict[str, Any] | None:
    """What a run was finished with: steps, metrics, its report; None where it is unfinished, or not evaluated yet."""
    from glassformer.evaluation.evaluate import REPORT, EvaluationReport
    from glassformer.evaluation.runs import open_run
    from glassformer.runs.history import read_run
    from glassformer.tasks.base import task_class

    folder = Path(config.output)
    if not is_finished(folder, config):
        return None
    run, report = open_run(folder), None
    if run.is_evaluated():
        report = EvaluationReport.load(run.evaluation_folder() / REPORT)
    elif evaluated and config.data.validation is not None and task_class(config.task).EVALUATION is not None:
        return None
    history = read_run(folder)
    return run_facts(config, history.last, history.best, history.best_metrics(), report)


def run_facts(
    config: RunConfig,
    steps: int,
    best_step: int | None,
    metrics: Mapping[str, float],
    report: EvaluationReport | None,
) -> dict[str, Any]:
    """The facts of a trained run, as `--json` prints them."""
    comparison = {} if report is None else {"comparison": report.card_comparison()}
    return {"folder": config.output, "steps": steps, "best_step": best_step, "metrics": dict(metrics), **comparison}


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds a finished run of exactly this configuration."""
    from glassformer.runs.folder import CONFIG, run_config
    from glassformer.runs.history import read_run

    # Compared as values: a saved option may be a float that was typed as a whole number.
    saved = folder / CONFIG
    return saved.is_file() and run_config(saved) == config and read_run(folder).ended


def _check_one_process(message: str) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(message)
