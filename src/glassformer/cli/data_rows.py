"""`glassformer data clean`, `data split` and `data negatives`: tables made from the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import notes, say, show
from glassformer.data.options import MiningOptions, ReadingOptions, SplitOptions
from glassformer.progress import progress_bar, spinner
from glassformer.tasks.transcribe.clean_options import CleanOptions

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Table of recordings and transcripts, or an audio folder.")]


@command
def clean(table: Table, *, options: CleanOptions, reading: ReadingOptions, json: Json = False) -> None:
    """Clean speech data: machine-made transcripts, other languages, silence, outliers; a report of what is dropped.

    The filters are those of a training (glassformer train --task transcribe). Nothing is changed: the rows that are
    kept go to a table of their own, next to the recordings.

    Examples:
      glassformer data clean recordings/metadata.csv --language uk -o recordings/clean.csv
      glassformer data clean rows.csv -c audio=path -c text=sentence --dropped dropped.jsonl --json
    """
    with spinner("starting"):
        from glassformer.tasks.transcribe.clean import clean_table

    with notes():
        result = clean_table(table, options, progress_bar, reading=reading)
    show(result, json)
    if options.output is not None and not json:
        say(f"saved in {options.output}")


@command
def split(
    file: Annotated[Path, typer.Argument(help="Data file.", show_default=False)],
    *,
    options: SplitOptions,
    reading: ReadingOptions,
) -> None:
    """Split a data set into train, validation and test; the same seed makes the same split.

    Examples:
      glassformer data split all.csv --column label=label --column text=text --output parts
      glassformer data split calls.jsonl -c group=speaker --fractions 0.9,0.1 --seed 1 --output parts
    """
    from glassformer.data.files import split_file

    with notes(), spinner("splitting"):
        written = split_file(file, options, reading)
    if written.dropped is not None:
        all_rows = written.rows + written.dropped
        say(f"{written.dropped:,} of {all_rows:,} rows repeat an earlier text and were dropped")
    for path, rows in written.files.items():
        say(f"{path}  {rows:,} rows, {rows / written.rows:.1%}")


@command
def negatives(
    file: Annotated[Path, typer.Argument(help="Data file of texts that belong together.", show_default=False)],
    *,
    options: MiningOptions,
    reading: ReadingOptions,
) -> None:
    """Mine hard negatives for training a retriever: the nearest texts by a model that do not belong to a row's text.

    Examples:
      glassformer data negatives rows.csv --model MODEL -c text=question -c text_pair=passage -o mined.jsonl
      glassformer data negatives rows.csv --model MODEL --count 4 --skip 1 --labelled --output pairs.csv
    """
    from glassformer.tasks.hard_negatives import mine_file

    with notes(), spinner("mining"):
        mined = mine_file(file, options, reading)
    say(f"{options.output}  {len(mined.rows):,} rows")
