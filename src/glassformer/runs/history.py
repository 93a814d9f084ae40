"""History of a run: what its event log says, for charts, pages and costs.

journal.jsonl ──digest.py──> steps as columns, events ──read_run──> RunHistory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.files import as_path
from glassformer.runs.digest import CURVES, STEPS, Blocks, read_digest
from glassformer.runs.event_log import event_log_path
from glassformer.runs.folder import no_run, stored_config

HALF_LIVES_PER_RUN = 60
"""The half-life of smoothing is a 60th of the steps."""


@dataclass(frozen=True)
class RunHistory:
    """The history of a run.

    options: its effective configuration
    steps: columns of the logged steps by name, `step` among them; of a long log, of the last step of each block. [N]
    blocks: these steps with the minimum, maximum and mean of each block
    first: its first logged step, by name
    validation: metric → steps and values
    best: the step of the best validation
    skipped: steps that were not applied
    checkpoints: steps
    ended: whether the log has its end
    planned: the number of steps it set out for
    metric: that of its best model
    """

    name: str
    options: dict[str, Any]
    steps: dict[str, np.ndarray]
    blocks: Blocks
    first: dict[str, float]
    validation: dict[str, tuple[np.ndarray, np.ndarray]]
    best: int | None
    skipped: list[dict[str, Any]]
    checkpoints: list[int]
    ended: bool
    planned: int | None = None
    metric: str | None = None

    @property
    def last(self) -> int:
        """The last step; 0 before the first."""
        return int(self.steps["step"][-1]) if len(self.steps["step"]) else 0

    @property
    def tokens(self) -> int:
        """Number of tokens read in training."""
        return int(np.nan_to_num(self.steps["tokens"])[-1]) if self.last else 0

    @property
    def logged(self) -> int:
        """Number of steps that were logged."""
        return int(self.blocks.count.sum())

    @property
    def seconds(self) -> float:
        """Computing time: tokens divided by their speed, so that pauses between sessions do not count."""
        return float(np.nansum(self.blocks.seconds))

    @property
    def half_life(self) -> float:
        """Half-life of smoothing, in steps."""
        return max(self.last / HALF_LIVES_PER_RUN, self._spacing)

    @property
    def _spacing(self) -> float:
        """Steps between two logged steps."""
        return self.last / max(self.logged, 1)

    def line(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a column of the steps; of a long log, the minimum and maximum of each block. [N], [N]"""
        steps, values, merged = self.steps["step"], self.steps[name], self.blocks.count > 1
        if name not in CURVES or not merged.any():
            return steps, values
        curve, blocks = CURVES.index(name), self.blocks
        low, high = blocks.low_step[:, curve], blocks.high_step[:, curve]
        rows = [(low, blocks.low[:, curve]), (high, blocks.high[:, curve])]
        # The ends of the run, which need be neither.
        rows += [(np.array([self.first["step"]]), np.array([self.first[name]])), (steps[-1:], values[-1:])]
        at, y = (np.concatenate(column) for column in zip(*rows, strict=True))
        at, unique = np.unique(at.astype(np.int64), return_index=True)
        return at, y[unique]

    def smoothed(self, name: str) -> np.ndarray:
        """A column of CURVES, its exponential moving average at each of `steps`. [N]

        As `ExponentialAverage`, all at once: a value weighs 2^(i / half-life), which is at most 2^60 by the definition
        of the half-life.
        """
        curve = CURVES.index(name)
        total, finite = self.blocks.total[:, curve], self.blocks.finite[:, curve]
        half_life = self.half_life / (self._spacing or 1) or 1
        weight = np.exp2((np.cumsum(finite) - finite.sum()) / half_life)
        with np.errstate(all="ignore"):  # NaN before the first finite value
            return np.asarray(np.cumsum(weight * total) / np.cumsum(weight * finite))

    def falling_loss(self) -> tuple[float, float] | None:
        """The mean training loss of the third quarter of the steps and of the last, where it fell by 1% or more."""
        loss, step = CURVES.index("loss"), self.blocks.step
        means = []
        for begin, end in ((0.5, 0.75), (0.75, 1.0)):
            inside = (step > begin * self.last) & (step <= end * self.last)
            total, finite = (x[inside, loss].sum() for x in (self.blocks.total, self.blocks.finite))
            if not finite:
                return None
            means.append(float(total / finite))
        return (means[0], means[1]) if means[1] <= 0.99 * means[0] else None

    def best_metrics(self) -> dict[str, float]:
        """The metrics of the best validation, or of the last one."""
        metrics = {}
        for name, (steps, values) in self.validation.items():
            at = [i for i, step in enumerate(steps) if step == self.best] or [-1]
            metrics[name] = float(values[at[-1]])
        return metrics


def read_run(folder: str | Path, name: str | None = None) -> RunHistory:
    """Read the log of a run.

    Args:
        folder: of a run, or a log in it
        name: of the run, else that of the folder
    Raises: DataError: there is no log, or it is damaged.
    """
    path = as_path(folder, "folder")
    path = path if path.is_file() else event_log_path(path)
    if not path.is_file():
        problem = no_run(folder, f"holds no run: {path.name} is missing")
        raise DataError(f"{problem}; give the folder that a training wrote")
    digest = read_digest(path)
    options: dict[str, Any] = {}
    planned, metric = None, None
    validations: dict[int, tuple[Mapping[str, float], bool]] = {}
    checkpoints: dict[int, None] = {}
    skipped: list[dict[str, Any]] = []
    for _, line, record in digest.events:
        event = record["event"]
        try:
            match event:
                case "begin":
                    options = dict(record.get("options") or {})
                    planned = None if record.get("steps") is None else int(record["steps"])
                    metric = None if record.get("metric") is None else str(record["metric"])
                case "validation":
                    validations[int(record["step"])] = dict(record["metrics"]), bool(record.get("best"))
                case "checkpoint" | "resumed":  # resuming truncates the event of the checkpoint itself
                    checkpoints[int(record["step"])] = None
                case "skipped":
                    skipped.append({**record, "step": int(record["step"])})
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # the last: a step of 1e400
            raise DataError(f"{path}: line {line} is no {event} of a run: {error}") from None
    blocks = digest.blocks
    return RunHistory(
        name=name or path.absolute().parent.name,
        options=stored_config(path.parent) or options,
        steps={"step": blocks.step, **{x: blocks.last[:, i] for i, x in enumerate(STEPS)}},
        blocks=blocks,
        first=digest.first,
        validation=_by_metric({step: metrics for step, (metrics, _) in validations.items()}),
        best=next((step for step, (_, best) in reversed(validations.items()) if best), None),
        skipped=skipped,
        checkpoints=list(checkpoints),
        ended=digest.last_event == "end",
        planned=planned,
        metric=metric,
    )


def read_runs(folders: Sequence[str | Path]) -> list[RunHistory]:
    """Read several runs, each under a name of its own.

    Raises: DataError: a folder holds no run.
    """
    runs: dict[str, RunHistory] = {}
    for folder in folders:
        run = read_run(folder)
        names = chain([run.name], (f"{run.name} ({number})" for number in count(2)))
        name = next(name for name in names if name not in runs)
        runs[name] = replace(run, name=name)
    return list(runs.values())


def _by_metric(validations: Mapping[int, Mapping[str, float]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Metric → its steps and values."""
    columns: dict[str, dict[int, float]] = {}
    for step, metrics in validations.items():
        for name, value in metrics.items():
            if isinstance(value, int | float):
                columns.setdefault(str(name), {})[step] = float(value)
    return {name: (np.array(list(x)), np.array(list(x.values()))) for name, x in columns.items()}
