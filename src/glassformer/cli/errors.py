"""`glassformer errors RUN`: error analysis; `glassformer review`: suspicious labels, reviewed in a spreadsheet."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.look_page import wait_until_stopped
from glassformer.cli.options import Json, RunFolder, Without, as_typed, command
from glassformer.cli.screen import note, notes, progress_of, say, say_saved, show, show_next, show_tables, visible
from glassformer.cli.stopped import UNSAVED, pages_stopped, saying_where_stopped
from glassformer.data.options import ReadingOptions
from glassformer.evaluation.options import CorrectionOptions, ErrorOptions, RowOptions
from glassformer.explorer.options import Serving
from glassformer.progress import spinner
from glassformer.reports.page import page_path
from glassformer.reports.report import plain

if TYPE_CHECKING:
    from glassformer.evaluation.runs import EvaluatedSplit


@command
def errors(
    run: RunFolder,
    *,
    rows: RowOptions,
    reading: Annotated[ReadingOptions, Without(["part"])],
    serving: Annotated[Serving, Without(["html"])],
    options: ErrorOptions,
    only_print: Annotated[bool, typer.Option("--print", help="Print only: serve no page.")] = False,
    json: Json = False,
) -> None:
    """Error analysis: rows sorted by loss, a confusion matrix, and a page that links rows to the attention explorer.

    Serves the page on this machine until Ctrl-C, or writes it as a file.

    Examples:
      # in the terminal, then as a page in your browser
      glassformer errors runs/mood
      # the page, and next to it the explorer on the ten worst rows
      glassformer errors runs/mood --html errors/
      # training data: high losses are often wrong labels
      glassformer errors runs/mood --part train --print
      # which speakers it has most errors on
      glassformer errors runs/digits --part train --by speaker
    """
    page = None if options.html is None else page_path(options.html, "errors.html")
    split = evaluated(run, rows, options.by, reading)
    network = split.run.scorer is None  # of a method of few labels that is none, there is nothing to look into
    from glassformer.evaluation.error_analysis.confusion import confusion_matrix
    from glassformer.evaluation.error_analysis.errors import analyse_errors
    from glassformer.evaluation.error_analysis.served import save_errors_page, serve_errors

    groups, classes, listing = split.report.groups, split.report.classes, analyse_errors(split.records, options.top)
    names = None if classes is None or listing.label_kind != "classes" else classes.names
    confusion = confusion_matrix(split.records, names)
    if json:
        show(listing, json=True, **plain({"confusion": confusion, "groups": groups}))
    else:
        show([listing, *([] if confusion is None else [confusion])])
        if groups is not None:
            show_tables([groups.table()], groups.sentences())
    if page is not None:
        title = f"{page.name}, then the explorer's pages of its worst rows"
        with saying_where_stopped(pages_stopped(page)), progress_of(title) as bar:
            pages = save_errors_page(split, page, options.look if network else 0, bar)
        say_saved(page, pages, err=json)
    elif network and not (json or only_print):
        typer.echo()
        with serve_errors(split, serving.port) as served:
            wait_until_stopped(served, serving.browser)


review = typer.Typer(
    name="review",
    no_args_is_help=True,
    add_completion=False,
    help="Review suspicious labels: export rows to a spreadsheet, import the corrections.",
)


@review.command("out")
@command
def out(
    run: RunFolder,
    sheet: Annotated[Path, typer.Argument(help="Spreadsheet to write, such as sheet.csv.", show_default=False)],
    worst: Annotated[int, typer.Option(min=1, help="Number of rows, those with the highest loss.")] = 100,
    *,
    rows: RowOptions,
    reading: Annotated[ReadingOptions, Without(["part"])],
) -> None:
    """Export the rows with the highest loss to a spreadsheet, for a person to review.

    In the column `correction`, write the correct label, `delete` to drop the row, or nothing where the label is
    correct. For tagging tasks, each line is a word.

    Examples:
      glassformer review out runs/mood sheet.csv --worst 200
      # training data
      glassformer review out runs/mood sheet.csv --part train
    """
    from glassformer.evaluation.error_analysis.review import write_sheet

    split = evaluated(run, rows, reading=reading)
    written = write_sheet(sheet, split.records, worst)
    say(f"{written:,} of {len(split.records):,} rows in {sheet}: fill in the column `correction`")
    again = ["glassformer", "review", "in", str(run), str(sheet), "--output", "corrected.jsonl"]
    show_next([shlex.join([*again, *as_typed(rows), *as_typed(reading)])])


@review.command("in")
@command
def bring_in(
    run: RunFolder,
    sheet: Annotated[Path, typer.Argument(help="Reviewed spreadsheet.", show_default=False)],
    *,
    options: CorrectionOptions,
    rows: RowOptions,
    reading: Annotated[ReadingOptions, Without(["part"])],
    json: Json = False,
) -> None:
    """Import corrections from a spreadsheet: validate it, and write all rows with the corrections to a new file.

    Example:
      glassformer review in runs/mood sheet.csv --part train --output train-corrected.jsonl
    """
    from glassformer.data.rows import output_format
    from glassformer.evaluation.error_analysis.corrected import retrain_command, write_corrected
    from glassformer.evaluation.error_analysis.review import read_sheet

    output_format(options.output)  # checked before the work
    split = evaluated(run, rows, reading=reading)
    corrections = read_sheet(sheet, split.records, split.labels(), new_labels=options.new_labels)
    written = write_corrected(split, corrections, options.output)
    command = retrain_command(split, written)
    show(corrections, json, rows_written=written.rows, output=str(options.output), again=command)
    if json:
        return
    for each in corrections.comments:
        typer.echo(f"  {visible(each.where)}: {visible(each.comment)}")
    say(f"{written.rows:,} rows saved in {options.output}")
    if not corrections.labels and not corrections.dropped_rows:
        note("no line has a correction: write the correct label, or `delete`, into the column `correction`")
    show_next([command] if command else [])


def evaluated(
    run: Path, rows: RowOptions, by: str | None = None, reading: ReadingOptions | None = None
) -> EvaluatedSplit:
    """Rows of a run with their predictions, with a progress bar; see `evaluated_rows`."""
    with saying_where_stopped(UNSAVED):
        with spinner("starting"):
            from glassformer.evaluation.request import evaluated_rows

        with notes(), progress_of("rows") as bar:
            return evaluated_rows(run, rows, by, note, bar, reading=reading)
