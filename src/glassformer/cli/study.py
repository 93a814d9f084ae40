"""`glassformer study CONFIG`: how much data, and from where."""

from __future__ import annotations

import json as json_format
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import amount, notes, table_of, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.studies.study import Study, Watch


def study(
    config: Annotated[
        Path, typer.Argument(help="A YAML file as for train, with `study` in it.", show_default=False)
    ],
    seeds: Annotated[
        str | None,
        typer.Option(help="Train everything several times: how often, or with which.", show_default=False),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The folder of the study.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what would be trained: rows, steps, tokens.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write the page here too.", show_default=False)] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table at the end.")] = False,
) -> None:
    """Train one model on several sets of rows, judge each on several others: one table, and one curve.

    In the file, beside what `glassformer train` reads but `data.train`:

    study:
      train:
        de: {files: de.train.conll.gz, rows: 5000}
        fr: {files: fr.train.conll.gz, rows: [250, 500, 1000, 2000]}
        de+fr: {of: \\[de, fr]}
      judge: {de: de.val.conll.gz, fr: fr.val.conll.gz}
      curve: {over: fr, judge: fr, zero_shot: de}

    Each training is a run of its own below the folder, which holds study.json and study.html too. The same command goes
    on where it was stopped; what is finished is not trained again.

    Examples:

    [cyan]glassformer study examples/transfer.yaml --plan[/]  what it would take

    [cyan]glassformer study examples/transfer.yaml --seeds 0,1,2[/]  means of three trainings each
    """
    from glassformer.evaluation.compare.seeds import seed_numbers
    from glassformer.runs.config import read_config
    from glassformer.studies.study import study_of

    asked = study_of(read_config(config), output)
    numbers = None if seeds is None else seed_numbers(seeds)
    if html is not None and (html.suffix != ".html" or not html.absolute().parent.is_dir()):
        raise ConfigError(f"{html}: the page's place must end in .html, in a folder that is there")
    with notes():
        if plan:
            _show_plan(asked, numbers, json)
            return
        found = asked.run(numbers, None if quiet or json else _watch())
    if html is not None:
        shutil.copyfile(Path(asked.base.output, "study.html"), html)
    if json:
        typer.echo(json_format.dumps(found.to_dict(), ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(visible(found.headed), style="dim", markup=False)
    console.print(table_of(*found.table(), left=1))
    for sentence in found.crossings():
        console.print(visible(sentence), markup=False)
    console.print(f"saved in {Path(asked.base.output, 'study.html')}", style="dim", markup=False)


def _watch() -> Watch:
    from glassformer.studies.study import Training, Watch
    from glassformer.training.callbacks import Callback
    from glassformer.training.progress import Progress

    class OnScreen(Watch):
        """Says on standard error which training is under way, and shows how far it is."""

        def training(self, number: int, count: int, training: Training) -> None:
            print(f"training {number} of {count}: {training.name}, seed {training.seed}", file=sys.stderr)

        def judging(self, training: Training, judged: str, rows: int) -> None:
            print(f"judging {training.name} on {rows:,} rows of {judged}", file=sys.stderr)

        def callbacks(self) -> list[Callback]:
            return [Progress()]

    return OnScreen()


def _show_plan(asked: Study, seeds: list[int] | None, json: bool) -> None:
    planned = list(asked.planned(seeds))
    if json:
        typer.echo(json_format.dumps(planned))
        return
    from rich.console import Console

    rows = [
        [
            each["name"],
            str(each["seed"]),
            f"{each['examples']:,}",
            f"{each['steps']:,}",
            amount(each["tokens"]),
            "finished" if each["finished"] else "",
        ]
        for each in planned
    ]
    console = Console(highlight=False)
    console.print(table_of(["training", "seed", "examples", "steps", "tokens", ""], rows, left=1))
    left = sum(each["tokens"] for each in planned if not each["finished"])
    judged = sum(map(len, asked.judged.values()))
    console.print(
        f"to train: {amount(left)} tokens; then each is judged on {judged:,} rows of {', '.join(asked.judged)}",
        style="dim", markup=False,
    )  # fmt: skip
