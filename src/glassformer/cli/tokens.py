"""`glassformer tokens MODEL TEXT`: from text to ids, one step at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, ModelName
from glassformer.cli.screen import visible

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.text.stages import Piece, Stages


def tokens(
    model: ModelName,
    text: Annotated[str, typer.Argument(help="The text; put it in quotes.")],
    json: Json = False,
) -> None:
    """Show how a text becomes ids: normalised, split into words, pieces, special tokens, places in the text."""
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    stages = Tokenizer.from_folder(resolve(model)).explain(text)
    if json:
        import json as json_format

        typer.echo(json_format.dumps(stages.to_dict(), ensure_ascii=False, indent=2))
    else:
        _show(stages)


def _show(stages: Stages) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for name, content in (
        ("text", stages.text),
        ("normalised", stages.normalized),
        ("words", " · ".join(visible(word.text) for word in stages.words)),
        ("pieces", " · ".join(visible(piece.token) for piece in stages.pieces)),
        ("ids", " ".join(str(piece.id) for piece in stages.final)),
    ):
        console.print(Text.assemble((f"{name:>11}  ", "bold cyan"), visible(content)))
    console.print()
    console.print(_table(stages.final, stages.text))


def _table(pieces: Iterable[Piece], text: str) -> Table:
    """One line a token, as the model gets them."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for name in ("position", "id"):
        table.add_column(name, justify="right")
    table.add_column("token")
    for name in ("word", "characters"):
        table.add_column(name, justify="right")
    table.add_column("in the text")
    for position, piece in enumerate(pieces):
        added = piece.word is None  # put there by the post-processor, so it has no place in the text
        table.add_row(
            str(position),
            str(piece.id),
            Text(visible(piece.token), style="magenta" if piece.special else ""),
            "" if added else str(piece.word),
            "" if added else f"{piece.start}–{piece.end}",
            Text("" if added else visible(text[piece.start : piece.end])),
        )
    return table
