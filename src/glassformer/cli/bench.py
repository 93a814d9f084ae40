"""`glassformer bench MODEL…`: benchmark throughput, latency and accuracy of each inference precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import Json, Options, command, option, pairs_of
from glassformer.cli.screen import notes, print_json, table_of, terminal
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.progress import progress_bar, spinner
from glassformer.reports.amounts import amount

if TYPE_CHECKING:
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


ENCODING = ["precision", "sentences/s", "tokens/s", "speed", "largest difference", "smallest cosine"]
GENERATING = ["precision", "tokens/s", "speed", "largest error", "same tokens", "perplexity", "change"]
NOTES = {
    "encode": "plain: one text at a time, the network as loaded; differences are from its vectors.",
    "generate": "plain: the network as loaded. Each step reads a token of one text; errors of its logits beside "
    "plain's, as a part of the largest; same tokens: where the most likely one is the same.",
}


def _bench_models(models: list[str], options: BenchOptions, json: bool) -> None:
    """Throughput and error: of `encode`, or of steps of generation where the model generates."""
    with spinner("starting"):
        from glassformer.evaluation.bench_generation import GENERATING_TASKS
        from glassformer.model import load

    texts = _sentences(options)
    results: list[dict[str, Any]] = []
    notes_of_tables: dict[str, str] = {}
    for model in models:
        with spinner("loading the model"):
            loaded = load(model)
        generates = loaded.task in GENERATING_TASKS
        what, headings, rows, lines = (_steps if generates else _encoding)(loaded, texts, options)
        results += [{**({"model": model} if len(models) > 1 else {}), **row.to_dict()} for row in rows]
        if not json:
            _print(f"{_described(model, loaded)}: {what}", headings, lines, left=1)
            kind = "generate" if generates else "encode"
            notes_of_tables[kind] = NOTES[kind]
    if json:
        print_json(results)
    for note in notes_of_tables.values():
        _print_note(note)


Table = tuple[str, list[str], list[Any], list[list[str]]]
"""What was measured, headings, rows as data, and as lines of text."""


def _described(name: str, model: Model) -> str:
    """`all-MiniLM-L6-v2 (bert, 22.7M parameters, float32 on cpu)`"""
    count, dtype = sum(parameter.numel() for parameter in model.parameters()), str(model.dtype).removeprefix("torch.")
    return f"{name} ({model.family.model_type}, {amount(count)} parameters, {dtype} on {model.device})"


def _encoding(model: Model, sentences: list[str], options: BenchOptions) -> Table:
    """Throughput of `encode`, and the largest error of its vectors."""
    from glassformer.evaluation.bench import compare_precisions

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
    return f"{len(sentences):,} sentences", ENCODING, rows, lines


def _steps(model: Model, texts: list[str], options: BenchOptions) -> Table:
    """Speed of one row's steps of generation, and the error of their logits."""
    from glassformer.evaluation.bench_generation import compare_steps, passages_of

    with spinner("reading the texts"):
        passages = passages_of(model, texts, options.count)
    names = options.precisions()
    with progress_bar("generating, passages", len(passages) * (len(names) + 1) * options.repeats) as advance:
        rows = compare_steps(model.network, passages, precisions=names, repeats=options.repeats, progress=advance)
    lines = [
        [
            row.precision,
            f"{row.tokens_per_second:,.0f}",
            f"{row.speedup:.1f} ×",
            f"{row.largest_error:.1e}",
            f"{row.equal_tokens:.1%}",
            f"{row.perplexity:.2f}",
            f"{row.perplexity_change:+z.2%}",
        ]
        for row in rows
    ]
    return f"{rows[0].steps:,} steps of one row", GENERATING, rows, lines


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
