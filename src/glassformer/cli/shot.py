"""`glassformer shot MODEL TEXT … PICTURE`: a view in any state as a picture, or a card to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import Json, Only, Truncate, command
from glassformer.cli.screen import notes, print_json, say
from glassformer.errors import DataError
from glassformer.explorer.options import LookOptions
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.table import byte_amount

VIEW = ("view", "layer", "heads", "query", "key", "theme", "corpus")


@command
def shot(
    model: Annotated[
        str, typer.Argument(help="Model (a folder, or a name on the Hugging Face Hub), an HTML page, or its address.")
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Of a model: one text, or two as a pair, in quotes.")
    ] = None,
    *,
    picture: Annotated[Path, typer.Argument(help="The file: .svg, or .png, which a Chromium draws.")],
    page: Annotated[LookOptions, Only(VIEW)],
    state: Annotated[str, typer.Option(help="State of the page, as its address has it: '#v=1&view=lens&…'.")] = "",
    card: Annotated[
        bool, typer.Option("--card", help="One finding, the sentence and its head, as one picture.")
    ] = False,
    width: Annotated[int, typer.Option(help="Width of the window of a page, in pixels.", min=320)] = 1440,
    height: Annotated[int, typer.Option(help="Height of the window of a page, in pixels.", min=320)] = 900,
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Draw a view of the explorer, or any saved page, into a PNG or SVG file.

    The views head and matrix, and --card, are drawn from the numbers of the pass; their SVG needs no browser. Other
    views and pages are drawn as PNG by a Chromium that is installed.

    Examples:
      glassformer shot ./bert 'time flies like an arrow' --view head --layer 4 --head 9 head.svg
      glassformer shot ./bert 'time flies like an arrow' --card card.png
      glassformer shot page.html lens.png --state '#v=1&view=lens'
    """
    from glassformer.explorer.shot import check_picture, is_page, opened_with, shoot_page, write_shot

    check_picture(picture)
    if is_page(model):
        if texts or card:
            raise DataError(f"{model} is a page, which has its text; leave {'--card' if card else 'the text'} out")
        shown = shoot_page(model, picture, state, (width, height))
    else:
        check_texts(texts or [])
        with notes(repeats=False), spinner("loading the model"):
            from glassformer.explorer import Look
            from glassformer.explorer.session_runs import SessionRuns
            from glassformer.model import load

            loaded = load(model, **given(loading))
            loaded.report.require_head(model, loaded.task)
            start, rest = opened_with(page, state)
            factory = loaded.session_factory(truncation=truncate, corpus=page.corpus)
            with Look(SessionRuns(factory), whole_texts(texts or [], loaded), start) as look:
                shown = write_shot(look, picture, card=card, state=rest, size=(width, height))
    if json:
        print_json({"out": str(picture), "bytes": picture.stat().st_size, "view": shown}, indent=None)
    else:
        say(f"saved in {picture}: {shown}, {byte_amount(picture.stat().st_size)}")
