"""`glassformer sizes`: sizes of published models, computed from their configs, and errors in lecture notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import amount, byte_amount, plain_table, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.inspect import Size
    from glassformer.lessons.sizes import CheckedClaim

WIDE = 120  # terminal width from which on all columns are shown


def sizes(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Filter: models whose name contains one of these: llama, gpt2, …"),
    ] = None,
    notes: Annotated[
        bool,
        typer.Option(
            "--notes", help="Check claims about model sizes in lecture notes against computed ones."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List sizes of published models: parameters, memory, context, vocabulary, hidden size, layers, training tokens.

    Every size is computed from the network that the model's config describes, without weights; `glassformer info NAME`
    shows its modules.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if notes:
        from glassformer.lessons.sizes import check

        checked = check()
        if json:
            print_json([line.to_dict() for line in checked])
        else:
            console.print(_notes_table(checked))
        return
    from glassformer import inspect

    rows = inspect.sizes(_matching(names or []))
    if json:
        print_json([row.to_dict() for row in rows])
        return
    console.print(_table(rows, console.width >= WIDE))
    console.print()
    console.print(
        "Parameters: tied ones count once; active: used per token (mixture of experts). fp32: 4 bytes per "
        "parameter; int8: 1. Trained on: tokens, where the paper states them. --json has all columns, and the sources; "
        "glassformer info NAME shows the modules.",
        style="dim",
    )


def _matching(words: list[str]) -> list[str]:
    """Names of published models that contain one of the words."""
    from glassformer.errors import DataError, nearest
    from glassformer.models.presets import PRESETS

    for word in words:
        if not any(word in name for name in PRESETS):
            raise DataError(f"no published model has {word!r} in its name{nearest(word, PRESETS)}")
    return [name for name in PRESETS if not words or any(word in name for word in words)]


def _table(rows: list[Size], wide: bool) -> Table:
    table = plain_table(padding=(0, 2 if wide else 1, 0, 0))
    table.add_column("model", no_wrap=True)
    names = [
        "parameters",
        "active",
        "fp32",
        "int8",
        "context",
        "vocabulary",
        "width",
        "layers",
        "heads",
        "trained on",
    ]
    if not wide:
        names = ["params", "fp32", "int8", "context", "vocab", "width", "layers"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = {
            "params": amount(row.parameters),
            "parameters": amount(row.parameters),
            "active": "" if row.active == row.parameters else amount(row.active),
            "fp32": byte_amount(row.fp32_bytes),
            "int8": byte_amount(row.int8_bytes),
            "context": _number(row.context),
            "vocab": _number(row.vocabulary),
            "vocabulary": _number(row.vocabulary),
            "width": _number(row.width),
            "layers": " + ".join(map(str, row.layers)),
            "heads": str(row.heads),
            "trained on": "" if row.trained_on is None else amount(row.trained_on),
        }
        table.add_row(row.name, *(cells[name] for name in names))
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _notes_table(checked: list[CheckedClaim]) -> Table:
    from rich.text import Text

    table = plain_table(padding=(0, 2, 1, 0))
    for name in ("claim in the notes", "", "computed", "explanation"):
        table.add_column(name, overflow="fold")
    for line in checked:
        verdict = Text("right", style="green") if line.correct else Text("wrong", style="red")
        table.add_row(line.statement, verdict, line.actual, Text(line.lesson, style="dim"))
    return table
