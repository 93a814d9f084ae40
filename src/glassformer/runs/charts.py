"""Curves of training: lines over steps, downsampled; numbers, times and axes as pages write them; and the verdict.

verdict(read_run("runs/mood"))
Best f1 0.9354 at step 400 of 600. Overfitting since step 360: the validation loss rose from 0.41 to 0.58 while the
training loss fell. It ended at step 600, as planned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.files import counted
from glassformer.runs.history import RunHistory
from glassformer.tasks.metrics.metric import greater_is_better

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


RISE, RISEN = 0.05, 2
"""Overfitting: this many last validations in a row have a loss above the lowest by more than this share.

A few percent come and go from one validation to the next, the more the fewer rows it has: on 18 rows 2% with an equal
metric. 5% is the largest of the thresholds that Prechelt compared (Automatic early stopping using cross validation,
1998: GL5, the most patient), and a single validation above it may be an outlier.
"""


def verdict(run: RunHistory, reported: str | None = None) -> str:
    """What happened in a run; empty where nothing is logged.

    Args:
        reported: the main metric of a report next to it; where another chose the model, both are named
    """
    return " ".join(filter(None, [_best(run, reported), _trend(run), _end(run)]))


def main_metric(run: RunHistory) -> str | None:
    """The metric of the best model: as logged or set; else the first whose best validation is the best of the run."""
    training = run.options.get("training")
    chosen = run.metric or (training.get("metric") if isinstance(training, dict) else None)
    if chosen in run.validation:
        return str(chosen)
    names = sorted(run.validation, key=lambda name: name == "loss")  # a loss stands in for metrics
    return next((name for name in names if run.best is not None and _best_step(run, name) == run.best), None)


def _best_step(run: RunHistory, metric: str) -> int | None:
    """The first step at which a metric was at its best."""
    steps, values = run.validation[metric]
    values = np.where(np.isfinite(values), values if greater_is_better(metric) else -values, -np.inf)
    return int(steps[values.argmax()]) if len(steps) and np.isfinite(values.max()) else None


def _best(run: RunHistory, reported: str | None) -> str:
    if run.best is None:
        return ""
    metrics, metric = run.best_metrics(), main_metric(run)
    names = [metric] if metric is not None else list(metrics)[:2]
    of = "" if run.planned is None or run.planned == run.best else f" of {run.planned:,}"
    best = f"est {', '.join(f'{name} {number(metrics[name])}' for name in names)} at step {run.best:,}{of}."
    if reported is None or metric in (None, reported):
        return f"B{best}"
    return f"The report leads with {reported}, but {metric} chose the model: b{best}"


def _trend(run: RunHistory) -> str:
    """Whether it overfits, or still improves at the end; empty with less than three validations."""
    if run.best is None or len(validations := _validations(run)) < 3:
        return ""
    if (overfitting := _overfitting(run)) is not None:
        return overfitting
    after = sum(step > run.best for step in validations)
    if after == 0:
        return "Still improving at its last validation: more steps may help."
    return f"No better since step {run.best:,}, in {counted(after, 'validation')}."


def _overfitting(run: RunHistory) -> str | None:
    """Since when the validation loss rose to the end while the training loss fell, where it did."""
    if "loss" not in run.validation or (since := _best_step(run, "loss")) is None:
        return None
    steps, losses = run.validation["loss"]
    lowest, last = float(losses[steps == since][0]), float(losses[-1])
    risen = losses[steps > since][-RISEN:] > lowest + RISE * abs(lowest)
    if len(risen) < RISEN or not risen.all():
        return None
    smoothed = run.smoothed("loss")
    then, now = (float(smoothed[np.searchsorted(run.steps["step"], step, "right") - 1]) for step in (since, run.last))
    if not now < then:
        return None
    return (
        f"Overfitting since step {since:,}: the validation loss rose from {number(lowest)} to {number(last)} while the "
        "training loss fell."
    )


def _validations(run: RunHistory) -> list[int]:
    return sorted({int(step) for steps, _ in run.validation.values() for step in steps})


def _end(run: RunHistory) -> str:
    """What stopped it, as far as its log says."""
    if not run.last:
        return ""
    of = "" if run.planned is None else f" of {run.planned:,}"
    if not run.ended:
        return (
            f"Its log stops at step {run.last:,}{of}: it runs still, or was stopped, and the same command resumes it."
        )
    if run.planned is None or run.last >= run.planned:
        return f"It ended at step {run.last:,}{', as planned' * (run.planned is not None)}."
    training = run.options.get("training")
    patience = (training if isinstance(training, dict) else run.options).get("patience")
    after = sum(step > (run.best or math.inf) for step in _validations(run))
    if patience is not None and after >= patience:
        return f"Early stopping ended it at step {run.last:,}{of}, after {after:,} validations without improvement."
    return f"It ended at step {run.last:,}{of}."
