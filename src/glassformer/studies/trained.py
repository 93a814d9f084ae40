"""Train runs and evaluate them at their end: one, those of one configuration, or those of several seeds.

train_run     train or resume ─> curves ─> evaluation of the best model, next to baselines ─> model card
train_runs    the runs of one configuration, in their order; finished ones are not trained again
train_seeds   one configuration with several seeds: OUTPUT/seed-0, OUTPUT/seed-1, …
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, MissingExtraError
from glassformer.evaluation.compare.seeds import SeedSummary, summarise_seeds
from glassformer.evaluation.evaluate import REPORT, EvaluationReport
from glassformer.evaluation.run_page import reports_of_folder
from glassformer.evaluation.runs import open_run
from glassformer.progress import Bar, no_bar
from glassformer.reports.report import Display, Record, SeveralReports
from glassformer.reports.table import scores
from glassformer.runs.config import RunConfig, config_values, run_config
from glassformer.runs.curves import write_page
from glassformer.runs.folder import CONFIG, seed_folder
from glassformer.runs.history import read_run
from glassformer.tasks.registry import task_class
from glassformer.training.card import write_card
from glassformer.training.run import chosen_by, make_trainer
from glassformer.training.trackers import by_name
from glassformer.training.trainer import Trainer

Notify = Callable[[str], None]


@dataclass(frozen=True)
class TrainedResult(Record, SeveralReports, keys=("folder", "steps", "best_step", "metrics", "comparison")):
    """A trained run; at the end of a notebook's cell, its page.

    metrics: of the best validation, at `best_step`
    report: of its evaluation, if there is one
    """

    folder: str
    steps: int
    best_step: int | None
    metrics: Mapping[str, float]
    report: EvaluationReport | None = None

    def reports(self) -> Sequence[Display]:
        """As the page of the run has them."""
        return reports_of_folder(Path(self.folder))

    @property
    def comparison(self) -> Any:
        """Metrics of the model and of baselines, as its card has them."""
        return None if self.report is None else self.report.card_comparison()


def configured_trainer(config: RunConfig) -> Trainer:
    """The trainer of a run, with its data and model read, and the trackers that it names."""
    return make_trainer(config, list(by_name(config.trackers)) if config.trackers else [])


def train_run(
    config: RunConfig,
    trainer: Trainer,
    *,
    resume: bool = True,
    evaluate: bool = True,
    notify: Notify = lambda message: None,
    bar: Bar = no_bar,
) -> TrainedResult:
    """Train or resume a run, evaluate it, and write training curves and a model card into its folder.

    Args:
        trainer: that of `configured_trainer`
        notify: called with messages: why there is no evaluation
        bar: shows progress of the evaluation, such as `glassformer.progress.progress_bar`
    Raises: see `Trainer.train`.
    """
    is_main = trainer.distributed.is_main
    if evaluate and is_main and config.data.validation is not None and trainer.task.EVALUATION is not None:
        try:  # before a long training, not after it
            trainer.task.for_evaluation(**config.evaluation)
        except MissingExtraError as error:
            notify(f"no report after the training: {error}")
    result = trainer.train(resume=resume)
    trainer.distributed.close()
    report = None
    if is_main:
        folder = Path(config.output)
        config = trainer.config or config  # the effective one, as its file has it: nothing reads that again
        write_page(folder, folder / "curves.html", config_values(config))
        try:
            report = evaluated_at_end(config, notify, bar) if evaluate else None
        finally:  # the model card is written even if Ctrl-C ends a long evaluation of baselines
            write_card(trainer, folder / "model", comparison=None if report is None else report.card_comparison())
    return TrainedResult(config.output, result.steps, result.best_step, result.metrics, report)


def evaluated_at_end(config: RunConfig, notify: Notify, bar: Bar) -> EvaluationReport | None:
    """Evaluate a run on its validation data, and save the report; an up-to-date report is read instead."""
    if config.data.validation is None:
        return None
    if task_class(config.task).EVALUATION is None:
        notify(f"the task {config.task} has no evaluation: no baselines besides its validation metrics")
        return None
    run, report = open_run(config.output, config=config), None
    try:
        if run.is_evaluated():
            return EvaluationReport.load(run.evaluation_folder() / REPORT)
        with bar("evaluating", len(run.read_rows())) as advance:
            evaluation = run.evaluate(progress=advance)
        report = evaluation.report
        evaluation.save(run.evaluation_folder())
    except GlassformerError as error:  # training is done, so a failing evaluation is only a warning
        what = "could not be evaluated" if report is None else "its evaluation could not be saved"
        notify(f"the model is trained, but {what}: {error}")
    return report


def saved_sentence(result: TrainedResult, trainer: Trainer) -> str:
    """Where the model is, how good it is, and by which metric it was chosen."""
    best = f"step {result.steps:,}, the last"
    if result.best_step is not None:
        # A report has said how good it is.
        metrics = f": {', '.join(scores(dict(result.metrics)))}" if result.report is None else ""
        best = f"step {result.best_step:,}, the best by {trainer.metric if metrics else chosen_by(trainer)}{metrics}"
    return f"saved in {result.folder}: the model of {best}"


def train_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    run: Callable[[RunConfig], object],
    *,
    fresh: bool = False,
    notify: Notify = lambda message: None,
    bar: Bar = no_bar,
) -> SeedSummary:
    """Train into OUTPUT/seed-0, OUTPUT/seed-1, …, skipping finished runs; then evaluate and summarise them.

    Args:
        run: trains one run, given its configuration
        notify: called with which seed is next
        bar: shows progress of the evaluations, such as `glassformer.progress.progress_bar`
    Raises: ConfigError: several processes, or a folder that holds a single run already.
    """
    _check_one_process("seeds= trains several runs one after the other, in one process; with torchrun, give --seed")
    if (Path(config.output) / CONFIG).is_file():
        raise ConfigError(f"{config.output}: holds a run of a single seed already; choose another folder")
    for number in seeds:
        folder = seed_folder(config.output, number)
        one = replace(config, output=str(folder), training=replace(config.training, seed=number))
        notify(f"seed {number}, in {folder}")
        if fresh or not is_finished(folder, one):
            run(one)
    with bar("evaluating", None) as progress:
        return summarise_seeds(config.output, progress)


def train_runs(
    configs: Mapping[str, RunConfig],
    run: Callable[[RunConfig], TrainedResult],
    *,
    evaluate: bool = True,
    fresh: bool = False,
    notify: Notify = lambda message: None,
) -> dict[str, TrainedResult]:
    """Train the runs of one configuration, skipping finished ones; the result of each, by its name.

    Args:
        run: trains one run, given its configuration
        evaluate: one without a report is not finished
    Raises: ConfigError: several processes.
    """
    _check_one_process("a configuration of several runs trains them one after the other, in one process")
    results = {}
    for number, (name, config) in enumerate(configs.items(), 1):
        finished = None if fresh else finished_result(config, evaluated=evaluate)
        state = "" if finished is None else ": finished already"
        notify(f"{name}, {number} of {len(configs)}, in {config.output}{state}")
        results[name] = run(config) if finished is None else finished
    return results


def finished_result(config: RunConfig, *, evaluated: bool) -> TrainedResult | None:
    """The result of a finished run; None where it is unfinished, or not evaluated yet."""
    folder = Path(config.output)
    if not is_finished(folder, config):
        return None
    run, report = open_run(folder), None
    if run.is_evaluated():
        report = EvaluationReport.load(run.evaluation_folder() / REPORT)
    elif evaluated and config.data.validation is not None and task_class(config.task).EVALUATION is not None:
        return None
    history = read_run(folder)
    return TrainedResult(config.output, history.last, history.best, history.best_metrics(), report)


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds a finished run of exactly this configuration."""
    # Compared as values: a saved option may be a float that was typed as a whole number.
    saved = folder / CONFIG
    if config.method is not None:  # learned in minutes, and without a log
        return False
    return saved.is_file() and run_config(saved) == config and read_run(folder).ended


def _check_one_process(message: str) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(message)
