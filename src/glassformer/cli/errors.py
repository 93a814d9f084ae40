"""`glassformer errors RUN`: error analysis; `glassformer review`: suspicious labels, reviewed in a spreadsheet."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, Options, RunFolder, RunRows, Serving, command, option, pairs_of
from glassformer.cli.screen import (
    note,
    notes,
    print_json,
    progress_of,
    say,
    show,
    show_next,
    show_tables,
    visible,
)
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path
from glassformer.reports.report import plain

if TYPE_CHECKING:
    from glassformer.evaluation.runs import EvaluatedSplit


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(Serving):
    """What is listed, and where the page goes."""

    html: Path | None = option(None, "Write the page to this HTML file or folder instead of serving it.")
    look: int = option(10, "With --html: number of rows, the worst, that get an attention explorer page.", min=0)
    only_print: bool = option(False, "Print only: serve no page.", "--print")
    top: int = option(10, "Number of rows to print.", min=1)
    by: str | None = option(None, "Column, such as speaker or source: the metrics of each of its values.")


@command
def errors(run: RunFolder, *, rows: RunRows, options: AnalysisOptions, json: Json = False) -> None:
    """Error analysis: rows sorted by loss, a confusion matrix, and a page that links rows to the attention explorer.

    Serves the page on this machine until Ctrl-C, or writes it as a file.

    Examples:

    [cyan]glassformer errors runs/mood[/]  in the terminal, then as a page in your browser

    [cyan]glassformer errors runs/mood --html errors/[/]  the page, and beside it the explorer on the ten worst rows

    [cyan]glassformer errors runs/mood --part train --print[/]  training data: high losses are often wrong labels

    [cyan]glassformer errors runs/digits --part train --by speaker[/]  which speakers it has most errors on
    """
    from glassformer.evaluation.error_analysis.confusion import confusion_matrix
    from glassformer.evaluation.error_analysis.errors import analyse_errors

    page = None if options.html is None else page_path(options.html)
    split = evaluated_rows(run, rows, options.by)
    if options.by is not None:
        split = _grouped(split, options.by)
    names = split.report.classes.names if split.report.classes is not None else None
    listing = analyse_errors(split.records, options.top)
    confusion = confusion_matrix(split.records, names if listing.label_kind == "classes" else None)
    groups = split.report.groups
    if json:
        print_json({**listing.to_dict(), **plain({"confusion": confusion, "groups": groups})})
    else:
        show([listing, *([] if confusion is None else [confusion])])
        if groups is not None:
            show_tables([groups.table()], groups.sentences())
    if page is not None:
        _write(split, page, options.look)
        say(f"saved in {page}", err=json)
    elif not (json or options.only_print):
        _serve(split, options)


def _grouped(split: EvaluatedSplit, by: str) -> EvaluatedSplit:
    """A split with the metrics by the values of a column in its report; the model is not asked again."""
    from glassformer.evaluation.groups import group_names, metrics_by_group

    names = group_names(split.rows(), by)
    groups = metrics_by_group(split.run.task_for_evaluation(), split.records, by, names, shown=None)
    return replace(split, report=replace(split.report, groups=groups))


def page_path(html: Path, name: str = "errors.html") -> Path:
    """The HTML file of the page: `html` itself, or the name in that folder, which is created."""

    if html.suffix.lower() in (".html", ".htm"):
        return check_html_path(html)
    html.mkdir(parents=True, exist_ok=True)
    return html / name


def _write(part: EvaluatedSplit, path: Path, look: int) -> None:
    from glassformer.evaluation.error_analysis.page import ErrorsPage
    from glassformer.evaluation.error_analysis.served import write_explorer_pages
    from glassformer.tasks.predictions import sort_by_loss

    pages = {}
    if look:
        with progress_of("explorer pages") as bar:
            folder = path.parent / f"{path.stem}-look"
            pages = write_explorer_pages(part.run.model, sort_by_loss(part.records)[:look], folder, bar)
    ErrorsPage(part.report, part.records, model=str(part.run.folder), pages=pages).save(path)


def _serve(part: EvaluatedSplit, serving: Serving) -> None:
    from glassformer.evaluation.error_analysis.page import ErrorsPage
    from glassformer.evaluation.error_analysis.served import ServedErrors

    typer.echo()
    page = ErrorsPage(part.report, part.records, model=str(part.run.folder))
    with ServedErrors(page, part.run.model, serving.port) as served:
        served.show(serving.browser)
        typer.echo("Ctrl-C stops the server")
        served.wait()


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
    rows: RunRows,
) -> None:
    """Export the rows with the highest loss to a spreadsheet, for a person to review.

    In the column `correction`, write the correct label, `delete` to drop the row, or nothing where the label is
    correct. For tagging tasks, each line is a word.

    Examples:

    [cyan]glassformer review out runs/mood sheet.csv --worst 200[/]

    [cyan]glassformer review out runs/mood sheet.csv --part train[/]  training data
    """
    from glassformer.evaluation.error_analysis.review import write_sheet

    split = evaluated_rows(run, rows)
    written = write_sheet(sheet, split.records, worst)
    say(f"{written:,} of {len(split.records):,} rows in {sheet}: fill in the column `correction`")
    options = "".join(f" --data {shlex.quote(x)}" for x in rows.data or ())
    options += "".join(f" --column {shlex.quote(x)}" for x in rows.column or ())
    options += "".join(f" --ignore {shlex.quote(x)}" for x in rows.ignore or ())
    options += "" if rows.part == "validation" else f" --part {rows.part}"
    show_next(
        [f"glassformer review in {shlex.quote(str(run))} {shlex.quote(str(sheet))} --output corrected.jsonl{options}"]
    )


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Options):
    """Where corrected rows go."""

    output: Path = option(..., "Output file of the corrected rows: a new .jsonl, .csv or .tsv.", "--output", "-o")
    new_labels: bool = option(False, "Allow corrections to labels that do not occur in the data.")


@review.command("in")
@command
def bring_in(
    run: RunFolder,
    sheet: Annotated[Path, typer.Argument(help="Reviewed spreadsheet.", show_default=False)],
    *,
    options: ImportOptions,
    rows: RunRows,
    json: Json = False,
) -> None:
    """Import corrections from a spreadsheet: validate it, and write all rows with the corrections to a new file.

    Example:

    [cyan]glassformer review in runs/mood sheet.csv --part train --output train-corrected.jsonl[/]
    """
    from glassformer.data.rows import output_format
    from glassformer.evaluation.error_analysis.corrected import retrain_command, write_corrected
    from glassformer.evaluation.error_analysis.review import read_sheet

    output_format(options.output)  # checked before the work
    split = evaluated_rows(run, rows)
    corrections = read_sheet(sheet, split.records, split.labels(), new_labels=options.new_labels)
    written = write_corrected(split, corrections, options.output)
    command = retrain_command(split, written)
    if json:
        facts = {"rows_written": written.rows, "output": str(options.output), "again": command}
        print_json({**corrections.to_dict(), **facts})
        return
    show(corrections)
    for each in corrections.comments:
        typer.echo(f"  {visible(each.where)}: {visible(each.comment)}")
    say(f"{written.rows:,} rows saved in {options.output}")
    if not corrections.labels and not corrections.dropped_rows:
        note("no line has a correction: write the correct label, or `delete`, into the column `correction`")
    show_next([command] if command else [])


def evaluated_rows(run: Path, rows: RunRows, by: str | None = None) -> EvaluatedSplit:
    """A split of a run with its predictions, evaluated now where they are missing; `by`: a column that groups rows."""
    with spinner("starting"):
        from glassformer.evaluation.runs import evaluated_split, open_run

    with notes(), progress_of("rows") as bar:
        ignored = [*(rows.ignore or ()), *([] if by is None else [by])]
        opened = open_run(run, columns=pairs_of(rows.column, "--column"), ignore=ignored)
        return evaluated_split(opened, rows.part, rows.data, note, bar)
