"""`glassformer advise FILE`: what to do next with rows of few labels or none, why, and the command that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import Json, command
from glassformer.cli.screen import notes, save_page, show, show_next
from glassformer.data.options import ReadingOptions
from glassformer.few_labels.options import AdviceOptions
from glassformer.progress import spinner


@command
def advise(
    data: Annotated[Path, typer.Argument(help="File of rows, of which some may have a label.", show_default=False)],
    *,
    options: AdviceOptions,
    reading: ReadingOptions,
    json: Json = False,
) -> None:
    """Few-shot classification: what to do next with your rows, why, and the command that does it.

    Reads how many rows have a label and how many do not, the labels, languages, lengths and problems of the texts, and
    follows a decision tree: no label, few labels or many. What a step is expected to bring is measured on other data,
    which the report names.

    Examples:
      glassformer advise rows.csv --column text=body --column label=kind
      # no row has a label yet
      glassformer advise tweets.txt --label-names joy,anger,fear
      glassformer advise labelled.csv --unlabelled more.csv --html page.html
    """
    check_files([data])
    with spinner("reading rows"):
        from glassformer.few_labels.advise import advise as advise_on

        with notes():
            advice = advise_on(data, options, reading)
    show(advice, json)
    if not json:
        steps = [(f"# {i}. {step.what}", step.command) for i, step in enumerate(advice.steps, 1) if step.command]
        show_next([line for pair in steps for line in pair])
    save_page(options.html, advice, json)
