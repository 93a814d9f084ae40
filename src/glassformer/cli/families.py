"""`glassformer families`: the supported model families and their architectures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import print_json


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
    from glassformer.errors import DataError, nearest
    from glassformer.inspect.families import family_table
    from glassformer.models import FAMILIES

    for name in names or []:
        if not any(name in family for family in FAMILIES):
            raise DataError(f"no family has {name!r} in its name{nearest(name, FAMILIES)}")
    chosen = [
        record for family, record in FAMILIES.items() if not names or any(name in family for name in names)
    ]
    lines = family_table(chosen)
    if json:
        print_json([{**asdict(line), "oddity": line.distinction} for line in lines])  # oddity: the former key
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
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
        for name, description in parts.items():
            if description:
                console.print(Text.assemble((f"  {name:<13}", "dim"), description))
