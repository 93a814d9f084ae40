"""`glassformer study CONFIG`: factors against quality and cost: learning curves, transfer, ablations, methods."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import IsConfig, Json, Quiet, command
from glassformer.cli.screen import notes, say, show
from glassformer.cli.stopped import CONTINUED, saying_where_stopped
from glassformer.progress import progress_bar, spinner
from glassformer.studies.options import StudyOptions

if TYPE_CHECKING:
    from glassformer.studies.study import Study, StudyProgress


@command
def study(
    config: Annotated[Path, IsConfig, typer.Argument(help="Configuration file (YAML) with a section `study`.")],
    *,
    options: StudyOptions,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the plan only: the trainings with rows, steps and tokens.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate each combination of several factors: a table, paired differences, curves, and quality by cost.

    Training sets of several sizes, each evaluated on several test sets; next to the keys of `glassformer train`:

    study:
      train: {de: {files: de.conll, rows: 5000}, fr: {files: fr.conll, rows: \\[250, 1000]}, de+fr: {of: \\[de, fr]}}
      test_sets: {de: de.val.conll, fr: fr.val.conll}
      report: {at: {evaluated on: fr}, against: {trained on: de}}

    Settings: factors: {training.learning_rate: \\[1e-4, 1e-3]}; of a speech recogniser also language_model: {order: 3}.

    Anything else, by your function: {evaluate: "cells.py:score", factors: {method: \\[a, b], labels: \\[8, 16]}}

    The same command resumes; nothing finished is repeated.

    Examples:
      # the trainings, before they start
      glassformer study examples/transfer.yaml --plan
      # means over three random seeds
      glassformer study examples/transfer.yaml --seeds 0,1,2
      # does fine-tuning help, does a language model?
      glassformer study examples/homework.yaml
    """
    with spinner("starting"):
        from glassformer.runs.folder import read_config
        from glassformer.studies.study import parse_study

    design = parse_study(read_config(config), options.output, options.data, options.baseline)
    with notes():
        if plan:
            with spinner("counting steps and tokens"):
                planned = design.plan(options.seeds)
            show(planned, json, indent=None)
            return
    run_and_show(design, options.seeds, options.html, json=json, quiet=quiet)


def run_and_show(design: Study, seeds: Sequence[int] | None, html: Path | None, *, json: bool, quiet: bool) -> None:
    """Run what is missing of a study, and show its report."""
    with notes(), saying_where_stopped(CONTINUED):
        report = design.run(seeds, None if quiet or json else progress_on_screen())
    page = design.output / "study.html"
    if html is not None:
        shutil.copyfile(page, html)
    show(report, json, indent=None)
    if not json:
        say(f"saved in {page}")


def progress_on_screen() -> StudyProgress:
    """The progress of a study, as lines and bars on standard error."""
    from glassformer.studies.study import StudyProgress
    from glassformer.training.callbacks import Callback, Progress

    class OnScreen(StudyProgress):
        """Prints what is done on standard error, with a progress bar."""

        def start(self, what: str) -> None:
            print(f"{what}. Ctrl-C stops; the same command continues", file=sys.stderr)

        def training(self, number: int, count: int, what: str) -> None:
            print(f"training {number} of {count}: {what}", file=sys.stderr)

        def making(self, what: str) -> None:
            print(f"making {what}", file=sys.stderr)

        def evaluating(self, what: str) -> None:
            print(f"evaluating {what}", file=sys.stderr)

        def rows(self, what: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
            return progress_bar(what, total)

        def callbacks(self) -> list[Callback]:
            return [Progress()]

    return OnScreen()
