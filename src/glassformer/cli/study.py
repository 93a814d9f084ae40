"""`glassformer study CONFIG`: learning curves and transfer between data sets; ablations of speech recognisers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, Quiet, command
from glassformer.cli.screen import notes, say, show
from glassformer.progress import progress_bar, spinner
from glassformer.studies.options import StudyOptions

if TYPE_CHECKING:
    from glassformer.studies.training import StudyProgress


@command
def study(
    config: Annotated[Path, typer.Argument(help="Configuration file (YAML) as for train, with a section `study`.")],
    *,
    options: StudyOptions,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the plan only: the trainings with their rows, steps and tokens.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on several training sets, evaluate each on several test sets: a table, and a learning curve.

    For a speech recogniser, an ablation: pretrained or fine-tuned, without or with an n-gram language model.

    In the configuration file, next to the keys of `glassformer train` except `data.train`:

    study:
      train:
        de: {files: de.train.conll.gz, rows: 5000}
        fr: {files: fr.train.conll.gz, rows: [250, 500, 1000, 2000]}
        de+fr: {of: \\[de, fr]}
      test_sets: {de: de.val.conll.gz, fr: fr.val.conll.gz}
      curve: {over: fr, test_set: fr, zero_shot: de}

    An ablation: study: {language_model: {order: 3}, test_sets: {test: test.csv}, speaker: speaker}

    Each training is a run of its own in the output folder. The same command resumes; nothing finished is repeated.

    Examples:

    [cyan]glassformer study examples/transfer.yaml --plan[/]  the trainings, before they start

    [cyan]glassformer study examples/transfer.yaml --seeds 0,1,2[/]  means over three random seeds

    [cyan]glassformer study examples/homework.yaml[/]  does fine-tuning help, does a language model?
    """
    with spinner("starting"):
        from glassformer.runs.folder import read_config
        from glassformer.studies.ablation import study_of

    design = study_of(read_config(config), options.output, options.data)
    with notes():
        if plan:
            with spinner("counting steps and tokens"):
                planned = design.dry_run(options.seeds)
            show(planned, json, indent=None)
            return
        results = design.run(options.seeds, None if quiet or json else _progress_on_screen())
    page = Path(design.base.output, "study.html")
    if options.html is not None:
        shutil.copyfile(page, options.html)
    show(results, json, indent=None)
    if not json:
        say(f"saved in {page}")


def _progress_on_screen() -> StudyProgress:
    from glassformer.studies.training import StudyProgress, StudyRun
    from glassformer.training.callbacks import Callback, Progress

    class OnScreen(StudyProgress):
        """Prints the current training on standard error, with a progress bar."""

        def start(self, what: str) -> None:
            print(f"{what}. Ctrl-C stops; the same command continues", file=sys.stderr)

        def training(self, number: int, count: int, training: StudyRun) -> None:
            print(f"training {number} of {count}: {training.name}, seed {training.seed}", file=sys.stderr)

        def evaluating(self, training: StudyRun, evaluated: str, rows: int) -> None:
            print(f"evaluating {training.name} on {rows:,} rows of {evaluated}", file=sys.stderr)

        def rows(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
            return progress_bar(what, total)

        def callbacks(self) -> list[Callback]:
            return [Progress()]

    return OnScreen()
