"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import Json, Options, command, option, pairs_of
from glassformer.cli.screen import notes, show
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.progress import progress_bar, spinner
from glassformer.reports.amounts import amount

if TYPE_CHECKING:
    from glassformer.evaluation.bench import EncodingBench
    from glassformer.evaluation.bench_generation import GenerationBench
    from glassformer.model import Model


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """What is measured, and how often."""

    count: int = option(256, "Number of sentences to encode; of a model that generates: of steps, a token each.", min=1)
    repeats: int = option(3, "Timed repetitions of each precision; the median is reported.", min=1)
    precision: str | None = option(None, "Inference precisions, such as fp32,int8. Default: all.")
    task: str | None = option(None, "Task to benchmark: classify, tag, …; a run has its own.", "--task", "-t")
    data: list[str] | None = option(
        None,
        "Test data files. Default: the run's validation split. Without a task: texts to encode or to read, such as a "
        "text file with one sentence per line. Default: a sample of everyday text.",
        "--data",
        "-d",
    )
    column: list[str] | None = option(None, "Column mapping, role=column: text=tweet; repeatable.", "--column", "-c")
    limit: int | None = option(None, "Evaluate a random sample of this many rows.", min=1)
    runs: int = option(100, "Number of timed rows, after 10 warm-up rows.", min=1)
    seed: int = option(0, "Random seed of the samples.", min=0)

    def precisions(self) -> list[str]:
        from glassformer.engine.prepare import PRECISIONS

        if self.precision is None:
            return list(PRECISIONS)
        return [part for part in map(str.strip, self.precision.split(",")) if part]


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

    For an encoder: throughput of `encode`, and the error of its vectors. For a model that generates: tokens per second
    of one row, the error of their logits, and the change of the perplexity. For runs, and models with a task head and
    --task: latency at batch size 1 (mean ± std, median, 95th percentile), bytes, and the metric on the test data.

    Examples:

    [cyan]glassformer bench ./all-MiniLM-L6-v2 --data my-sentences.txt[/]  throughput

    [cyan]glassformer bench runs/small runs/large --precision fp32,int8[/]  latency, size and metric

    [cyan]glassformer bench MODEL --task classify --data test.csv --limit 1000[/]
    """
    from glassformer.runs.folder import CONFIG

    runs = any((Path(model) / CONFIG).is_file() for model in models)
    check_files(options.data or ())
    with notes(repeats=False):
        measure = _bench_tasks if options.task is not None or runs else _bench_models
        measure(models, options, json)


def _bench_tasks(models: list[str], options: BenchOptions, json: bool) -> None:
    """Latency at batch size 1, size and metric: one row per model and precision."""
    with spinner("loading the models"):
        from glassformer.evaluation.compare.costs import (
            WARM_UP,
            ModelCosts,
            compare_variants,
            load_compared_model,
            shared_rows,
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
    show(ModelCosts(timed=options.runs, variants=variants), json)


def _bench_models(models: list[str], options: BenchOptions, json: bool) -> None:
    """Throughput and error: of `encode`, or of steps of generation where the model generates."""
    with spinner("starting"):
        from glassformer.evaluation.bench_generation import GENERATING_TASKS
        from glassformer.model import load

    texts = _sentences(options)
    reports: list[EncodingBench | GenerationBench] = []
    for model in models:
        with spinner("loading the model"):
            loaded = load(model)
        measure = _steps if loaded.task in GENERATING_TASKS else _encoding
        reports.append(measure(model, loaded, texts, options))
    show(reports, json)


def _about(model: Model) -> str:
    """`bert, 22.7M parameters, float32 on cpu`"""
    count, dtype = sum(parameter.numel() for parameter in model.parameters()), str(model.dtype).removeprefix("torch.")
    return f"{model.family.model_type}, {amount(count)} parameters, {dtype} on {model.device}"


def _encoding(name: str, model: Model, sentences: list[str], options: BenchOptions) -> EncodingBench:
    """Throughput of `encode`, and the largest error of its vectors."""
    from glassformer.evaluation.bench import EncodingBench, compare_precisions

    with progress_bar("encoding, rounds", (len(options.precisions()) + 1) * (options.repeats + 1)) as advance:
        rows = compare_precisions(
            model.network,
            model.tokenizer,
            sentences,
            model.folder,
            precisions=options.precisions(),
            repeats=options.repeats,
            progress=advance,
        )
    return EncodingBench(model=name, about=_about(model), sentences=len(sentences), rows=rows)


def _steps(name: str, model: Model, texts: list[str], options: BenchOptions) -> GenerationBench:
    """Speed of one row's steps of generation, and the error of their logits."""
    from glassformer.evaluation.bench_generation import GenerationBench, compare_steps, passages_of

    with spinner("reading the texts"):
        passages = passages_of(model, texts, options.count)
    names = options.precisions()
    with progress_bar("generating, passages", len(passages) * (len(names) + 1) * options.repeats) as advance:
        rows = compare_steps(model.network, passages, precisions=names, repeats=options.repeats, progress=advance)
    return GenerationBench(model=name, about=_about(model), rows=rows)


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
