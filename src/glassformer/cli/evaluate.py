"""`glassformer evaluate RUN`: how good a trained model is, beside what simple means reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import pairs_of

if TYPE_CHECKING:
    from glassformer.data.rows import Rows
    from glassformer.evaluation.evaluate import Evaluation

ROWS, MODEL = "Rows", "A model that is no run"


def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            help="The folder of a run, or of several seeds; with --task any model.", show_default=False
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            help="Other rows than its validation part; may be given again.",
            rich_help_panel=ROWS,
        ),
    ] = None,
    format: Annotated[
        list[str] | None,
        typer.Option(
            help="name=value: how they are read, where not as the run's own: kind=csv, delimiter=';'.",
            rich_help_panel=ROWS,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="role=column: text=tweet, label=mood.", rich_help_panel=ROWS),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column that nothing reads; '*': all such.", rich_help_panel=ROWS),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Judge so many of the rows, drawn by the seed.", rich_help_panel=ROWS),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Which rows are drawn; the same ones each time.", rich_help_panel=ROWS),
    ] = 0,
    name: Annotated[
        str | None,
        typer.Option(
            "--as", help="Keep it as RUN/evaluation/NAME; default: the file's name.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Or keep it in this folder.", show_default=False)
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Judge simple means beside it.")
    ] = True,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, mps or auto; default: where it was trained.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="What it does: classify, tag, answer, …", rich_help_panel=MODEL),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows that baselines learn from; may be given again.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for programs.")] = False,
) -> None:
    """Judge a trained model, beside its baselines, with 95 % intervals.

    The folder of an evaluation holds report.json, and examples.jsonl: what was said of each row, with its loss.

    Examples:

    [cyan]glassformer evaluate runs/mood[/]  on the rows that its training held out; of several seeds, each

    [cyan]glassformer evaluate runs/mood --data test.csv --column text=tweet --ignore id[/]

    [cyan]glassformer evaluate MODEL --task classify --data test.csv --train train.csv[/]  a published checkpoint
    """
    from glassformer.cli.screen import counted, notes
    from glassformer.cli.train import value_of
    from glassformer.cli.train_seeds import show as show_seeds
    from glassformer.evaluation.compare.seeds import summarise
    from glassformer.evaluation.slices import drawn
    from glassformer.runs.folder import seed_folders

    named = {"columns": pairs_of(column, "--column"), "ignore": ignore or [], "device": device}
    reading = None
    if format is not None:
        reading = {key: value_of(text) for key, text in pairs_of(format, "--format").items()}
    asked = Asked(data, reading, name, train, baselines, named, partial(drawn, count=limit, seed=seed))
    if task is None and (several := seed_folders(run)):
        part = None
        with notes():
            for each in several if data or limit is not None else ():
                found, kept = _of_run(str(each), asked)
                found.save(kept)
                part = kept.name
            with counted(None, "judging") as progress:
                show_seeds(summarise(run, progress, part), json=json)
        return
    place = output
    with notes():
        if task is None:
            found, kept = _of_run(run, asked)
            place = output or kept
        else:
            found = _of_model(run, task, asked)
        if place is not None:
            found.save(place)
    if json:
        import json as json_format

        typer.echo(json_format.dumps(found.report.to_dict(), ensure_ascii=False, indent=2))
        return
    from glassformer.cli.report_screen import show

    show(found.report)
    typer.echo("\nnot kept; --output FOLDER keeps it" if place is None else f"\nkept in {place}")


@dataclass(frozen=True)
class Asked:
    """What a person wants judged.

    data, reading: files of rows, and how they are read · chosen: which of the rows
    name: under which it is kept · train: rows for the baselines of a model that is no run · named: columns and device
    """

    data: list[str] | None
    reading: dict[str, Any] | None
    name: str | None
    train: list[str] | None
    baselines: bool
    named: dict[str, Any]
    chosen: Callable[[Rows], Rows]


def _of_run(folder: str, asked: Asked) -> tuple[Evaluation, Path]:
    """Judge a run, and where to keep it."""
    from glassformer.cli.screen import counted
    from glassformer.errors import ConfigError
    from glassformer.evaluation.runs import VALIDATION, name_of, open_run
    from glassformer.tasks.evaluator import check_task

    data = asked.data
    if asked.train is not None:
        raise ConfigError(
            "--train is for a model that is no run, with --task; a run knows what it learnt from"
        )
    if asked.reading is not None and not data:
        raise ConfigError("--format says how --data is read; name the files too")
    if not Path(folder, "config.yaml").is_file() and Path(folder, "config.json").is_file():
        raise ConfigError(
            f"{folder}: is a model, and no run; say what it does, and on what to judge it: --task classify --data FILE"
        )
    run = open_run(folder, **asked.named)
    check_task(run.config.task)
    there = run.rows(data, format=asked.reading)
    rows = asked.chosen(there)
    own = not data and len(rows) == len(there)
    place = run.place(
        asked.name or (VALIDATION if own else name_of(data[0]) if data else f"{VALIDATION}-{len(rows)}")
    )
    with counted(len(rows), "judging") as advance:
        return run.evaluate(None if own else rows, baselines=asked.baselines, progress=advance), place


def _of_model(model: str, task: str, asked: Asked) -> Evaluation:
    """Judge a model that is no run."""
    from glassformer.cli.screen import counted
    from glassformer.data.rows import read_rows
    from glassformer.errors import ConfigError
    from glassformer.evaluation.runs import evaluate_model

    if not asked.data:
        raise ConfigError(
            "a model that is no run has no rows of its own to be judged on; name them: --data FILE"
        )
    if asked.name is not None:
        raise ConfigError(
            "--as names an evaluation within a run; a model that is no run needs --output FOLDER"
        )
    reading = asked.reading or {}
    rows = asked.chosen(read_rows(asked.data, **reading))
    learnt_from = None if asked.train is None else read_rows(asked.train, **reading)
    with counted(len(rows), "judging") as advance:
        return evaluate_model(
            model,
            task,
            rows,
            train=learnt_from,
            columns=asked.named["columns"],
            ignore=asked.named["ignore"],
            device=asked.named["device"] or "cpu",
            baselines=asked.baselines,
            progress=advance,
        )
