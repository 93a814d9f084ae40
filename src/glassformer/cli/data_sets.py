"""`glassformer data list` and `data fetch`: published data sets with columns, sizes, licence and source; downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import print_facts, print_json, say, show


def list_data_sets(
    names: Annotated[
        list[str] | None, typer.Argument(help="Data sets to describe. Default: a table of all.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List published data sets: task, columns, licence, rows, size of the download; ✓ = on this machine.

    Those without a size are not downloaded from here; their source has them.

    Examples:
      # its splits, proportions, columns, licence
      glassformer data list panx
      # with every column, file and digest
      glassformer data list --json
    """
    from glassformer.data.sets import data_sets, find_data_set
    from glassformer.hub.data_sets import DataSetList

    listed = DataSetList.of(map(find_data_set, names) if names else data_sets().values())
    if not names or json:
        show(listed, json)
    for each in listed.data_sets if names and not json else ():
        print_facts(each.facts)


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
      glassformer data fetch emotion && glassformer train examples/emotion.yaml
      # into data/wikiann and data/wikineural
      glassformer data fetch wikiann wikineural --output data
    """
    from rich.console import Console

    from glassformer.hub.data_sets import fetch_data_set, find_downloadable
    from glassformer.reports.table import byte_amount

    fetched = []
    for each in [find_downloadable(name) for name in names]:  # an unknown name is an error before any download
        if not json:
            about = {each.name: f"{each.about}; {byte_amount(each.size)}", **each.terms}
            print_facts(about, Console(stderr=True, highlight=False))
        folder = fetch_data_set(each.name, output)
        fetched.append({"name": each.name, "folder": str(folder), "files": list(each.files), "licence": each.licence})
        if not json:
            say(f"{each.name} is in {folder}: {', '.join(each.files)}")
    if json:
        print_json(fetched)
