"""Benchmark of models by name: throughput of encoders, steps of generation, or latency and accuracy in a task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from torch import nn

from glassformer.core.quantised import count_weights
from glassformer.data.options import ReadingOptions
from glassformer.data.rows import RowSequence, read_rows
from glassformer.data.splits import column_values
from glassformer.engine.prepare import (
    PRECISIONS,
    possible_precisions,
    prepare,
    prepared_copy,
    unprepare,
    usual_precision,
)
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.evaluation.bench import EncodingBench, compare_precisions, sample_texts
from glassformer.evaluation.bench_generation import GENERATING_TASKS, GenerationBench, compare_steps, passages_of
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison
from glassformer.evaluation.compare.costs import (
    TIMED_ROWS,
    WARM_UP,
    WEIGHT_FILES,
    Cost,
    LatencySummary,
    read_bytes,
    row_flops,
    single_rows,
    weight_bytes,
)
from glassformer.evaluation.runs import TrainedRun, check_network, open_run, trained_task
from glassformer.files import safe_repr
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import amount
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import CONFIG, run_name
from glassformer.tasks.base import Task, metrics_of
from glassformer.tasks.metrics.metric import RESAMPLES, Bootstrap, Interval, differences, greater_is_better, intervals
from glassformer.tasks.registry import task_name
from glassformer.tasks.types import Prediction


def bench(
    models: Sequence[str], options: BenchOptions, bar: Bar = no_bar, *, reading: ReadingOptions | None = None
) -> Comparison | list[EncodingBench | GenerationBench]:
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
    if options.html is not None:
        raise ConfigError("html= is of models with a task, or runs; a throughput alone has no plot: name the task= too")
    texts, reports = _sentences(options, format), []
    for name in models:
        model = load(name)
        measure = _steps if model.task in GENERATING_TASKS else _encoding
        reports.append(measure(name, model, texts, options, bar))
    return reports


def _precisions(options: BenchOptions, network: nn.Module) -> list[str]:
    """The precisions to measure a network in: those asked for, else all that it can be prepared in."""
    return possible_precisions(network) if options.precision is None else list(options.precision)


def _precisions_in_task(options: BenchOptions, opened: Sequence[_Opened]) -> list[list[str | None]]:
    """The precisions to measure each model in: those asked for; else of one model all, of several each as it is stored.

    Raises: ConfigError: there is no such precision, or a model can be in none of those asked for.
    """
    chosen: list[list[str | None]] = []
    for name, task in opened:
        network = task.model.network
        possible = possible_precisions(network)
        if options.precision is None:
            own = possible if len(opened) == 1 and possible else [usual_precision(network)]
            chosen.append([*own])
            continue
        if unknown := [x for x in options.precision if x not in PRECISIONS]:
            hint = nearest(unknown[0], PRECISIONS)
            raise ConfigError(f"precision is {safe_repr(unknown[0])}; allowed: {', '.join(PRECISIONS)}{hint}")
        if not (asked := [x for x in options.precision if x in possible]):
            can = f"can be {' or '.join(possible)}" if possible else "runs as it is stored alone"
            raise ConfigError(
                f"precision is {', '.join(options.precision)}, and {name} {can}; leave precision= out, and of several "
                "models each is measured as it is stored"
            )
        chosen.append([*asked])
    return chosen


def _in_their_task(models: Sequence[str], options: BenchOptions, bar: Bar, format: Mapping[str, Any]) -> Comparison:
    """Latency of single rows, size and metrics of each model in each precision; all get the same rows in one order."""
    run = next((open_run(model) for model in models if Path(model, CONFIG).is_file()), None)
    opened = _with_names([_opened(model, options, run) for model in models], models)
    precisions, first = _precisions_in_task(options, opened), opened[0]
    if other := next((one for one in opened if one[1].METRIC != first[1].METRIC), None):
        by = [f"{name} by {task.METRIC}" for name, task in (first, other)]
        raise ConfigError(f"these models have different main metrics: {', '.join(by)}")
    if options.data:
        of_run = {} if run is None else run.config.data.format
        rows = read_rows(list(options.data), **(format or of_run))
    elif run is None or run.splits[1] is None:
        raise ConfigError("there are no rows; give --data")
    else:
        rows = run.splits[1]
    rows = sample_rows(rows, options.limit, options.seed)
    systems: list[ComparedSystem] = []
    measured: list[Bootstrap] = []
    runs = sum(map(len, precisions))
    timed: TimedSystem | None = None
    with bar("measuring, rows", runs * (WARM_UP + options.runs + len(rows))) as advance:
        for (name, task), own_precisions in zip(opened, precisions, strict=True):
            for precision in own_precisions:
                settings: dict[str, Any] = {"runs": options.runs, "seed": options.seed, "advance": advance}
                own = measure(task, precision, rows, timed=timed, **settings)
                timed = timed or TimedSystem(task, precision, own.latency.p50)
                apart = differences(own.metrics, measured[0]) if measured else {}
                measured.append(own.metrics)
                scored: dict[str, Any] = {"metrics": intervals(own.metrics), "differences": apart, "rows": len(rows)}
                costs: dict[str, Any] = {"cost": own.cost, "latency": own.latency, "seconds_per_row": own.seconds}
                costs["speed"] = own.speed
                as_stored = precision is None or (options.precision is None and len(opened) > 1)
                shown = name if as_stored else f"{name}, {precision}"
                systems.append(ComparedSystem(name=shown, **costs, **scored))
    return Comparison(
        task=options.task or (run.config.task if run else ""),
        systems=systems,
        shown={first[1].METRIC: 3},
        caption=f"{len(rows):,} rows; times of {options.runs:,} passes, of a row each",
        metric=first[1].METRIC,
        higher=greater_is_better(first[1].METRIC),
        methods=dict(measured[0].methods),
        notes=[
            "MB: size of the files; RAM: bytes of the weights in this precision; read: bytes of weights that a row "
            "reads, of embeddings those of its tokens; FLOPs: of a row alone",
            *([PAIRED_TIMES.format(first=systems[0].name)] if len(systems) > 1 else []),
        ],
    )


_Opened = tuple[str, Task]
"""Its name, and its task."""


def _with_names(opened: Sequence[_Opened], models: Sequence[str]) -> list[_Opened]:
    """Models whose folders are called alike, such as a/model and b/model, by as much of their paths as differs."""
    names = [name for name, _ in opened]
    paths = [Path(model).absolute().parts for model in models]
    for i, name in enumerate(names):
        alike = [path for other, path in zip(names, paths, strict=True) if other == name]
        if len(set(alike)) > 1:
            depth = next(n for n in range(1, len(paths[i]) + 1) if sum(x[-n:] == paths[i][-n:] for x in alike) == 1)
            opened = [*opened[:i], ("/".join(paths[i][-depth:]), opened[i][1]), *opened[i + 1 :]]
    return list(opened)


def _opened(source: str, options: BenchOptions, run: TrainedRun | None) -> _Opened:
    """A run folder, or a model with a head for the task; with its name.

    Args:
        run: another of the models, whose task, columns and options are those of models that are no run, such as
            variants of it
    Raises: ConfigError: a run of another task. WeightsError: a model without the head.
        UnsupportedError: a classifier that is no network.
    """
    check_network(source)
    if Path(source, CONFIG).is_file():
        own = open_run(source)
        if options.task is not None and task_name(options.task) != own.config.task:
            raise ConfigError(f"{source}: is a run of {own.config.task!r}, not of {options.task!r}; leave --task out")
        return run_name(own.folder), own.task_for_evaluation()
    if run is None:
        assert options.task is not None  # else models that are no run have been benchmarked without a task
        return Path(source).name, trained_task(source, options.task, options.columns).for_evaluation()
    columns = {**run.config.data.columns, **options.columns}
    task = trained_task(source, run.config.task, columns, run.config.task_options)
    return Path(source).name, task.for_evaluation(**run.config.evaluation)


PAIRED_TIMES = (
    "times are comparable: each system is timed in turn with {first}, row by row, and its times are divided by how "
    "much slower the machine ran then"
)


@dataclass(frozen=True)
class TimedSystem:
    """A model whose latency is known, next to which others are timed.

    precision: of inference; None = the network as it is
    latency: its median, in milliseconds
    """

    task: Task
    precision: str | None
    latency: float


@dataclass(frozen=True)
class Measured:
    """What was measured of a model in a precision: see `measure`.

    seconds: of a row, predicted in batches
    predictions: of all rows
    speed: how many times as fast as the system that it was timed next to, by the medians of single rows, with the
        interval of a bootstrap over these rows
    """

    cost: Cost
    latency: LatencySummary
    metrics: Bootstrap
    seconds: float
    predictions: Sequence[Prediction]
    speed: Interval


def measure(
    task: Task,
    precision: str | None,
    rows: RowSequence,
    *,
    timed: TimedSystem | None = None,
    runs: int = TIMED_ROWS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda done: None,
) -> Measured:
    """The sizes, the latency of varied single rows, and the scores of a model; unprepared again afterwards.

    Args:
        precision: of inference; None = the network as it is
        timed: is timed again, in turn with this one, so that a clock that drifts slows both: all times are as they
            would be while the known ones were measured. None = this one is timed alone
        runs: how many rows are timed, after `WARM_UP` more
        advance: called with how many more rows are done
    """
    sample = sample_rows(rows, runs + WARM_UP, seed)
    # In random order, as rows come in use: a file may be sorted, such as by length.
    order = np.random.default_rng(seed).permutation(len(sample))
    numbers = [int(order[i % len(sample)]) for i in range(WARM_UP + runs)]
    network, folder, examples = task.model.network, task.model.folder, task.encode(sample)
    tokens = float(np.mean([task.length(examples[i]) for i in range(len(examples))]))
    flops = row_flops(task, sample) or None  # a program of another engine does not say
    try:
        if precision is not None:
            prepare(network, precision)
        if timed is None:
            latency, drift = LatencySummary.measure(single_rows(task, sample, numbers), WARM_UP, sample=True), 1.0
            speed = Interval(1.0)
        else:
            own, its = _timed_in_turn([task, _ready(timed, network)], sample, numbers)
            drift = float(np.median(its)) / timed.latency
            latency = LatencySummary.of([time / drift for time in own], sample=True)
            speed = speed_of(own, its)
        advance(WARM_UP + runs)
        start = perf_counter()
        predictions = list(task.predict(rows, advance))
        seconds = (perf_counter() - start) / len(rows) / drift
        weights, read = weight_bytes(network), read_bytes(network, tokens)
    finally:
        unprepare(network)
        if timed is not None:
            unprepare(timed.task.model.network)
    files = Path(folder).rglob("*") if folder else ()
    size = sum(file.stat().st_size for file in files if file.suffix in WEIGHT_FILES)
    cost = Cost(bytes=size, weights=weights, precision=precision, flops=flops, read=read)
    return Measured(cost, latency, metrics_of(task, predictions), seconds, predictions, speed)


def speed_of(own: Sequence[float], its: Sequence[float]) -> Interval:
    """How many times as fast one system is as another by the times of the same rows: the ratio of the medians."""
    times, draw = np.array([its, own]), np.random.default_rng(0)  # [2, N]

    def ratio(chosen: np.ndarray) -> float:
        its_median, own_median = np.median(chosen, axis=1)
        return float(its_median / own_median)

    if (count := times.shape[1]) < 2:
        return Interval(ratio(times))
    resampled = [ratio(times[:, draw.integers(count, size=count)]) for _ in range(RESAMPLES)]
    return Interval(ratio(times), *map(float, np.quantile(resampled, [0.025, 0.975])))


def _ready(system: TimedSystem, network: nn.Module) -> Task:
    """The task of a system in its precision; where it has this very network, with a copy that shares the weights."""
    task = system.task
    if task.model.network is not network:
        if system.precision is not None:
            prepare(task.model.network, system.precision)
        return task
    twin, model = copy.copy(task), copy.copy(task.model)
    assert system.precision is not None  # of a network as it is there is one system alone
    vars(model)["_modules"] = {}  # which a shallow copy of a module shares: the network would be another in both
    model.network = prepared_copy(task.model.network, system.precision)
    twin.model = model
    return twin


def _timed_in_turn(tasks: Sequence[Task], rows: RowSequence, numbers: Sequence[int]) -> list[list[float]]:
    """Milliseconds of single rows by each task, without the warm-up; which one is first changes with each row."""
    times: list[list[float]] = [[] for _ in tasks]
    for i, calls in enumerate(zip(*(single_rows(task, rows, numbers) for task in tasks), strict=True)):
        in_turn = list(zip(calls, times, strict=True))
        for call, own in in_turn if i % 2 else in_turn[::-1]:
            start = perf_counter()
            call()
            own.append(1000 * (perf_counter() - start))
    return [own[WARM_UP:] for own in times]


def _about(model: Model) -> str:
    """`bert, 22.7M parameters, float32 on cpu`"""
    count, dtype = count_weights(model.network), str(model.dtype).removeprefix("torch.")
    return f"{model.family.model_type}, {amount(count)} parameters, {dtype} on {model.device}"


def _encoding(name: str, model: Model, sentences: list[str], options: BenchOptions, bar: Bar) -> EncodingBench:
    """Throughput of `encode`, and the largest error of its vectors."""
    names = _precisions(options, model.network)
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
    passages, names = passages_of(model, texts, options.count), _precisions(options, model.network)
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
