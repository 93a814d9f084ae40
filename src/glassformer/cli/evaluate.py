"""`glassformer evaluate RUN`: metrics of a trained model with 95 % confidence intervals, beside simple baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import DATA, ColumnMapping, Ignore, Json, pairs_of
from glassformer.cli.screen import counted, notes, print_json

if TYPE_CHECKING:
    from glassformer.data.rows import RowSequence
    from glassformer.evaluation.evaluate import Evaluation

MODEL = "A model that is not a run"

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        "-d",
        help="Test data files; repeatable. Default: the run's validation split.",
        rich_help_panel=DATA,
        show_default=False,
    ),
]
Format = Annotated[
    list[str] | None,
    typer.Option(
        help="File format of --data, name=value: kind=csv, delimiter=';'. Default: the run's.",
        rich_help_panel=DATA,
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Evaluate a random sample of this many rows.", rich_help_panel=DATA),
]
SampleSeed = Annotated[
    int, typer.Option("--seed", min=0, help="Random seed of the sample of --limit.", rich_help_panel=DATA)
]
Name = Annotated[
    str | None,
    typer.Option(
        "--as",
        help="Name of the evaluation: saved as RUN/evaluation/NAME. Default: the name of the file.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Output folder, instead of one in the run.", show_default=False),
]
Baselines = Annotated[
    bool,
    typer.Option("--baselines/--no-baselines", help="Evaluate baselines too, such as the majority class."),
]
RunDevice = Annotated[
    str | None,
    typer.Option(
        "--device", help="Device: cpu, cuda, mps or auto. Default: that of training.", show_default=False
    ),
]
TaskName = Annotated[
    str | None, typer.Option("--task", "-t", help="Task: classify, tag, answer, …", rich_help_panel=MODEL)
]
TrainingData = Annotated[
    list[str] | None,
    typer.Option(
        "--train",
        help="Training data files for the baselines; repeatable.",
        rich_help_panel=MODEL,
        show_default=False,
    ),
]


def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            help="Run folder, of one or several random seeds; with --task any model folder or Hub name.",
            show_default=False,
        ),
    ],
    data: Data = None,
    format: Format = None,
    column: ColumnMapping = None,
    ignore: Ignore = None,
    limit: Limit = None,
    seed: SampleSeed = 0,
    name: Name = None,
    output: Output = None,
    baselines: Baselines = True,
    device: RunDevice = None,
    task: TaskName = None,
    train: TrainingData = None,
    json: Json = False,
) -> None:
    """Evaluate a trained model: metrics with 95 % bootstrap confidence intervals, beside baselines.

    Saves report.json, and examples.jsonl: the prediction and the loss of each row.

    Examples:

    [cyan]glassformer evaluate runs/mood[/]  on its validation split; for several seeds, each

    [cyan]glassformer evaluate runs/mood --data test.csv --column text=tweet --ignore id[/]

    [cyan]glassformer evaluate MODEL --task classify --data test.csv --train train.csv[/]  a published checkpoint
    """
    from glassformer.cli.train import value_of
    from glassformer.runs.data import sample_rows
    from glassformer.runs.folder import seed_folders

    reading = None
    if format is not None:
        reading = {key: value_of(text) for key, text in pairs_of(format, "--format").items()}
    request = EvaluationRequest(
        data,
        reading,
        name,
        train,
        baselines,
        {"columns": pairs_of(column, "--column"), "ignore": ignore or [], "device": device},
        partial(sample_rows, count=limit, seed=seed),
    )
    if task is None and (folders := seed_folders(run)):
        _evaluate_seeds(run, folders if data or limit is not None else [], request, json=json)
        return
    with notes():
        folder = output
        if task is None:
            evaluation, own_folder = _evaluate_run(run, request)
            folder = output or own_folder
        else:
            evaluation = _evaluate_model(run, task, request)
        if folder is not None:
            evaluation.save(folder)
    if json:
        print_json(evaluation.report.to_dict())
        return
    from glassformer.cli.report_screen import show

    show(evaluation.report)
    typer.echo("\nnot saved; --output FOLDER saves it" if folder is None else f"\nsaved in {folder}")


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate on.

    data, reading: files of rows, and the options they are read with · name: of the evaluation
    train: training data for the baselines of a model that is not a run
    columns: column mapping, ignored columns and device · sample: takes the random sample of the rows
    """

    data: list[str] | None
    reading: dict[str, Any] | None
    name: str | None
    train: list[str] | None
    baselines: bool
    columns: dict[str, Any]
    sample: Callable[[RowSequence], RowSequence]


def _evaluate_seeds(run: str, folders: list[Path], request: EvaluationRequest, *, json: bool) -> None:
    """Evaluate runs of several seeds, and print mean and standard deviation of their metrics."""
    from glassformer.cli.train_seeds import show as show_seeds
    from glassformer.evaluation.compare.seeds import summarise_seeds

    name = None
    with notes():
        for folder in folders:
            evaluation, saved = _evaluate_run(str(folder), request)
            evaluation.save(saved)
            name = saved.name
        with counted(None, "evaluating") as progress:
            show_seeds(summarise_seeds(run, progress, name), json=json)


def _evaluate_run(folder: str, request: EvaluationRequest) -> tuple[Evaluation, Path]:
    """Evaluate a run; with the folder to save the evaluation in."""
    from glassformer.errors import ConfigError
    from glassformer.evaluation.runs import VALIDATION, evaluation_name, open_run
    from glassformer.tasks.registry import check_evaluates

    data = request.data
    if request.train is not None:
        raise ConfigError(
            "--train is for a model that is not a run, with --task; a run knows its training data"
        )
    if request.reading is not None and not data:
        raise ConfigError("--format describes the files of --data; give --data too")
    if not Path(folder, "config.yaml").is_file() and Path(folder, "config.json").is_file():
        raise ConfigError(
            f"{folder}: is a model, not a run; give its task and the test data: --task classify --data FILE"
        )
    run = open_run(folder, **request.columns)
    check_evaluates(run.config.task)
    all_rows = run.read_rows(data, format=request.reading)
    rows = request.sample(all_rows)
    own = not data and len(rows) == len(all_rows)
    saved_in = run.evaluation_folder(
        request.name
        or (VALIDATION if own else evaluation_name(data[0]) if data else f"{VALIDATION}-{len(rows)}")
    )
    with counted(len(rows), "evaluating") as advance:
        return run.evaluate(None if own else rows, baselines=request.baselines, progress=advance), saved_in


def _evaluate_model(model: str, task: str, request: EvaluationRequest) -> Evaluation:
    """Evaluate a model that is not a run."""
    from glassformer.data.rows import read_rows
    from glassformer.errors import ConfigError
    from glassformer.evaluation.runs import evaluate_model

    if not request.data:
        raise ConfigError(
            "a model that is not a run has no test data of its own; name the files: --data FILE"
        )
    if request.name is not None:
        raise ConfigError(
            "--as names an evaluation within a run; a model that is not a run needs --output FOLDER"
        )
    reading = request.reading or {}
    rows = request.sample(read_rows(request.data, **reading))
    training_rows = None if request.train is None else read_rows(request.train, **reading)
    with counted(len(rows), "evaluating") as advance:
        return evaluate_model(
            model,
            task,
            rows,
            train=training_rows,
            columns=request.columns["columns"],
            ignore=request.columns["ignore"],
            device=request.columns["device"] or "cpu",
            baselines=request.baselines,
            progress=advance,
        )
