"""History of a run: what its log says, for charts, pages and costs.

    journal.jsonl                    ──read_digest──┐
    events.out.tfevents.…            ──read_events──┼──> Digest: steps as columns, events ──read_run──> RunHistory
    offline-run-…/run-….wandb        ──read_wandb───┘

Logs of TensorBoard and of Weights & Biases are read as if they were ours (`scalars.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.files import as_path
from glassformer.runs.digest import CURVES, STEPS, Blocks, Digest, read_digest
from glassformer.runs.event_files import read_events
from glassformer.runs.folder import (
    EVENTS,
    WANDB_LOG,
    WANDB_SUMMARY,
    iterate_runs,
    log_of,
    problem_of,
    stored_config,
)
from glassformer.runs.state import RunState, run_state
from glassformer.runs.wandb_files import read_wandb

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
    state: whether it trains, as far as is known
    planned: the number of steps it set out for
    metric: that of its best model
    started: when its log begins, in seconds since 1970
    left_out: a sentence for each line of the log that cannot be read
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
    state: RunState
    planned: int | None = None
    metric: str | None = None
    started: float | None = None
    left_out: Sequence[str] = ()

    @property
    def last(self) -> int:
        """The last step; 0 before the first."""
        return int(self.steps["step"][-1]) if len(self.steps["step"]) else 0

    @property
    def stepless(self) -> bool:
        """Whether it has ended without a step, as a method of few labels does: there are no curves."""
        return self.ended and not self.last

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


def read_run(folder: str | Path, name: str | None = None, config: Mapping[str, Any] | None = None) -> RunHistory:
    """Read the log of a run; that of a method of few labels has no steps.

    A damaged line hides no run: it is left out, and named in `left_out`.

    Args:
        folder: of a run, or a log in it
        name: of the run, else that of the folder
        config: the effective configuration, where it is known; None = it is read from the folder
    Raises: DataError: there is no log, or nothing of it can be read.
    """
    given = as_path(folder, "folder")
    path = log_of(folder)
    digest = _digest(path)
    own = path.suffix == ".jsonl"
    logged = _LoggedEvents()
    for _, line, record in digest.events:
        logged.add(line, record)
    if logged.problems and len(logged.problems) == len(digest.events) and not len(digest.blocks):
        line, problem = next(iter(logged.problems.items()))
        raise DataError(f"{path}: line {line} {problem}; no line of it can be read")
    blocks, ended = digest.blocks, digest.last_event == "end"
    folder_of_log, times = path.parent, blocks.last[:, STEPS.index("time")]
    return RunHistory(
        name=name or (path.parent if given.is_file() else given).resolve().name,
        options=dict(config or (stored_config(path.parent) if own else {}) or logged.options),
        steps={"step": blocks.step, **{x: blocks.last[:, i] for i, x in enumerate(STEPS)}},
        blocks=blocks,
        first=digest.first,
        validation=_by_metric({step: metrics for step, (metrics, _) in logged.validations.items()}),
        best=next((step for step, (_, best) in reversed(logged.validations.items()) if best), None),
        skipped=logged.skipped,
        checkpoints=list(logged.checkpoints),
        ended=ended,
        state=run_state(folder_of_log, path, ended, times, marks_end=not path.name.startswith(EVENTS)),
        planned=logged.planned,
        metric=logged.metric,
        started=logged.started,
        left_out=[
            f"Line {line} of {path.name} {problem}, and is left out."
            for line, problem in sorted(logged.problems.items())
        ],
    )


@dataclass
class _LoggedEvents:
    """What a log says besides its steps; `problems`: of the lines that cannot be read, by their numbers."""

    options: dict[str, Any] = field(default_factory=dict)
    planned: int | None = None
    metric: str | None = None
    started: float | None = None
    validations: dict[int, tuple[Mapping[str, float], bool]] = field(default_factory=dict)
    checkpoints: dict[int, None] = field(default_factory=dict)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, record: dict[str, Any]) -> None:
        """Take in a line."""
        if (problem := problem_of(record)) is not None:
            self.problems[line] = problem
            return
        event = record["event"]
        try:
            match event:
                case "begin":
                    self.options, started = dict(record.get("options") or {}), float(record.get("time") or math.nan)
                    self.started = started if math.isfinite(started) else None
                    self.planned = None if record.get("steps") is None else int(record["steps"])
                    self.metric = None if record.get("metric") is None else str(record["metric"])
                case "validation":
                    self.validations[int(record["step"])] = dict(record["metrics"]), bool(record.get("best"))
                case "checkpoint" | "resumed":  # resuming truncates the event of the checkpoint itself
                    self.checkpoints[int(record["step"])] = None
                case "skipped":
                    self.skipped.append({**record, "step": int(record["step"])})
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # the last: a step of 1e400
            self.problems[line] = f"is no {event} of a run: {error}"


def _digest(log: Path) -> Digest:
    """The digest of a log, by its name. Raises: DataError: it is damaged."""
    if log.name.startswith(EVENTS):
        return read_events(log.parent).digest()
    if log.suffix == WANDB_LOG:
        return read_wandb(log.parent).digest()
    return read_wandb(log.parents[1]).digest() if log.name == WANDB_SUMMARY.name else read_digest(log)


def read_runs(folders: Sequence[str | Path]) -> list[RunHistory]:
    """Read several runs, each under a name of its own.

    Args:
        folders: of runs, or folders with runs in them; or logs
    Raises: DataError: a folder holds no run, or one without curves.
    """
    runs: dict[str, RunHistory] = {}
    for folder in folders:
        path = as_path(folder, "folder")
        inside = sorted(iterate_runs(path)) if path.is_dir() else []
        with_curves = [run for run in map(read_run, inside or [path]) if not run.stepless]
        if not with_curves:
            raise DataError(
                f"{folder}: was learned without steps, as by a method of few labels, so it has no curves; see its "
                "report with `glassformer look`"
            )
        for run in with_curves:
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
