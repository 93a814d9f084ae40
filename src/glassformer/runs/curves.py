"""Training curves of one run or several: a report whose page is one HTML file that needs no network; and the verdict.

verdict(read_run("runs/mood"))
Best f1 0.9354 at step 400 of 600. Overfitting since step 360: the validation loss rose from 0.41 to 0.58 while the
training loss fell. It ended at step 600, as planned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.files import counted
from glassformer.reports.charts import Marks, SavedModel, Series, SeriesLine
from glassformer.reports.page import report_page, shown_path
from glassformer.reports.page import write_page as write_html
from glassformer.reports.report import Display
from glassformer.reports.table import Table, clock, number
from glassformer.runs.digest import STEPS
from glassformer.runs.history import RunHistory, read_run, read_runs
from glassformer.tasks.metrics.metric import greater_is_better

MAX_POINTS = 80_000  # of all lines together: below 2 MB
MIN_POINTS_PER_LINE, MAX_POINTS_PER_LINE = 16, 8_000
"""Of one line: enough to see its shape, however many lines share the points; several per pixel of a wide screen."""
MAX_CHARTS = 16
"""Each adds half a screen to the page."""
MAX_LISTED_STEPS = 50
"""Rows of a table of skipped or worst steps."""
MAX_VALIDATIONS = 2 * MAX_CHARTS * MAX_LISTED_STEPS
MAX_NAMED_RUNS = 3  # in a title; of more it states the number
MAX_RUN_COLUMNS = 4
SEED, METHOD = "training.seed", "method.name"
NOT_APPLIED = "not applied: its loss was not finite"
MAX_CHECKPOINT_MARKS = 200  # of a run
TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "grad_norm": "Gradient norm",
    "tokens_per_s": "Tokens a second",
}
SMOOTH = ("loss", "grad_norm", "tokens_per_s")
MAX_RUNS_WITH_RAW_LINES = 3
"""Of more runs, only smoothed lines are drawn: raw ones could not be told apart."""
RISE, RISEN = 0.05, 2
"""Overfitting: this many last validations in a row have a loss above the lowest by more than this share.

