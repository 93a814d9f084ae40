"""Latency, size and accuracy of models, each in several precisions.

    runs/small   fp32   ┐   10 rows to warm up, then 100 others, one at a time: from text to prediction
    runs/small   int8   ├─  bytes of its files, bytes of its weights in this precision
    runs/large   fp32   ┘   all rows, evaluated as by `glassformer evaluate`; the difference on the same rows

Each time it is another row, of real length, and all variants get the same rows in the same order. A mean hides the slow
ones, so the median and the 95th percentile stand beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from glassformer.data.rows import RowSequence, read_rows
from glassformer.engine.prepare import PackedLinear, prepare, unprepare
from glassformer.errors import ConfigError
from glassformer.evaluation.runs import TrainedRun, open_run
from glassformer.files.parsing import json_value
from glassformer.model import load
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import CONFIG, run_name
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.bootstrap import differences, intervals
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.registry import task_class

WARM_UP, RUNS = 10, 100
BYTES_PER_WEIGHT = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of a weight in a linear layer."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latency in milliseconds, from text to prediction, of one row at a time."""

    mean: float
    std: float
    p50: float
    p95: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """The latency of many timed rows."""
        milliseconds = 1000 * np.asarray(seconds)
        p50, p95 = np.quantile(milliseconds, [0.5, 0.95])
        spread = float(milliseconds.std(ddof=1)) if len(milliseconds) > 1 else 0.0
        return cls(
            mean=float(milliseconds.mean()),
            std=spread,
            p50=float(p50),
            p95=float(p95),
            runs=len(milliseconds),
        )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model in a precision.

    disk: bytes of the files of its weights · weights: bytes that its weights have in this precision
    value: of the main metric on the rows · difference: to that of the first variant
    """

    model: str
    precision: str
    latency: Latency
    disk: int
    weights: int
    metric: str
    rows: int
    value: Interval
    difference: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON, where the value is called `figure`."""
        values: dict[str, Any] = json_value(asdict(self))
        return {"figure" if name == "value" else name: x for name, x in values.items()}


@dataclass(frozen=True)
class ComparedModel:
    """A model to compare. run: its run folder, if it has one"""

    name: str
    folder: Path
    task: Task
    run: TrainedRun | None = None


def load_compared_model(
    source: str,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> ComparedModel:
    """Load a run folder, or a model with a head for the task.

    Args: task: as in `glassformer train`; a run knows its own
    Raises: ConfigError: a model without a task, a run of another, a model without the head.
    """
    if (Path(source) / CONFIG).is_file():
        run = open_run(source)
        if task is not None and task != run.config.task:
            raise ConfigError(f"{source}: is a run of {run.config.task!r}, not of {task!r}; leave --task out")
        name, folder = run_name(run.folder), run.model.folder
        return ComparedModel(name, Path(folder or run.folder), run.task_for_evaluation(), run)
    if task is None:
        raise ConfigError(f"{source}: is no run folder; name the task of the model: --task classify")
    kind = task_class(task)
    model = load(source, task=kind.HEAD)
    if model.report.new:
        raise ConfigError(
            f"{source}: has no head for {task!r}, so there is nothing to evaluate; train it first"
        )
    return ComparedModel(
        Path(source).name, Path(model.folder or source), kind(model, columns=columns).for_evaluation(), None  # type: ignore[call-arg]
    )  # fmt: skip


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
    runs: int = RUNS,
    warm_up: int = WARM_UP,
    seed: int = 0,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Variant]:
    """Measure each model in each precision, one after the other; networks are unprepared again afterwards.

    Args: runs: timed rows · warm_up: rows before them that are not timed · seed: of the sample of rows
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
            progress(f"{model.name} in {precision}")
            network = model.task.model.network
            try:
                prepare(network, precision)
                seconds = [
                    _time_one(model.task, sample, int(order[i % len(sample)])) for i in range(warm_up + runs)
                ]
                metrics = model.task.metrics(list(model.task.predict(rows)))
                weights = weight_bytes(network)
            finally:
                unprepare(network)
            main_metric = model.task.METRIC
            yield Variant(
                model=model.name,
                precision=precision,
                latency=Latency.of(seconds[warm_up:]),
                disk=disk_bytes(model.folder),
                weights=weights,
                metric=main_metric,
                rows=len(rows),
                value=intervals(metrics)[main_metric],
                difference=None if first is None else differences(metrics, first)[main_metric],
            )
            first = first or metrics


def _time_one(task: Task, rows: RowSequence, index: int) -> float:
    """Seconds from a row to its prediction."""
    one = rows.select([index])
    start = time.perf_counter()
    list(task.predict(one))
    return time.perf_counter() - start


def disk_bytes(folder: Path) -> int:
    """Size of a model's weight files in bytes."""
    return sum(path.stat().st_size for path in folder.glob("*") if path.suffix in (".safetensors", ".bin"))


def weight_bytes(network: nn.Module) -> int:
    """Size of the weights in RAM as they are prepared: packed layers in their precision, all others as they are."""
    narrow = {
        id(module.weight): BYTES_PER_WEIGHT[module.precision]
        for module in network.modules()
        if isinstance(module, PackedLinear) and module.fast
    }
    return sum(x.numel() * narrow.get(id(x), x.element_size()) for x in network.parameters())


def variants_table(variants: Sequence[Variant]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table: a variant a row."""
    headings = ["model", "precision", "ms\n(p50, p95)", "MB\n(weights)"]
    rows = [
        [
            variant.model,
            variant.precision,
            f"{variant.latency.mean:.1f} ±{variant.latency.std:.1f}\n"
            f"({variant.latency.p50:.1f}, {variant.latency.p95:.1f})",
            f"{variant.disk / 1e6:.1f}\n({variant.weights / 1e6:.1f})",
            variant.value.written(3),
            "" if variant.difference is None else variant.difference.written(3, signed=True),
        ]
        for variant in variants
    ]
    return [*headings, variants[0].metric if variants else "", "above the first"], rows
