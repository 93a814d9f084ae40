"""`glassformer corpus index|search`: where in a text file a layer, a head or a neuron does the same thing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files, naming_columns
from glassformer.cli.options import Json, ModelName, Options, columns_of, command, option
from glassformer.cli.screen import (
    note,
    notes,
    progress_of,
    say,
    show,
    show_next,
    terminal,
    text_of,
)
from glassformer.errors import ConfigError
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.inspect.corpus import CorpusSearch

corpus = typer.Typer(
    name="corpus",
    no_args_is_help=True,
    add_completion=False,
    help="Search a text file for contexts in which a layer, a head or a neuron does the same thing.",
)

Pair = tuple[int, int]
IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index, as written by corpus index.")]


@dataclass(frozen=True, kw_only=True)
class IndexOptions(Options):
    """What an index holds."""

    output: Path = option(..., "Folder of the index; the same command resumes one that was stopped.", "--output", "-o")
    layers: str | None = option(
        None, "Layers whose states are kept: 3,6 or 0-6; 0 = the embeddings. Default: the middle and the last."
    )
    heads: str | None = option(None, "Heads whose outputs are kept, layer.head: 4.9,5.11; of all heads of a layer: 4.*")
    neurons: bool = option(True, "Keep the top activations of each neuron.", "--neurons/--no-neurons")
    top: int = option(20, "Number of top activations to keep of each neuron.", min=1, max=1_000)
    max_tokens: int | None = option(None, "Longer texts are cut into windows of this many tokens. Default: 256.", min=1)
    column: list[str] | None = option(None, "Column mapping of a table, role=column: text=body.", "--column", "-c")


@dataclass(frozen=True, kw_only=True)
class CorpusSearchOptions(Options):
    """What is searched by."""

    token: str | None = option(None, "The token of TEXT: its position, or a word, whose first token counts.")
    layer: int | None = option(None, "By the state of this layer, 0 = the embeddings.", min=0)
    head: str | None = option(None, "By the output of this head, layer.head: 4.9")
    neuron: str | None = option(None, "The top activations of this neuron, layer.neuron: 3.17; takes no TEXT.")
    attention: str | None = option(None, "Show where this head looks from each match, layer.head. Default: --head")
    count: int = option(10, "Number of contexts to list.", "--count", "-n", min=1, max=200)
    html: Path | None = option(None, "Write the explorer's page of the search to this HTML file (self-contained).")
    verify: bool = option(False, "Check the checksums of the whole index first.")

    def check(self, text: str | None) -> None:
        """Raises: ConfigError: options that are missing, or do not go together. Args: text: with the token"""
        by = [name for name in ("layer", "head", "neuron") if getattr(self, name) is not None]
        if len(by) != 1:
            raise ConfigError(
                f"got {' and '.join(f'--{name}' for name in by) or 'none'} of --layer, --head, --neuron; give one"
            )
        given = [name for name, value in (("a text", text), ("--token", self.token)) if value is not None]
        if len(given) != (0 if by == ["neuron"] else 2):
            raise ConfigError(
                f"--{by[0]} got {' and '.join(given) or 'neither a text nor --token'}; --layer and --head take a text "
                "and its --token; --neuron takes neither"
            )
        if self.html is not None:
            check_html_path(self.html)
            if text is None:
                raise ConfigError("--html is the explorer's page of a text; give a text and its --token")


@corpus.command()
@command
def index(
    model: ModelName,
    file: Annotated[Path, typer.Argument(help="Text file, a text per line; or a table (.csv, .jsonl, .parquet, …).")],
    *,
    options: IndexOptions,
    loading: Loading,
    json: Json = False,
) -> None:
    """Index a text file by what a model makes of its tokens: states of layers, outputs of heads, top activations.

    Disk: 2 bytes for each token, layer and dimension of its state. A stopped run is resumed by the same command.

    Example:

    [cyan]glassformer corpus index MODEL corpus.txt --output index --layers 3,6 --heads 4.9[/]
    """
    check_files([file])
    with spinner("loading the model"):
        from glassformer.inspect.corpus import index_corpus
        from glassformer.model import load

        loaded = load(model, **given(loading))
        groups = loaded.network.attention_layout()
    start, columns = perf_counter(), {"text": "text", **columns_of(options.column, ["text"])}
    with notes(), naming_columns(columns), progress_of("indexing") as bar:
        made = index_corpus(
            loaded,
            file,
            options.output,
            layers=None if options.layers is None else layer_numbers(options.layers),
            heads=head_pairs(
                options.heads, [x.attention.spec.heads for x in groups["self"].layers] if "self" in groups else []
            ),
            neurons=options.neurons,
            top=options.top,
            max_tokens=options.max_tokens,
            column=columns["text"],
            progress=bar,
        )
    show(made.summary(perf_counter() - start), json)
    if not json:
        by = next((f"--layer {layer}" for layer in made.settings.layers[-1:]), "--head LAYER.HEAD")
        names = " ".join(shlex.quote(str(name)) for name in (model, options.output))
        show_next([f"glassformer corpus search {names} TEXT --token WORD {by}"])


@corpus.command()
@command
def search(
    model: ModelName,
    folder: IndexFolder,
    text: Annotated[str | None, typer.Argument(help="Text with the token that is searched by, in quotes.")] = None,
    *,
    options: CorpusSearchOptions,
    loading: Loading,
    json: Json = False,
) -> None:
    """Find the contexts nearest to a token of a text, or those in which a neuron is most active.

    Nearest by cosine, exactly, over all tokens of the index but special ones.

    Examples:

    [cyan]glassformer corpus search MODEL index 'time flies like an arrow' --token flies --layer 6[/]

    [cyan]glassformer corpus search MODEL index 'time flies like an arrow' --token 2 --head 4.9[/]

    [cyan]glassformer corpus search MODEL index --neuron 3.17 --attention 4.9[/]
    """
    options.check(text)
    check_files([folder])
    with spinner("loading the model"):
        from glassformer.inspect.corpus import CorpusIndex, CorpusSearch
        from glassformer.model import load

        searched = CorpusSearch(load(model, **given(loading)), CorpusIndex(folder, verify=options.verify))
    asked: dict[str, Any] = {"count": options.count}
    if options.attention is not None:
        asked["attention"] = pair(options.attention, "--attention")
    start = perf_counter()
    if options.neuron is not None:
        result = searched.neuron(*pair(options.neuron, "--neuron"), **asked)
    else:
        named = str(options.token)
        token: int | str = int(named) if re.fullmatch(r"\d{1,6}", named, re.ASCII) else named
        head = None if options.head is None else pair(options.head, "--head")
        if options.html is not None:
            _write_page(searched, str(text), token, options, head, asked.get("attention", head or (0, 0)))
            return
        result = searched.search(str(text), token=token, layer=options.layer, head=head, **asked)
    show(result, json, indent=None)
    if json:
        return
    if not result.matches:
        note("the index has no such context")
    terminal().print(text_of(f"{len(searched.index):,} tokens searched in {perf_counter() - start:.2f} s", "dim"))


def _write_page(
    searched: CorpusSearch, text: str, token: int | str, options: CorpusSearchOptions, head: Pair | None, shown: Pair
) -> None:
    """The explorer's page, with the contexts that the command asks for."""
    from glassformer.explorer.contexts import contexts_page
    from glassformer.explorer.requests import ContextsRequest
    from glassformer.files.schema import parse
    from glassformer.inspect.corpus.search import position_of

    assert options.html is not None
    session = searched.model.inspect(text)
    at = position_of(session.streams["text"], token)
    by, (layer, number) = ("head", head) if head is not None else ("layer", (options.layer, None))
    fields = {"by": by, "layer": layer, "number": number, "token": at, "head": head or shown}
    request = parse(ContextsRequest, fields)
    page = contexts_page(searched, session, request)
    size = page.save(options.html)
    say(f"saved in {options.html}: {byte_amount(size)}; open it in any browser, no network needed")