A few percent come and go from one validation to the next, the more the fewer rows it has: on 18 rows 2% with an equal
metric. 5% is the largest of the thresholds that Prechelt compared (Automatic early stopping using cross validation,
1998: GL5, the most patient), and a single validation above it may be an outlier.
"""


def write_page(
    folders: Sequence[str | Path] | str | Path, path: str | Path, config: Mapping[str, Any] | None = None
) -> Path:
    """Write the training curves of a run folder, or of several, atomically.

    Args:
        config: the effective configuration of one run, where it is known; None = those that are in the folders
    Returns: the path.
    Raises: DataError: a folder holds no run, or the file cannot be written.
    """
    paths = [folders] if isinstance(folders, str | Path) else list(folders)
    runs = read_runs(paths) if config is None else [read_run(paths[0], config=config)]
    return write_html(path, curves_page(runs))


def curves_page(runs: Sequence[RunHistory]) -> str:
    """The HTML page of the training curves of runs."""
    return report_page(TrainingCurves(runs))


@dataclass(frozen=True, repr=False)
class TrainingCurves(Display):
    """Training curves of runs, their last metrics, steps that were not applied, validations and settings.

    whole: show all charts, tables and the settings; else fold all but the loss and the metric of the best model, on a
        page that has the rest
    notes: sentences below
    saved: the models of the runs, to whose rows a click on a chart leads
    """

    runs: Sequence[RunHistory]
    whole: bool = True
    notes: Sequence[str] = ()
    saved: Sequence[SavedModel] = ()

    @property
    def title(self) -> str:
        if not self.whole:
            return "Curves"
        names = [run.name for run in self.runs]
        return " · ".join(names) if len(names) <= MAX_NAMED_RUNS else f"{len(names)} runs"

    @property
    def caption(self) -> str:
        return subtitle(self._trained) if self.whole else ""

    @property
    def finding(self) -> str:
        """What happened in a single run, or which of several has the best validation; a page around it has said it."""
        if not self.whole:
            return ""
        return verdict(self.runs[0]) if len(self.runs) == 1 else best_of(self.runs)

    def charts(self) -> list[Series]:
        """The charts, the most important first; no more than a page has room for."""
        return leading_to([self._series(chart) for chart in self._all_charts[:MAX_CHARTS]], self.saved)

    @cached_property
    def _trained(self) -> list[RunHistory]:
        """The runs with steps, and so with curves: one of a method of few labels has settings alone."""
        return [run for run in self.runs if not run.stepless]

    @property
    def _points(self) -> int:
        """The points of a line at most."""
        lines = sum(len(STEPS) + len(run.validation) for run in self._trained)
        return max(min(MAX_POINTS_PER_LINE, MAX_POINTS // max(lines, 1)), MIN_POINTS_PER_LINE)

    @cached_property
    def _all_charts(self) -> list[CurveChart]:
        return charts(self._trained, self._points)

    def _series(self, chart: CurveChart) -> Series:
        several = len(self._trained) > 1
        lines = [
            SeriesLine(
                line.name,
                line.steps.tolist(),
                line.values.tolist(),
                group=self._trained[line.run].name if several else "",
                faint=line.behind,
                dashed=line.kind == "points",
                markers=line.kind == "points",
                best=self._trained[line.run].best if line.kind == "points" else None,
            )
            for line in chart.lines
        ]
        loss = chart.name == "loss"
        return Series(
            title=chart.title,
            x_label="step",
            lines=lines,
            marks=[marks for run in self._trained for marks in _marks(run, run.name if several else "")]
            if loss
            else (),
            wide=loss,
            folded=not self.whole and not loss and chart.name not in map(main_metric, self._trained),
            note=self._smoothing_note if loss else "",
        )

    @property
    def _smoothing_note(self) -> str:
        shortest, longest = (f(round(run.half_life) for run in self._trained) for f in (min, max))
        steps = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        half = "1 step" if longest <= 1 else f"{steps} steps"
        note = f"Thick lines are exponential moving averages with a half-life of {half}."
        logged = max((run.logged for run in self._trained), default=0)
        rest = f" Of {logged:,} lines of the log, the minimum and maximum of each interval."
        return note + rest * (logged > self._points)

    def tables(self) -> list[Table]:
        """The final metrics of each run, and the steps that were not applied."""
        headings, rows = metrics_table(self._trained)
        if not rows:
            return []
        if len(rows) <= MAX_RUN_COLUMNS:  # a dozen metrics side by side are wider than a screen: a run a column
            headings, *rows = map(list, zip(headings, *rows, strict=True))
        return [Table(headings, rows, "Metrics"), *_skipped_steps(self._trained)]

    def page_tables(self) -> list[Table]:
        """Also all validations, and the settings."""
        if not self.whole:
            return [replace(table, folded=True) for table in [*self.tables(), *_validations(self._trained)]]
        return [*self.tables(), *_validations(self._trained), *settings_tables(self.runs)]

    def remarks(self) -> list[str]:
        left_out = [chart.title for chart in self._all_charts[MAX_CHARTS:]]
        damaged = [] if not self.whole else left_out_lines(self.runs)
        return [*self.notes, *damaged, *([f"Not drawn: {', '.join(left_out)}."] if left_out else [])]


@dataclass(frozen=True, repr=False)
class RunSettings(Display):
    """The settings of runs; those that differ first."""

    runs: Sequence[RunHistory]

    @property
    def title(self) -> str:
        return "Settings"

    def tables(self) -> list[Table]:
        return settings_tables(self.runs)

    def page_tables(self) -> list[Table]:
        """The settings, folded."""
        return [replace(table, folded=True) for table in self.tables()]


def subtitle(runs: Sequence[RunHistory]) -> str:
    """How many steps runs have, and how long these took, as on top of a page; empty where none has steps."""
    alone = "excluding validation and checkpoints"
    if not runs:
        return ""
    if len(runs) > MAX_NAMED_RUNS:
        return f"{sum(run.last for run in runs):,} steps in {clock(sum(run.seconds for run in runs))}, {alone}"
    ends = ("" if run.ended else f", {run.state}" for run in runs)
    times = (f"{run.last:,} steps in {clock(run.seconds)}{end}" for run, end in zip(runs, ends, strict=True))
    return f"{' · '.join(times)}, {alone}"


def left_out_lines(runs: Sequence[RunHistory]) -> list[str]:
    """A sentence for each damaged line that is left out, of several runs with their names."""
    return [f"{run.name}: {line}" if len(runs) > 1 else line for run in runs for line in run.left_out]


def _marks(run: RunHistory, group: str) -> Iterator[Marks]:
    """Checkpoints, and steps that were not applied."""
    yield Marks("checkpoint", run.checkpoints[-MAX_CHECKPOINT_MARKS:], group=group)
    yield Marks(NOT_APPLIED, [at["step"] for at in run.skipped], group=group, alert=True)


# ---------------------------------------------------------------------------------------------- tables


def metrics_table(runs: Sequence[RunHistory]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the final metrics of runs, a run a row."""
    names = list(dict.fromkeys(name for run in runs for name in run.validation))
    head = ["run", "steps", "epochs", "time of steps", "tokens", "tokens a second", "training loss", "best validation"]
    rows = []
    for run in runs:
        steps, at_best = run.steps, run.best_metrics()
        rows.append(
            [
                run.name,
                f"{run.last:,}",
                number(float(steps["epoch"][-1])) if run.last else "–",
                clock(run.seconds),
                f"{run.tokens:,}",
                f"{run.tokens / run.seconds:,.0f}" if run.seconds else "–",
                number(float(run.smoothed("loss")[-1])) if run.last else "–",
                "–" if run.best is None else f"step {run.best:,}",
                *(number(at_best[name]) if name in at_best else "–" for name in names),
            ]
        )
    return head + [f"validation {name}" for name in names], rows


