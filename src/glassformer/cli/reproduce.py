"""`glassformer reproduce CHAPTER`: reproduce published results of a book, and show the differences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import notes, plain_table, print_json, visible

if TYPE_CHECKING:
    from glassformer.evaluation.reproduce import Reproduction


def reproduce(
    chapter: Annotated[str, typer.Argument(help="Chapter: 2, 4, 6, 7 or 8.", show_default=False)],
    runs: Annotated[Path, typer.Option(help="Folder of the trained runs.")] = Path("runs"),
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = Path("../shared/data"),
    json: Json = False,
) -> None:
    """Reproduce results of "Natural Language Processing with Transformers": published numbers beside ours.

    Numbers that need no training are computed now; others are read from trained runs, and where a run is missing, the
    command that trains it is shown. Deviations are marked, with a possible reason; the exit code stays 0.

    Examples:

    [cyan]glassformer reproduce 6[/]

    [cyan]glassformer train examples/emotion.yaml && glassformer reproduce 2[/]
    """
    from glassformer.evaluation.reproduce import reproduce as reproduce_chapter

    def progress(step: str) -> None:
        if sys.stderr.isatty() and not json:
            print(f"\r\x1b[K{visible(step)} …", end="", file=sys.stderr, flush=True)

    with notes():
        reproduction = reproduce_chapter(chapter, data=data, runs=runs, progress=progress)
    if sys.stderr.isatty() and not json:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if json:
        print_json(reproduction.to_dict())
        return
    _show(reproduction)


def _show(reproduction: Reproduction) -> None:
    from rich.console import Console
    from rich.text import Text

    headings, _ = reproduction.table()
    table = plain_table()
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", overflow="fold", no_wrap=i > 0)
    for row in reproduction.rows:
        style = "yellow" if row.within is False else "dim" if row.ours is None else ""
        table.add_row(*(Text(visible(cell), style=style) for cell in row.cells()))
    console = Console(highlight=False)
    console.print(Text(visible(reproduction.caption)), end="\n\n")
    console.print(table)
    for note in reproduction.notes:
        console.print()
        console.print(Text(visible(note), style="dim"))
