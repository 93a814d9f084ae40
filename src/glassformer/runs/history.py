"""A run as curves, read from its log: the numbers that its page and its terminal plot draw.

    journal.jsonl ──read_run──> Run ──lines──> charts of lines, thinned to what a screen can show

Thinning keeps the lowest and the highest value of each stretch, so that a spike is never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.runs.event_log import journal_path, read_journal

STEPS = ("epoch", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "time")
TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "grad_norm": "Gradient norm",
    "tokens_per_s": "Tokens a second",
}
SMOOTH = ("loss", "grad_norm", "tokens_per_s")
HALVES = 60
"""Smoothing forgets half within a 60th of the steps."""
MOST_RAW = 3
"""Of more runs, only smoothed lines can be told from each other."""


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    run: whose · kind: raw, smooth, or points (of validations) · name: what it shows · steps, values: [N]
    """

    run: int
    kind: str
    name: str
    steps: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Chart:
    """What stands in one picture, over steps."""

    name: str
    title: str
    lines: list[Line]


@dataclass(frozen=True)
class Run:
    """What the log of a run says.

    options: its effective configuration · steps: the log's lines of steps, by name, and `step`. [N]
    validation: by figure its steps and values · best: the step of the best validation
    skipped: steps that were not applied · checkpoints: steps · ended: whether the log says so
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
        """How many were read."""
        return int(np.nan_to_num(self.steps["tokens"])[-1]) if self.last else 0

    @property
    def seconds(self) -> float:
        """How long it computed: tokens at their speed, so that pauses between two sessions do not count."""
        tokens, speed = np.diff(self.steps["tokens"], prepend=0), self.steps["tokens_per_s"]
        timed = speed > 0
        return float((tokens[timed] / speed[timed]).sum())

    @property
    def half_life(self) -> float:
        """After how many steps a value counts half in the smoothed curves."""
        return max(self.last / HALVES, self._spacing)

    @property
    def _spacing(self) -> float:
        """Steps from one line of the log to the next."""
        return self.last / max(len(self.steps["step"]), 1)

    def smoothed(self, name: str) -> np.ndarray:
        """A figure of the steps, smoothed over about a 60th of them. [N]"""
        smooth = Smoothed(0.5 ** (self._spacing / (self.half_life or 1)))
        return np.array([smooth.add(x) for x in self.steps[name].tolist()])

    def at_best(self) -> dict[str, float]:
        """The figures of the best validation, or of the last one."""
        found = {}
        for name, (steps, values) in self.validation.items():
            at = [i for i, step in enumerate(steps) if step == self.best] or [-1]
            found[name] = float(values[at[-1]])
        return found


def read_run(place: str | Path, name: str | None = None) -> Run:
    """Read the log of a run.

    Args:
        place: a run's folder, or a log in it · name: what to call it, else the folder's name
    Raises: DataError: there is no log, or it is damaged.
    """
    path = Path(place)
    if path.is_dir() or not path.exists():
        path = journal_path(path)
    if not path.is_file():
        raise DataError(
            f"{place}: holds no run: {path.name} is missing; give the folder that a training wrote"
        )
    # Steps, and the events between them, by the step: a run that went back to a checkpoint forgets what came after.
    options: dict[str, Any] = {}
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    judged: list[tuple[int, Mapping[str, float], bool]] = []
    skipped: list[dict[str, Any]] = []
    checkpoints: list[int] = []
    ended = False
    for count, record in enumerate(read_journal(path), 1):
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
                    while judged and judged[-1][0] >= step:
                        judged.pop()
                    while checkpoints and checkpoints[-1] >= step:
                        checkpoints.pop()
                    numbers.append(step)
                    rows.append(tuple(float(record.get(each, "nan")) for each in STEPS))
                case "validation":
                    judged.append((int(record["step"]), dict(record["figures"]), bool(record.get("best"))))
                case "checkpoint" | "resumed":  # resuming cuts what was said of the checkpoint itself
                    checkpoints.append(int(record["step"]))
                case "skipped":
                    skipped.append({**record, "step": int(record["step"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: line {count} is no {record['event']} of a run: {error}") from None
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(STEPS))
    return Run(
        name=name or path.absolute().parent.name,
        options=read_config(path.parent) or options,
        steps={"step": np.array(numbers, dtype=np.int64)}
        | {each: table[:, i] for i, each in enumerate(STEPS)},
        validation=_by_figure(judged),
        best=next((step for step, _, best in reversed(judged) if best), None),
        skipped=skipped,
        checkpoints=checkpoints,
        ended=ended,
    )


def read_runs(places: Sequence[str | Path]) -> list[Run]:
    """Several runs, none of the same name as another.

    Raises: DataError: one is none.
    """
    runs: list[Run] = []
    names: set[str] = set()
    for place in places:
        run = read_run(place)
        name, count = run.name, 2
        while name in names:
            name, count = f"{run.name} ({count})", count + 1
        names.add(name)
        runs.append(run if name == run.name else read_run(place, name))
    return runs


def read_config(folder: Path) -> dict[str, Any]:
    """What `config.yaml` in a run's folder says, which is more than the log; nothing where there is none.

    Raises: DataError: it is no YAML.
    """
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        return {}
    try:
        found = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    return found if isinstance(found, dict) else {}


def _by_figure(
    judged: Iterable[tuple[int, Mapping[str, float], bool]],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    for step, figures, _ in judged:
        for name, value in figures.items():
            if isinstance(value, int | float):
                steps, values = found.setdefault(str(name), ([], []))
                steps.append(step)
                values.append(float(value))
    return {name: (np.array(steps), np.array(values)) for name, (steps, values) in found.items()}


def charts(runs: Sequence[Run], points: int) -> list[Chart]:
    """The charts of runs, in the order in which one looks at them; no line has more than `points` points."""
    judged = dict.fromkeys(name for run in runs for name in run.validation)
    wanted = ["loss", *(name for name in judged if name != "loss"), "lr", "grad_norm", "tokens_per_s"]
    found = []
    for name in dict.fromkeys(wanted):
        lines = []
        for number, run in enumerate(runs):
            steps = run.steps["step"]
            if name in TITLES and len(steps) and np.isfinite(run.steps[name]).any():
                word = "training" if name == "loss" else TITLES[name].lower()
                if name not in SMOOTH or len(runs) <= MOST_RAW:
                    lines.append(Line(number, "raw", word, *thin(steps, run.steps[name], points)))
                if name in SMOOTH:
                    lines.append(
                        Line(number, "smooth", f"{word}, smoothed", *thin(steps, run.smoothed(name), points))
                    )
            if name in run.validation:
                lines.append(Line(number, "points", "validation", *thin(*run.validation[name], points)))
        if lines:
            found.append(Chart(name, TITLES.get(name, name), lines))
    return found


def thin(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points of a line: its ends, and of each stretch the lowest and the highest."""
    if len(steps) <= points:
        return steps, values
    finite = np.where(np.isfinite(values), values, np.nan)
    edges = np.linspace(1, len(steps) - 1, (points - 2) // 2 + 1).astype(int)
    keep = {0, len(steps) - 1}
    for start, stop in pairwise(edges):
        stretch = finite[start:stop]
        if np.isfinite(stretch).any():
            keep |= {start + int(np.nanargmin(stretch)), start + int(np.nanargmax(stretch))}
    chosen = np.array(sorted(keep))
    return steps[chosen], values[chosen]


class Smoothed:
    """A running mean that forgets: each value counts `keep` times as much as the next.

        mean_n = Σ keep^(n-i)·x_i / Σ keep^(n-i)          so that the first values are not drawn towards zero

    What is not finite is left out. Source: Kingma and Ba 2015, "Adam", section 3 (the correction of the beginning).
    """

    def __init__(self, keep: float = 0.98) -> None:
        self.keep = keep
        self._sum = self._weight = 0.0

    def add(self, value: float) -> float:
        """The mean, with one more value; NaN while there is none."""
        if value - value == 0:  # finite
            self._sum = self.keep * self._sum + value
            self._weight = self.keep * self._weight + 1
        return self._sum / self._weight if self._weight else float("nan")
