"""`glassformer train CONFIG`, or `glassformer train --task classify --model FOLDER --data my.csv`: training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import DATA, Columns, Options, command, option, pair_of, value_of
from glassformer.cli.screen import note, notes, print_facts, print_json
from glassformer.cli.train_screen import few_steps_note, next_commands, show_end, summary
from glassformer.cli.train_several import run_facts, train_runs, train_seeds
from glassformer.errors import ConfigError, GlassformerError, MissingExtraError
from glassformer.progress import hidden, is_first_process, progress_bar, spinner
from glassformer.runs import KEYS
from glassformer.runs.options import set_value

if TYPE_CHECKING:
    from glassformer.evaluation.evaluate import EvaluationReport
    from glassformer.runs.config import RunConfig
    from glassformer.training.trainer import Trainer

OPTIMISATION, RUN = "Optimisation", "Run"
ONLY = ""
"""The name of the run of a configuration that has one."""

ConfigFile = Annotated[
    Path | None,
    typer.Argument(help="Configuration file (YAML); options on the command line override it.", show_default=False),
]


def configured(key: str, *names: str, panel: str | None = None, default: Any = None) -> Any:
    """An option that overrides a key of the configuration."""
    return option(default, KEYS[key], *names, panel=panel, key=key)


@dataclass(frozen=True, kw_only=True)
class Overrides(Columns):
    """Values of the configuration; the key of each is its path there."""

    task: str | None = configured("task", "--task", "-t")
    model: str | None = configured("model", "--model", "-m")
    data: list[str] | None = configured("data.train", "--data", "-d", panel=DATA)
    validation: str | None = configured("data.validation", "--validation", "-v", panel=DATA)
    epochs: float | None = configured("training.epochs", panel=OPTIMISATION)
    steps: int | None = configured("training.steps", panel=OPTIMISATION)
    learning_rate: float | None = configured("training.learning_rate", "--learning-rate", "--lr", panel=OPTIMISATION)
    batch_size: int | None = configured("training.batch_size", panel=OPTIMISATION)
    precision: str | None = configured("training.precision", panel=OPTIMISATION)
    seed: int | None = configured("training.seed", panel=OPTIMISATION)
    set: list[str] | None = option(
        None,
        "Any configuration value, by its path: training.warmup=100, task_options.block=256; repeatable.",
        panel=OPTIMISATION,
    )
    device: str | None = configured("device", panel=OPTIMISATION)
    output: str | None = configured("output", "--output", "-o", panel=RUN)
    tracker: list[str] | None = configured("trackers", panel=RUN)
    dry_run: bool = configured("training.dry_run", panel=RUN, default=False)

    def apply(self, values: dict[str, Any]) -> None:
        """Override values of a configuration with the options that were given."""
        given = self.given()
        columns, settings, ignore = (given.pop(name, None) for name in ("column", "set", "ignore"))
        if ignore is not None:
            given["data.ignore"] = ignore
        if self.data is not None and len(self.data) == 1:
            known = values.get("data")
            in_a_folder = isinstance(known, dict) and bool(known.get("fetch") or known.get("folder"))
            given.pop("data.train")
            given["data.folder" if in_a_folder and Path(self.data[0]).is_dir() else "data.train"] = self.data[0]
        if self.validation is not None:
            given["data.validation"] = value_of(self.validation)
        for path, value in given.items():
            set_value(values, path, value)
        for argument in columns or ():
            role, name = pair_of(argument, "--column")
            set_value(values, f"data.columns.{role}", name)
        for argument in settings or ():
            path, text = pair_of(argument, "--set")
            set_value(values, path, value_of(text))
        if self.model is not None:
            values.pop("scratch", None)


@dataclass(frozen=True, kw_only=True)
class RunFlags(Options):
    """What is done around the training, and what is shown."""

    seeds: str | None = option(
        None,
        "Random seeds of several runs, one after the other: how many, or a list: 0,1,2.",
        panel=OPTIMISATION,
    )
    evaluate: bool = option(
        True,
        "After training, evaluate the best model on the validation data, beside baselines.",
        "--evaluate/--no-evaluate",
        panel=RUN,
    )
    show: bool = option(False, "Print the effective configuration, and exit.", panel=RUN)
    fresh: bool = option(False, "Do not resume: an error if the folder holds a run already.", panel=RUN)
    quiet: bool = option(False, "Quiet: no progress bar.", "--quiet", "-q", panel=RUN)
    json: bool = option(False, "Print the result as JSON.", panel=RUN)


@command
def train(config: ConfigFile = None, *, overrides: Overrides, flags: RunFlags) -> None:
    """Train or fine-tune a model on your data.

    The run folder holds the effective configuration (config.yaml), checkpoints, an event log, training curves, and the
    best model, which is evaluated at the end on the validation data, beside baselines. The same command resumes an
    interrupted run, bit for bit; Ctrl-C finishes the step and saves a checkpoint.

    Exit codes: 0 done · 2 an error to correct · 3 the loss is NaN or infinite · 75 interrupted and saved

    Examples:

    [cyan]glassformer train -t classify -m MODEL -d mood.csv -v 0.1 -o runs/mood[/]  a tenth held out for validation

    [cyan]glassformer train mood.yaml --set training.warmup=100[/]  the configuration with another warm-up

    [cyan]glassformer train runs/mood/config.yaml --output runs/again[/]  the same run once more

    [cyan]glassformer train mood.yaml --seeds 3[/]  three random seeds: mean and standard deviation of the metrics

    [cyan]glassformer train examples/guitar-own.yaml --data recordings/[/]  several runs of one configuration

    [cyan]torchrun --nproc-per-node 2 -m glassformer train mood.yaml[/]  data-parallel training in two processes
    """
    from glassformer.cli.screen import show

    effective = _effective(config, overrides)
    if flags.show:
        from glassformer.runs.config import config_yaml

        print("---\n".join(map(config_yaml, effective.values())), end="")
        return
    quiet = flags.quiet or flags.json
    run = partial(_run, resume=not flags.fresh, quiet=quiet)
    if flags.seeds is not None:
        with notes():
            each = partial(run, evaluate=flags.evaluate)
            summary = train_seeds(_only(effective), flags.seeds, each, fresh=flags.fresh, quiet=quiet)
        show(summary, flags.json)
        return
    evaluate = flags.evaluate and not overrides.dry_run
    one = partial(_train_and_show, partial(run, evaluate=evaluate), quiet=quiet)
    if ONLY in effective:
        results: Any = one(effective[ONLY])
    else:
        results = train_runs(effective, one, evaluate=evaluate, fresh=flags.fresh, quiet=quiet)
    if flags.json and is_first_process():
        print_json(results, indent=None)


def _train_and_show(
    run: Callable[[RunConfig], tuple[dict[str, Any], EvaluationReport | None, list[str]]],
    config: RunConfig,
    *,
    quiet: bool,
) -> dict[str, Any]:
    """Train one run, and print its report and what comes next; its facts."""
    from glassformer.cli.screen import show

    with notes():
        result, report, commands = run(config)
    if not quiet and is_first_process():
        if report is not None:
            show(report, json=False)
        show_end(config, result, commands)
    return result


def _effective(config: Path | None, overrides: Overrides) -> dict[str, RunConfig]:
    """The configurations of a file, with what was typed instead, by the names of the runs: of one, `ONLY`."""
    with spinner("starting"):
        from glassformer.runs.config import parse_config
        from glassformer.runs.folder import read_config
        from glassformer.runs.several import RUNS, split_runs

    values = {} if config is None else read_config(config)
    if "study" in values:
        raise ConfigError(f"{config} describes a study of several runs: glassformer study {config}")
    if RUNS not in values:
        overrides.apply(values)
        needed = {"task": "--task classify", "data": "--data rows.csv"}
        if missing := [example for name, example in needed.items() if name not in values]:
            raise ConfigError(
                f"add {' and '.join(missing)}, or name a configuration file; see `glassformer train --help`"
            )
        return {ONLY: parse_config({"output": f"runs/{values.get('task')}", **values})}
    if overrides.output is not None:
        values["output"] = overrides.output  # of the folder that holds them all
    runs = split_runs(values)
    for own in runs.values():
        replace(overrides, output=None).apply(own)
    return {name: _parsed_run(name, own) for name, own in runs.items()}


def _parsed_run(name: str, values: dict[str, Any]) -> RunConfig:
    """The configuration of one run of several. Raises: ConfigError: it is none, with the name of the run."""
    from glassformer.runs.config import parse_config

    try:
        return parse_config(values)
    except ConfigError as error:
        raise ConfigError(f"runs.{name}: {error}") from error


def _only(configs: dict[str, RunConfig]) -> RunConfig:
    """The one run of a configuration. Raises: ConfigError: it has several."""
    if ONLY not in configs:
        raise ConfigError(f"--seeds repeats one run; this configuration has {len(configs)}: {', '.join(configs)}")
    return configs[ONLY]


def _run(
    config: RunConfig, *, resume: bool, quiet: bool, evaluate: bool
) -> tuple[dict[str, Any], EvaluationReport | None, list[str]]:
    """Train, evaluate, and write training curves and a model card into the run folder."""
    with hidden(quiet), spinner("reading the data, loading the model", logged=20):
        from glassformer.runs.curves import write_page
        from glassformer.training.callbacks import Callback, Progress
        from glassformer.training.card import write_card
        from glassformer.training.run import make_trainer

        callbacks: list[Callback] = []
        if config.trackers:
            from glassformer.training.trackers import by_name

            callbacks += by_name(config.trackers)
        trainer = make_trainer(config, callbacks)
    _check_evaluation(config, trainer, wanted=evaluate and trainer.distributed.is_main)
    if not quiet:

        class Opening(Progress):
            """Shows what is trained, on what and for how long, before the first step."""

            def on_begin(self, trainer: Trainer) -> None:
                from rich.console import Console

                print_facts(summary(config, trainer), Console(stderr=True, highlight=False))
                if (few := few_steps_note(trainer)) is not None:
                    note(few)
                super().on_begin(trainer)

        trainer.callbacks.insert(1, Opening())  # after the configuration is saved
    result = trainer.train(resume=resume)
    trainer.distributed.close()
    report = None
    if trainer.distributed.is_main:
        write_page(Path(config.output), Path(config.output) / "curves.html")
        try:
            report = _evaluate_run(config, quiet) if evaluate else None
        finally:  # the model card is written even if Ctrl-C ends a long evaluation of baselines
            write_card(
                trainer,
                Path(config.output) / "model",
                comparison=None if report is None else report.card_comparison(),
            )
    facts = run_facts(config, result.steps, result.best_step, result.metrics, report)
    return facts, report, next_commands(config, trainer, evaluated=report is not None)


def _check_evaluation(config: RunConfig, trainer: Trainer, *, wanted: bool) -> None:
    """Say before a long training, not after it, that the packages of its metrics are missing."""
    if not wanted or config.data.validation is None or trainer.task.EVALUATION is None:
        return
    try:
        trainer.task.for_evaluation(**config.evaluation)
    except MissingExtraError as error:
        note(f"no report after the training: {error}")


def _evaluate_run(config: RunConfig, quiet: bool) -> EvaluationReport | None:
    """Evaluate a run on its validation data, and save the report; an up-to-date report is read instead."""
    from glassformer.evaluation.evaluate import REPORT, EvaluationReport
    from glassformer.evaluation.runs import open_run
    from glassformer.tasks.base import task_class

    if config.data.validation is None:
        return None
    if task_class(config.task).EVALUATION is None:
        note(f"the task {config.task} has no evaluation: no baselines beside its validation metrics")
        return None
    run, report = open_run(config.output), None
    try:
        if run.is_evaluated():
            return EvaluationReport.load(run.evaluation_folder() / REPORT)
        if not quiet:
            typer.echo("evaluating the best model and baselines", err=True)
        with progress_bar("evaluating", len(run.read_rows())) as advance:
            evaluation = run.evaluate(progress=advance)
        report = evaluation.report
        evaluation.save(run.evaluation_folder())
    except GlassformerError as error:  # training is done, so a failing evaluation is only a warning
        what = "could not be evaluated" if report is None else "its evaluation could not be saved"
        note(f"the model is trained, but {what}: {error}")
    return report
