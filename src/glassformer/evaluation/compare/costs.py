"""Costs of models: training time, size, latency; and the table of models in several precisions.

    runs/small   fp32   ┐   10 rows to warm up, then 100 others, one at a time: from text to prediction
    runs/small   int8   ├─  bytes of its files, bytes of its weights in this precision
    runs/large   fp32   ┘   all rows, evaluated as by `glassformer evaluate`; the difference on the same rows

Each time it is another row, of real length, and all variants get the same rows in the same order. A mean hides the slow
ones, so the median and the 95th percentile are reported too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from torch import nn

from glassformer.data.rows import RowSequence, read_rows
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.prepare import prepare, unprepare
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.runs import TrainedRun, load_trained_model, open_run
from glassformer.files import read_json_object
from glassformer.files.schema import parse
from glassformer.model import Model
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.runs.data import sample_rows
from glassformer.runs.event_log import event_log_path
from glassformer.runs.folder import CONFIG, METRICS, MODEL, run_name
from glassformer.runs.history import read_run
from glassformer.tasks.base import Task, task_class
from glassformer.tasks.metrics.metric import Interval, differences, intervals
from glassformer.tasks.predictions import Prediction

WARM_UP, TIMED_ROWS = 10, 100
WEIGHT_FILES = (".safetensors", ".bin")
BYTES_PER_WEIGHT = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of a weight in a linear layer."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The costs of a run; None = unknown.

    seconds, cpu_seconds: wall-clock and CPU time of training
    steps, precision: of training
    parameters: of the model
    bytes: of its files on disk
    """

    seconds: float | None = None
    cpu_seconds: float | None = None
    steps: int | None = None
    precision: str | None = None
    parameters: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class LatencySummary:
    """Latency of one row at a time, from its text to the prediction, in milliseconds.

    mean, std: over the rows that were timed
    p50, p95: the median and the 95th percentile
    runs: how many rows
    """

    mean: float
    std: float
    p50: float
    p95: float
    runs: int

    @classmethod
    def of(cls, milliseconds: Sequence[float], *, sample: bool = False) -> LatencySummary:
        """The latency of many timed rows.

        Args:
            sample: deviation of a sample (n - 1) instead of these rows (n)
        """
        times = np.array(milliseconds)
        p50, p95 = np.quantile(times, [0.5, 0.95])
        std = times.std(ddof=int(sample and len(times) > 1))
        return cls(mean=float(times.mean()), std=float(std), p50=float(p50), p95=float(p95), runs=len(times))

    @classmethod
    def measure(cls, calls: Iterable[Callable[[], Any]], warm_up: int) -> LatencySummary:
        """The latency of calls, the first of which are not counted."""
        return cls.of(_milliseconds(calls)[warm_up:])

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f} ms (median {self.p50:.1f}, p95 {self.p95:.1f})"


def minutes(seconds: float | None) -> str:
    """A time in minutes: `3.4`."""
    return "" if seconds is None else f"{seconds / 60:.1f}"


def read_cost(folder: Path) -> Cost:
    """Read the costs of a run folder: from `metrics.json` of its model, else from its event log.

    Raises: DataError, ConfigError: one of them is damaged.
    """
    model = folder / MODEL
    known = read_json_object(model / METRICS, DataError) if (model / METRICS).is_file() else {}
    seconds, steps = known.get("seconds"), known.get("steps")
    if seconds is None and event_log_path(folder).is_file():
        log = read_run(folder)
        seconds, steps = round(log.seconds, 1), log.last
    values = {name: known.get(name) for name in ("cpu_seconds", "parameters")}
    precision: Any = known
    for name in ("config", "training", "precision"):
        precision = precision.get(name) if isinstance(precision, dict) else None
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    return parse(Cost, {**values, "seconds": seconds, "steps": steps, "precision": precision, "bytes": size or None})


