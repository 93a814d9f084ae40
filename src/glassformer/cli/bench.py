"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import Json, pairs_of
from glassformer.cli.screen import notes, print_json, table_of, visible


def bench(
    models: Annotated[
        list[str],
        typer.Argument(help="Model folders, names on the Hub, or run folders.", metavar="MODEL…"),
    ],
    texts: Annotated[
        Path | None,
        typer.Option(help="Text file with one sentence per line. [default: a sample of everyday text]"),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of sentences to encode.")] = 256,
    repeats: Annotated[
        int, typer.Option(min=1, help="Timed repetitions of each precision; the median is reported.")
    ] = 3,
    precision: Annotated[
        str | None,
        typer.Option(help="Inference precisions, such as fp32,int8. [default: all]", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Task to benchmark: classify, tag, …; a run has its own."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", help="Test data files. [default: the run's validation split]"),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="Column mapping, role=column: text=tweet; repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Evaluate a random sample of this many rows.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of timed rows, after 10 warm-up rows.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the samples.")] = 0,
    json: Json = False,
) -> None:
    """Benchmark models in each precision: speed, memory, and the difference in accuracy.

    For an encoder: throughput of `encode`, and the error of its vectors. For runs, and models with a task head and
    --task: latency at batch size 1 (mean ± std, median, 95th percentile), bytes, and the metric on the test data.

    Examples:

    [cyan]glassformer bench ./all-MiniLM-L6-v2 --texts my-sentences.txt[/]  throughput

    [cyan]glassformer bench runs/small runs/large --precision fp32,int8[/]  latency, size and metric

    [cyan]glassformer bench MODEL --task classify --data test.csv --limit 1000[/]
    """
    from glassformer.engine.prepare import PRECISIONS
    from glassformer.runs.folder import CONFIG

    precisions = list(PRECISIONS) if precision is None else [part.strip() for part in precision.split(",")]
    with notes():
        if task is not None or data or any((Path(model) / CONFIG).is_file() for model in models):
            _bench_tasks(models, task, data, column or [], limit, runs, seed, precisions, json)
        else:
            _bench_encoders(models, texts, count, repeats, precisions, json)


def _bench_tasks(
    models: list[str],
    task: str | None,
    data: list[str] | None,
    column: list[str],
    limit: int | None,
    runs: int,
    seed: int,
    precisions: list[str],
    json: bool,
) -> None:
    """Latency at batch size 1, size and metric: one row per model and precision."""
    from glassformer.evaluation.compare.latency import (
        compare_variants,
        load_compared_model,
        shared_rows,
        variants_table,
    )
    from glassformer.runs.data import sample_rows

    columns = pairs_of(column, "--column")
    contenders = [load_compared_model(model, task=task, columns=columns or None) for model in models]
    rows = shared_rows(contenders, data)
    variants = list(
        compare_variants(
            contenders,
            sample_rows(rows, limit, seed),
            precisions,
            runs=runs,
            seed=seed,
            progress=lambda message: None if json else print(visible(message), file=sys.stderr),
        )
    )
    if json:
        print_json([variant.to_dict() for variant in variants])
        return
    headings, lines = variants_table(variants)
    _print(f"{variants[0].rows:,} rows, {runs} of them timed one by one", headings, lines, left=2)
    _print_note(
        "disk: size of the files; weights: bytes in this precision; in brackets: 95 % confidence intervals."
    )


def _bench_encoders(
    models: list[str], texts: Path | None, count: int, repeats: int, precisions: list[str], json: bool
) -> None:
    """Throughput of `encode`, and the largest error of its vectors."""
    from glassformer.errors import DataError
    from glassformer.evaluation.bench import compare_precisions, sample_texts
    from glassformer.model import load

    if texts is None:
        sentences = sample_texts(count)
    else:
        try:
            sentences = texts.read_text(encoding="utf-8").splitlines()[:count]
        except UnicodeDecodeError:
            raise DataError(f"{texts}: is not UTF-8 text; give one sentence per line") from None
        if not sentences:
            raise DataError(f"{texts}: is empty; give one sentence per line")
    results: list[dict[str, Any]] = []
    for model in models:
        loaded = load(model)
        rows = compare_precisions(
            loaded.network, loaded.tokenizer, sentences, loaded.folder, precisions=precisions, repeats=repeats
        )
        results += [{**({"model": model} if len(models) > 1 else {}), **row.to_dict()} for row in rows]
        if json:
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
        _print(f"{loaded!r}: {len(sentences)} sentences", headings, lines, left=1)
    if json:
        print_json(results)
    else:
        _print_note("plain: one text at a time, the network as loaded; differences are from its vectors.")


def _print(title: str, headings: list[str], lines: list[list[str]], *, left: int) -> None:
    from rich.console import Console

    Console(highlight=False).print(table_of(headings, lines, left=left, title=title))


def _print_note(line: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(line, style="dim", markup=False)
