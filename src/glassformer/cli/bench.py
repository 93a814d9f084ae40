"""`glassformer bench MODEL…`: speed of each precision on this machine, and what it costs in accuracy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import pairs_of
from glassformer.cli.screen import notes, table_of, visible


def bench(
    models: Annotated[
        list[str],
        typer.Argument(help="Model folders, names on the Hub, or folders of runs.", metavar="MODEL…"),
    ],
    texts: Annotated[
        Path | None,
        typer.Option(help="Sentences of your own, one a line. [default: a sample of everyday text]"),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many sentences to encode.")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each precision; the median counts.")] = 3,
    precision: Annotated[
        str | None, typer.Option(help="Which, such as fp32,int8. [default: all]", show_default=False)
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Ask for answers: classify, tag, …; a run knows its own."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", "-d", help="Rows to ask about, and to judge. [default: the run's validation rows]"
        ),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="role=column, where they have other names.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Judge so many of the rows, drawn by the seed.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Rows that are timed, after 10 that are not.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Which rows are drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time a model in each precision, and say what it costs in accuracy.

    Of an encoder `encode` is timed, and its vectors are compared with the exact ones. Of runs, and of models with a
    head and --task, one answer at a time: mean ± std, median and 95th percentile, bytes, and the figure on the rows.

    Examples:

    [cyan]glassformer bench ./all-MiniLM-L6-v2 --texts my-sentences.txt[/]  sentences a second

    [cyan]glassformer bench runs/small runs/large --precision fp32,int8[/]  answers: how fast, how large, how good

    [cyan]glassformer bench MODEL --task classify --data test.csv --limit 1000[/]
    """
    from glassformer.engine.prepare import PRECISIONS
    from glassformer.runs.folder import CONFIG

    precisions = list(PRECISIONS) if precision is None else [part.strip() for part in precision.split(",")]
    with notes():
        if task is not None or data or any((Path(place) / CONFIG).is_file() for place in models):
            _answers(models, task, data, column or [], limit, runs, seed, precisions, as_json)
        else:
            _vectors(models, texts, count, repeats, precisions, as_json)


def _answers(
    models: list[str],
    task: str | None,
    data: list[str] | None,
    column: list[str],
    limit: int | None,
    runs: int,
    seed: int,
    precisions: list[str],
    as_json: bool,
) -> None:
    """The latency of one answer, size and accuracy: a row each model and precision."""
    from glassformer.evaluation.compare.latency import compare_variants, contender, rows_for, table
    from glassformer.evaluation.slices import drawn

    columns = pairs_of(column, "--column")
    contenders = [contender(place, task=task, columns=columns or None) for place in models]
    rows = rows_for(contenders, data)
    found = []
    for variant in compare_variants(
        contenders, drawn(rows, limit, seed), precisions, runs=runs, seed=seed,
        progress=lambda said: None if as_json else print(visible(said), file=sys.stderr),
    ):  # fmt: skip
        found.append(variant)
    if as_json:
        typer.echo(json.dumps([each.to_dict() for each in found], indent=2))
        return
    headings, lines = table(found)
    _print(f"{found[0].rows:,} rows, {runs} of them timed one at a time", headings, lines, left=2)
    _say("disk: the files as they are; weights: in this precision; in brackets 95 % intervals over the rows.")


def _vectors(
    models: list[str], texts: Path | None, count: int, repeats: int, precisions: list[str], as_json: bool
) -> None:
    """Sentences a second, and how far vectors lie from the exact ones."""
    from glassformer.errors import DataError
    from glassformer.evaluation.bench import compare_precisions, sample_texts
    from glassformer.model import load

    if texts is None:
        chosen = sample_texts(count)
    else:
        try:
            chosen = texts.read_text(encoding="utf-8").splitlines()[:count]
        except UnicodeDecodeError:
            raise DataError(f"{texts}: is not UTF-8 text; give one sentence a line") from None
        if not chosen:
            raise DataError(f"{texts}: has no lines; give one sentence a line")
    found: list[dict[str, Any]] = []
    for place in models:
        loaded = load(place)
        rows = compare_precisions(
            loaded.network, loaded.tokenizer, chosen, loaded.folder, precisions=precisions, repeats=repeats
        )
        found += [{**({"model": place} if len(models) > 1 else {}), **row.to_dict()} for row in rows]
        if as_json:
            continue
        lines = [
            [
                row.precision,
                f"{row.sentences_per_second:,.0f}",
                f"{row.tokens_per_second:,.0f}",
                f"{row.speedup:.1f} ×",
                f"{row.largest_difference:.1e}",
                f"{row.smallest_cosine:.6f}",
            ]
            for row in rows
        ]
        headings = [
            "precision",
            "sentences/s",
            "tokens/s",
            "speed",
            "largest difference",
            "smallest cosine",
        ]
        _print(f"{loaded!r}: {len(chosen)} sentences", headings, lines, left=1)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        _say("plain: one text at a time, the network as loaded; differences are from it.")


def _print(title: str, headings: list[str], lines: list[list[str]], *, left: int) -> None:
    from rich.console import Console

    Console(highlight=False).print(table_of(headings, lines, left=left, title=title))


def _say(line: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(line, style="dim", markup=False)
