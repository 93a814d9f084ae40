"""`glassformer embed-map MODEL TEXTS --word WORD`: contextual embeddings of a word's occurrences, or of whole texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import inputs
from glassformer.cli.look_page import wait_until_stopped
from glassformer.cli.options import Json, ModelName, command
from glassformer.cli.screen import notes, progress_of, say, show
from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError, DataError
from glassformer.explorer.options import Serving
from glassformer.files.schema import given
from glassformer.inspect.embeddings.options import ProjectionOptions, WordStudyOptions
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path
from glassformer.reports.table import byte_amount

if TYPE_CHECKING:
    from glassformer.inspect.embeddings.word_study import WordStudy
    from glassformer.model import Model


@command
def embed_map(
    model: ModelName,
    texts: Annotated[
        list[str],
        typer.Argument(help="Texts, files of texts (a line each), tables (.csv, .tsv, .jsonl, .parquet), or -."),
    ],
    *,
    options: WordStudyOptions,
    reading: ReadingOptions,
    projection: ProjectionOptions,
    serving: Serving,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page on this machine until Ctrl-C.")] = False,
    loading: Loading,
    json: Json = False,
) -> None:
    """Contextual embeddings: all occurrences of a word compared, layer by layer, and drawn as a map.

    Without --word the whole texts are embedded. With --against the contexts of the word in two corpora are compared.

    Examples:
      glassformer embed-map MODEL titles.txt --word adoption --html page.html
      glassformer embed-map MODEL titles.csv --word adoption --column label=sense --output adoption/
      glassformer embed-map MODEL early.txt --against late.txt --word broadcast --control people
    """
    if serving.html is not None:
        check_html_path(serving.html)
    if serve and serving.html is not None:
        raise ConfigError("--serve and --html are two ways to see the page; give one")
    corpus, labels = _read_corpus(texts, options, reading)
    second = _read_corpus(options.against, options, reading)[0] if options.against else None
    with spinner("loading the model"):
        from glassformer.inspect.embeddings.semantic_change import change_of
        from glassformer.inspect.embeddings.word_study import study
        from glassformer.model import load

        loaded = load(model, **given(loading))
    with notes(repeats=False):
        if second is not None:
            names = _corpus_names(texts, options.against)
            with spinner("embedding the occurrences"):
                change = change_of(loaded, corpus, second, options, names=names, seed=projection.seed)
            show(change, json)
            return
        with progress_of("embedding") as bar:
            made = study(loaded, corpus, options, labels=labels, seed=projection.seed, progress=bar)
        _show(made, loaded, model, options, projection, serving, serve=serve, json=json)


def _show(
    study: WordStudy,
    loaded: Model,
    name: str,
    options: WordStudyOptions,
    projection: ProjectionOptions,
    serving: Serving,
    *,
    serve: bool,
    json: bool,
) -> None:
    """Write files and page, print the study, and serve the page."""
    from glassformer.explorer.study_page import save_study_page, study_look
    from glassformer.inspect.embeddings.embedding_map import EmbeddingMap

    written: dict[str, Any] = {"model": name}
    factory, embedding_map = loaded.session_factory(truncation=True), EmbeddingMap.of(study.embeddings)
    if options.output is not None:
        files = embedding_map.export(options.output, vectors=study.embeddings.vectors(options.layers))
        written["files"] = [str(path) for path in files]
    if serving.html is not None:
        written["page"] = save_study_page(factory, study, embedding_map, serving.html, projection, progress_of)
    show(study, json, **written)
    for path in written.get("files", ()) if not json else ():
        say(f"saved in {path}")
    if "page" in written and not json:
        say(f"saved in {serving.html}: {byte_amount(written['page']['bytes'])}; open it in any browser")
    if serve:
        with study_look(factory, study, embedding_map, method=projection.method) as look:
            look.serve(serving.port)
            wait_until_stopped(look, serving.browser)


def _read_corpus(
    arguments: Sequence[str], options: WordStudyOptions, reading: ReadingOptions
) -> tuple[list[str], list[str] | None]:
    """The texts, and their labels where a column has them."""
    columns, labels, format = {"text": "text", **options.columns}, None, reading.keywords()
    if "label" in columns:
        from glassformer.data.rows import read_rows
        from glassformer.data.texts import NO_LIMIT

        rows = list(read_rows(list(arguments), columns=list(columns.values()), limit=NO_LIMIT, **format))
        texts, labels = [row[columns["text"]] for row in rows], [str(row[columns["label"]]) for row in rows]
    else:
        texts = inputs(arguments, columns, format)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {number} is {text!r:.60}; it must be a text")
    if not options.sentences:
        return texts, labels
    from glassformer.text.sentences import split_labelled

    return split_labelled(texts, labels)


def _corpus_names(first: Sequence[str], second: Sequence[str]) -> tuple[str, str]:
    """The names of two corpora: those of their files, where these differ."""
    left, right = (Path(each[0]).stem[:20] if len(each) == 1 else "" for each in (first, second))
    return (left, right) if left and right and left != right else ("first", "second")
