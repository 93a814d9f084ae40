"""What a trained model costs: the time of its training, its size, and how long one answer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from glassformer.data.rows import Rows
from glassformer.errors import ConfigError, DataError
from glassformer.files.parsing import read_record
from glassformer.files.strict_json import read_object
from glassformer.runs.event_log import journal_path
from glassformer.runs.folder import METRICS, MODEL
from glassformer.runs.history import read_run
from glassformer.tasks.evaluator import Judge

WARM_UP, ASKED = 10, 100


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What is known of a run; None where nobody wrote it down.

    seconds, cpu_seconds: of training, on the wall and of all processors · steps, precision: of training
    parameters: of the model · bytes: of its files on disk
    """

    seconds: float | None = None
    cpu_seconds: float | None = None
    steps: int | None = None
    precision: str | None = None
    parameters: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long one row takes, from its text to the answer, in milliseconds.

    mean, deviation: of so many rows (`asked`) · median, p95: half of them took less, and 95 of a hundred
    """

    mean: float
    deviation: float
    median: float
    p95: float
    asked: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f} ms (median {self.median:.1f}, p95 {self.p95:.1f})"


def cost_of(folder: Path) -> Cost:
    """What the folder of a run tells: `metrics.json` of its model, else its log.

    Raises: DataError, ConfigError: one of them is damaged.
    """
    model = folder / MODEL
    known = read_object(model / METRICS, DataError) if (model / METRICS).is_file() else {}
    seconds, steps = known.get("seconds"), known.get("steps")
    if seconds is None and journal_path(folder).is_file():
        log = read_run(folder)
        seconds, steps = round(log.seconds, 1), log.last
    found = {name: known.get(name) for name in ("cpu_seconds", "parameters")}
    found["precision"] = _within(known, "config", "training", "precision")
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    return read_record(Cost, {**found, "seconds": seconds, "steps": steps, "bytes": size or None})


def _within(found: Any, *names: str) -> Any:
    """What stands under names within names; None where it does not."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def latency_of(judge: Judge, rows: Rows, *, warm_up: int = WARM_UP, asked: int = ASKED) -> Latency:
    """How long one row takes when it comes alone: another row each time, after some that do not count.

    Raises: DataError: no rows. ConfigError: none shall be asked.
    """
    if not len(rows):
        raise DataError("there is no row to ask about")
    if asked < 1 or warm_up < 0:
        raise ConfigError(f"asked is {asked}, warm_up {warm_up}; at least one row is timed")
    taken: list[float] = []
    for number in range(warm_up + asked):
        row = rows.select([number % len(rows)])
        began = perf_counter()
        list(judge.records(row))
        taken.append(1000 * (perf_counter() - began))
    return summed(taken[warm_up:])


def summed(milliseconds: Sequence[float]) -> Latency:
    """Many times as a few numbers."""
    taken = np.array(milliseconds)
    median, p95 = np.quantile(taken, [0.5, 0.95])
    return Latency(
        mean=float(taken.mean()),
        deviation=float(taken.std()),
        median=float(median),
        p95=float(p95),
        asked=len(taken),
    )
