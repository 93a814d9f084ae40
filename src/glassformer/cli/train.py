"""`glassformer train CONFIG`, or `glassformer train --task classify --model FOLDER --data my.csv`."""

from __future__ import annotations

import json as json_format
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import pair_of
from glassformer.cli.screen import notes
from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from glassformer.evaluation.report import Report
    from glassformer.runs.config import Config

DATA, HOW, RUN = "Data", "How", "The run"


def train(
    config: Annotated[
        Path | None,
        typer.Argument(help="A YAML file; options here win over what it says.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", "-t", help="classify, tag, answer, generate, fill, translate, summarise, denoise, …"
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A folder, or a name on the Hub.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", help="Rows to train on; may be given again.", rich_help_panel=DATA),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            "--validation", "-v", help="A file, or the share to hold out: 0.1.", rich_help_panel=DATA
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="role=column: text=tweet, label=mood.", rich_help_panel=DATA),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column that nothing is learnt from; '*': all such.", rich_help_panel=DATA),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The folder of the run.", rich_help_panel=RUN)
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often through the data.", rich_help_panel=HOW)
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Instead: how many steps.", rich_help_panel=HOW)] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", "--lr", help="At its highest.", rich_help_panel=HOW)
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples a step.", rich_help_panel=HOW)] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16.", rich_help_panel=HOW)] = None,
    seed: Annotated[int | None, typer.Option(help="Another one, another run.", rich_help_panel=HOW)] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Several, one after the other: how many, or which: 0,1,2.", rich_help_panel=HOW),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            help="Any option by its place in the file: training.warmup=100, objective.block=256.",
            rich_help_panel=HOW,
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps or auto.", rich_help_panel=HOW)] = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(help="tensorboard, wandb or trackio; may be given again.", rich_help_panel=RUN),
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option(
            "--evaluate/--no-evaluate",
            help="At the end, judge the best model on the validation rows, beside baselines.",
            rich_help_panel=RUN,
        ),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything but change the weights.", rich_help_panel=RUN)
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the effective configuration, and end.", rich_help_panel=RUN)
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Refuse a folder that holds a run already.", rich_help_panel=RUN)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=RUN)] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Train a model on rows of yours: what it learns, from which data, into which folder.

    The folder holds the effective configuration, checkpoints, a log, curves, and the best model so far, which at the
    end is judged on the validation rows, beside baselines (as glassformer evaluate does). The same command goes on
    where a run was stopped, to the last bit; Ctrl-C finishes the step and saves.

    Exit codes: 0 done · 2 something to put right · 3 the loss became no number · 75 stopped and saved

    Examples:

    [cyan]glassformer train -t classify -m MODEL -d mood.csv -v 0.1 -o runs/mood[/]  a tenth of the rows judges

    [cyan]glassformer train mood.yaml --set training.warmup=100[/]  what the file says, but for the warm-up

    [cyan]glassformer train runs/mood/config.yaml --output runs/again[/]  the same run once more

    [cyan]glassformer train mood.yaml --seeds 3[/]  three runs, and how much of their figures is luck

    [cyan]torchrun --nproc-per-node 2 -m glassformer train mood.yaml[/]  two processes that act as one
    """
    from glassformer.runs.config import as_yaml, config_of, read_config

    values = {} if config is None else read_config(config)
    named = {
        "task": task, "model": model, "output": output, "device": device, "trackers": tracker,
        "data.train": data[0] if data and len(data) == 1 else data,
        "data.ignore": ignore,
        "data.validation": validation if validation is None else value_of(validation),
        "training.epochs": epochs, "training.steps": steps, "training.learning_rate": learning_rate,
        "training.batch_size": batch_size, "training.precision": precision, "training.seed": seed,
        "training.dry_run": dry_run or None,
    }  # fmt: skip
    for place, value in named.items():
        if value is not None:
            put(values, place, value)
    for each in column or []:
        role, name = pair_of(each, "--column")
        put(values, f"data.columns.{role}", name)
    for each in set or []:
        place, text = pair_of(each, "--set")
        put(values, place, value_of(text))
    if model is not None:
        values.pop("scratch", None)
    asked = config_of({"output": f"runs/{values.get('task')}", **values})
    if show:
        print(as_yaml(asked), end="")
        return
    if seeds is not None:
        from glassformer.cli.train_seeds import train_seeds

        train_seeds(asked, seeds, partial(_run, judge=evaluate), fresh=fresh, quiet=quiet or json, json=json)
        return
    with notes():
        result, report = _run(asked, resume=not fresh, quiet=quiet or json, judge=evaluate and not dry_run)
    if json:
        print(json_format.dumps(result))
    elif report is not None and not quiet:
        from glassformer.cli import report_screen

        report_screen.show(report)


def _run(asked: Config, *, resume: bool, quiet: bool, judge: bool) -> tuple[dict[str, Any], Report | None]:
    """Train, judge, and leave the curves and a card beside the model."""
    from glassformer.runs.config import as_yaml
    from glassformer.runs.curves import write_page
    from glassformer.training.card import write_card
    from glassformer.training.progress import Progress
    from glassformer.training.run import make_trainer
    from glassformer.training.trackers import by_name

    trainer = make_trainer(asked, [*([] if quiet else [Progress()]), *by_name(asked.trackers)])
    if trainer.crew.main and not quiet:
        print(as_yaml(asked), file=sys.stderr)
    result = trainer.train(resume=resume)
    trainer.crew.leave()
    report = None
    if trainer.crew.main:
        write_page(Path(asked.output), Path(asked.output) / "curves.html")
        try:
            report = _judged(asked, quiet) if judge else None
        finally:  # the card stands, also where somebody is tired of waiting for baselines
            write_card(
                trainer, Path(asked.output) / "model", beside=None if report is None else report.beside()
            )
    facts = {
        "folder": asked.output,
        "steps": result.steps,
        "best_step": result.best_step,
        "figures": result.figures,
        **({} if report is None else {"beside": report.beside()}),
    }
    return facts, report


def _judged(asked: Config, quiet: bool) -> Report | None:
    """The report on the run's validation rows, kept in its folder; one that is there already is not made again."""
    from glassformer.cli.screen import counted
    from glassformer.evaluation.evaluate import REPORT
    from glassformer.evaluation.report import Report
    from glassformer.evaluation.runs import open_run
    from glassformer.tasks.evaluator import JUDGES

    if asked.data.validation is None:
        return None
    if asked.task not in JUDGES:
        _note(
            f"the task {asked.task} has no judge yet, so no baseline stands beside the figures of its validation"
        )
        return None
    run = open_run(asked.output)
    try:
        if run.is_judged():
            return Report.load(run.place() / REPORT)
        if not quiet:
            typer.echo("judging the best model, and baselines beside it", err=True)
        with counted(len(run.rows()), "judging") as advance:
            found = run.evaluate(progress=advance)
        found.save(run.place())
        return found.report
    except GlassformerError as error:  # the training is done, whatever becomes of this
        _note(f"the model is trained, and could not be judged: {error}")
        return None


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def value_of(text: str) -> Any:
    """A value as YAML reads it: 3, 1e-4, true, [a, b]."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{text!r} is no value: {' '.join(str(error).split())}") from error


def put(values: dict[str, Any], place: str, value: Any) -> None:
    """Set `training.seed` in nested names and values."""
    *outer, last = place.split(".")
    for name in outer:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{place}: {name} is {inner!r}, which has no {last!r}")
        values = inner
    values[last] = value
