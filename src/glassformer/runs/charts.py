"""Curves of training: lines over steps, downsampled; numbers, times and axes as pages write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.runs.history import RunHistory

SIZE = 1000  # width and height of a chart in its own coordinates, which are stretched to the page
ROWS, COLUMNS = 5, 7
"""Ticks of an axis, about: few enough that labels do not overlap on a phone."""
MAX_CHECKPOINT_MARKS = 200  # checkpoints of a run
COLOURS = 8  # of the style sheet: line 9 has that of line 1 again


def y_axis(low: float, high: float) -> str:
    """The SVG of a y axis: a line across the chart and a label for each tick, in percent from the top."""
    marks = ((f"{100 * (high - y) / (high - low):.2f}%", number(y)) for y in ticks(low, high, ROWS))
    return "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{at}" y2="{at}"/><text x="-7" y="{at}">{text}</text>'
        for at, text in marks
    )


def value_range(lines: Iterable[CurveLine]) -> tuple[float, float]:
    """The range of the y axis: all values of the lines, but of raw ones without the outermost hundredth."""
    ends: list[float] = []
    for line in lines:
        values = np.sort(line.values[np.isfinite(line.values)])
        outer = len(values) // 100 if line.kind == "raw" else 0
        ends += [*values[outer : outer + 1], *values[len(values) - 1 - outer : len(values) - outer]]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return float(low if 0 <= low < room else low - room), float(high + room)


def ticks(low: float, high: float, count: int) -> list[float]:
    """Axis ticks: about `count` round numbers between two: multiples of 1, 2 or 5 times a power of ten."""
    # The slack is for decimals that binary fractions cannot hold: a tick at the very end of the axis counts.
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(x for x in (1, 2, 5, 10) if x * power >= rough * 0.999)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def number(x: float) -> str:
    """A number as text, in four digits: `0.4123`, `1,240`, `1.2e-5`."""
    if not math.isfinite(x):
        return {math.inf: "∞", -math.inf: "−∞"}.get(x, "NaN")
    if x == 0:
        return "0"
    if not 1e-3 <= abs(x) < 1e7:
        digits, power = f"{x:.2e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{x:.4g}" if abs(x) < 1000 else f"{x:,.0f}"


def scores(metrics: Mapping[str, float], main: str | None = None) -> list[str]:
    """Metrics as text: `f1_macro 0.41`; micro-averaged F1 only where it is `main`, or is not the accuracy too."""
    same = metrics.get("f1_micro") == metrics.get("accuracy") and main != "f1_micro"
    return [f"{name} {number(value)}" for name, value in metrics.items() if not (same and name == "f1_micro")]


def clock(seconds: float) -> str:
    """A duration as text: `0:42`, `1:02:03`; one that is not known (NaN) as `–`."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "grad_norm": "Gradient norm",
    "tokens_per_s": "Tokens a second",
}
SMOOTH = ("loss", "grad_norm", "tokens_per_s")
MAX_RUNS_WITH_RAW_LINES = 3
"""Of more runs, only smoothed lines are drawn: raw ones could not be told apart."""


@dataclass(frozen=True)
class CurveLine:
    """One line of a chart.

    run: number of the run
    kind: raw, smooth, or points (of validations)
    behind: whether a smoothed line is over it
    name: of the legend, that of the run where there are several
    steps, values: [N]
    """

    run: int
    kind: str
    name: str
    behind: bool
    steps: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class CurveChart:
    """A chart over steps."""

    name: str
    title: str
    lines: list[CurveLine]


def charts(runs: Sequence[RunHistory], points: int) -> list[CurveChart]:
    """The charts of runs, the most important first; no line has more than `points` points."""
    validations = dict.fromkeys(name for run in runs for name in run.validation)
    names = ["loss", *(name for name in validations if name != "loss"), "lr", "grad_norm", "tokens_per_s"]
    result, several = [], len(runs) > 1
    for name in dict.fromkeys(names):
        lines = []
        for i, run in enumerate(runs):
            for kind, label, steps, values in _lines_of(run, name, raw=len(runs) <= MAX_RUNS_WITH_RAW_LINES):
                if several:
                    label = f"{run.name}, {label}" if kind == "points" else run.name
                behind = kind == "raw" and name in SMOOTH
                lines.append(CurveLine(i, kind, label, behind, *downsample(steps, values, points)))
        if lines:
            result.append(CurveChart(name, TITLES.get(name, name), lines))
    return result


def _lines_of(run: RunHistory, name: str, *, raw: bool) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Kind, label, steps and values of each line that a run has in a chart."""
    steps = run.steps["step"]
    if name in TITLES and len(steps) and np.isfinite(run.steps[name]).any():
        label = "training" if name == "loss" else TITLES[name].lower()
        if name not in SMOOTH or raw:
            yield "raw", label, *run.line(name)
        if name in SMOOTH:
            yield "smooth", f"{label}, smoothed", steps, run.smoothed(name)
    if name in run.validation:
        yield "points", "validation", *run.validation[name]


def downsample(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points of a line: its ends, and the minimum and maximum of each interval."""
    if len(steps) <= points:
        return steps, values
    starts = np.linspace(1, len(steps) - 1, (points - 2) // 2 + 1).astype(int)[:-1]
    inner = slice(1, len(steps) - 1)
    finite = np.where(np.isfinite(values), values, np.nan)[inner]
    chosen = [np.array([0, len(steps) - 1])]
    for extreme in (np.fmin, np.fmax):
        reached = extreme.reduceat(finite, starts - 1)
        interval = np.searchsorted(starts, np.arange(len(steps))[inner], side="right") - 1
        at = np.flatnonzero(finite == reached[interval])
        chosen.append(1 + at[np.unique(interval[at], return_index=True)[1]])
    points_at = np.unique(np.concatenate(chosen))
    return steps[points_at], values[points_at]
