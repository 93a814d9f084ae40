"""`glassformer compare RUN RUN …`, or `compare --data FILE lead-3 MODEL …`: compare systems on the same test data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import (
    BEAMS,
    MAX_NEW_TOKENS,
    AllowPickle,
    Device,
    Dtype,
    Html,
    Json,
    Offline,
)
from glassformer.cli.screen import counted, notes, plain_table, print_json, visible_lines

if TYPE_CHECKING:
    from glassformer.tasks.generate.compare import Comparison

Systems = Annotated[
    list[str],
    typer.Argument(
        help="Run folders; with --data: lead-3 (the first three sentences), model folders, or names on the Hub.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Test data: .csv, .tsv or .jsonl, also with .gz.", show_default=False),
]
TextColumn = Annotated[str, typer.Option("--text", help="Column of the source texts.")]
ReferenceColumn = Annotated[str, typer.Option("--reference", help="Column of the reference texts.")]
TaskName = Annotated[
    str,
    typer.Option("--task", help="Task: summarization (metric ROUGE) or translation (BLEU and chrF)."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of rows.")]
Language = Annotated[str, typer.Option(help="Language of the texts, for sentence splitting: en, de, …")]
Stemming = Annotated[bool, typer.Option("--stemming", help="ROUGE on word stems (Porter stemmer).")]
Prefix = Annotated[
    str | None,
    typer.Option(
        help="Prefix (prompt) put before each text. Default: that of the model's config.",
        show_default=False,
    ),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Batch size, in rows.")]
Examples = Annotated[int, typer.Option(min=0, help="Number of example rows to show with their outputs.")]
Latency = Annotated[
    bool, typer.Option("--latency", help="Measure the latency of runs, on 100 single rows each.")
]


def compare(
    systems: Systems,
    data: Data = None,
    text: TextColumn = "article",
    reference: ReferenceColumn = "highlights",
    task: TaskName = "summarization",
    limit: Limit = None,
    language: Language = "en",
    stemming: Stemming = False,
    max_new_tokens: Annotated[int, MAX_NEW_TOKENS] = 60,
    beams: Annotated[int, BEAMS] = 1,
    prefix: Prefix = None,
    batch: Batch = 8,
    examples: Examples = 3,
    html: Html = None,
    json: Json = False,
    latency: Latency = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Compare systems: trained runs, or text generation on a test file, with 95 % confidence intervals.

    The first system is the reference of all differences. Runs are folders of `glassformer train`, of several random
    seeds, or of evaluations; a run without an evaluation is evaluated first. With --data each system generates text for
    the same rows; Ctrl-C ends that early and shows the results so far.

    Examples:

    [cyan]glassformer compare runs/small runs/large --html page.html[/]

    [cyan]glassformer compare --data rows.csv lead-3 lead-1 MODEL[/]

    [cyan]glassformer compare --data rows.jsonl --text dialogue --reference summary lead-3 A B --html page.html[/]

    [cyan]glassformer compare --data pairs.tsv --text en --reference de --task translation MODEL[/]
    """
    if html is not None:
        _check_output(html)
    if data is None:
        from glassformer.cli.compare_runs import compare_runs

        compare_runs(systems, html=html, json=json, latency=latency)
        return
    loading = {"device": device, "dtype": dtype, "allow_pickle": allow_pickle, "offline": offline}
    generation = {"prefix": prefix, "max_new_tokens": max_new_tokens, "num_beams": beams}
    scoring = {"task": task, "stemming": stemming, "language": language}
    settings = {**scoring, "batch": batch, "examples": examples}
    result, count = _compare_on_file(
        systems, (data, text, reference, limit), settings, {"loading": loading, **generation}
    )
    if html is not None:
        from glassformer.tasks.generate.compare_page import page

        html.write_text(page(result), encoding="utf-8")
    if json:
        print_json(result.to_dict())
    else:
        _show(result)
        if html is not None:
            typer.echo(f"saved in {html}")
    if result.interrupted:
        typer.echo(f"interrupted: {result.rows:,} of {count:,} rows were evaluated", err=True)
        raise typer.Exit(130)


def _compare_on_file(
    systems: list[str],
    source: tuple[Path, str, str, int | None],
    settings: Mapping[str, Any],
    model_options: Mapping[str, Any],
) -> tuple[Comparison, int]:
    """Generate with each system for the rows of a file, and score the outputs; with the number of rows.

    source: file, column of the texts, column of the references, maximum number of rows
    """
    from glassformer.tasks.generate.compare import compare as compare_systems
    from glassformer.tasks.generate.compare import text_metrics_of
    from glassformer.tasks.generate.rows import read_rows
    from glassformer.tasks.generate.systems import named_systems

    # All rows are read, and the metrics' packages imported, before models are loaded: errors come early.
    count = sum(1 for _ in read_rows(*source))
    text_metrics_of(settings["task"], stemming=settings["stemming"], language=settings["language"])
    with notes(repeats=False):
        loaded = named_systems(systems, settings["task"], language=settings["language"], **model_options)
        with counted(count, "evaluating") as advance:
            result = compare_systems(read_rows(*source), loaded, progress=advance, **settings)
    return result, count


def _check_output(html: Path) -> None:
    """Check, before the work, that the page can be written. Raises: DataError: a folder, or in a missing one."""
    from glassformer.errors import DataError

    if html.is_dir():
        raise DataError(f"{html}: is a folder; name a file in it, such as {html / 'page.html'}")
    if not html.absolute().parent.is_dir():
        raise DataError(f"{html.absolute().parent}: no such folder to save {html.name} in; make it first")


def _show(result: Comparison) -> None:
    """The table of metrics, then the outputs for a few rows."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    headings, rows = result.table()
    table = plain_table()
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", justify="right" if number in (2, 4) else "left")
    for row in rows:
        table.add_row(*(Text(visible_lines(cell)) for cell in row))
    console.print(Text(result.headed))
    console.print()
    console.print(table)
    for method in result.methods:
        console.print(Text(method, style="dim"))
    for example in result.examples:
        console.print()
        console.print(Text(f"line {example.line}", style="bold cyan"))
        for name, output in [
            ("text", example.text),
            *(("reference", reference) for reference in example.references),
            *example.outputs.items(),
        ]:
            console.print(
                Text.assemble(
                    (f"{visible_lines(name)}: ", "bold"), visible_lines(_short(output)) or "(nothing)"
                )
            )


def _short(text: str, limit: int = 600) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"
