"""`glassformer corpus index|search`: where in a text file a layer, a head or a neuron does the same thing."""

from __future__ import annotations

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from glassformer.cli.inputs import check_files, naming_columns
from glassformer.cli.options import Json, ModelName, command
from glassformer.cli.screen import note, notes, progress_of, say, show, show_next, terminal, text_of
from glassformer.files.schema import given
from glassformer.inspect.corpus.options import CorpusSearchOptions, IndexOptions
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.table import byte_amount

corpus = typer.Typer(
    name="corpus",
    no_args_is_help=True,
    add_completion=False,
    help="Search a text file for contexts in which a layer, a head or a neuron does the same thing.",
)

IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index, as written by corpus index.")]


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
      glassformer corpus index MODEL corpus.txt --output index --layers 3,6 --heads 4.9
    """
    check_files([file])
    with spinner("loading the model"):
        from glassformer.inspect.corpus import index_corpus
        from glassformer.model import load

        loaded = load(model, **given(loading))
    start = perf_counter()
    with notes(), naming_columns({"text": "text", **options.columns}), progress_of("indexing") as bar:
        made = index_corpus(loaded, file, options.output, **options.keywords(), progress=bar)
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
      glassformer corpus search MODEL index 'time flies like an arrow' --token flies --layer 6
      glassformer corpus search MODEL index 'time flies like an arrow' --token 2 --head 4.9
      glassformer corpus search MODEL index --neuron 3.17 --attention 4.9
    """
    options.check_text(text)
    check_files([folder])
    with spinner("loading the model"):
        from glassformer.explorer.contexts import search_page
        from glassformer.inspect.corpus import CorpusIndex, CorpusSearch
        from glassformer.model import load

        searched = CorpusSearch(load(model, **given(loading)), CorpusIndex(folder, verify=options.verify))
    if options.html is not None:
        size = search_page(searched, str(text), options).save(options.html)
        say(f"saved in {options.html}: {byte_amount(size)}; open it in any browser, no network needed")
        return
    start = perf_counter()
    result = searched.find(text, options)
    show(result, json, indent=None)
    if json:
        return
    if not result.matches:
        note("the index has no such context")
    terminal().print(text_of(f"{len(searched.index):,} tokens searched in {perf_counter() - start:.2f} s", "dim"))
