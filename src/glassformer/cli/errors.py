"""`glassformer errors RUN`: error analysis: rows with the highest loss, confusion matrix, explorer pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Browser, Columns, Json, OtherRows, Port, RunFolder, SplitName, pairs_of
from glassformer.cli.screen import ProgressBar, notes, print_json

if TYPE_CHECKING:
    from glassformer.evaluation.splits import EvaluatedSplit


def errors(
    run: RunFolder,
    part: SplitName = "validation",
    data: OtherRows = None,
    column: Columns = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the page to this HTML file or folder instead of serving it.", show_default=False
        ),
    ] = None,
    look: Annotated[
        int,
        typer.Option(
            min=0, help="With --html: number of rows, the worst, that get an attention explorer page."
        ),
    ] = 10,
    only_print: Annotated[bool, typer.Option("--print", help="Print only: serve no page.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of rows to print.")] = 10,
    port: Port = None,
    browser: Browser = None,
    json: Json = False,
) -> None:
    """Error analysis: rows sorted by loss, a confusion matrix, and a page that links rows to the attention explorer.

    Serves the page on this machine until Ctrl-C, or writes it as a file.

    Examples:

    [cyan]glassformer errors runs/mood[/]  in the terminal, then as a page in your browser

    [cyan]glassformer errors runs/mood --html errors/[/]  the page, and beside it the explorer on the ten worst rows

    [cyan]glassformer errors runs/mood --part train --print[/]  training data: high losses are often wrong labels
    """
    from glassformer.evaluation.error_analysis.confusion import confusion_matrix
    from glassformer.evaluation.error_analysis.errors import analyse_errors
    from glassformer.evaluation.runs import open_run
    from glassformer.evaluation.splits import evaluated_split

    page = None if html is None else page_path(html)
    with notes(), ProgressBar("rows") as bar:
        split = evaluated_split(
            open_run(run, columns=pairs_of(column, "--column")),
            part,
            data,
            lambda message: typer.echo(f"note: {message}", err=True),
            bar,
        )
    names = split.report.classes.names if split.report.classes is not None else None
    listing = analyse_errors(split.records, top)
    confusion = confusion_matrix(split.records, names if listing.kind == "classes" else None)
    if json:
        report = {**listing.to_dict(), "confusion": None if confusion is None else confusion.to_dict()}
        print_json(report)
    else:
        typer.echo(str(listing))
        if confusion is not None:
            typer.echo(f"\nConfusion matrix\n{confusion}")
    if page is not None:
        _write(split, page, look)
        typer.echo(f"saved in {page}", err=json)
    elif not (json or only_print):
        _serve(split, port, browser)


def page_path(html: Path) -> Path:
    """The HTML file of the page: `html` itself, or `errors.html` in that folder, which is created."""
    from glassformer.explorer.standalone_page import check_html_path

    if html.suffix.lower() in (".html", ".htm"):
        return check_html_path(html)
    html.mkdir(parents=True, exist_ok=True)
    return html / "errors.html"


def _write(part: EvaluatedSplit, path: Path, look: int) -> None:
    from glassformer.evaluation.error_analysis.errors import sort_by_loss
    from glassformer.evaluation.error_analysis.page import ErrorsPage, write_explorer_pages

    pages = {}
    if look:
        with ProgressBar("explorer pages") as bar:
            folder = path.parent / f"{path.stem}-look"
            pages = write_explorer_pages(part.run.model, sort_by_loss(part.records)[:look], folder, bar)
    ErrorsPage(part.report, part.records, model=_model(part), pages=pages).save(path)


def _serve(part: EvaluatedSplit, port: int | None, browser: bool | None) -> None:
    from glassformer.evaluation.error_analysis.page import ErrorsPage
    from glassformer.evaluation.error_analysis.served import ServedErrors

    typer.echo()
    with ServedErrors(
        ErrorsPage(part.report, part.records, model=_model(part)), part.run.model, port
    ) as served:
        served.show(browser)
        typer.echo("Ctrl-C stops the server")
        served.wait()


def _model(part: EvaluatedSplit) -> str:
    from glassformer.runs.folder import MODEL

    return str(part.run.folder / MODEL)
