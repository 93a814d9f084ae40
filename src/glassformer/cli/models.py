"""`glassformer families`: the supported model families; `glassformer sizes`: sizes of published models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.options import Json
from glassformer.cli.screen import plain_table, print_json, terminal
from glassformer.errors import DataError, nearest
from glassformer.progress import spinner, with_bar
from glassformer.reports.amounts import amount, byte_amount

if TYPE_CHECKING:
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
        typer.Option("--notes", help="Check claims about model sizes in lecture notes against computed ones."),
    ] = False,
    json: Json = False,
) -> None:
    """List sizes of published models: parameters, memory, context, vocabulary, hidden size, layers, training tokens.

    Every size is computed from the network that the model's config describes, without weights; `glassformer info NAME`
    shows its modules.
    """
    console = terminal()
    if notes:
        with spinner("computing sizes"):
            from glassformer.lessons.sizes import check

            checked = check()
        if json:
            print_json([line.to_dict() for line in checked])
        else:
            console.print(_notes_table(checked))
        return
    with spinner("starting"):
        from glassformer import inspect
        from glassformer.models.presets import PRESETS

    chosen = _matching(names or [], PRESETS, "published model")
    rows = inspect.sizes(with_bar(chosen, "models"))
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


def _matching(words: list[str], names: Iterable[str], kind: str) -> list[str]:
    """Names that contain one of the words; all of them without words. Raises: DataError: a word that no name has."""

    names = list(names)
    for word in words:
        if not any(word in name for name in names):
            raise DataError(f"no {kind} has {word!r} in its name{nearest(word, names)}")
    return [name for name in names if not words or any(word in name for word in words)]


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
    table = plain_table(padding=(0, 2, 1, 0))
    for name in ("claim in the notes", "", "computed", "explanation"):
        table.add_column(name, overflow="fold")
    for line in checked:
        verdict = Text("right", style="green") if line.correct else Text("wrong", style="red")
        table.add_row(line.statement, verdict, line.actual, Text(line.lesson, style="dim"))
    return table


def families(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Filter: families whose name contains one of these: bert, llama, …"),
    ] = None,
    json: Json = False,
) -> None:
    """List the supported model families with their architecture: norms, positions, attention, feed-forward, heads.

    Derived from the specs of the families. `glassformer sizes` lists published model sizes.

    Examples:
      glassformer families
      glassformer families bert
    """
    with spinner("starting"):
        from glassformer.inspect.families import family_table
        from glassformer.models import FAMILIES

    chosen = _matching(names or [], FAMILIES, "family")
    lines = family_table(FAMILIES[name] for name in with_bar(chosen, "families"))
    if json:
        print_json([asdict(line) for line in lines])
        return

    console = terminal()
    for line in lines:
        console.print(Text.assemble((line.family, "bold cyan"), f"  reads {line.reads}"))
        parts = {
            "norms": line.norms,
            "positions": line.positions,
            "attention": line.attention,
            "feed-forward": line.feed_forward,
            "its own": line.distinction,
            "heads": ", ".join(line.tasks),
        }
        table = Table.grid(padding=(0, 1))  # folded descriptions stay in their column
        table.add_column(style="dim", no_wrap=True, min_width=14)
        table.add_column(overflow="fold")
        for name, description in parts.items():
            if description:
                table.add_row(f"  {name}", Text(description))
        console.print(table)
