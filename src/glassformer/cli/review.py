"""`glassformer review`: review suspicious labels in a spreadsheet, and apply the corrections."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Columns, Json, OtherRows, RunFolder, SplitName, pairs_of
from glassformer.cli.screen import ProgressBar, notes, print_json, visible

if TYPE_CHECKING:
    from glassformer.evaluation.splits import EvaluatedSplit

review = typer.Typer(
    name="review",
    no_args_is_help=True,
    add_completion=False,
    help="Review suspicious labels: export rows to a spreadsheet, import the corrections.",
)


@review.command("out")
def out(
    run: RunFolder,
    sheet: Annotated[
        Path, typer.Argument(help="Spreadsheet to write, such as sheet.csv.", show_default=False)
    ],
    worst: Annotated[int, typer.Option(min=1, help="Number of rows, those with the highest loss.")] = 100,
    part: SplitName = "validation",
    data: OtherRows = None,
    column: Columns = None,
) -> None:
    """Export the rows with the highest loss to a spreadsheet, for a person to review.

    In the column `correction`, write the correct label, `delete` to drop the row, or nothing where the label is
    correct. For tagging tasks, each line is a word.

    Examples:

    [cyan]glassformer review out runs/mood sheet.csv --worst 200[/]

    [cyan]glassformer review out runs/mood sheet.csv --part train[/]  training data
    """
    from glassformer.evaluation.error_analysis.review import write_sheet

    split = _evaluated_split(run, part, data, column)
    rows = write_sheet(sheet, split.records, worst)
    typer.echo(f"{rows:,} of {len(split.records):,} rows in {sheet}: fill in the column `correction`, then")
    options = "".join(f" --data {shlex.quote(x)}" for x in data or ())
    options += "".join(f" --column {shlex.quote(x)}" for x in column or ())
    options += "" if part == "validation" else f" --part {part}"
    typer.echo(
        f"glassformer review in {shlex.quote(str(run))} {shlex.quote(str(sheet))} --output corrected.jsonl{options}"
    )


@review.command("in")
def bring_in(
    run: RunFolder,
    sheet: Annotated[Path, typer.Argument(help="Reviewed spreadsheet.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Output file of the corrected rows: a new .jsonl, .csv or .tsv.",
            show_default=False,
        ),
    ],
    part: SplitName = "validation",
    data: OtherRows = None,
    column: Columns = None,
    new_labels: Annotated[
        bool, typer.Option("--new-labels", help="Allow corrections to labels that do not occur in the data.")
    ] = False,
    json: Json = False,
) -> None:
    """Import corrections from a spreadsheet: validate it, and write all rows with the corrections to a new file.

    Example:

    [cyan]glassformer review in runs/mood sheet.csv --part train --output train-corrected.jsonl[/]
    """
    from glassformer.data.write import output_format
    from glassformer.evaluation.error_analysis.corrected import retrain_command, write_corrected
    from glassformer.evaluation.error_analysis.review import read_sheet

    output_format(output)  # checked before the work
    split = _evaluated_split(run, part, data, column)
    corrections = read_sheet(sheet, split.records, split.labels(), new_labels=new_labels)
    written = write_corrected(split, corrections, output)
    command = retrain_command(split, written)
    if json:
        facts = {"rows_written": written.rows, "output": str(output), "again": command}
        print_json({**corrections.to_dict(), **facts})
        return
    typer.echo("\n".join(map(visible, str(corrections).splitlines())))
    for where, comment in corrections.comments:
        typer.echo(f"  {visible(where)}: {visible(comment)}")
    typer.echo(f"{written.rows:,} rows saved in {output}")
    if command:
        typer.echo(f"then: {command}")


def _evaluated_split(
    run: Path, part: str, data: list[str] | None, column: list[str] | None
) -> EvaluatedSplit:
    from glassformer.evaluation.runs import open_run
    from glassformer.evaluation.splits import evaluated_split

    with notes(), ProgressBar("rows") as bar:
        opened = open_run(run, columns=pairs_of(column, "--column"))
        return evaluated_split(
            opened, part, data, lambda message: typer.echo(f"note: {message}", err=True), bar
        )
