"""`glassformer train CONFIG`, or `glassformer train --task classify --model FOLDER --data my.csv`: training."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import DATA, ColumnMapping, Ignore, pair_of
from glassformer.cli.screen import counted, notes, print_json
from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from glassformer.evaluation.report import EvaluationReport
    from glassformer.runs.config import RunConfig

OPTIMISATION, RUN = "Optimisation", "Run"

ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        help="Configuration file (YAML); options on the command line override it.", show_default=False
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task", "-t", help="Task: classify, tag, answer, generate, fill, translate, summarise, denoise, …"
    ),
]
BaseModel = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Pretrained model to fine-tune: a folder, or a name on the Hub."),
]
TrainingData = Annotated[
    list[str] | None,
    typer.Option("--data", "-d", help="Training data files; repeatable.", rich_help_panel=DATA),
]
Validation = Annotated[
    str | None,
    typer.Option(
        "--validation",
        "-v",
        help="Validation data: a file, or the fraction of the training data to hold out: 0.1.",
        rich_help_panel=DATA,
    ),
]
Epochs = Annotated[float | None, typer.Option(help="Number of epochs.", rich_help_panel=OPTIMISATION)]
Steps = Annotated[
    int | None,
    typer.Option(help="Number of optimiser steps, instead of epochs.", rich_help_panel=OPTIMISATION),
]
LearningRate = Annotated[
    float | None,
    typer.Option("--learning-rate", "--lr", help="Peak learning rate.", rich_help_panel=OPTIMISATION),
]
BatchSize = Annotated[
    int | None, typer.Option(help="Batch size: examples per optimiser step.", rich_help_panel=OPTIMISATION)
]
TrainingPrecision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="Training precision: fp32, or mixed precision in bf16 or fp16.",
        rich_help_panel=OPTIMISATION,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Random seed.", rich_help_panel=OPTIMISATION)]
Seeds = Annotated[
    str | None,
    typer.Option(
        help="Random seeds of several runs, one after the other: how many, or a list: 0,1,2.",
        rich_help_panel=OPTIMISATION,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        help="Any configuration value, by its path: training.warmup=100, objective.block=256; repeatable.",
        rich_help_panel=OPTIMISATION,
    ),
]
TrainingDevice = Annotated[
    str | None,
    typer.Option("--device", help="Device: cpu, cuda, mps or auto.", rich_help_panel=OPTIMISATION),
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Run folder to write.", rich_help_panel=RUN)
]
Tracker = Annotated[
    list[str] | None,
    typer.Option(help="Experiment tracker: tensorboard, wandb or trackio; repeatable.", rich_help_panel=RUN),
]
Evaluate = Annotated[
    bool,
    typer.Option(
        "--evaluate/--no-evaluate",
        help="After training, evaluate the best model on the validation data, beside baselines.",
        rich_help_panel=RUN,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Dry run: do everything but update the weights.", rich_help_panel=RUN),
]
Show = Annotated[
    bool,
    typer.Option("--show", help="Print the effective configuration, and exit.", rich_help_panel=RUN),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Do not resume: an error if the folder holds a run already.", rich_help_panel=RUN
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Quiet: no progress bar.", rich_help_panel=RUN)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RUN)]


def train(
    config: ConfigFile = None,
    task: TaskName = None,
    model: BaseModel = None,
    data: TrainingData = None,
    validation: Validation = None,
    column: ColumnMapping = None,
    ignore: Ignore = None,
    output: Output = None,
    epochs: Epochs = None,
    steps: Steps = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    precision: TrainingPrecision = None,
    seed: Seed = None,
    seeds: Seeds = None,
    set: Setting = None,
    device: TrainingDevice = None,
    tracker: Tracker = None,
    evaluate: Evaluate = True,
    dry_run: DryRun = False,
    show: Show = False,
    fresh: Fresh = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train or fine-tune a model on your data.

    The run folder holds the effective configuration, checkpoints, an event log, training curves, and the best model,
    which is evaluated at the end on the validation data, beside baselines. The same command resumes an interrupted run,
    bit for bit; Ctrl-C finishes the step and saves a checkpoint.

    Exit codes: 0 done · 2 an error to correct · 3 the loss is NaN or infinite · 75 interrupted and saved

    Examples:

    [cyan]glassformer train -t classify -m MODEL -d mood.csv -v 0.1 -o runs/mood[/]  a tenth held out for validation

    [cyan]glassformer train mood.yaml --set training.warmup=100[/]  the configuration with another warm-up

    [cyan]glassformer train runs/mood/config.yaml --output runs/again[/]  the same run once more

    [cyan]glassformer train mood.yaml --seeds 3[/]  three random seeds: mean and standard deviation of the metrics

    [cyan]torchrun --nproc-per-node 2 -m glassformer train mood.yaml[/]  data-parallel training in two processes
    """
    from glassformer.runs.config import config_yaml, parse_config, read_config

    values = {} if config is None else read_config(config)
    by_path = {
        "task": task, "model": model, "output": output, "device": device, "trackers": tracker,
        "data.train": data[0] if data and len(data) == 1 else data,
        "data.ignore": ignore,
        "data.validation": validation if validation is None else value_of(validation),
        "training.epochs": epochs, "training.steps": steps, "training.learning_rate": learning_rate,
        "training.batch_size": batch_size, "training.precision": precision, "training.seed": seed,
        "training.dry_run": dry_run or None,
    }  # fmt: skip
    _override(values, by_path, column or [], set or [])
    if model is not None:
        values.pop("scratch", None)
    effective = parse_config({"output": f"runs/{values.get('task')}", **values})
    if show:
        print(config_yaml(effective), end="")
        return
    if seeds is not None:
        from glassformer.cli.train_seeds import train_seeds

        run = partial(_run, evaluate=evaluate)
        train_seeds(effective, seeds, run, fresh=fresh, quiet=quiet or json, json=json)
        return
    with notes():
        result, report = _run(
            effective, resume=not fresh, quiet=quiet or json, evaluate=evaluate and not dry_run
        )
    if json:
        print_json(result, indent=None)
    elif report is not None and not quiet:
        from glassformer.cli import report_screen

        report_screen.show(report)


