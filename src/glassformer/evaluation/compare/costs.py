"""Costs of a trained model: training time, size, and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from glassformer.data.rows import RowSequence
from glassformer.errors import ConfigError, DataError
from glassformer.files.parsing import parse_dataclass
from glassformer.files.strict_json import read_json_object
from glassformer.runs.event_log import event_log_path
from glassformer.runs.folder import METRICS, MODEL
from glassformer.runs.history import read_run
from glassformer.tasks.base import Task

WARM_UP, TIMED_ROWS = 10, 100


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The costs of a run; None = unknown.

    seconds, cpu_seconds: wall-clock and CPU time of training · steps, precision: of training
    parameters: of the model · bytes: of its files on disk
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

    mean, deviation: over `asked` rows · median, p95: 50th and 95th percentile
    """

    mean: float
    deviation: float
    median: float
    p95: float
    asked: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f} ms (median {self.median:.1f}, p95 {self.p95:.1f})"


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
    values["precision"] = _nested(known, "config", "training", "precision")
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    return parse_dataclass(Cost, {**values, "seconds": seconds, "steps": steps, "bytes": size or None})


def _nested(value: Any, *names: str) -> Any:
    """A value in nested dicts; None where it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def measure_latency(
    task: Task, rows: RowSequence, *, warm_up: int = WARM_UP, asked: int = TIMED_ROWS
) -> LatencySummary:
    """Measure the latency of one row at a time: another row each time, after a warm-up.

    Args: warm_up: rows that are not timed · asked: rows that are
    Raises: DataError: no rows. ConfigError: no row to time.
    """
    if not len(rows):
        raise DataError("there is no row to measure latency on")
    if asked < 1 or warm_up < 0:
        raise ConfigError(f"asked is {asked}, warm_up {warm_up}; at least one row is timed")
    milliseconds: list[float] = []
    for number in range(warm_up + asked):
        row = rows.select([number % len(rows)])
        start = perf_counter()
        list(task.predict(row))
        milliseconds.append(1000 * (perf_counter() - start))
    return summarise_latency(milliseconds[warm_up:])


def summarise_latency(milliseconds: Sequence[float]) -> LatencySummary:
    """Mean, deviation and percentiles of many times."""
    times = np.array(milliseconds)
    median, p95 = np.quantile(times, [0.5, 0.95])
    return LatencySummary(
        mean=float(times.mean()),
        deviation=float(times.std()),
        median=float(median),
        p95=float(p95),
        asked=len(times),
    )
