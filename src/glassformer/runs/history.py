"""Training history: the curves of a run, read from its event log, for the HTML page and the terminal plot.

    journal.jsonl ──read_run──> RunHistory ──charts──> charts of lines, downsampled to what a screen can show

Downsampling keeps the minimum and the maximum of each interval, so that a spike is never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.runs.event_log import event_log_path, read_event_log

STEPS = ("epoch", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "time")
TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "grad_norm": "Gradient norm",
    "tokens_per_s": "Tokens a second",
}
SMOOTH = ("loss", "grad_norm", "tokens_per_s")
HALF_LIVES_PER_RUN = 60
"""The half-life of smoothing is a 60th of the steps."""
MAX_RUNS_WITH_RAW_LINES = 3
"""Of more runs, only smoothed lines are drawn: raw ones could not be told apart."""


@dataclass(frozen=True)
class CurveLine:
    """One line of a chart.

    run: number of the run · kind: raw, smooth, or points (of validations) · name: of the legend · steps, values: [N]
    """

    run: int
    kind: str
    name: str
    steps: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class CurveChart:
    """A chart over steps."""

    name: str
    title: str
    lines: list[CurveLine]


@dataclass(frozen=True)
class RunHistory:
    """The history of a run.

    options: its effective configuration · steps: columns of the logged steps by name, `step` among them. [N]
    validation: metric → steps and values · best: the step of the best validation
    skipped: steps that were not applied · checkpoints: steps · ended: whether the log has its end
    """

    name: str
    options: dict[str, Any]
    steps: dict[str, np.ndarray]
    validation: dict[str, tuple[np.ndarray, np.ndarray]]
    best: int | None
    skipped: list[dict[str, Any]]
    checkpoints: list[int]
    ended: bool

    @property
    def last(self) -> int:
        """The last step; 0 before the first."""
        return int(self.steps["step"][-1]) if len(self.steps["step"]) else 0

    @property
    def tokens(self) -> int:
        """Number of tokens read."""
        return int(np.nan_to_num(self.steps["tokens"])[-1]) if self.last else 0

    @property
    def seconds(self) -> float:
        """Computing time: tokens divided by their speed, so that pauses between sessions do not count."""
        tokens, speed = np.diff(self.steps["tokens"], prepend=0), self.steps["tokens_per_s"]
        timed = speed > 0
        return float((tokens[timed] / speed[timed]).sum())

    @property
    def half_life(self) -> float:
        """Half-life of smoothing, in steps."""
        return max(self.last / HALF_LIVES_PER_RUN, self._spacing)

    @property
    def _spacing(self) -> float:
        """Steps between two logged steps."""
        return self.last / max(len(self.steps["step"]), 1)

    def smoothed(self, name: str) -> np.ndarray:
        """A column of the steps, smoothed. [N]"""
        average = ExponentialAverage(0.5 ** (self._spacing / (self.half_life or 1)))
        return np.array([average.add(x) for x in self.steps[name].tolist()])

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
        folder: of a run, or a log in it · name: of the run, else that of the folder
    Raises: DataError: there is no log, or it is damaged.
    """
    path = Path(folder)
    if path.is_dir() or not path.exists():
        path = event_log_path(path)
    if not path.is_file():
        raise DataError(
            f"{folder}: holds no run: {path.name} is missing; give the folder that a training wrote"
        )
    # After a rollback the log has steps twice: what the run went back over is dropped.
    options: dict[str, Any] = {}
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    validations: list[tuple[int, Mapping[str, float], bool]] = []
    skipped: list[dict[str, Any]] = []
    checkpoints: list[int] = []
    ended = False
    for count, record in enumerate(read_event_log(path), 1):
        ended = record["event"] == "end"
        try:
            match record["event"]:
                case "begin":
                    options = dict(record.get("options") or {})
                case "step":
                    step = int(record["step"])
                    while numbers and numbers[-1] >= step:
                        numbers.pop()
                        rows.pop()
                    while validations and validations[-1][0] >= step:
                        validations.pop()
                    while checkpoints and checkpoints[-1] >= step:
                        checkpoints.pop()
                    numbers.append(step)
                    rows.append(tuple(float(record.get(name, "nan")) for name in STEPS))
                case "validation":
                    validations.append(
                        (int(record["step"]), dict(record["figures"]), bool(record.get("best")))
                    )
                case "checkpoint" | "resumed":  # resuming truncates the event of the checkpoint itself
                    checkpoints.append(int(record["step"]))
                case "skipped":
                    skipped.append({**record, "step": int(record["step"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: line {count} is no {record['event']} of a run: {error}") from None
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(STEPS))
    return RunHistory(
        name=name or path.absolute().parent.name,
        options=read_config(path.parent) or options,
        steps={"step": np.array(numbers, dtype=np.int64)}
        | {name: table[:, i] for i, name in enumerate(STEPS)},
        validation=_by_metric(validations),
        best=next((step for step, _, best in reversed(validations) if best), None),
        skipped=skipped,
        checkpoints=checkpoints,
        ended=ended,
    )


def read_runs(folders: Sequence[str | Path]) -> list[RunHistory]:
    """Read several runs, each under a name of its own.

    Raises: DataError: a folder holds no run.
    """
    runs: list[RunHistory] = []
    names: set[str] = set()
    for folder in folders:
        run = read_run(folder)
        name, count = run.name, 2
        while name in names:
            name, count = f"{run.name} ({count})", count + 1
        names.add(name)
        runs.append(run if name == run.name else read_run(folder, name))
    return runs


def read_config(folder: Path) -> dict[str, Any]:
    """Read `config.yaml` of a run folder, which has more than the log; an empty dict where there is none.

    Raises: DataError: invalid YAML.
    """
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        return {}
    try:
        values = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: invalid YAML: {' '.join(str(error).split())}") from None
    return values if isinstance(values, dict) else {}


def _by_metric(
    validations: Iterable[tuple[int, Mapping[str, float], bool]],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Metric → its steps and values."""
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for step, metrics, _ in validations:
        for name, value in metrics.items():
            if isinstance(value, int | float):
                steps, values = columns.setdefault(str(name), ([], []))
                steps.append(step)
                values.append(float(value))
    return {name: (np.array(steps), np.array(values)) for name, (steps, values) in columns.items()}


def charts(runs: Sequence[RunHistory], points: int) -> list[CurveChart]:
    """The charts of runs, the most important first; no line has more than `points` points."""
    validations = dict.fromkeys(name for run in runs for name in run.validation)
    names = ["loss", *(name for name in validations if name != "loss"), "lr", "grad_norm", "tokens_per_s"]
    result = []
    for name in dict.fromkeys(names):
        lines = []
        for number, run in enumerate(runs):
            steps = run.steps["step"]
            if name in TITLES and len(steps) and np.isfinite(run.steps[name]).any():
                label = "training" if name == "loss" else TITLES[name].lower()
                if name not in SMOOTH or len(runs) <= MAX_RUNS_WITH_RAW_LINES:
                    lines.append(CurveLine(number, "raw", label, *downsample(steps, run.steps[name], points)))
                if name in SMOOTH:
                    lines.append(
                        CurveLine(
                            number,
                            "smooth",
                            f"{label}, smoothed",
                            *downsample(steps, run.smoothed(name), points),
                        )
                    )
            if name in run.validation:
                lines.append(
                    CurveLine(number, "points", "validation", *downsample(*run.validation[name], points))
                )
        if lines:
            result.append(CurveChart(name, TITLES.get(name, name), lines))
    return result


def downsample(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points of a line: its ends, and the minimum and maximum of each interval."""
    if len(steps) <= points:
        return steps, values
    finite = np.where(np.isfinite(values), values, np.nan)
    edges = np.linspace(1, len(steps) - 1, (points - 2) // 2 + 1).astype(int)
    keep = {0, len(steps) - 1}
    for start, stop in pairwise(edges):
        interval = finite[start:stop]
        if np.isfinite(interval).any():
            keep |= {start + int(np.nanargmin(interval)), start + int(np.nanargmax(interval))}
    chosen = np.array(sorted(keep))
    return steps[chosen], values[chosen]


class ExponentialAverage:
    """Exponential moving average, with bias correction: each value weighs `decay` times as much as the next.

        mean_n = Σ decay^(n-i)·x_i / Σ decay^(n-i)          so that the first values are not biased towards zero

    Values that are not finite are left out. Source: Kingma and Ba 2015, "Adam", section 3 (bias correction).
    """

    def __init__(self, decay: float = 0.98) -> None:
        self.decay = decay
        self._sum = self._weight = 0.0

    def add(self, value: float) -> float:
        """Add a value; the mean, NaN while there is no finite value."""
        if value - value == 0:  # finite
            self._sum = self.decay * self._sum + value
            self._weight = self.decay * self._weight + 1
        return self._sum / self._weight if self._weight else float("nan")
