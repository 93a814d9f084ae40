"""`glassformer index FOLDER --output STORE`: a folder of documents, made searchable for `find` and `ask`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import note, notes, show, show_next
from glassformer.errors import DataError
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import progress_bar, spinner
from glassformer.retrieval.options import DocumentOptions, StoreOptions, WorkerOptions
from glassformer.retrieval.postgres_database import shown_address


@command
def index(
    folder: Annotated[str, typer.Argument(help="Folder of documents; with --status a store.", show_default=False)],
    *,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Store to make or update: a folder, or postgresql://USER@HOST/DATABASE."),
    ] = None,
    options: StoreOptions,
    files: DocumentOptions,
    workers: WorkerOptions,
    loading: Loading,
    status: Annotated[bool, typer.Option("--status", help="Show what a store holds, and what was not read.")] = False,
    json: Json = False,
) -> None:
    """Index a folder of documents: text, Markdown, HTML, PDF, DOCX, tables and source code, for `ask` and `find`.

    The same command brings the store up to date: what did not change is not embedded again.

    Examples:
      glassformer index notes --output notes.store
      # search by words alone, without a model
      glassformer index notes --output notes.store --model none
      # into a PostgreSQL database with pgvector
      glassformer index notes --output postgresql://me@db.example/notes
      # eight processes embed, one reads and writes
      glassformer index library --output library.store --workers 8
      # what is in it, and which files could not be read
      glassformer index notes.store --status
    """
    if status:
        from glassformer.retrieval.indexing import report_of
        from glassformer.retrieval.opening import open_store

        show(report_of(open_store(folder), folder), json)
        return
    if output is None:
        name = Path(folder).name or "notes"
        raise DataError(f"--output is missing; give the folder of the store that is made: --output {name}.store")
    with notes():
        with spinner("loading the model"):
            from glassformer.retrieval.indexing import index_folder, model_and_options

            model, chosen, remark = model_and_options(output, options, **given(loading))
        if remark:
            note(remark)
        report = index_folder(
            folder, output, model, options=chosen, files=files, revision=loading.revision, workers=workers,
            loading=given(loading), bar=progress_bar,
        )  # fmt: skip
    show(report, json)
    if not json:
        show_next(
            [f'glassformer ask "your question" --store {quote(shown_address(output))}'] if report.passage_count else []
        )
