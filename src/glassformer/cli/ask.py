"""`glassformer find` and `ask`: search and question answering over documents that `index` read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import note, notes, save_page, show, show_tables
from glassformer.errors import ConfigError, GlassformerError
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading, Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path
from glassformer.retrieval.options import AskOptions, RetrievalOptions

if TYPE_CHECKING:
    from glassformer.retrieval.answer import Answer
    from glassformer.retrieval.retriever import RetrievalResult, Retriever

StorePath = Annotated[str, typer.Option("--store", "-s", help="Store: a folder, or postgresql://USER@HOST/DATABASE.")]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", help="Write the answer and its passages to this HTML file (self-contained).", show_default=False
    ),
]
Trace = Annotated[bool, typer.Option("--trace", help="Show stages with their times, and why each passage matches.")]


@command
def find(
    question: Annotated[str, typer.Argument(help="What is searched for, in quotes.", show_default=False)],
    *,
    store: StorePath,
    options: RetrievalOptions,
    loading: InferenceLoading,
    trace: Trace = False,
    html: Html = None,
    json: Json = False,
) -> None:
    """Find passages in documents: by words (BM25), by meaning (embeddings), or both.

    Examples:
      glassformer find "opening hours" --store notes.store --top 3
      glassformer find "opening hours" --store notes.store --folder contracts --method bm25 --trace
    """
    if html is not None:
        check_html_path(html)
    with notes():
        result = _retriever(store, options, loading).search(question, options)
    _show(result, trace, json)
    save_page(html, result, json)


@command
def ask(
    question: Annotated[
        str | None,
        typer.Argument(
            help="Question, in quotes; without one, a prompt that keeps the model loaded, or a question a line from "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    store: StorePath,
    options: AskOptions,
    loading: InferenceLoading,
    trace: Trace = False,
    html: Html = None,
    json: Json = False,
) -> None:
    """Answer a question from documents, with the passage that says it and its place in the file.

    Examples:
      glassformer ask "When was the lighthouse built?" --store notes.store
      # question after question
      glassformer ask --store notes.store
      glassformer ask --store notes.store --json < questions.txt > answers.jsonl
      glassformer ask "Who pays?" --store notes.store --reader runs/reader --trace
      # in its own words
      glassformer ask "Who pays?" --store notes.store --reader Qwen/Qwen2.5-0.5B-Instruct
    """
    if html is not None:
        check_html_path(html)
        if question is None:
            raise ConfigError("--html is the page of one question; give the question, or leave out --html")
    with notes(repeats=False):
        retriever = _retriever(store, options, loading)
        from glassformer.retrieval.answer import NO_READER, load_reader
        from glassformer.retrieval.answer import ask as answer

        reader = None
        if options.reader is not None:
            with spinner("loading the reader"):
                reader = load_reader(options, retriever.store.settings.language, **{**given(loading), "revision": None})
        if question is not None:
            result = answer(question, retriever, options, reader=reader)
            _show(result, trace, json)
            save_page(html, result, json)
            return
        for number, asked in enumerate(_typed()):
            try:
                result = answer(asked, retriever, options, reader=reader)
            except GlassformerError as error:  # of this question; the next may be another
                note(error)
                continue
            if number and not json:
                typer.echo()
                result = replace(result, notes=[x for x in result.notes if x != NO_READER])  # it is on the screen
            _show(result, trace, json, indent=None)


def _retriever(store: str, options: RetrievalOptions, loading: Loading) -> Retriever:
    with spinner("loading the model"):
        from glassformer.retrieval.retriever import Retriever

        return Retriever.open(
            store, model=options.model, method=options.method, reranker=options.rerank, **given(loading)
        )


def _show(result: RetrievalResult | Answer, trace: bool, json: bool, indent: int | None = 2) -> None:
    show(result, json, indent=indent)
    if trace and not json:
        typer.echo()
        show_tables(result.trace())


def _typed() -> Iterator[str]:
    """Questions from the terminal, or one a line from standard input, until it ends."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    while True:
        try:
            line = input("question> " if sys.stdin.isatty() else "")
        except EOFError:
            return
        if line.strip():
            yield line.strip()
