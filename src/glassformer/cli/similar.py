"""`glassformer similar MODEL TEXT TEXT`: the similarity of texts, and of two which words make it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import inputs
from glassformer.cli.options import Json, ModelName, command
from glassformer.cli.screen import notes, show
from glassformer.errors import DataError
from glassformer.files.schema import given
from glassformer.inspect.options import SimilarityOptions
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.inspect.similarity import NearestTexts, SimilarityTable
    from glassformer.model import Model

TABLE_TEXTS = 12
"""Texts of a table that compares each with each; of more, the nearest to the first are listed."""


@command
def similar(
    model: ModelName,
    texts: Annotated[
        list[str], typer.Argument(help="Texts, in quotes; files with a text per line; - reads standard input.")
    ],
    *,
    options: SimilarityOptions,
    loading: Loading,
    json: Json = False,
) -> None:
    """Explain the similarity of two texts: a token × token map whose cells sum to the cosine.

    Of 3 to 12 texts, a table of the similarity of each to each; of more, those nearest to the first (semantic search).

    Examples:
      glassformer similar MODEL 'a man plays guitar' 'someone plays an instrument'
      # the lines nearest to a query
      glassformer similar MODEL 'a query' sentences.txt --top 5
    """
    from glassformer.data.texts import read_texts

    read = inputs(texts)
    if not all(isinstance(text, str) for text in read):
        raise DataError("similar compares texts; give texts, not conversations or lists of words")
    if len(read) < 2:
        raise DataError("similar compares texts, and got one; give two, or a query and a file with a text per line")
    if len(texts) > 1 and len(read) > TABLE_TEXTS and os.path.isfile(texts[0]) and len(list(read_texts(texts[0]))) > 1:
        raise DataError(
            f"the query comes first, and {texts[0]} holds several texts; put the query before the file: "
            f"similar MODEL 'QUERY' {texts[0]}; of a file alone, line 1 is the query"
        )
    options.check_texts(len(read))
    if options.html is not None:
        check_html_path(options.html)
    with spinner("loading the model"):
        from glassformer.model import load

        loaded = load(model, **given(loading))
    with notes():
        if options.html is not None:
            _write_page(loaded, read, options.html, json)
        elif len(read) == 2:
            explained = loaded.explain_similarity(read[0], read[1], measure=options.measure, **options.prompts())
            show(replace(explained.words() if options.words else explained, listed=options.top), json, indent=None)
        elif len(read) <= TABLE_TEXTS:
            show(_each_to_each(loaded, read, options), json, indent=None)
        else:
            # the first line of the only file is the query, and the others keep their lines
            show(_nearest(loaded, read[0], read[1:], options, start=2 if len(texts) == 1 else 1), json)


def _write_page(model: Model, texts: list[str], html: Path, json: bool) -> None:
    from glassformer.cli.look_page import write
    from glassformer.explorer.look import InitialView, Look
    from glassformer.explorer.session_runs import SessionRuns

    with Look(SessionRuns(model.session_factory()), texts, InitialView(view="similarity")) as look:
        write(look, html, json=json)


def _each_to_each(model: Model, texts: list[str], options: SimilarityOptions) -> SimilarityTable:
    from glassformer.inspect.similarity import SimilarityTable

    vectors = model.encode(texts, **options.prompts())
    similarities = model.similarity(vectors, vectors).tolist()
    return SimilarityTable(measure=model.similarity_fn_name, texts=texts, similarities=similarities)


def _nearest(model: Model, query: str, documents: list[str], options: SimilarityOptions, *, start: int) -> NearestTexts:
    """The texts nearest to the first, best first, with their numbers, counted from `start`."""
    from glassformer.inspect.similarity import NearestTexts, NearText

    ranking = model.rank(query, documents, top_k=options.top, return_documents=True, **options.prompts())
    nearest = [NearText(number=x["corpus_id"] + start, score=x["score"], text=x["text"]) for x in ranking]
    # a similarity of two vectors, or the score that a classifier gives a pair
    measure = "score" if model.task == "text-classification" else model.similarity_fn_name
    return NearestTexts(measure=measure, query=query, texts=len(documents), nearest=nearest)