def _skipped_steps(runs: Sequence[RunHistory]) -> Iterator[Table]:
    """A table of the steps that were not applied, as logged."""
    rows = [
        [
            run.name,
            f"{at['step']:,}",
            number(float(at.get("loss", math.nan))),
            str(at.get("module") or "–"),
            ", ".join(map(str, at.get("indices") or ())) or "–",
        ]
        for run in runs
        for at in run.skipped
    ]
    if rows:
        last = f", the last {MAX_LISTED_STEPS} of {len(rows)}" if len(rows) > MAX_LISTED_STEPS else ""
        headings = ["run", "step", "loss", "first module with it", "examples"]
        yield Table(headings, rows[-MAX_LISTED_STEPS:], f"Steps not applied{last}")


def _validations(runs: Sequence[RunHistory]) -> Iterator[Table]:
    """All validations of each run, folded."""
    for run in runs:
        names = list(run.validation)
        by_step: dict[int, dict[str, float]] = {}
        for name, (steps, values) in run.validation.items():
            for step, value in zip(steps, values, strict=True):
                by_step.setdefault(int(step), {})[name] = float(value)
        rows = [
            [
                f"{step:,}" + (" · best" if step == run.best else ""),
                *(number(by_step[step][name]) if name in by_step[step] else "–" for name in names),
            ]
            for step in sorted(by_step)[-MAX_VALIDATIONS:]
        ]
        if rows:
            caption = f"Validations of {run.name} ({len(rows)})"
            yield Table(["step", *names], rows, caption, folded=True, under="Validations" if len(runs) > 1 else "")


def settings_tables(runs: Sequence[RunHistory]) -> list[Table]:
    """The settings of runs, none where none is known; those in which runs differ are a table of their own."""
    flat = [settings_of(run) for run in runs]
    names = list(dict.fromkeys(name for options in flat for name in options))
    differ = [name for name in names if len({options.get(name) for options in flat}) > 1]
    same = [name for name in names if name not in differ]
    values = [[name, *(options.get(name, "–") for options in flat)] for name in differ or same]
    headings = ["setting", *(run.name for run in runs)]
    if not differ or not same:
        caption = "Settings that differ" if differ else "Settings"
        return [Table(headings, values, caption, left=len(headings))] if names else []
    shared = [[name, flat[0][name]] for name in same]
    return [
        Table(headings, values, "Settings that differ", left=len(headings)),
        Table(["setting", "all runs"], shared, f"Settings of all runs ({len(same)})", left=2, folded=True),
    ]


def settings_of(run: RunHistory) -> dict[str, str]:
    """The settings of a run by their keys from the top, `training.seed`, each value as text.

    Of a method of few labels without those of trainings, which it does not use, but for the seed.
    """
    flat = dict(_flat_settings(run.options))
    if METHOD not in flat:
        return flat
    return {name: text for name, text in flat.items() if name == SEED or not name.startswith("training.")}


def validation_rows(settings: Mapping[str, str]) -> tuple[str, str]:
    """The name of the rows that a run is validated on, by its settings; and the seed that chose them, where one did."""
    train, validation = settings.get("data.train", ""), settings.get("data.validation", "null")
    if validation == "null":
        return train, ""
    if not validation.replace(".", "", 1).isdecimal():
        return validation, ""
    seed = "" if settings.get("data.held_out") == "last" else settings.get(SEED, "")
    return f"{train} ({100 * float(validation):g}% held out)", seed