def _override(
    values: dict[str, Any], by_path: dict[str, Any], columns: list[str], settings: list[str]
) -> None:
    """Override values of a configuration with the options of the command line."""
    for path, value in by_path.items():
        if value is not None:
            put(values, path, value)
    for argument in columns:
        role, name = pair_of(argument, "--column")
        put(values, f"data.columns.{role}", name)
    for argument in settings:
        path, text = pair_of(argument, "--set")
        put(values, path, value_of(text))


def _run(
    config: RunConfig, *, resume: bool, quiet: bool, evaluate: bool
) -> tuple[dict[str, Any], EvaluationReport | None]:
    """Train, evaluate, and write training curves and a model card into the run folder."""
    from glassformer.runs.config import config_yaml
    from glassformer.runs.curves import write_page
    from glassformer.training.card import write_card
    from glassformer.training.progress import Progress
    from glassformer.training.run import make_trainer
    from glassformer.training.trackers import by_name

    trainer = make_trainer(config, [*([] if quiet else [Progress()]), *by_name(config.trackers)])
    if trainer.distributed.is_main and not quiet:
        print(config_yaml(config), file=sys.stderr)
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
                beside=None if report is None else report.card_comparison(),
            )
    facts = {
        "folder": config.output,
        "steps": result.steps,
        "best_step": result.best_step,
        "figures": result.metrics,
        **({} if report is None else {"beside": report.card_comparison()}),
    }
    return facts, report


def _evaluate_run(config: RunConfig, quiet: bool) -> EvaluationReport | None:
    """Evaluate a run on its validation data, and save the report; an up-to-date report is read instead."""
    from glassformer.evaluation.evaluate import REPORT
    from glassformer.evaluation.report import EvaluationReport
    from glassformer.evaluation.runs import open_run
    from glassformer.tasks.registry import task_class

    if config.data.validation is None:
        return None
    if task_class(config.task).EVALUATION is None:
        _note(f"the task {config.task} has no evaluation: no baselines beside its validation metrics")
        return None
    run = open_run(config.output)
    try:
        if run.is_evaluated():
            return EvaluationReport.load(run.evaluation_folder() / REPORT)
        if not quiet:
            typer.echo("evaluating the best model and baselines", err=True)
        with counted(len(run.read_rows()), "evaluating") as advance:
            evaluation = run.evaluate(progress=advance)
        evaluation.save(run.evaluation_folder())
        return evaluation.report
    except GlassformerError as error:  # training is done, so a failing evaluation is only a warning
        _note(f"the model is trained, but could not be evaluated: {error}")
        return None


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def value_of(text: str) -> Any:
    """Parse a YAML value: 3, 1e-4, true, [a, b]. Raises: ConfigError: invalid YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{text!r} is invalid YAML: {' '.join(str(error).split())}") from error


def put(values: dict[str, Any], path: str, value: Any) -> None:
    """Set a nested value by its path, such as `training.seed`."""
    *outer, last = path.split(".")
    for name in outer:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {name} is {inner!r}, which has no {last!r}")
        values = inner
    values[last] = value
