"""`glassformer compare RUN RUN …`, or `compare --data FILE lead-3 MODEL …`: systems side by side, judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import AllowPickle, Device, Dtype, Json, Offline

if TYPE_CHECKING:
    from glassformer.tasks.generate.compare import Comparison


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="Folders of runs; with --data also lead-3 (the first three sentences), models, or names on the Hub.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows to write about: .csv, .tsv or .jsonl, perhaps .gz.", show_default=False),
    ] = None,
    text: Annotated[str, typer.Option(help="The column of the texts.")] = "article",
    reference: Annotated[str, typer.Option(help="The column of what a good system writes.")] = "highlights",
    task: Annotated[
        str, typer.Option(help="summarization (judged by ROUGE) or translation (by BLEU and chrF).")
    ] = "summarization",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows.")] = None,
    language: Annotated[str, typer.Option(help="Of the texts, for finding sentences: en, de, …")] = "en",
    stemming: Annotated[bool, typer.Option("--stemming", help="ROUGE of the stems of words.")] = False,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", "-n", min=1, help="How long an answer may be.")
    ] = 60,
    beams: Annotated[int, typer.Option(min=1, help="How many beams models search.")] = 1,
    prefix: Annotated[
        str | None,
        typer.Option(help="Put before each text. Default: what the model's config says.", show_default=False),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows that a model is given at once.")] = 8,
    examples: Annotated[int, typer.Option(min=0, help="Rows whose texts are shown.")] = 3,
    html: Annotated[
        Path | None, typer.Option(help="Write it there as a page, one file.", show_default=False)
    ] = None,
    json: Json = False,
    latency: Annotated[
        bool, typer.Option("--latency", help="Of runs: also time a hundred rows, one by one.")
    ] = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Put trained runs side by side, or let systems write about the rows of a file, judged with 95 % intervals.

    The first is what the others are compared with. Runs are folders of `glassformer train`, of several seeds, or of
    evaluations; one that was not evaluated yet is evaluated first. With --data each system writes about the same rows;
    Ctrl-C ends that early and shows what was judged by then.

    Examples:

    [cyan]glassformer compare runs/small runs/large --html page.html[/]

    [cyan]glassformer compare --data rows.csv lead-3 lead-1 MODEL[/]

    [cyan]glassformer compare --data rows.jsonl --text dialogue --reference summary lead-3 A B --html page.html[/]

    [cyan]glassformer compare --data pairs.tsv --text en --reference de --task translation MODEL[/]
    """
    from glassformer.cli.screen import counted, notes
    from glassformer.tasks.generate.compare import compare as judged
    from glassformer.tasks.generate.compare import judges
    from glassformer.tasks.generate.compare_page import page
    from glassformer.tasks.generate.rows import read_rows
    from glassformer.tasks.generate.systems import named_systems

    if html is not None:
        _check_place(html)
    if data is None:
        from glassformer.cli.compare_runs import compare_runs

        compare_runs(systems, html=html, json=json, latency=latency)
        return
    count = sum(1 for _ in read_rows(data, text, reference, limit))  # every row is looked at before any work
    judges(
        task, stemming=stemming, language=language
    )  # what is missing is better known before models are loaded
    loading = {"device": device, "dtype": dtype, "allow_pickle": allow_pickle, "offline": offline}
    with notes(repeats=False):
        found = named_systems(
            systems,
            task,
            language=language,
            loading=loading,
            prefix=prefix,
            max_new_tokens=max_new_tokens,
            num_beams=beams,
        )
        with counted(count, "judging") as advance:
            result = judged(
                read_rows(data, text, reference, limit),
                found,
                task=task,
                batch=batch,
                examples=examples,
                stemming=stemming,
                language=language,
                progress=advance,
            )
    if html is not None:
        html.write_text(page(result), encoding="utf-8")
    if json:
        import json as json_format

        typer.echo(json_format.dumps(result.to_dict(), ensure_ascii=False, indent=2))
    else:
        _show(result)
        if html is not None:
            typer.echo(f"saved in {html}")
    if result.interrupted:
        typer.echo(f"interrupted: {result.rows:,} of {count:,} rows were judged", err=True)
        raise typer.Exit(130)


def _check_place(html: Path) -> None:
    """Can a page be written there? Better known before the work than after it."""
    from glassformer.errors import DataError

    if html.is_dir():
        raise DataError(f"{html}: is a folder; name a file in it, such as {html / 'page.html'}")
    if not html.absolute().parent.is_dir():
        raise DataError(f"{html.absolute().parent}: no such folder to save {html.name} in; make it first")


def _show(result: Comparison) -> None:
    """The table, and then the texts of a few rows below each other."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    headings, rows = result.table()
    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", justify="right" if number in (2, 4) else "left")
    for row in rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    console.print(Text(result.headed))
    console.print()
    console.print(table)
    for method in result.methods:
        console.print(Text(method, style="dim"))
    for example in result.examples:
        console.print()
        console.print(Text(f"line {example.line}", style="bold cyan"))
        for name, said in [
            ("text", example.text),
            *(("reference", reference) for reference in example.references),
            *example.outputs.items(),
        ]:
            console.print(Text.assemble((f"{_shown(name)}: ", "bold"), _shown(_short(said)) or "(nothing)"))


def _shown(text: str) -> str:
    """The text with its lines, and nothing in it that could steer the terminal."""
    from glassformer.cli.screen import visible

    return "\n".join(visible(line) for line in text.split("\n"))


def _short(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
