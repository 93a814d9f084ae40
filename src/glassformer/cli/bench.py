"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import Json, Options, command, option, pairs_of
from glassformer.cli.screen import notes, print_json, table_of, terminal
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.progress import progress_bar, spinner


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """What is measured, and how often."""

    count: int = option(256, "Number of sentences to encode.", min=1)
    repeats: int = option(3, "Timed repetitions of each precision; the median is reported.", min=1)
    precision: str | None = option(None, "Inference precisions, such as fp32,int8. Default: all.")
    task: str | None = option(None, "Task to benchmark: classify, tag, …; a run has its own.", "--task", "-t")
    data: list[str] | None = option(
        None,
        "Test data files. Default: the run's validation split. For an encoder: texts to encode, such as a text file "
        "with one sentence per line. Default: a sample of everyday text.",
        "--data",
        "-d",
        former="--texts",
    )
    column: list[str] | None = option(None, "Column mapping, role=column: text=tweet; repeatable.", "--column", "-c")
    limit: int | None = option(None, "Evaluate a random sample of this many rows.", min=1)
    runs: int = option(100, "Number of timed rows, after 10 warm-up rows.", min=1)
    seed: int = option(0, "Random seed of the samples.", min=0)

    def precisions(self) -> list[str]:
        from glassformer.engine.prepare import PRECISIONS

        if self.precision is None:
            return list(PRECISIONS)
        return [part.strip() for part in self.precision.split(",")]


@command
def bench(
    models: Annotated[
        list[str], typer.Argument(help="Model folders, names on the Hub, or run folders.", metavar="MODEL…")
    ],
    *,
    options: BenchOptions,
    json: Json = False,
) -> None:
    """Benchmark models in each precision: speed, memory, and the difference in accuracy.

    For an encoder: throughput of `encode`, and the error of its vectors. For runs, and models with a task head and
    --task: latency at batch size 1 (mean ± std, median, 95th percentile), bytes, and the metric on the test data.

    Examples:

    [cyan]glassformer bench ./all-MiniLM-L6-v2 --data my-sentences.txt[/]  throughput

    [cyan]glassformer bench runs/small runs/large --precision fp32,int8[/]  latency, size and metric

    [cyan]glassformer bench MODEL --task classify --data test.csv --limit 1000[/]
    """
    from glassformer.runs.folder import CONFIG

    runs = any((Path(model) / CONFIG).is_file() for model in models)
    with notes(repeats=False):
        measure = _bench_tasks if options.task is not None or runs else _bench_encoders
        measure(models, options, json)


def _bench_tasks(models: list[str], options: BenchOptions, json: bool) -> None:
    """Latency at batch size 1, size and metric: one row per model and precision."""
    with spinner("loading the models"):
        from glassformer.evaluation.compare.costs import (
            WARM_UP,
            compare_variants,
            load_compared_model,
            shared_rows,
            variants_table,
        )
        from glassformer.runs.data import sample_rows

        columns = pairs_of(options.column, "--column")
        contenders = [load_compared_model(model, task=options.task, columns=columns or None) for model in models]
        rows = sample_rows(shared_rows(contenders, options.data), options.limit, options.seed)
    asked = len(models) * len(options.precisions()) * (WARM_UP + options.runs + len(rows))
    with progress_bar("measuring, rows", asked) as advance:
        variants = list(
            compare_variants(
                contenders, rows, options.precisions(), runs=options.runs, seed=options.seed, progress=advance
            )
        )
    if json:
        print_json([variant.to_dict() for variant in variants])
        return
    headings, lines = variants_table(variants)
    _print(f"{variants[0].rows:,} rows, {options.runs} of them timed one by one", headings, lines, left=2)
    _print_note("disk: size of the files; weights: bytes in this precision; in brackets: 95 % confidence intervals.")


HEADINGS = ["precision", "sentences/s", "tokens/s", "speed", "largest difference", "smallest cosine"]


def _bench_encoders(models: list[str], options: BenchOptions, json: bool) -> None:
    """Throughput of `encode`, and the largest error of its vectors."""
    with spinner("starting"):
        from glassformer.evaluation.bench import compare_precisions
        from glassformer.model import load

    sentences = _sentences(options)
    results: list[dict[str, Any]] = []
    for model in models:
        with spinner("loading the model"):
            loaded = load(model)
        with progress_bar("encoding, rounds", (len(options.precisions()) + 1) * (options.repeats + 1)) as advance:
            rows = compare_precisions(
                loaded.network,
                loaded.tokenizer,
                sentences,
                loaded.folder,
                precisions=options.precisions(),
                repeats=options.repeats,
                progress=advance,
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
        _print(f"{loaded!r}: {len(sentences)} sentences", HEADINGS, lines, left=1)
    if json:
        print_json(results)
    else:
        _print_note("plain: one text at a time, the network as loaded; differences are from its vectors.")


def _sentences(options: BenchOptions) -> list[str]:
    """The sentences to encode.

    Raises: DataError: a file that cannot be read, or has no such column of texts. ConfigError: a column that is none.
    """
    from glassformer.data.rows import read_rows
    from glassformer.data.splits import column_values
    from glassformer.evaluation.bench import sample_texts

    if not options.data:
        return sample_texts(options.count)
    columns = pairs_of(options.column, "--column")
    if roles := columns.keys() - {"text"}:
        raise ConfigError(f"--column {min(roles)} is of a task; name the task of the model too: --task classify")
    rows, column = read_rows(options.data), columns.get("text", "text")
    sentences = column_values(rows.select(range(min(len(rows), options.count))), column, "text")
    if wrong := [value for value in sentences if not isinstance(value, str)]:
        raise DataError(f"{rows.file(0)}: {column!r} holds {safe_repr(wrong[0])}; it must be a text")
    return sentences


def _print(title: str, headings: list[str], lines: list[list[str]], *, left: int) -> None:
    terminal().print(table_of(headings, lines, left=left, title=title))


def _print_note(line: str) -> None:
    terminal().print(line, style="dim", markup=False)
