"""`glassformer evaluate RUN`: metrics of a trained model with 95 % confidence intervals, beside simple baselines.

`glassformer reproduce CHAPTER`: published results of a book, reproduced.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import DATA, Columns, Json, command, option, pairs_of, value_of
from glassformer.cli.screen import notes, say, show, show_next, visible
from glassformer.cli.train_screen import first_words
from glassformer.errors import ConfigError, DataError
from glassformer.progress import progress_bar, spinner

if TYPE_CHECKING:
    from glassformer.data.rows import RowSequence
    from glassformer.evaluation.evaluate import Evaluation

MODEL = "A model that is not a run"


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest(Columns):
    """What to evaluate on."""

    data: list[str] | None = option(
        None, "Test data files; repeatable. Default: the run's validation split.", "--data", "-d", panel=DATA
    )
    format: list[str] | None = option(
        None, "File format of --data, name=value: kind=csv, delimiter=';'. Default: the run's.", panel=DATA
    )
    limit: int | None = option(None, "Evaluate a random sample of this many rows.", min=1, panel=DATA)
    seed: int = option(0, "Random seed of the sample of --limit.", min=0, panel=DATA)
    name: str | None = option(
        None, "Name of the evaluation: saved as RUN/evaluation/NAME. Default: the name of the file.", "--as"
    )
    output: Path | None = option(None, "Output folder, instead of one in the run.", "--output", "-o")
    by: str | None = option(
        None, "Column, such as speaker or source: the metrics of each of its values too, and which stand out."
    )
    baselines: bool = option(True, "Evaluate baselines too, such as the majority class.", "--baselines/--no-baselines")
    device: str | None = option(None, "Device: cpu, cuda, mps or auto. Default: that of training.")
    task: str | None = option(None, "Task: classify, tag, answer, …", "--task", "-t", panel=MODEL)
    train: list[str] | None = option(None, "Training data files for the baselines; repeatable.", panel=MODEL)
    set: list[str] | None = option(
        None,
        "Option of the evaluation (evaluation.beams=5; of a run, too) or of the task (task_options.language=uk); "
        "repeatable.",
        panel=MODEL,
    )

    def settings(self, kind: str) -> dict[str, Any]:
        """The options of --set of a kind: task_options or evaluation."""
        values = pairs_of(self.set, "--set")
        if wrong := [path for path in values if path.partition(".")[0] not in ("task_options", "evaluation")]:
            raise ConfigError(f"--set is {wrong[0]!r}; use task_options.NAME=VALUE or evaluation.NAME=VALUE")
        parts = {path.partition("."): value_of(text) for path, text in values.items()}
        return {name: value for (first, _, name), value in parts.items() if first == kind}

    def reading(self) -> dict[str, Any] | None:
        """How the files are read, where it is given."""
        if self.format is None:
            return None
        return {key: value_of(text) for key, text in pairs_of(self.format, "--format").items()}

    def opening(self) -> dict[str, Any]:
        """Columns and device, for a run or a model."""
        columns = pairs_of(self.column, "--column")
        return {"columns": columns, "ignore": self.ignore or [], "device": self.device}

    def sample(self, rows: RowSequence) -> RowSequence:
        """The random sample of the rows."""
        from glassformer.runs.data import sample_rows

        return sample_rows(rows, count=self.limit, seed=self.seed)


@command
def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            help="Run folder, of one or several random seeds; with --task any model folder or Hub name.",
            show_default=False,
        ),
    ],
    request: EvaluationRequest,
    json: Json = False,
) -> None:
    """Evaluate a trained model: metrics with 95 % bootstrap confidence intervals, beside baselines.

    Saves report.json, and examples.jsonl: the prediction and the loss of each row.

    Examples:

    [cyan]glassformer evaluate runs/mood[/]  on its validation split; for several seeds, each

    [cyan]glassformer evaluate runs/mood --data test.csv --column text=tweet --ignore id[/]

    [cyan]glassformer evaluate MODEL --task classify --data test.csv --train train.csv[/]  a published checkpoint

    [cyan]glassformer evaluate MODEL --task transcribe --data clips.csv --by corpus[/]  which corpus has most errors

    [cyan]glassformer evaluate MODEL --task transcribe --data clips.csv --set task_options.language=uk[/]
    """
    from glassformer.runs.folder import seed_folders

    if request.task is None and (folders := seed_folders(run)):
        if request.by is not None:
            raise ConfigError(f"--by is of one run, and {run} has {len(folders)} seeds; name one: {folders[0]}")
        needed = folders if request.data or request.limit is not None else []
        _evaluate_seeds(run, needed, request, json=json)
        return
    with notes():
        own_folder, folder = None, request.output
        if request.task is None:
            evaluation, own_folder = _evaluate_run(run, request)
            folder = folder or own_folder
        else:
            evaluation = _evaluate_model(run, request.task, request)
    show(evaluation.report, json)  # before it is saved, which a full disk may refuse after hours of work
    if folder is not None:
        evaluation.save(folder)
    if json:
        return
    say("\nnot saved; --output FOLDER saves it" if folder is None else f"\nsaved in {folder}")
    show_next(_next_commands(run, evaluation, own_folder if folder == own_folder else None))


def _next_commands(model: str, evaluation: Evaluation, saved: Path | None) -> list[str]:
    """Attention on the text of the highest loss; and, of an evaluation that is saved in its run, the errors."""
    from glassformer.evaluation.runs import VALIDATION
    from glassformer.tasks.predictions import sort_by_loss

    quoted, commands = shlex.quote(model), []
    worst = next(iter(sort_by_loss(evaluation.predictions)), None)
    row = {} if worst is None else worst.row
    words = next((row[role] for role in ("text", "tokens", "source", "question") if row.get(role)), "")
    if text := first_words(words if isinstance(words, str) else " ".join(map(str, words))):
        commands.append(f"glassformer look {quoted} {shlex.quote(text)}")
    if saved is not None:
        part = "" if saved.name == VALIDATION else f" --part {shlex.quote(saved.name)}"
        commands.append(f"glassformer errors {quoted}{part}")
    return commands


def _evaluate_seeds(run: str, folders: list[Path], request: EvaluationRequest, *, json: bool) -> None:
    """Evaluate runs of several seeds, and print mean and standard deviation of their metrics."""
    from glassformer.evaluation.compare.seeds import summarise_seeds

    name = None
    with notes():
        for folder in folders:
            evaluation, saved = _evaluate_run(str(folder), request)
            evaluation.save(saved)
            name = saved.name
        with progress_bar("evaluating", None) as progress:
            summary = summarise_seeds(run, progress, name)
    show(summary, json)


def _evaluate_run(folder: str, request: EvaluationRequest) -> tuple[Evaluation, Path]:
    """Evaluate a run; with the folder to save the evaluation in."""
    with spinner("starting"):
        from glassformer.evaluation.runs import VALIDATION, evaluation_name, open_run
        from glassformer.tasks.base import check_evaluates

    data = request.data
    if request.train is not None:
        raise ConfigError("--train is for a model that is not a run, with --task; a run knows its training data")
    if request.settings("task_options"):
        raise ConfigError("--set task_options.… is for a model with --task; a run has its own options")
    if request.format is not None and not data:
        raise ConfigError("--format describes the files of --data; give --data too")
    if not Path(folder, "config.yaml").is_file() and Path(folder, "config.json").is_file():
        raise ConfigError(
            f"{folder}: is a model, not a run; give its task and the test data: --task classify --data FILE"
        )
    run = open_run(folder, **request.opening())
    check_evaluates(run.config.task)
    all_rows = run.read_rows(data, format=request.reading())
    rows = request.sample(all_rows)
    own = not data and len(rows) == len(all_rows)
    saved_in = run.evaluation_folder(
        request.name or (VALIDATION if own else evaluation_name(data[0]) if data else f"{VALIDATION}-{len(rows)}")
    )
    with progress_bar("evaluating", len(rows)) as advance:
        evaluation = run.evaluate(
            None if own else rows,
            baselines=request.baselines,
            by=request.by,
            progress=advance,
            **request.settings("evaluation"),
        )
        return evaluation, saved_in


def _evaluate_model(model: str, task: str, request: EvaluationRequest) -> Evaluation:
    """Evaluate a model that is not a run."""
    with spinner("starting"):
        from glassformer.data.rows import read_rows
        from glassformer.evaluation.runs import evaluate_model

    if not request.data:
        raise ConfigError("a model that is not a run has no test data of its own; name the files: --data FILE")
    if request.name is not None:
        raise ConfigError("--as names an evaluation within a run; a model that is not a run needs --output FOLDER")
    reading = request.reading() or {}
    rows = request.sample(read_rows(request.data, **reading))
    training_rows = None if request.train is None else read_rows(request.train, **reading)
    with progress_bar("evaluating", len(rows)) as advance:
        return evaluate_model(
            model,
            task,
            rows,
            train=training_rows,
            **{**request.opening(), "device": request.device or "cpu"},
            options=request.settings("task_options"),
            evaluation=request.settings("evaluation"),
            baselines=request.baselines,
            by=request.by,
            progress=advance,
        )


def reproduce(
    chapter: Annotated[str, typer.Argument(help="Chapter: 2, 4, 6, 7 or 8.", show_default=False)],
    runs: Annotated[Path, typer.Option(help="Folder of the trained runs.")] = Path("runs"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets. Default: where `glassformer data fetch` puts them.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce results of "Natural Language Processing with Transformers": published numbers beside ours.

    Numbers that need no training are computed now; others are read from trained runs, and where a run is missing, the
    command that trains it is shown. Deviations are marked, with a possible reason; the exit code stays 0.

    Examples:

    [cyan]glassformer reproduce 6[/]

    [cyan]glassformer train examples/emotion.yaml && glassformer reproduce 2[/]
    """
    from glassformer.evaluation.reproduce import reproduce as reproduce_chapter

    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such folder; --data is that of the data sets, with emotion/, wikiann/, … in it")

    def progress(step: str) -> None:
        if sys.stderr.isatty() and not json:
            print(f"\r\x1b[K{visible(step)} …", end="", file=sys.stderr, flush=True)

    with notes():
        reproduction = reproduce_chapter(chapter, data=data, runs=runs, progress=progress)
    if sys.stderr.isatty() and not json:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    show(reproduction, json)
