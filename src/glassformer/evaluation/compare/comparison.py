"""Comparison of runs: every metric with its confidence interval, and its difference to the first run.

the same rows, one run each       paired bootstrap: what makes a row hard for both cancels out
the same rows, several seeds      Welch's confidence interval of the difference of the two means
other rows                        no difference: rows differ more than models do
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.costs import Cost, LatencySummary, measure_latency, read_cost
from glassformer.evaluation.compare.seeds import (
    Mean,
    SeedRun,
    SeedSummary,
    difference_of,
    minutes,
    summarise_seeds,
)
from glassformer.evaluation.evaluate import PREDICTIONS, REPORT
from glassformer.evaluation.report import EvaluationReport
from glassformer.evaluation.runs import EVALUATION, TrainedRun, open_run
from glassformer.pages.tables import html_table
from glassformer.runs.folder import CONFIG, run_name, seed_folders
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.bootstrap import Bootstrap, differences
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.predictions import read_predictions

OTHER_ROWS = "evaluated on other rows"
Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """One system of a comparison: a run, several seeds of one, or a baseline.

    name: of its folder, or of a baseline · seeds: how many; 0 = a baseline · about: what a baseline is
    metrics: with intervals over rows, or over seeds · differences: of each metric to that of the first system
    apart: why there is no difference · rows: it was evaluated on
    seconds_a_row: of the evaluation · cost, latency: where they are known
    """

    name: str
    metrics: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)
    apart: str | None = None
    seeds: int = 0
    about: str = ""
    rows: int = 0
    seconds_a_row: float | None = None
    cost: Cost = field(default_factory=Cost)
    latency: LatencySummary | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RunComparison:
    """A comparison of runs.

    task, metric, higher: as in a report · methods: metric → how it was computed · notes: remarks
    systems: the others are compared with the first; baselines come last
    """

    task: str
    metric: str
    higher: bool
    systems: list[ComparedSystem]
    methods: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON, where systems are called `standings`, and their metrics `figures`."""
        former = {"systems": "standings"}
        values = {former.get(name, name): value for name, value in asdict(self).items()}
        values["standings"] = [
            {"figures" if name == "metrics" else name: value for name, value in system.items()}
            for system in values["standings"]
        ]
        return values

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, the main one first."""
        names = dict.fromkeys(name for one in self.systems for name in one.metrics)
        return sorted(names, key=lambda name: name != self.metric)

    def systems_with(self, metric: str) -> list[ComparedSystem]:
        """The systems that have a metric."""
        return [one for one in self.systems if metric in one.metrics]

    @property
    def caption(self) -> str:
        """The caption of the table."""
        better = "" if self.higher else " (less is better)"
        runs = [one for one in self.systems if one.seeds]
        several = [one for one in runs if one.seeds > 1]
        names = ", ".join(f"{one.name} ({one.seeds} seeds)" if one in several else one.name for one in runs)
        over = (
            "over rows"
            if not several
            else "over seeds"
            if len(several) == len(runs)
            else "over rows, or over seeds"
        )
        return (
            f"{self.task}, by {self.metric}{better}: {names}; differences are to {runs[0].name}, in brackets "
            f"95 % intervals {over}"
        )

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: for each metric every system, and its difference to the first."""
        rows = []
        for metric in self.metrics:
            for number, one in enumerate(self.systems_with(metric)):
                difference = one.differences.get(metric)
                apart = (one.apart or "") if difference is None else difference.written(digits, signed=True)
                label = f"{metric} *" if metric == self.metric else metric
                rows.append(["" if number else label, one.name, one.metrics[metric].written(digits), apart])
        return ["", "", "95 % interval", "difference"], rows

    def costs(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: the costs of each run; columns without a value are left out.

        minutes: of training · MB: on disk · ms a row: in batches · ms alone: latency of one row at a time
        """
        columns: dict[str, Callable[[ComparedSystem], str]] = {
            "rows": lambda one: f"{one.rows:,}",
            "minutes": lambda one: minutes(one.cost.seconds),
            "CPU minutes": lambda one: minutes(one.cost.cpu_seconds),
            "steps": lambda one: _formatted(one.cost.steps, ",d"),
            "parameters": lambda one: _formatted(one.cost.parameters, ",d"),
            "MB": lambda one: "" if one.cost.bytes is None else f"{one.cost.bytes / 1e6:,.1f}",
            "ms a row": lambda one: _formatted(one.seconds_a_row and 1000 * one.seconds_a_row, ".3g"),
            "ms alone": lambda one: "" if (x := one.latency) is None else f"{x.mean:.1f} ± {x.deviation:.1f}",
            "median, p95": lambda one: "" if (x := one.latency) is None else f"{x.median:.1f}, {x.p95:.1f}",
        }
        runs = [one for one in self.systems if one.seeds]
        known = {name: cells for name, f in columns.items() if any(cells := [f(one) for one in runs])}
        rows = [[one.name, *(cells[i] for cells in known.values())] for i, one in enumerate(runs)]
        return ["", *known], rows

    def __str__(self) -> str:
        return "\n\n".join(
            [self.caption, *(_text_table(*shown) for shown in (self.table(), self.costs())), *self.notes]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.caption) + html_table(*self.costs())


def compare_runs(
    folders: Sequence[str | Path],
    *,
    resamples: int | None = None,
    latency: bool = False,
    progress: Progress | None = None,
) -> RunComparison:
    """Compare runs; those that were not evaluated yet are evaluated first.

    Args:
        folders: of runs, of several seeds, or of evaluations; the others are compared with the first
        resamples: of the bootstrap; None = as in an evaluation
        latency: also measure the latency of one row at a time · progress: called with how many more rows are done
    Raises: ConfigError: no folders, a folder that holds no run, or runs of different tasks. DataError: damaged files.
    """
    if not folders:
        raise ConfigError("no run to compare; name at least one folder")
    sides = [_load_side(folder, progress) for folder in folders]
    _deduplicate_names(sides)
    first = sides[0]
    for side in sides:
        if side.report.task != first.report.task:
            raise ConfigError(
                f"{first.name} was trained to {first.report.task}, {side.name} to {side.report.task}; "
                "runs of one task can be compared"
            )
    systems = [_compared_system(side, first, resamples, latency) for side in sides]
    return RunComparison(
        task=first.report.task,
        metric=first.report.metric,
        higher=first.report.higher,
        systems=[*systems, *_baseline_systems(first)],
        methods={name: how for side in reversed(sides) for name, how in side.report.methods.items()},
        notes=_notes(sides),
    )


@dataclass
class _LoadedSide:
    """A folder, read. evaluation: of a single run · run: that, or the first of several, where there is one"""

    name: str
    seeds: SeedSummary
    evaluation: Path | None = None
    run: TrainedRun | None = None

    @property
    def report(self) -> EvaluationReport:
        return self.seeds.first

    @property
    def single(self) -> bool:
        return len(self.seeds.runs) == 1

    @property
    def rows(self) -> set[str]:
        """Fingerprints of the rows it was evaluated on."""
        return {str(one.report.data.get("fingerprint")) for one in self.seeds.runs}

    @cached_property
    def task(self) -> Task | None:
        return None if self.run is None else self.run.task_for_evaluation()

    @cached_property
    def metrics(self) -> Bootstrap | None:
        """What it said of the rows, to be drawn from; None where it was not kept."""
        if self.evaluation is None or self.task is None or not (self.evaluation / PREDICTIONS).is_file():
            return None
        return self.task.metrics(read_predictions(self.evaluation / PREDICTIONS))


def is_comparable(folder: str | Path) -> bool:
    """Whether this is the folder of a run, of several seeds, or of an evaluation."""
    path = Path(folder)
    return (path / CONFIG).is_file() or (path / REPORT).is_file() or bool(seed_folders(path))


def _load_side(folder: str | Path, progress: Progress | None) -> _LoadedSide:
    path = Path(folder)
    name_of_path = run_name(path)
    if folders := seed_folders(path):
        if len(folders) > 1:
            return _LoadedSide(name_of_path, summarise_seeds(path, progress), run=open_run(folders[0]))
        path = folders[0]
    if (path / REPORT).is_file():
        evaluation, run_folder = path, path.absolute().parent.parent
        run = (
            open_run(run_folder)
            if path.absolute().parent.name == EVALUATION and (run_folder / CONFIG).is_file()
            else None
        )
        name = name_of_path if run is None else f"{run_name(run_folder)}, {name_of_path}"
    else:
        run, name = open_run(path), name_of_path
        evaluation = run.ensure_evaluated(progress)
    seed = SeedRun(
        report=EvaluationReport.load(evaluation / REPORT),
        cost=Cost() if run is None else read_cost(run.folder),
    )
    return _LoadedSide(name, SeedSummary(name=name, runs=[seed]), evaluation, run)


def _deduplicate_names(sides: Sequence[_LoadedSide]) -> None:
    """Number systems of the same name."""
    counts: dict[str, int] = {}
    for side in sides:
        counts[side.name] = counts.get(side.name, 0) + 1
        if counts[side.name] > 1:
            side.name = f"{side.name} ({counts[side.name]})"


def _compared_system(
    side: _LoadedSide, first: _LoadedSide, resamples: int | None, latency: bool
) -> ComparedSystem:
    runs, report = side.seeds.runs, side.report
    deltas, why = (None, None) if side is first else _differences(side, first, resamples)
    metrics = report.metrics if side.single else {name: x.interval for name, x in side.seeds.means.items()}
    return ComparedSystem(
        name=side.name,
        seeds=len(runs),
        metrics=metrics,
        differences=deltas or {},
        apart=why,
        rows=int(report.data["rows"]),
        seconds_a_row=sum(one.report.seconds / int(one.report.data["rows"]) for one in runs) / len(runs),
        cost=Cost(
            seconds=_mean_value(side.seeds.seconds),
            cpu_seconds=_mean_value(side.seeds.cpu_seconds),
            steps=runs[0].cost.steps,
            parameters=runs[0].cost.parameters,
            bytes=runs[0].cost.bytes,
        ),
        latency=_latency(side) if latency else None,
    )


def _differences(
    side: _LoadedSide, first: _LoadedSide, resamples: int | None
) -> tuple[dict[str, Interval] | None, str | None]:
    """The differences of its metrics to the first; or the reason why there are none."""
    if len(side.rows | first.rows) > 1:
        return None, OTHER_ROWS
    if side.single != first.single:
        return None, "one run beside several seeds"
    if not side.single:
        own, others = (
            {name: [one.report.metrics[name].value for one in x.seeds.runs] for name in x.seeds.means}
            for x in (side, first)
        )
        by_metric = {name: difference_of(own[name], others[name]) for name in own if name in others}
        return {name: x for name, x in by_metric.items() if x is not None}, None
    if side.metrics is None or first.metrics is None:
        return None, "its predictions were not saved"
    return differences(
        side.metrics, first.metrics, **({} if resamples is None else {"resamples": resamples})
    ), None


def _baseline_systems(first: _LoadedSide) -> list[ComparedSystem]:
    """The baselines of the first run. Their differences are known of the main metric alone."""
    report, systems = first.report, []
    for name, baseline in report.baselines.items():
        difference = baseline.difference if first.single else None
        negated = {} if difference is None else {report.metric: -difference}
        metrics = (
            baseline.metrics
            if first.single
            else {metric: x.interval for metric, x in first.seeds.baselines[name].items()}
        )
        systems.append(
            ComparedSystem(
                name=name,
                about=baseline.about,
                metrics=metrics,
                differences=negated,
                rows=int(report.data["rows"]),
            )
        )
    return systems


def _latency(side: _LoadedSide) -> LatencySummary | None:
    """The latency on its validation rows; of several seeds, the first."""
    run, task = side.run, side.task
    if run is None or task is None:
        return None  # an evaluation outside a run folder: there is no model
    if (rows := run.splits[1]) is None:
        raise DataError(f"{side.name}: has no validation rows to measure latency on")
    return measure_latency(task, rows)


def _notes(sides: Sequence[_LoadedSide]) -> list[str]:
    """Remarks: metrics computed otherwise, other machines, and the notes of each run."""
    first, notes = sides[0], []
    for side in sides[1:]:
        for name, how in side.report.methods.items():
            if (other := first.report.methods.get(name)) not in (None, how):
                notes.append(f"{name} was computed otherwise: {first.name} by {other}; {side.name} by {how}")
        processors = [x.report.environment.get("processor") for x in (first, side)]
        if processors[0] != processors[1]:
            notes.append(
                f"{first.name} and {side.name} were evaluated on other machines: do not compare their times"
            )
    return [*notes, *(f"{side.name}: {note}" for side in sides for note in side.seeds.notes)]


def _mean_value(mean: Mean | None) -> float | None:
    return None if mean is None else mean.value


def _formatted(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
