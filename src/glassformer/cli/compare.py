"""`glassformer compare RUN RUN …`, or `compare --data FILE lead-3 MODEL …`: compare systems on the same test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import (
    Defaults,
    Html,
    Json,
    Only,
    Options,
    Without,
    columns_of,
    command,
    option,
)
from glassformer.cli.screen import notes, say, show
from glassformer.errors import ConfigError
from glassformer.files.atomic import check_output
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.loading import Loading
from glassformer.progress import progress_bar, spinner

if TYPE_CHECKING:
    from glassformer.evaluation.compare.comparison import Comparison

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
Latency = Annotated[bool, typer.Option("--latency", help="Measure the latency of runs, on 100 single rows each.")]


@dataclass(frozen=True, kw_only=True)
class Source(Options):
    """The rows of a file."""

    column: list[str] | None = option(
        None,
        "Column mapping, role=column: source=article, target=highlights (the default); repeatable.",
        "--column",
        "-c",
    )
    limit: int | None = option(None, "Maximum number of rows.", min=1)

    def columns(self) -> tuple[str, str]:
        """The columns of the source texts and of the references."""
        columns = columns_of(self.column, ["source", "target"])
        return columns.get("source", "article"), columns.get("target", "highlights")


@dataclass(frozen=True, kw_only=True)
class Scoring(Options):
    """How systems are asked and scored."""

    task: str = option("summarization", "Task: summarization (metric ROUGE) or translation (BLEU and chrF).", "--task")
    language: str = option("en", "Language of the texts, for sentence splitting: en, de, …")
    stemming: bool = option(False, "ROUGE on word stems (Porter stemmer).")
    batch: int = option(8, "Batch size, in rows.", min=1)
    examples: int = option(3, "Number of example rows to show with their outputs.", min=0)


@dataclass(frozen=True, kw_only=True)
class Prompt(Options):
    """What is put before a text."""

    prefix: str | None = option(
        None, "Prefix (prompt) put before each text. Default: that of the model's config.", show_default=False
    )


Generation = Annotated[GenerationOptions, Only(["max_new_tokens", "num_beams"]), Defaults(max_new_tokens=60)]


@command
def compare(
    systems: Systems,
    data: Data = None,
    *,
    source: Source,
    scoring: Scoring,
    generation: Generation,
    prompt: Prompt,
    loading: Annotated[Loading, Without(["revision"])],
    html: Html = None,
    json: Json = False,
    latency: Latency = False,
) -> None:
    """Compare systems: trained runs, or text generation on a test file, with 95 % confidence intervals.

    The first system is the reference of all differences. Runs are folders of `glassformer train`, of several random
    seeds, or of evaluations; a run without an evaluation is evaluated first. With --data each system generates text for
    the same rows; Ctrl-C ends that early and shows the results so far.

    Examples:

    [cyan]glassformer compare runs/small runs/large --html page.html[/]

    [cyan]glassformer compare --data rows.csv lead-3 lead-1 MODEL[/]

    [cyan]glassformer compare --data rows.jsonl -c source=dialogue -c target=summary lead-3 A B --html page.html[/]

    [cyan]glassformer compare --data pairs.tsv -c source=en -c target=de --task translation MODEL[/]
    """
    if html is not None:
        check_output(html, "the page")
    if data is None:
        _report(_compare_runs(systems, latency), html, json)
        return
    result, rows = _compare_texts(systems, data, source, scoring, {**given(generation), **prompt.given()}, loading)
    _report(result, html, json)
    if result.interrupted:
        say(f"interrupted: {result.rows:,} of {rows:,} rows were evaluated", err=True)
        raise typer.Exit(130)


def _compare_runs(folders: Sequence[str], latency: bool) -> Comparison:
    with spinner("starting"):
        from glassformer.evaluation.compare.runs import compare_runs, is_comparable
        from glassformer.runs.folder import no_run

    for folder in folders:
        if not is_comparable(folder):
            problem = "holds no run and no evaluation"
            raise ConfigError(
                f"{no_run(folder, problem)}; name folders that `glassformer train` or `evaluate` wrote, or give the "
                "test data that systems generate text for: --data FILE"
            )
    with notes(), progress_bar("evaluating", None) as progress:
        return compare_runs(folders, latency=latency, progress=progress)


def _compare_texts(
    names: list[str], data: Path, source: Source, scoring: Scoring, generation: dict[str, Any], loading: Loading
) -> tuple[Comparison, int]:
    """Generate with each system for the rows of a file, and score the outputs; with the number of rows."""
    from glassformer.evaluation.compare.texts import compare, metrics_of, named_systems, read_rows

    read = (data, *source.columns(), source.limit)
    task, language = scoring.task, scoring.language
    # All rows are read, and the metrics' packages imported, before models are loaded: errors come early.
    count = sum(1 for _ in read_rows(*read))
    metrics_of(task, stemming=scoring.stemming, language=language)
    with notes(repeats=False):
        systems = named_systems(names, task, language=language, loading=given(loading), **generation)
        with progress_bar("evaluating", count) as advance:
            return compare(read_rows(*read), systems, progress=advance, **asdict(scoring)), count


def _report(comparison: Comparison, html: Path | None, json: bool) -> None:
    """Save the page, and print the comparison."""
    if html is not None:
        from glassformer.reports.page import report_page, write_page

        write_page(html, report_page(comparison))
    show(comparison, json)
    if html is not None and not json:
        say(f"saved in {html}")
