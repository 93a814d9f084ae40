"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import Json, command
from glassformer.cli.screen import notes, show
from glassformer.data.options import ReadingOptions
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.progress import progress_bar, spinner


@command
def bench(
    models: Annotated[
        list[str], typer.Argument(help="Model folders, names on the Hub, or run folders.", metavar="MODEL…")
    ],
    *,
    options: BenchOptions,
    reading: ReadingOptions,
    json: Json = False,
) -> None:
    """Benchmark models in each precision: speed, memory, and the difference in accuracy.

    For an encoder: throughput of `encode`, and the error of its vectors. For a model that generates: tokens per second
    of one row, the error of their logits, and the change of the perplexity. For runs, and models with a task head and
    --task: latency at batch size 1 (mean ± std, median, 95th percentile), bytes, and the metric on the test data.

    Examples:

    [cyan]glassformer bench ./all-MiniLM-L6-v2 --data my-sentences.txt[/]  throughput

    [cyan]glassformer bench runs/small runs/large --precision fp32,int8[/]  latency, size and metric

    [cyan]glassformer bench MODEL --task classify --data test.csv --limit 1000[/]
    """
    check_files(options.data)
    with notes(repeats=False):
        with spinner("starting"):
            from glassformer.evaluation.bench_models import bench as bench_models

        show(bench_models(models, options, progress_bar, reading=reading), json)
