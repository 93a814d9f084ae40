"""`glassformer few-labels`: which method of few-shot classification pays off at how many labels, on your rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import IsConfig, Json, Quiet, command
from glassformer.cli.screen import notes, show
from glassformer.cli.study import run_and_show
from glassformer.data.options import ReadingOptions
from glassformer.progress import spinner
from glassformer.studies.options import FewLabelsOptions


@command
def few_labels(
    config: Annotated[
        Path | None,
        IsConfig,
        typer.Argument(help="Configuration (YAML) with a section `few_labels`.", metavar="[CONFIG]"),
    ] = None,
    *,
    options: FewLabelsOptions,
    reading: ReadingOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be evaluated, and evaluate nothing.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Few-shot classification: compare methods by the number of labels, on your rows, with intervals and costs.

    Methods learn from nested slices of the labelled rows, all from the same ones, and are tested on other rows. Of N
    labels, what a method has to choose (epochs, neighbours, thresholds) it chooses within the N.

    The same command resumes; nothing finished is repeated.

    Examples:
      glassformer few-labels --data rows.csv --model all-MiniLM-L6-v2 --output runs/few
      glassformer few-labels --data rows.csv --unlabelled more.csv --model MODEL --labels 16,64
      glassformer few-labels examples/few_labels.yaml --html page.html
    """
    with spinner("starting"):
        from glassformer.studies.few_labels import few_labels_study

    with notes():
        with spinner("reading rows"):
            study = few_labels_study(config, options, **reading.keywords())
        if plan:
            show(study.plan(options.seeds), json, indent=None)
            return
    run_and_show(study, options.seeds, options.html, json=json, quiet=quiet)
