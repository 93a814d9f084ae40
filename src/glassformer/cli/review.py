"""`glassformer review`: labels that may be wrong, out to a spreadsheet and back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Columns, Json, OtherRows, PartName, RunFolder, pairs_of
from glassformer.cli.screen import notes, visible

if TYPE_CHECKING:
    from glassformer.evaluation.splits import Part

review = typer.Typer(
    name="review",
    no_args_is_help=True,
    add_completion=False,
    help="Review labels that may be wrong: out to a spreadsheet, back as corrected rows.",
)


@review.command("out")
def out(
    run: RunFolder,
    sheet: Annotated[Path, typer.Argument(help="The sheet to write, such as sheet.csv.", show_default=False)],
    worst: Annotated[int, typer.Option(min=1, help="How many rows, those with the highest loss.")] = 100,
    part: PartName = "validation",
    data: OtherRows = None,
    column: Columns = None,
) -> None:
    """Write the rows with the highest loss to a sheet, to be looked through by a person.

    Write the right label into the column `correction`, `delete` for a row that is no good, and nothing where the label
    is right. Where words are tagged, a line is a word.

    Examples:

    [cyan]glassformer review out runs/mood sheet.csv --worst 200[/]

    [cyan]glassformer review out runs/mood sheet.csv --part train[/]  rows it learnt from
    """
    from glassformer.evaluation.error_analysis.review import write_sheet

    found = _part(run, part, data, column)
    rows = write_sheet(sheet, found.records, worst)
    typer.echo(f"{rows:,} of {len(found.records):,} rows in {sheet}: fill in the column `correction`, then")
    more = "".join(f" --data {shlex.quote(x)}" for x in data or ())
    more += "".join(f" --column {shlex.quote(x)}" for x in column or ())
    more += "" if part == "validation" else f" --part {part}"
    typer.echo(
        f"glassformer review in {shlex.quote(str(run))} {shlex.quote(str(sheet))} --output corrected.jsonl{more}"
    )


@review.command("in")
def bring_in(
    run: RunFolder,
    sheet: Annotated[
        Path, typer.Argument(help="The sheet that somebody has gone through.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The corrected rows: a new .jsonl, .csv or .tsv.", show_default=False
        ),
    ],
    part: PartName = "validation",
    data: OtherRows = None,
    column: Columns = None,
    new_labels: Annotated[
        bool, typer.Option("--new-labels", help="Corrections may be labels that there were not.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a sheet line by line, and write all rows with its corrections; the original data stay as they are.

    Example:

    [cyan]glassformer review in runs/mood sheet.csv --part train --output train-corrected.jsonl[/]
    """
    from glassformer.data.write import written_kind
    from glassformer.evaluation.error_analysis.corrected import again, write_corrected
    from glassformer.evaluation.error_analysis.review import read_sheet

    written_kind(output)  # better known before the work
    found = _part(run, part, data, column)
    told = read_sheet(sheet, found.records, found.labels(), new_labels=new_labels)
    written = write_corrected(found, told, output)
    command = again(found, written)
    if json:
        import json as json_format

        report = {**told.to_dict(), "rows_written": written.rows, "output": str(output), "again": command}
        typer.echo(json_format.dumps(report, ensure_ascii=False, indent=2))
        return
    typer.echo("\n".join(map(visible, str(told).splitlines())))
    for where, comment in told.comments:
        typer.echo(f"  {visible(where)}: {visible(comment)}")
    typer.echo(f"{written.rows:,} rows saved in {output}")
    if command:
        typer.echo(f"then: {command}")


def _part(run: Path, part: str, data: list[str] | None, column: list[str] | None) -> Part:
    from glassformer.cli.look import Bar
    from glassformer.evaluation.runs import open_run
    from glassformer.evaluation.splits import judged_part

    with notes(), Bar("rows") as bar:
        named = open_run(run, columns=pairs_of(column, "--column"))
        return judged_part(named, part, data, lambda said: typer.echo(f"note: {said}", err=True), bar)
