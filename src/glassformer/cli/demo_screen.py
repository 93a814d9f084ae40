"""The report of `glassformer demo` in the terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from glassformer.cli.demo_tour import SharedWord, Tour, stages
from glassformer.cli.screen import amount, bar, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GENERATOR = "package:glassformer/checkpoints/shakespeare"
"""A small model that generates text; it is part of this package."""


def show(console: Console, tour: Tour) -> None:
    """Print the tour: tokens, shapes, attention heads, shared words, and sentence similarity."""
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
    _show_next(console, tour)


def heading(console: Console, title: str, explanation: str) -> None:
    """Print the heading of a section, and its explanation."""
    from rich.text import Text

    console.print()
    console.print(Text(title, style="bold cyan"))
    console.print(Text(explanation, style="dim"))
    console.print()


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)


def _short(text: str, width: int) -> str:
    """The text in at most `width` columns."""
    from rich.text import Text

    shown = Text(visible(text))
    shown.truncate(width, overflow="ellipsis")
    return shown.plain


def _show_tokens(console: Console, tour: Tour) -> None:
    from rich.columns import Columns
    from rich.text import Text

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
    from rich.text import Text

    text = tour.texts[0]
    q = text.taps["blocks.0.attn.q"].shape
    width = text.taps["embed.out"].shape[-1]
    heading(
        console,
        "Tensor shapes",
        f"First text: batch size 1, {len(text.ids)} tokens, hidden size {width}, which attention splits into "
        f"{q[1]} heads of size {q[3]}. Each name is a tap: a tensor that you can inspect or replace.",
    )
    table = _table()
    table.add_column("tap")
    table.add_column("shape", no_wrap=True)
    table.add_column("meaning", style="dim", overflow="fold")
    for tap, shape, explanation in stages(tour):
        table.add_row(tap, Text(str(shape)), explanation)
    console.print(table)


def _show_heads(console: Console, tour: Tour) -> None:
    from rich.text import Text

    if not tour.heads:
        heading(console, "Attention heads", "Neither text has two tokens, so there is no attention to show.")
        return
    heading(
        console,
        "Attention heads",
        f"The head of each layer with the strongest attention between two tokens. {_example(tour)}",
    )
    table = _table()
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
    from rich.text import Text

    if not tour.words:
        heading(
            console,
            "One word in two contexts",
            "The two texts have no word in common, so there is none to compare.",
        )
        return
    heading(console, "One word in two contexts", _explain(tour.words[0]))
    table = _table()
    table.add_column("cosine at")
    for word in tour.words:
        table.add_column(Text(_short(word.text, 18)), no_wrap=True)
    for tap in tour.words[0].cosines:
        cells = [
            Text.assemble(f"{word.cosines[tap]:.3f} ", (bar(word.cosines[tap], 12), "cyan"))
            for word in tour.words
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
    from rich.text import Text

    heading(
        console,
        "Sentence embeddings",
        f"One vector per text ({tour.pooling}). Cosine similarity: 1 = same direction, 0 = orthogonal.",
    )
    console.print(
        Text.assemble("  cosine ", (f"{tour.similarity:.3f} ", "bold"), (bar(tour.similarity, 30), "cyan"))
    )


def _show_next(console: Console, tour: Tour) -> None:
    from rich.text import Text

    console.print()
    console.print(Text("What next", style="bold cyan"))
    name = shlex.quote(str(tour.model.folder))
    for command in (
        f"glassformer info {name}",
        f"glassformer tokens {name} {shlex.quote(tour.texts[0].text)}",
        f"glassformer encode {name} sentences.txt --out vectors.npy",
        f"glassformer look {name} 'your own text'",
        f"glassformer generate {GENERATOR} 'ROMEO:' --watch --top-p 0.9 --seed 1",
    ):
        console.print(Text(f"  {visible(command)}"), soft_wrap=True)