def _flat_settings(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            yield from _flat_settings(value, f"{before}{name}.")
        else:
            value = _without_paths(value)
            yield f"{before}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without_paths(value: Any) -> Any:
    """A setting whose paths name no folder of this machine."""
    if isinstance(value, list):
        return [_without_paths(x) for x in value]
    return shown_path(value) if isinstance(value, str) else value


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


def leading_to(series: Sequence[Series], saved: Sequence[SavedModel]) -> list[Series]:
    """Charts of one x axis that know the models to whose rows a click leads: the first has them, for all."""
    return [*(replace(chart, saved=saved) for chart in series[:1]), *series[1:]]


def charts(runs: Sequence[RunHistory], points: int, names: Sequence[str] | None = None) -> list[CurveChart]:
    """The charts of runs, the most important first; no line has more than `points` points.

    Args:
        names: of the charts; None = all that there are
    """
    chosen = filter(None, map(main_metric, runs))
    validations = dict.fromkeys([*chosen, *(name for run in runs for name in run.validation)])
    every = ["loss", *(name for name in validations if name != "loss"), "lr", "grad_norm", "tokens_per_s"]
    result, several = [], len(runs) > 1
    for name in dict.fromkeys(every if names is None else names):
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


def verdict(run: RunHistory, reported: str | None = None) -> str:
    """What happened in a run; empty where nothing is logged.

    Args:
        reported: the main metric of a report next to it; where another chose the model, both are named
    """
    return " ".join(filter(None, [best_validation(run, reported), outcome(run)]))


def best_of(runs: Sequence[RunHistory]) -> str:
    """Which run has the best validation by the metric that all have, and which is next; empty: no such metric."""
    metrics = {main_metric(run) for run in runs}
    metric = next(iter(metrics)) if len(metrics) == 1 else None
    if metric is None or any(run.best is None for run in runs):
        return ""
    higher = greater_is_better(metric)
    reached = [(run.best_metrics().get(metric, math.nan), run) for run in runs]
    if not all(math.isfinite(value) for value, _ in reached):
        return ""
    ranked = sorted(reached, key=lambda x: -x[0] if higher else x[0])
    (best, first), (following, second), *_ = ranked
    most = f"{'Highest' if higher else 'Lowest'} validation {metric}: {number(best)}"
    value = "the same" if following == best else number(following)
    if len({validation_rows(settings_of(run)) for run in runs}) > 1:
        worst, last = ranked[-1]
        return (
            "Not all of these runs were validated on the same rows, so none is known to be the best: validation "
            f"{metric} from {number(best)}, of {first.name} at step {first.best:,}, to {number(worst)}, of {last.name} "
            f"at step {last.best:,}."
        )
    return (
        f"{most}, of {first.name} at step {first.best:,}; the next, {second.name}, has {value} at step {second.best:,}."
    )


def outcome(run: RunHistory) -> str:
    """Whether a run overfits or still improves, where it is, or what stopped it."""
    return " ".join(filter(None, [_trend(run) or _training_loss(run), _end(run)]))


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


def best_validation(run: RunHistory, reported: str | None = None) -> str:
    """The best validation and its step; `reported` as of `verdict`. Empty: there is none."""
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
    if run.best is None or len(validations := _validation_steps(run)) < 3:
        return ""
    if (overfitting := _overfitting(run)) is not None:
        return overfitting
    after = sum(step > run.best for step in validations)
    if after == 0:
        return "Still improving at its last validation: more steps may help."
    return f"No better since step {run.best:,}, in {counted(after, 'validation')}."


def _training_loss(run: RunHistory) -> str:
    """Where the training loss began and is, of a run without validations, of which nothing else is known."""
    if run.validation or run.logged < 2:
        return ""
    first, *_, last = run.smoothed("loss").tolist()
    if not math.isfinite(last - first):
        return ""
    way = "is still" if first == last else f"{'fell' if last < first else 'rose'} from {number(first)} to"
    return f"The training loss {way} {number(last)}; nothing was validated."


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


def _validation_steps(run: RunHistory) -> list[int]:
    return sorted({int(step) for steps, _ in run.validation.values() for step in steps})


def _left(run: RunHistory) -> str:
    """How long a run in the making will take, as its steps have."""
    if run.planned is None or not run.planned > run.last or not run.seconds:
        return ""
    return f", about {clock(run.seconds / run.last * (run.planned - run.last))} of steps left"


def _end(run: RunHistory) -> str:
    """Where it is, or what stopped it, as far as is known."""
    if not run.last:
        return "No step is logged yet." if run.state.name == "running" else ""
    of = "" if run.planned is None else f" of {run.planned:,}"
    match run.state.name:
        case "running":
            return f"It is at step {run.last:,}{of}{_left(run)}{f': {run.state}' if run.state.silence else ''}."
        case "stopped":
            return f"It was stopped at step {run.last:,}{of}; the same command resumes it."
        case "silent":
            resumes = "; if it was stopped, the same command resumes it" if run.state.marks_end else ""
            return f"Its log is at step {run.last:,}{of}, with nothing written for over {run.state.silence}{resumes}."
    if run.planned is None or run.last >= run.planned:
        return f"It ended at step {run.last:,}{', as planned' * (run.planned is not None)}."
    training = run.options.get("training")
    patience = (training if isinstance(training, dict) else run.options).get("patience")
    after = sum(step > (run.best or math.inf) for step in _validation_steps(run))
    if patience is not None and after >= patience:
        return f"Early stopping ended it at step {run.last:,}{of}, after {after:,} validations without improvement."
    return f"It ended at step {run.last:,}{of}."