def model_cost(model: Model) -> Cost:
    """The costs of a model that is no run: its parameters, and the bytes of its files."""
    folder = None if model.folder is None else Path(model.folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder and folder.is_dir() else 0
    return Cost(parameters=sum(x.numel() for x in model.parameters()), bytes=size or None)


def measure_latency(
    task: Task, rows: RowSequence, *, warm_up: int = WARM_UP, timed_rows: int = TIMED_ROWS
) -> LatencySummary:
    """Measure the latency of one row at a time: another row each time, after a warm-up.

    Args:
        warm_up: rows that are not timed
        timed_rows: rows that are
    Raises: DataError: no rows. ConfigError: no row to time.
    """
    if not len(rows):
        raise DataError("there is no row to measure latency on")
    if timed_rows < 1 or warm_up < 0:
        raise ConfigError(f"timed_rows is {timed_rows}, warm_up {warm_up}; at least one row is timed")
    return LatencySummary.measure(_calls(task, rows, (i % len(rows) for i in range(warm_up + timed_rows))), warm_up)


def _calls(task: Task, rows: RowSequence, order: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """A prediction of one row each."""
    for index in order:
        yield partial(_predict, task, rows.select([index]))


def _predict(task: Task, rows: RowSequence) -> list[Prediction]:
    return list(task.predict(rows))


def _milliseconds(calls: Iterable[Callable[[], Any]]) -> list[float]:
    """The time of each call."""
    times = []
    for call in calls:
        start = perf_counter()
        call()
        times.append(1000 * (perf_counter() - start))
    return times


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model in a precision.

    disk: bytes of the files of its weights
    weights: bytes that its weights have in this precision
    value: of the main metric on the rows
    difference: to that of the first variant
    """

    model: str
    precision: str
    latency: LatencySummary
    disk: int
    weights: int
    metric: str
    rows: int
    value: Interval
    difference: Interval | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelCosts(Report, kind="model-costs"):
    """Latency, size and metric of models in several precisions.

    timed: rows that were timed one by one, of each
    """

    timed: int
    variants: list[Variant]

    notes = ("disk: size of the files; weights: bytes in this precision; in brackets: 95% confidence intervals.",)

    @property
    def caption(self) -> str:
        return f"{self.variants[0].rows:,} rows, {self.timed} of them timed one by one"

    def tables(self) -> list[Table]:
        """A table of the costs, one row a model variant."""
        headings = ["model", "precision", "ms", "p50", "p95", "disk, MB", "weights, MB", self.variants[0].metric]
        rows = [
            [
                one.model,
                one.precision,
                f"{one.latency.mean:.1f} ± {one.latency.std:.1f}",
                f"{one.latency.p50:.1f}",
                f"{one.latency.p95:.1f}",
                f"{one.disk / 1e6:.1f}",
                f"{one.weights / 1e6:.1f}",
                one.value.cell(3),
                "" if one.difference is None else one.difference.cell(3, signed=True),
            ]
            for one in self.variants
        ]
        return [Table([*headings, "above the first"], rows, left=2)]


@dataclass(frozen=True)
class ComparedModel:
    """A model to compare.

    run: its run folder, if it has one
    """

    name: str
    folder: Path
    task: Task
    run: TrainedRun | None = None


def load_compared_model(
    source: str, *, task: str | None = None, columns: Mapping[str, str] | None = None
) -> ComparedModel:
    """Load a run folder, or a model with a head for the task.

    Args:
        task: as in `glassformer train`; a run knows its own
    Raises: ConfigError: a model without a task, a run of another. WeightsError: a model without the head.
    """
    if (Path(source) / CONFIG).is_file():
        run = open_run(source)
        if task is not None and task != run.config.task:
            raise ConfigError(f"{source}: is a run of {run.config.task!r}, not of {task!r}; leave --task out")
        name, folder = run_name(run.folder), run.model.folder
        return ComparedModel(name, Path(folder or run.folder), run.task_for_evaluation(), run)
    if task is None:
        raise ConfigError(f"{source}: is no run folder; name the task of the model: --task classify")
    kind, model = task_class(task), load_trained_model(source, task)
    own = kind(model, columns=columns).for_evaluation()  # type: ignore[call-arg]
    return ComparedModel(Path(source).name, Path(model.folder or source), own)


def shared_rows(models: Sequence[ComparedModel], files: list[str] | None) -> RowSequence:
    """The rows that all models get: of files, read as those of the first run, or its validation rows.

    Raises: ConfigError: neither.
    """
    run = next((model.run for model in models if model.run is not None), None)
    if files:
        return read_rows(files, **({} if run is None else run.config.data.format))
    if run is None or run.splits[1] is None:
        raise ConfigError("there are no rows; give --data")
    return run.splits[1]


def compare_variants(
    models: Sequence[ComparedModel],
    rows: RowSequence,
    precisions: Sequence[str],
    *,
    runs: int = TIMED_ROWS,
    warm_up: int = WARM_UP,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Variant]:
    """Measure each model in each precision, one after the other; networks are unprepared again afterwards.

    Args:
        runs: timed rows
        warm_up: rows before them that are not timed
        seed: of the sample of rows
        progress: called with how many more rows are done
    Raises: ConfigError: an unknown precision, or models with different main metrics.
    """
    if len({model.task.METRIC for model in models}) > 1:
        names = ", ".join(f"{model.name} by {model.task.METRIC}" for model in models)
        raise ConfigError(f"these models have different main metrics: {names}")
    sample = sample_rows(rows, runs + warm_up, seed)
    # In random order, as rows come in use: a file may be sorted, such as by length.
    order = np.random.default_rng(seed).permutation(len(sample))
    first = None
    for model in models:
        for precision in precisions:
            network = model.task.model.network
            try:
                prepare(network, precision)
                timed = (int(order[i % len(sample)]) for i in range(warm_up + runs))
                milliseconds = _milliseconds(_calls(model.task, sample, timed))
                progress(warm_up + runs)
                metrics = model.task.metrics(list(model.task.predict(rows, progress)))
                weights = weight_bytes(network)
            finally:
                unprepare(network)
            main_metric = model.task.METRIC
            yield Variant(
                model=model.name,
                precision=precision,
                latency=LatencySummary.of(milliseconds[warm_up:], sample=True),
                disk=sum(x.stat().st_size for x in model.folder.glob("*") if x.suffix in WEIGHT_FILES),
                weights=weights,
                metric=main_metric,
                rows=len(rows),
                value=intervals(metrics)[main_metric],
                difference=None if first is None else differences(metrics, first)[main_metric],
            )
            first = first or metrics


def weight_bytes(network: nn.Module) -> int:
    """Size of the weights in RAM as they are prepared: packed layers in their precision, all others as they are."""
    narrow = {
        id(module.weight): BYTES_PER_WEIGHT[module.precision]
        for module in network.modules()
        if isinstance(module, PackedLinear) and module.fast
    }
    return sum(x.numel() * narrow.get(id(x), x.element_size()) for x in network.parameters())
