"""`glassformer reproduce CHAPTER`: a book's figures, ours, and how far they are apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import notes, visible

if TYPE_CHECKING:
    from glassformer.evaluation.book.reproduce import Reproduction


def reproduce(
    chapter: Annotated[str, typer.Argument(help="2, 4, 6, 7 or 8.", show_default=False)],
    runs: Annotated[Path, typer.Option(help="Where trained runs are.")] = Path("runs"),
    data: Annotated[Path, typer.Option(help="Where data sets are.")] = Path("../shared/data"),
    json: Json = False,
) -> None:
    """Show figures of "Natural Language Processing with Transformers" beside ours, and the differences.

    What can be computed is computed now; what needs a trained model is read from its run, and where there is none yet,
    the command that makes it is said. A figure that differs is marked, with why it may; the exit code stays 0.

    Examples:

    [cyan]glassformer reproduce 6[/]

    [cyan]glassformer train examples/emotion.yaml && glassformer reproduce 2[/]
    """
    from glassformer.evaluation.book.reproduce import reproduce as beside

    def progress(what: str) -> None:
        if sys.stderr.isatty() and not json:
            print(f"\r\x1b[K{visible(what)} …", end="", file=sys.stderr, flush=True)

    with notes():
        found = beside(chapter, data=data, runs=runs, progress=progress)
    if sys.stderr.isatty() and not json:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if json:
        import json as json_format

        typer.echo(json_format.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    _show(found)


def _show(found: Reproduction) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings, _ = found.table()
    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", overflow="fold", no_wrap=i > 0)
    for row in found.rows:
        style = "yellow" if row.within is False else "dim" if row.ours is None else ""
        table.add_row(*(Text(visible(cell), style=style) for cell in row.cells()))
    console = Console(highlight=False)
    console.print(Text(visible(found.headed)), end="\n\n")
    console.print(table)
    for note in found.notes:
        console.print()
        console.print(Text(visible(note), style="dim"))
