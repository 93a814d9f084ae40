"""`glassformer data negatives`: mine hard negatives for training a retriever or a re-ranker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import command
from glassformer.cli.screen import notes, say
from glassformer.data.options import MiningOptions, ReadingOptions
from glassformer.progress import spinner


@command
def negatives(
    file: Annotated[Path, typer.Argument(help="Data file of texts that belong together.", show_default=False)],
    *,
    options: MiningOptions,
    reading: ReadingOptions,
) -> None:
    """Mine hard negatives for training a retriever: the nearest texts by a model that do not belong to a row's text.

    Examples:

    [cyan]glassformer data negatives rows.csv --model MODEL -c text=question -c text_pair=passage -o mined.jsonl[/]

    [cyan]glassformer data negatives rows.csv --model MODEL --count 4 --skip 1 --labelled --output pairs.csv[/]
    """
    from glassformer.tasks.hard_negatives import mine_file

    with notes(), spinner("mining"):
        mined = mine_file(file, options, reading)
    say(f"{options.output}  {len(mined.rows):,} rows")
