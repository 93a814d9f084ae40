"""Benchmark of models by name: throughput of encoders, steps of generation, or latency and accuracy in a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.options import ReadingOptions
from glassformer.data.rows import read_rows
from glassformer.data.splits import column_values
from glassformer.engine.prepare import PRECISIONS
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.bench import EncodingBench, compare_precisions, sample_texts
from glassformer.evaluation.bench_generation import GENERATING_TASKS, GenerationBench, compare_steps, passages_of
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.evaluation.compare.costs import (
    WARM_UP,
    ModelCosts,
    compare_variants,
    load_compared_model,
    shared_rows,
)
from glassformer.files import safe_repr
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.reports.amounts import amount
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import CONFIG


def bench(
    models: Sequence[str], options: BenchOptions, bar: Bar = no_bar, *, reading: ReadingOptions | None = None
) -> ModelCosts | list[EncodingBench | GenerationBench]:
    """Measure models in each precision: as encoders or generators; with a task, or where one is a run, in their task.

        bench(["runs/small", "runs/large"], BenchOptions(precision=["fp32", "int8"]))

    Args:
        models: folders, names on the Hub, or run folders
        bar: shows progress, such as `glassformer.progress.progress_bar`
        reading: how the files of `data` are read; None, or no option = by their names, or as those of a run
    Raises: ConfigError: an unknown precision or column; `reading` without files. DataError: a file that cannot be read.
    """
    format = {} if reading is None else reading.keywords()
    if format and not options.data:
        raise ConfigError(f"{next(iter(format))}= is of the files of data=; give data= too")
    if options.task is not None or any(Path(model, CONFIG).is_file() for model in models):
        return _in_their_task(models, options, bar, format)
    texts, reports = _sentences(options, format), []
    for name in models:
        model = load(name)
        measure = _steps if model.task in GENERATING_TASKS else _encoding
        reports.append(measure(name, model, texts, options, bar))
    return reports


def _precisions(options: BenchOptions) -> list[str]:
    return list(PRECISIONS if options.precision is None else options.precision)


def _in_their_task(models: Sequence[str], options: BenchOptions, bar: Bar, format: Mapping[str, Any]) -> ModelCosts:
    """Latency at batch size 1, size and metric: one row per model and precision."""
    precisions = _precisions(options)
    contenders = [load_compared_model(model, task=options.task, columns=options.columns or None) for model in models]
    files = list(options.data)
    all_rows = read_rows(files, **format) if format else shared_rows(contenders, files)
    rows = sample_rows(all_rows, options.limit, options.seed)
    with bar("measuring, rows", len(models) * len(precisions) * (WARM_UP + options.runs + len(rows))) as advance:
        variants = compare_variants(
            contenders, rows, precisions, runs=options.runs, seed=options.seed, progress=advance
        )
        return ModelCosts(timed=options.runs, variants=list(variants))


def _about(model: Model) -> str:
    """`bert, 22.7M parameters, float32 on cpu`"""
    count, dtype = sum(parameter.numel() for parameter in model.parameters()), str(model.dtype).removeprefix("torch.")
    return f"{model.family.model_type}, {amount(count)} parameters, {dtype} on {model.device}"


def _encoding(name: str, model: Model, sentences: list[str], options: BenchOptions, bar: Bar) -> EncodingBench:
    """Throughput of `encode`, and the largest error of its vectors."""
    names = _precisions(options)
    with bar("encoding, rounds", (len(names) + 1) * (options.repeats + 1)) as advance:
        rows = compare_precisions(
            model.network,
            model.tokenizer,
            sentences,
            model.folder,
            precisions=names,
            repeats=options.repeats,
            progress=advance,
        )
    return EncodingBench(model=name, about=_about(model), sentences=len(sentences), rows=rows)


def _steps(name: str, model: Model, texts: list[str], options: BenchOptions, bar: Bar) -> GenerationBench:
    """Speed of one row's steps of generation, and the error of their logits."""
    passages, names = passages_of(model, texts, options.count), _precisions(options)
    with bar("generating, passages", len(passages) * (len(names) + 1) * options.repeats) as advance:
        rows = compare_steps(model.network, passages, precisions=names, repeats=options.repeats, progress=advance)
    return GenerationBench(model=name, about=_about(model), rows=rows)


def _sentences(options: BenchOptions, format: Mapping[str, Any]) -> list[str]:
    """The sentences to encode.

    Raises: DataError: a file that cannot be read, or has no such column of texts. ConfigError: a column that is none.
    """
    if not options.data:
        return sample_texts(options.count)
    if roles := options.columns.keys() - {"text"}:
        raise ConfigError(f"columns= {min(roles)} is of a task; name the task of the model too: task= classify")
    rows, column = read_rows(list(options.data), **format), options.columns.get("text", "text")
    sentences = column_values(rows.select(range(min(len(rows), options.count))), column, "text")
    if wrong := [value for value in sentences if not isinstance(value, str)]:
        raise DataError(f"{rows.file(0)}: {column!r} holds {safe_repr(wrong[0])}; it must be a text")
    return sentences
