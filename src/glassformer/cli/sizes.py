"""`glassformer sizes`: what published models measure, computed from their networks; and where notes go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.inspect import Size
    from glassformer.lessons.sizes import Checked

ROOMY = 120  # from this many columns on, all of them are shown


def sizes(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only models with one of these in their name: llama, gpt2, …")
    ] = None,
    notes: Annotated[
        bool, typer.Option("--notes", help="What lecture notes say of such models, beside what is computed.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what published models measure: context, parameters, memory, vocabulary, width, layers, training tokens.

    Every size is computed from the network that the model's config describes, without weights; `glassformer info NAME`
    shows its parts.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if notes:
        from glassformer.lessons.sizes import check

        checked = check()
        if json:
            _print_json([line.to_dict() for line in checked])
        else:
            console.print(_notes_table(checked))
        return
    from glassformer import inspect

    rows = inspect.sizes(_chosen(names or []))
    if json:
        _print_json([row.to_dict() for row in rows])
        return
    console.print(_table(rows, console.width >= ROOMY))
    console.print()
    console.print(
        "Parameters: tied ones once; active: those that run for a token, where not all do. fp32: 4 bytes a parameter; "
        "int8: 1. Trained on: tokens, where the paper states them. --json has all of it, and the sources; "
        "glassformer info NAME shows the parts.",
        style="dim",
    )


def _chosen(words: list[str]) -> list[str]:
    from glassformer.errors import DataError, nearest
    from glassformer.models.presets import PRESETS

    for word in words:
        if not any(word in name for name in PRESETS):
            raise DataError(f"no published size has {word!r} in its name{nearest(word, PRESETS)}")
    return [name for name in PRESETS if not words or any(word in name for word in words)]


def _print_json(data: list[dict[str, Any]]) -> None:
    import json as json_format

    typer.echo(json_format.dumps(data, ensure_ascii=False, indent=2))


def _table(rows: list[Size], roomy: bool) -> Table:
    from rich.table import Table

    from glassformer.cli.screen import amount, byte_amount

    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0))
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
    if not roomy:
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


def _notes_table(checked: list[Checked]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2, 1, 0))
    for name in ("the notes say", "", "found", "because"):
        table.add_column(name, overflow="fold")
    for line in checked:
        verdict = Text("right", style="green") if line.right else Text("wrong", style="red")
        table.add_row(line.said, verdict, line.found, Text(line.lesson, style="dim"))
    return table
