"""Compare trained runs, several seeds of one, or evaluations, by their saved predictions.

the same rows, one run each       paired bootstrap
the same rows, several seeds      Welch's confidence interval of the difference of the two means
other rows                        no difference: rows differ more than models do
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison
from glassformer.evaluation.compare.costs import Cost, LatencySummary, measure_latency, read_cost
from glassformer.evaluation.compare.seeds import SeedRun, SeedSummary, difference_of, summarise_seeds
from glassformer.evaluation.evaluate import PREDICTIONS, REPORT, EvaluationReport
from glassformer.evaluation.remarks import distinct_metrics, equal_metrics
from glassformer.evaluation.runs import EVALUATION, TrainedRun, open_run
from glassformer.files import refuse_repeated
from glassformer.runs.folder import CONFIG, no_run, run_name, seed_folders
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.metric import RESAMPLES, Bootstrap, Interval, differences
from glassformer.tasks.predictions import read_predictions

OTHER_ROWS = "other rows or labels"
DIGITS = 3
Progress = Callable[[int], None]


def _caption(report: EvaluationReport, systems: Sequence[ComparedSystem]) -> str:
    better = "" if report.higher else " (lower is better)"
    runs = [one for one in systems if one.seeds]
    several = [one for one in runs if one.seeds > 1]
    names = ", ".join(f"{one.name} ({one.seeds} seeds)" if one in several else one.name for one in runs)
    over = "over rows, or over seeds"
    if len(several) in (0, len(runs)):
        over = "over seeds" if several else "over rows"
    return (
        f"{report.task}, by {report.metric}{better}: {names}; differences are to {runs[0].name}, in brackets "
        f"95% intervals {over}"
    )


def compare_runs(
    folders: Sequence[str | Path],
    *,
    resamples: int = RESAMPLES,
    latency: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Compare runs; those that were not evaluated yet are evaluated first.

    Args:
        folders: of runs, of several seeds, or of evaluations; the others are compared with the first
        resamples: of the bootstrap
        progress: called with how many more rows are done
        latency: also measure the latency of one row at a time
    Raises: ConfigError: no folders, a folder that holds no run or is given twice, or runs of different tasks.
        DataError: damaged files.
    """
    if not folders:
        raise ConfigError("no run to compare; name at least one folder")
    for folder in folders:
        _check_comparable(folder)
    refuse_repeated(folders, ConfigError)
    sides = [_load_side(folder, progress) for folder in folders]
    counts: dict[str, int] = {}
    for side in sides:  # systems of the same name are numbered
        counts[side.name] = counts.get(side.name, 0) + 1
        if counts[side.name] > 1:
            side.name = f"{side.name} ({counts[side.name]})"
    first = sides[0]
    for side in sides:
        if side.report.task != first.report.task:
            raise ConfigError(
                f"{first.name} was trained to {first.report.task}, {side.name} to {side.report.task}; "
                "runs of one task can be compared"
            )
    systems = [_compared_system(side, first, resamples, latency) for side in sides]
    systems += _baseline_systems(first)
    metrics, main = [one.metrics for one in systems], first.report.metric
    return Comparison(
        task=first.report.task,
        systems=systems,
        caption=_caption(first.report, systems),
        shown=dict.fromkeys(distinct_metrics(metrics, main), DIGITS),
        metric=first.report.metric,
        higher=first.report.higher,
        methods={name: how for side in reversed(sides) for name, how in side.report.methods.items()},
        notes=[*equal_metrics(metrics, main), *_notes(sides)],
    )


@dataclass
class _LoadedSide:
    """A folder, read.

    evaluation: of a single run
    run: that, or the first of several, where there is one
    """

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
        """The scores of its predictions, to be resampled; None where these were not saved."""
        if self.evaluation is None or self.task is None or not (self.evaluation / PREDICTIONS).is_file():
            return None
        return self.task.metrics(read_predictions(self.evaluation / PREDICTIONS))


