"""`glassformer evaluate RUN`: metrics of a trained model with 95% confidence intervals, next to simple baselines.

`glassformer evaluate STORE --queries FILE`: recall and ranking of the search methods of a store of documents.

`glassformer reproduce CHAPTER`: published results of a book, reproduced.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, Only, command
from glassformer.cli.screen import first_words, notes, save_page, say, show, show_next, visible
from glassformer.cli.stopped import SEEDS_STOPPED, UNSAVED, saying_where_stopped
from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.options import EvaluationRequest
from glassformer.files.schema import given
from glassformer.progress import progress_bar, spinner
from glassformer.retrieval.options import QueryOptions, RetrievalOptions, is_store_folder
from glassformer.retrieval.postgres_database import is_address
from glassformer.runs.folder import check_run, seed_folders

if TYPE_CHECKING:
    from glassformer.evaluation.evaluate import Evaluation


@command
def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            help="Run folder, of one or several random seeds; with --task any model folder or Hub name; with --queries "
            "a store of documents.",
            show_default=False,
        ),
    ],
    options: EvaluationRequest,
    reading: ReadingOptions,
    queries: QueryOptions,
    search: Annotated[RetrievalOptions, Only(["top", "method", "candidates", "dense_weight", "rerank"])],
    json: Json = False,
) -> None:
    """Evaluate a trained model: metrics with 95% bootstrap confidence intervals, next to baselines.

    Saves report.json, and examples.jsonl: the prediction and the loss of each row.

    Examples:
      # on its validation split; for several seeds, each
      glassformer evaluate runs/mood
      glassformer evaluate runs/mood --data test.csv --column text=tweet --ignore id
      # a published checkpoint
      glassformer evaluate MODEL --task classify --data test.csv --train train.csv
      # which corpus has most errors
      glassformer evaluate MODEL --task transcribe --data clips.csv --by corpus
      glassformer evaluate MODEL --task transcribe --data clips.csv --set task_options.language=uk
      # search methods; tunes the fusion
      glassformer evaluate notes.store --queries queries.csv --tune
      # and of the answers
      glassformer evaluate notes.store --queries dev.json --reader runs/reader/model
    """
    if queries.queries is not None or is_address(run) or is_store_folder(Path(run).expanduser()):
        _evaluate_store(run, queries, search, options, reading, json)
        return
    if unused := {**given(queries), **given(search)}:
        raise ConfigError(f"{next(iter(unused))}= is for a store of documents, with queries= FILE")
    if own := reading.keywords():
        options = replace(options, format={**(options.format or {}), **own})
    seeds = options.task is None and seed_folders(run)
    if options.task is None and not Path(run).expanduser().exists():
        check_run(run)
    with notes(), saying_where_stopped(SEEDS_STOPPED if seeds else UNSAVED):
        with spinner("starting"):
            from glassformer.evaluation.request import evaluate_by_options, evaluate_seeds

        if seeds:
            show(evaluate_seeds(run, options, progress_bar), json)
            return
        evaluation, own_folder = evaluate_by_options(run, options, progress_bar)
    folder = options.output or own_folder
    show(evaluation.report, json)  # before it is saved, which a full disk may refuse after hours of work
    if folder is not None:
        evaluation.save(folder)
    if json:
        return
    say("\nnot saved; --output FOLDER saves it" if folder is None else f"\nsaved in {folder}")
    show_next(_next_commands(run, evaluation, own_folder if folder == own_folder else None))


def _evaluate_store(
    store: str,
    queries: QueryOptions,
    search: RetrievalOptions,
    options: EvaluationRequest,
    reading: ReadingOptions,
    json: bool,
) -> None:
    """Evaluate the search of a store. Raises: ConfigError: no queries, or an option of a model's evaluation."""
    if queries.queries is None:
        raise ConfigError("this is a store of documents; give queries= FILE, of questions with a file or an answer")
    if unused := given(options).keys() - {"columns", "device", "format"}:
        raise ConfigError(f"{min(unused)}= is for the evaluation of a model; with queries= a store is evaluated")
    with notes(), saying_where_stopped(UNSAVED):
        with spinner("starting"):
            from glassformer.reports.page import check_html_path
            from glassformer.retrieval.evaluation import evaluate_store

        html = None if queries.html is None else check_html_path(queries.html)
        report = evaluate_store(
            store, queries.queries, search, tune=queries.tune, columns=options.columns, bar=progress_bar,
            reading={**(options.format or {}), **reading.keywords()},
            loading={} if options.device is None else {"device": options.device}, reader=queries.reader,
        )  # fmt: skip
    show(report, json)
    save_page(html, report, json)


def _next_commands(model: str, evaluation: Evaluation, saved: Path | None) -> list[str]:
    """Attention on the text of the highest loss; and, of an evaluation that is saved in its run, the errors."""
    from glassformer.evaluation.runs import VALIDATION
    from glassformer.tasks.predictions import sort_by_loss

    quoted, commands = shlex.quote(model), []
    worst = next(iter(sort_by_loss(evaluation.predictions)), None)
    row = {} if worst is None else worst.row
    words = next((row[role] for role in ("text", "tokens", "source", "question") if row.get(role)), "")
    if text := first_words(words if isinstance(words, str) else " ".join(map(str, words))):
        commands.append(f"glassformer look {quoted} {shlex.quote(text)}")
    if saved is not None:
        part = "" if saved.name == VALIDATION else f" --part {shlex.quote(saved.name)}"
        commands.append(f"glassformer errors {quoted}{part}")
    return commands


def reproduce(
    chapter: Annotated[str, typer.Argument(help="Chapter: 2, 4, 6, 7 or 8.", show_default=False)],
    runs: Annotated[Path, typer.Option(help="Folder of the trained runs.")] = Path("runs"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets. Default: where `glassformer data fetch` puts them.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce results of "Natural Language Processing with Transformers": published numbers next to ours.

    Numbers that need no training are computed now; others are read from trained runs, and where a run is missing, the
    command that trains it is shown. Deviations are marked, with a possible reason; the exit code stays 0.

    Examples:
      glassformer reproduce 6
      glassformer train examples/emotion.yaml && glassformer reproduce 2
    """
    from glassformer.evaluation.reproduce import reproduce as reproduce_chapter

    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such folder; --data is that of the data sets, with emotion/, wikiann/, … in it")

    def progress(step: str) -> None:
        if sys.stderr.isatty() and not json:
            print(f"\r\x1b[K{visible(step)} …", end="", file=sys.stderr, flush=True)

    with notes():
        reproduction = reproduce_chapter(chapter, data=data, runs=runs, progress=progress)
    if sys.stderr.isatty() and not json:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    show(reproduction, json)
