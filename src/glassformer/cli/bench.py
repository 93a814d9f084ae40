"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import IsModel, Json, command
from glassformer.cli.screen import notes, show
from glassformer.data.options import ReadingOptions
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.progress import progress_bar, spinner


@command
def bench(
    models: Annotated[
        list[str], IsModel, typer.Argument(help="Model folders, names on the Hub, or run folders.", metavar="MODEL…")
    ],
    *,
    options: BenchOptions,
    reading: ReadingOptions,
    json: Json = False,
) -> None:
    """Benchmark models in each precision: speed, memory, and the difference in accuracy.

    For an encoder: throughput of `encode`, and the error of its vectors. For a model that generates: tokens per second
    of one row, the error of their logits, and the change of the perplexity. For runs, and models with a task head and
    --task: latency at batch size 1 (mean ± std, median, 95th percentile), size on disk and in RAM, bytes read, FLOPs,
    and the metric on the test data with its paired difference to the first.

    Examples:
      # throughput
      glassformer bench ./all-MiniLM-L6-v2 --data my-sentences.txt
      # latency, size and metric
      glassformer bench runs/small runs/large --precision fp32,int8
      glassformer bench MODEL --task classify --data test.csv --limit 1000
      # quality over latency
      glassformer bench A B C --task classify --data test.csv --html bench.html
    """
    check_files(options.data)
    with notes(repeats=False):
        with spinner("starting"):
            from glassformer.evaluation.bench_models import bench as bench_models
            from glassformer.reports.page import report_page, write_page

        result = bench_models(models, options, progress_bar, reading=reading)
        if options.html is not None and not isinstance(result, list):
            write_page(options.html, report_page(result))
        show(result, json)