def _check_comparable(folder: str | Path) -> None:
    """Raises: ConfigError: this is the folder of no run, of no seeds, and of no evaluation."""
    path = Path(folder)
    if not ((path / CONFIG).is_file() or (path / REPORT).is_file() or seed_folders(path)):
        raise ConfigError(
            f"{no_run(folder, 'holds no run and no evaluation')}; name folders that `glassformer train` or `evaluate` "
            "wrote, or give the test data that systems generate text for: data= FILE"
        )


def _load_side(folder: str | Path, progress: Progress | None) -> _LoadedSide:
    path = Path(folder)
    name = run_name(path)
    if folders := seed_folders(path):
        if len(folders) > 1:
            return _LoadedSide(name, summarise_seeds(path, progress), run=open_run(folders[0]))
        path = folders[0]
    run: TrainedRun | None = None
    if (path / REPORT).is_file():
        evaluation, run_folder = path, path.absolute().parent.parent
        if path.absolute().parent.name == EVALUATION and (run_folder / CONFIG).is_file():
            run, name = open_run(run_folder), f"{run_name(run_folder)} ({name})"
    else:
        run = open_run(path)
        evaluation = run.ensure_evaluated(progress)
    cost = Cost() if run is None else read_cost(run.folder)
    seed = SeedRun(report=EvaluationReport.load(evaluation / REPORT), cost=cost)
    return _LoadedSide(name, SeedSummary(name=name, runs=[seed]), evaluation, run)


def _compared_system(side: _LoadedSide, first: _LoadedSide, resamples: int, latency: bool) -> ComparedSystem:
    runs, report = side.seeds.runs, side.report
    deltas, why = ({}, None) if side is first else _differences(side, first, resamples)
    seconds, cpu_seconds = side.seeds.seconds, side.seeds.cpu_seconds
    return ComparedSystem(
        name=side.name,
        seeds=len(runs),
        metrics=report.metrics if side.single else {name: x.interval for name, x in side.seeds.means.items()},
        differences=deltas,
        apart=why,
        rows=int(report.data["rows"]),
        seconds_per_row=sum(one.report.seconds / int(one.report.data["rows"]) for one in runs) / len(runs),
        cost=Cost(
            seconds=None if seconds is None else seconds.value,
            cpu_seconds=None if cpu_seconds is None else cpu_seconds.value,
            steps=runs[0].cost.steps,
            parameters=runs[0].cost.parameters,
            bytes=runs[0].cost.bytes,
        ),
        latency=_latency(side) if latency else None,
    )


def _differences(side: _LoadedSide, first: _LoadedSide, resamples: int) -> tuple[dict[str, Interval], str | None]:
    """The differences of its metrics to the first; or the reason why there are none."""
    if len(side.rows | first.rows) > 1:
        return {}, OTHER_ROWS
    if side.single != first.single:
        return {}, "one run compared with several seeds"
    if side.single:
        if side.metrics is None or first.metrics is None:
            return {}, "its predictions were not saved"
        return differences(side.metrics, first.metrics, resamples), None
    own, others = (
        {name: [one.report.metrics[name].value for one in x.seeds.runs] for name in x.seeds.means}
        for x in (side, first)
    )
    by_metric = {name: difference_of(own[name], others[name]) for name in own if name in others}
    return {name: x for name, x in by_metric.items() if x is not None}, None


def _baseline_systems(first: _LoadedSide) -> list[ComparedSystem]:
    """The baselines of the first run. Their differences are known of the main metric alone."""
    report, systems = first.report, []
    for name, baseline in report.baselines.items():
        metrics, difference = baseline.metrics, baseline.difference
        if not first.single:
            metrics, difference = {x: mean.interval for x, mean in first.seeds.baselines[name].items()}, None
        systems.append(
            ComparedSystem(
                name=name,
                seeds=0,
                about=baseline.about,
                metrics=metrics,
                # The report has how far the run lies above the baseline; here it is how far the baseline does.
                differences={} if difference is None else {report.metric: -difference},
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
            notes.append(f"{first.name} and {side.name} were evaluated on other machines: do not compare their times")
    return [*notes, *(f"{side.name}: {note}" for side in sides for note in side.seeds.notes)]
