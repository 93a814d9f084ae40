"""`glassformer bench MODEL`: speed of each precision on this machine, and what it costs in accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def bench(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hub.")],
    texts: Annotated[
        Path | None,
        typer.Option(help="Sentences of your own, one a line. [default: a sample of everyday text]"),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many sentences to encode.")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each precision; the median counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time `encode` in each precision, and print how far its vectors lie from the exact ones.

    Examples:
      glassformer bench ./all-MiniLM-L6-v2
      glassformer bench ./all-MiniLM-L6-v2 --texts my-sentences.txt --json
    """
    from glassformer.errors import DataError
    from glassformer.evaluation.bench import compare_precisions, sample_texts
    from glassformer.model import load

    loaded = load(model)
    if texts is None:
        chosen = sample_texts(count)
    else:
        try:
            chosen = texts.read_text(encoding="utf-8").splitlines()[:count]
        except UnicodeDecodeError:
            raise DataError(f"{texts}: is not UTF-8 text; give one sentence a line") from None
        if not chosen:
            raise DataError(f"{texts}: has no lines; give one sentence a line")
    rows = compare_precisions(loaded.network, loaded.tokenizer, chosen, loaded.folder, repeats=repeats)
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], indent=2))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{loaded!r}: {len(chosen)} sentences", box=None, title_justify="left")
    for heading in ("precision", "sentences/s", "tokens/s", "speed", "largest difference", "smallest cosine"):
        table.add_column(heading, justify="left" if heading == "precision" else "right")
    for row in rows:
        table.add_row(
            row.precision,
            f"{row.sentences_per_second:,.0f}",
            f"{row.tokens_per_second:,.0f}",
            f"{row.speedup:.1f} ×",
            f"{row.largest_difference:.1e}",
            f"{row.smallest_cosine:.6f}",
        )
    console = Console()
    console.print(table)
    console.print("plain: one text at a time, the network as loaded; differences are from it.", style="dim")
