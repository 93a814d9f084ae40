"""`glassformer data list` and `data fetch`: data sets of the examples, with licence and source, downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import print_facts, print_json, say, show


def list_data_sets(json: Json = False) -> None:
    """List data sets: task, rows, size of the download, licence and source; ✓ = on this machine.

    Those without a size are not downloaded from here; their source has them.

    Example:

    [cyan]glassformer data list --json[/]  with columns, and every file and its digest
    """
    from glassformer.hub.data_sets import DataSetList, catalogue

    show(DataSetList(list(catalogue().values())), json)


def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets, as `glassformer data list` names them.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of data sets: each gets a folder of its name there. Default: next to the models of the Hub.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Download data sets of the examples, and verify their SHA-256; an interrupted download is resumed.

    Examples:

    [cyan]glassformer data fetch emotion && glassformer train examples/emotion.yaml[/]

    [cyan]glassformer data fetch wikiann wikineural --output data[/]  into data/wikiann and data/wikineural
    """
    from rich.console import Console

    from glassformer.hub.data_sets import fetch_data_set, find_downloadable

    fetched = []
    for each in [find_downloadable(name) for name in names]:  # an unknown name is an error before any download
        if not json:
            print_facts(each.terms, Console(stderr=True, highlight=False))
        folder = fetch_data_set(each.name, output)
        fetched.append({"name": each.name, "folder": str(folder), "files": list(each.files), "licence": each.licence})
        if not json:
            say(f"{each.name} is in {folder}: {', '.join(each.files)}")
    if json:
        print_json(fetched)
