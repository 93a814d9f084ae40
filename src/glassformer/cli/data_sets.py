"""`glassformer data list` and `data fetch`: data sets of the examples, with licence and source, downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import plain_table, print_facts, print_json, say, terminal, text_of
from glassformer.reports.amounts import byte_amount

if TYPE_CHECKING:
    from glassformer.hub.data_sets import DataSet


def list_data_sets(json: Json = False) -> None:
    """List data sets: task, rows, size of the download, licence and source; ✓ = on this machine.

    Those without a size are not downloaded from here; their source has them.

    Example:

    [cyan]glassformer data list --json[/]  with columns, and every file and its digest
    """
    from glassformer.hub.data_sets import catalogue, data_folder

    sets, root = catalogue().values(), data_folder()
    if json:
        print_json([each.to_dict() for each in sets])
        return
    table = plain_table()
    for heading in ("data set", "task", "rows", "size", "licence, source"):
        table.add_column(heading, justify="right" if heading in ("rows", "size") else "left", overflow="fold")
    for each in sets:
        mark = " ✓" if each.is_in(root) else ""
        terms = text_of(f"{each.licence}\n").append_text(text_of(each.source.removeprefix("github.com/"), "dim"))
        rows = f"{sum(each.rows.values()):,}" if each.rows else "–"
        size = byte_amount(each.size) if each.files else "–"
        table.add_row(text_of(f"{each.name}{mark}"), each.task, rows, size, terms)
    console = terminal()
    console.print(table)
    console.print(text_of("\nglassformer data fetch NAME downloads one; it says first what its licence allows", "dim"))


def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets, as `glassformer data list` names them.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of data sets: each gets a folder of its name there. Default: beside the models of the Hub.",
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
    from glassformer.hub.data_sets import fetch_data_set, find_downloadable

    fetched = []
    for each in [find_downloadable(name) for name in names]:  # an unknown name is an error before any download
        if not json:
            _show_terms(each)
        folder = fetch_data_set(each.name, output)
        fetched.append({"name": each.name, "folder": str(folder), "files": list(each.files), "licence": each.licence})
        if not json:
            say(f"{each.name} is in {folder}: {', '.join(each.files)}")
    if json:
        print_json(fetched)


def _show_terms(data_set: DataSet) -> None:
    """Print on standard error what is fetched, from where, and what its licence allows."""
    from rich.console import Console

    licence = data_set.licence if data_set.commercial else f"{data_set.licence}: not for commercial use"
    facts = {
        data_set.name: f"{data_set.about}; {byte_amount(data_set.size)}",
        "licence": licence,
        "source": data_set.source,
    }
    print_facts(facts, Console(stderr=True, highlight=False))
