"""`glassformer errors RUN`: the rows that a trained model gets most and least wrong, in the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Browser, Columns, Json, OtherRows, PartName, Port, RunFolder, pairs_of
from glassformer.cli.screen import notes

if TYPE_CHECKING:
    from glassformer.evaluation.splits import Part


def errors(
    run: RunFolder,
    part: PartName = "validation",
    data: OtherRows = None,
    column: Columns = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the page there, a file or a folder, and end.", show_default=False),
    ] = None,
    look: Annotated[
        int,
        typer.Option(min=0, help="With --html: so many rows, the worst, have their explorer page beside it."),
    ] = 10,
    only_print: Annotated[bool, typer.Option("--print", help="Print, and serve no page.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many rows are printed.")] = 10,
    port: Port = None,
    browser: Browser = None,
    json: Json = False,
) -> None:
    """Show where a model goes wrong: rows by loss, what is taken for what, and a page to look into each of them.

    Serves the page on this machine until Ctrl-C, with the explorer one click away, or writes it as a file.

    Examples:

    [cyan]glassformer errors runs/mood[/]  in the terminal, then as a page in your browser

    [cyan]glassformer errors runs/mood --html errors/[/]  the page, and beside it the explorer on the ten worst rows

    [cyan]glassformer errors runs/mood --part train --print[/]  rows it learnt from: high losses are often wrong labels
    """
    from glassformer.cli.look import Bar
    from glassformer.evaluation.error_analysis.confusion import confusion_of
    from glassformer.evaluation.error_analysis.errors import errors_of
    from glassformer.evaluation.runs import open_run
    from glassformer.evaluation.splits import judged_part

    place = None if html is None else page_place(html)
    with notes(), Bar("rows") as bar:
        found = judged_part(
            open_run(run, columns=pairs_of(column, "--column")),
            part,
            data,
            lambda said: typer.echo(f"note: {said}", err=True),
            bar,
        )
    names = found.report.classes.names if found.report.classes is not None else None
    told = errors_of(found.records, top)
    confusion = confusion_of(found.records, names if told.kind == "classes" else None)
    if json:
        import json as json_format

        report = {**told.to_dict(), "confusion": None if confusion is None else confusion.to_dict()}
        typer.echo(json_format.dumps(report, ensure_ascii=False, indent=2))
    else:
        typer.echo(str(told))
        if confusion is not None:
            typer.echo(f"\nWhat was taken for what\n{confusion}")
    if place is not None:
        _write(found, place, look)
        typer.echo(f"saved in {place}", err=json)
    elif not (json or only_print):
        _serve(found, port, browser)


def page_place(html: Path) -> Path:
    """The file of the page: the one that is named, or `errors.html` in a folder, which is made."""
    from glassformer.explorer.page import check_place

    if html.suffix.lower() in (".html", ".htm"):
        return check_place(html)
    html.mkdir(parents=True, exist_ok=True)
    return html / "errors.html"


def _write(part: Part, place: Path, look: int) -> None:
    from glassformer.cli.look import Bar
    from glassformer.evaluation.error_analysis.errors import by_loss
    from glassformer.evaluation.error_analysis.page import ErrorsPage, look_pages

    pages = {}
    if look:
        with Bar("looking inside") as bar:
            folder = place.parent / f"{place.stem}-look"
            pages = look_pages(part.run.model, by_loss(part.records)[:look], folder, bar)
    ErrorsPage(part.report, part.records, model=_model(part), pages=pages).save(place)


def _serve(part: Part, port: int | None, browser: bool | None) -> None:
    from glassformer.evaluation.error_analysis.page import ErrorsPage
    from glassformer.evaluation.error_analysis.served import ServedErrors

    typer.echo()
    with ServedErrors(
        ErrorsPage(part.report, part.records, model=_model(part)), part.run.model, port
    ) as served:
        served.show(browser)
        typer.echo("Ctrl-C stops the server")
        served.wait()


def _model(part: Part) -> str:
    from glassformer.runs.folder import MODEL

    return str(part.run.folder / MODEL)
