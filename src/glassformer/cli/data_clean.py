"""`glassformer data clean`: leave out rows of speech data that teach nothing, or the wrong thing."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import notes, say, show
from glassformer.data.options import ReadingOptions
from glassformer.progress import progress_bar, spinner
from glassformer.tasks.transcribe.clean_options import CleanOptions

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Table of recordings and transcripts, or an audio folder.")]


@command
def clean(table: Table, *, options: CleanOptions, reading: ReadingOptions, json: Json = False) -> None:
    """Clean speech data: machine-made transcripts, other languages, silence, outliers; a report of what is dropped.

    The filters are those of a training (glassformer train --task transcribe). Nothing is changed: the rows that are
    kept go to a table of their own, next to the recordings.

    Examples:

    [cyan]glassformer data clean recordings/metadata.csv --language uk -o recordings/clean.csv[/]

    [cyan]glassformer data clean rows.csv -c audio=path -c text=sentence --dropped dropped.jsonl --json[/]
    """
    with spinner("starting"):
        from glassformer.tasks.transcribe.clean import clean_table

    with notes():
        result = clean_table(table, options, progress_bar, reading=reading)
    show(result, json)
    if options.output is not None and not json:
        say(f"saved in {options.output}")