def layer_numbers(text: str) -> list[int]:
    """`3,6` and `0-6` as numbers. Raises: ConfigError: something else."""
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ConfigError(f"--layers is {text!r}; give layers such as 3,6 or 0-6, where 0 is the embeddings")
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return numbers


def head_pairs(text: str | None, counts: Sequence[int]) -> list[Pair]:
    """`4.9,5.*` as layer and head. Args: counts: how many heads each layer has"""
    pairs: list[Pair] = []
    for part in text.split(",") if text else []:
        layer = re.fullmatch(r"\s*(\d{1,4})\.\*\s*", part, re.ASCII)
        if layer is None:
            pairs.append(pair(part, "--heads"))
        elif int(layer[1]) < len(counts):
            pairs += [(int(layer[1]), head) for head in range(counts[int(layer[1])])]
        else:
            raise ConfigError(f"--heads is {text!r}; the model has layers 0 to {len(counts) - 1}")
    return pairs


def pair(text: str, option: str) -> Pair:
    """`4.9` as two numbers. Raises: ConfigError: something else."""
    match = re.fullmatch(r"\s*(\d{1,4})\.(\d{1,6})\s*", text, re.ASCII)
    if match is None:
        raise ConfigError(f"{option} is {text!r}; give layer.number, such as 4.9")
    return int(match[1]), int(match[2])
