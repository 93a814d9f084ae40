"""`glassformer study CONFIG`: learning curves and transfer between data sets."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Html, Json, Quiet
from glassformer.cli.screen import amount, notes, print_json, table_of, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.studies.runner import StudyProgress
    from glassformer.studies.study import Study


def study(
    config: Annotated[
        Path,
        typer.Argument(
            help="Configuration file (YAML) as for train, with a section `study`.", show_default=False
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option(help="Random seeds of each training: how many, or a list: 0,1,2.", show_default=False),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Output folder of the study.")] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Print the plan only: the trainings with their rows, steps and tokens."),
    ] = False,
    html: Html = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on several training sets, evaluate each on several test sets: a table, and a learning curve.

    In the configuration file, beside the keys of `glassformer train` except `data.train`:

    study:
      train:
        de: {files: de.train.conll.gz, rows: 5000}
        fr: {files: fr.train.conll.gz, rows: [250, 500, 1000, 2000]}
        de+fr: {of: \\[de, fr]}
      judge: {de: de.val.conll.gz, fr: fr.val.conll.gz}
      curve: {over: fr, judge: fr, zero_shot: de}

    Each training is a run of its own below the output folder, which also holds study.json and study.html. The same
    command resumes an interrupted study; finished trainings are not repeated.

    Examples:

    [cyan]glassformer study examples/transfer.yaml --plan[/]  the trainings, before they start

    [cyan]glassformer study examples/transfer.yaml --seeds 0,1,2[/]  means over three random seeds
    """
    from glassformer.evaluation.compare.seeds import parse_seeds
    from glassformer.runs.config import read_config
    from glassformer.studies.study import parse_study

    design = parse_study(read_config(config), output)
    numbers = None if seeds is None else parse_seeds(seeds)
    if html is not None and (html.suffix != ".html" or not html.absolute().parent.is_dir()):
        raise ConfigError(f"{html}: the HTML file must end in .html, in a folder that exists")
    with notes():
        if plan:
            _show_plan(design, numbers, json)
            return
        results = design.run(numbers, None if quiet or json else _progress_on_screen())
    if html is not None:
        shutil.copyfile(Path(design.base.output, "study.html"), html)
    if json:
        print_json(results.to_dict(), indent=None)
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(visible(results.caption), style="dim", markup=False)
    console.print(table_of(*results.table(), left=1))
    for sentence in results.crossings():
        console.print(visible(sentence), markup=False)
    console.print(f"saved in {Path(design.base.output, 'study.html')}", style="dim", markup=False)


def _progress_on_screen() -> StudyProgress:
    from glassformer.studies.runner import StudyProgress
    from glassformer.studies.study import StudyRun
    from glassformer.training.callbacks import Callback
    from glassformer.training.progress import Progress

    class OnScreen(StudyProgress):
        """Prints the current training on standard error, with a progress bar."""

        def training(self, number: int, count: int, training: StudyRun) -> None:
            print(f"training {number} of {count}: {training.name}, seed {training.seed}", file=sys.stderr)

        def judging(self, training: StudyRun, evaluated: str, rows: int) -> None:
            print(f"evaluating {training.name} on {rows:,} rows of {evaluated}", file=sys.stderr)

        def callbacks(self) -> list[Callback]:
            return [Progress()]

    return OnScreen()


def _show_plan(study: Study, seeds: list[int] | None, json: bool) -> None:
    planned = list(study.dry_run(seeds))
    if json:
        print_json(planned, indent=None)
        return
    from rich.console import Console

    rows = [
        [
            training["name"],
            str(training["seed"]),
            f"{training['examples']:,}",
            f"{training['steps']:,}",
            amount(training["tokens"]),
            "finished" if training["finished"] else "",
        ]
        for training in planned
    ]
    console = Console(highlight=False)
    console.print(table_of(["training", "seed", "examples", "steps", "tokens", ""], rows, left=1))
    remaining = sum(training["tokens"] for training in planned if not training["finished"])
    test_rows = sum(map(len, study.test_rows.values()))
    test_sets = ", ".join(study.test_rows)
    console.print(
        f"to train: {amount(remaining)} tokens; then each is evaluated on {test_rows:,} rows of {test_sets}",
        style="dim", markup=False,
    )  # fmt: skip
