"""`glassformer tokens MODEL TEXT`: tokenization, step by step from text to token ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, ModelName
from glassformer.cli.screen import plain_table, print_json, visible

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.text.stages import Stages, TokenStage


def tokens(
    model: ModelName,
    text: Annotated[str, typer.Argument(help="Text, in quotes.")],
    json: Json = False,
) -> None:
    """Tokenize a text, step by step: normalisation, words, subwords, special tokens, ids, character offsets."""
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    stages = Tokenizer.from_folder(resolve(model)).explain(text)
    if json:
        print_json(stages.to_dict())
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


def _table(pieces: Iterable[TokenStage], text: str) -> Table:
    """One line per token, as the model reads them."""
    from rich.text import Text

    table = plain_table()
    for name in ("position", "id"):
        table.add_column(name, justify="right")
    table.add_column("token")
    for name in ("word", "characters"):
        table.add_column(name, justify="right")
    table.add_column("in the text")
    for position, piece in enumerate(pieces):
        added = piece.word is None  # a special token added by the post-processor has no offsets in the text
        table.add_row(
            str(position),
            str(piece.id),
            Text(visible(piece.token), style="magenta" if piece.special else ""),
            "" if added else str(piece.word),
            "" if added else f"{piece.start}–{piece.end}",
            Text("" if added else visible(text[piece.start : piece.end])),
        )
    return table
