"""`glassformer families`: which families load, and what each is made of."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import Json


def families(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only families with one of these in their name: bert, llama, …")
    ] = None,
    json: Json = False,
) -> None:
    """Show what each family is made of: norms, positions, attention, feed-forward, and its heads.

    Read off the specs of the families themselves. `glassformer sizes` has published sizes of them.

    Examples:
      glassformer families
      glassformer families bert
    """
    from glassformer.errors import DataError, nearest
    from glassformer.inspect.families import kinships
    from glassformer.models import FAMILIES

    for name in names or []:
        if not any(name in family for family in FAMILIES):
            raise DataError(f"no family has {name!r} in its name{nearest(name, FAMILIES)}")
    chosen = [
        record for family, record in FAMILIES.items() if not names or any(name in family for name in names)
    ]
    lines = kinships(chosen)
    if json:
        import json as json_format
        from dataclasses import asdict

        typer.echo(json_format.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2))
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
            "its own": line.oddity,
            "heads": ", ".join(line.tasks),
        }
        for name, said in parts.items():
            if said:
                console.print(Text.assemble((f"  {name:<13}", "dim"), said))
