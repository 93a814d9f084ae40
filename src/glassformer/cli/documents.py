"""`glassformer index`, `find` and `ask`: search and question answering over a folder of documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import note, notes, say, show, show_next, show_tables
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading, Loading
from glassformer.progress import progress_bar, spinner
from glassformer.reports.page import check_html_path
from glassformer.retrieval.options import AskOptions, DocumentOptions, RetrievalOptions, StoreOptions

if TYPE_CHECKING:
    from glassformer.retrieval.answer import Answer
    from glassformer.retrieval.retriever import RetrievalResult, Retriever

StorePath = Annotated[
    str,
    typer.Option("--store", "-s", help="Store that `glassformer index` made: its folder."),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", help="Write the answer and its passages to this HTML file (self-contained).", show_default=False
    ),
]
Trace = Annotated[bool, typer.Option("--trace", help="Show each stage with its time.")]


@command
def index(
    folder: Annotated[Path, typer.Argument(help="Folder of documents; with --status a store.", show_default=False)],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Store to make, or to bring up to date.")
    ] = None,
    options: StoreOptions,
    files: DocumentOptions,
    loading: Loading,
    status: Annotated[bool, typer.Option("--status", help="Show what a store holds, and what was not read.")] = False,
    json: Json = False,
) -> None:
    """Index a folder of documents: text, Markdown, HTML, PDF, DOCX, tables and source code, for `ask` and `find`.

    The same command brings the store up to date: what did not change is not embedded again.

    Examples:

    [cyan]glassformer index notes --output notes.store[/]

    [cyan]glassformer index notes --output notes.store --model none[/]  search by words alone, without a model

    [cyan]glassformer index notes.store --status[/]  what is in it, and which files could not be read
    """
    if status:
        from glassformer.retrieval.indexing import report_of
        from glassformer.retrieval.opening import open_store

        show(report_of(open_store(folder), folder), json)
        return
    if output is None:
        raise DataError(
            f"--output is missing; give the folder of the store that is made: --output {folder.name or 'notes'}.store"
        )
    with notes():
        with spinner("loading the model"):
            from glassformer.retrieval.indexing import index_folder, model_and_options

            model, chosen, remark = model_and_options(output, options, **given(loading))
        if remark:
            note(remark)
        report = index_folder(
            folder, output, model, options=chosen, files=files, revision=loading.revision, bar=progress_bar
        )
    show(report, json)
    if not json:
        show_next([f'glassformer ask "your question" --store {output}'] if report.passage_count else [])


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

    [cyan]glassformer find "opening hours" --store notes.store --top 3[/]

    [cyan]glassformer find "opening hours" --store notes.store --folder contracts --method bm25 --trace[/]
    """
    if html is not None:
        check_html_path(html)
    with notes():
        result = _retriever(store, options, loading).search(question, options)
    _show(result, trace, json)
    _write(html, result, json)


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

    [cyan]glassformer ask "When was the lighthouse built?" --store notes.store[/]

    [cyan]glassformer ask --store notes.store[/]  question after question

    [cyan]glassformer ask --store notes.store --json < questions.txt > answers.jsonl[/]

    [cyan]glassformer ask "Who pays?" --store notes.store --reader runs/reader --trace[/]
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
                reader = load_reader(options.reader, **{**given(loading), "revision": None})
        if question is not None:
            result = answer(question, retriever, options, reader=reader)
            _show(result, trace, json)
            _write(html, result, json)
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
        show_tables([result.trace()])


def _write(html: Path | None, result: RetrievalResult | Answer, json: bool) -> None:
    """Write the page of a result, where one is wanted."""
    if html is None:
        return
    from glassformer.reports.page import report_page, write_page

    write_page(html, report_page(result))
    if not json:
        say(f"\nsaved in {html}")


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
