"""A folder of runs as one report: all of them in a table, with their best values, settings and curves.

    RunList.read("runs")        every run in the folder and its folders, whatever state it is in
    RunList.read("runs").best   the one with the best value of the metric

A run that is still written, was stopped, has not begun or cannot be read is in the table too, with a word.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev

from glassformer.errors import ConfigError, DataError, GlassformerError, nearest
from glassformer.files import as_path, counted, nan_from_null, read_json_object, safe_repr
from glassformer.files.lock import holder_lives
from glassformer.files.schema import parse
from glassformer.reports.charts import SavedModel, Series, SeriesLine
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, clock, number, shown_text
from glassformer.runs.curves import (
    METHOD,
    SEED,
    CurveLine,
    charts,
    leading_to,
    main_metric,
    settings_of,
    validation_rows,
)
from glassformer.runs.folder import CONFIG, EVENTS, event_log_path, iterate_runs, log_kind, run_log
from glassformer.runs.history import RunHistory, read_run
from glassformer.runs.state import LOCK, state_stamp
from glassformer.tasks.metrics.metric import Interval, greater_is_better

REPORT = Path("evaluation", "validation", "report.json")
"""Of a run that was evaluated on its validation rows: their metrics have intervals there."""
MAX_RUNS = 20_000
"""Runs that a page holds."""
MAX_POINTS, MIN_POINTS_PER_LINE, MAX_POINTS_PER_LINE = 150_000, 12, 400
"""Of the curves of all runs together, and of one, which has a page of its own with more."""
MAX_SETTINGS = 40
"""Columns of settings that differ."""
MAX_LEFT_OUT = 10
"""Damaged lines of logs that are named."""
MAX_NAME = 200
OWN_SETTINGS = ("output", "task", "data.train")
"""Settings that each run has for itself, or that are columns anyway."""
SECTIONS, SHARED = ("training.", "method."), (SEED, METHOD)
"""Of settings that a run has either of: they are compared among those that have them, but for those that all have."""
UNSET = ("null", "{}", "[]")
"""Texts of settings that say nothing."""
COLUMNS = {"log": "log", "task": "task", "data": "data", "rows": "validated on"}
"""Of the table, where runs differ in them: their headings."""
Difference = Callable[[Path, Path, str], Interval | None]
"""(a run, another, metric) → how far the first lies above the second on the rows of both; None = not known."""
STATES = ("ended", "running", "stopped", "silent", "not begun", "unreadable")
COUNTED = {"silent": "perhaps stopped"}
"""What a state is called where its runs are counted."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run of a folder.

    name: its path in the folder
    state: one of STATES: those of `RunState`; or its log is missing, or cannot be read
    shown_state: the same with how long nothing was written, or why it cannot be read; "" = as the state
    problem: why it cannot be read
    log: whose it is: glassformer, TensorBoard or Weights & Biases
    started: seconds since 1970
    task, data: what it learns, from which rows
    rows: those that its metrics are of; no two runs on other rows have the same name of them
    fingerprint: of these rows, where it was evaluated on them
    steps, planned, seconds: how far it is, and how long its steps took
    metrics: its best validation, with intervals where these rows were evaluated; `loss` is that of validation
    metric: by which its best model was chosen; of a run without steps, the first of its report
    training_loss: smoothed, the last
    settings: by their keys in the configuration
    """

    name: str
    state: str
    shown_state: str = ""
    problem: str = ""
    log: str = ""
    started: float | None = None
    task: str = ""
    data: str = ""
    rows: str = ""
    fingerprint: str = ""
    steps: int = 0
    planned: int | None = None
    seconds: float = 0.0
    metrics: dict[str, Interval] = field(default_factory=dict)
    metric: str | None = None
    training_loss: float | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def value(self, metric: str) -> Interval | None:
        """Its value of a metric, if it is finite."""
        value = self.metrics.get(metric)
        return value if value is not None and math.isfinite(value.value) else None


@dataclass(frozen=True, repr=False)
class RunList(Report, kind="runs", keys=("folder", "metric", "higher", "runs")):
    """The runs of a folder, the best by a metric first; those on other rows than most, which no order compares, last.

    folder: its name
    metric: most runs chose their best model by it; None = no run has a validation
    higher: whether more of it is better
    histories: of the runs, by name, for their curves
    address: of the pages of runs, where they are served
    apart: how far the best run is above the next on the same rows; None = not known
    saved: the models of the runs, to whose rows a click on a chart leads
    """

    folder: str
    metric: str | None
    higher: bool
    runs: Sequence[ListedRun]
    histories: Mapping[str, RunHistory] = field(default_factory=dict)
    address: str = ""
    apart: Interval | None = None
    saved: Sequence[SavedModel] = ()

    @classmethod
    def read(
        cls,
        folder: str | Path,
        progress: Callable[[int, int], None] | None = None,
        *,
        address: str = "",
        difference: Difference | None = None,
        model: Callable[[str, Path, RunHistory], SavedModel] | None = None,
    ) -> RunList:
        """Read all runs of a folder.

        Args:
            progress: called with how many of how many runs are read
            address: of the pages of runs, where they are served
            difference: of the best two, on the same rows
            model: that a run kept, by its name, folder and history; None = charts lead to no rows
        Raises: DataError: no such folder, or no run in it.
        """
        folder = as_path(folder, "folder")
        paths = dict(zip(run_names(folder, folders := find_runs(folder)), folders, strict=True))
        if not paths:
            raise DataError(f"{folder}: holds no run; give a folder that trainings wrote to")
        histories: dict[str, RunHistory] = {}
        runs = []
        for done, (name, path) in enumerate(paths.items(), start=1):
            runs.append(_listed(name, path, histories))
            if progress is not None:
                progress(done, len(paths))
        chosen = Counter(run.metric for run in runs if run.metric is not None)
        metric = chosen.most_common(1)[0][0] if chosen else None
        higher = metric is not None and greater_is_better(metric)
        ranked = _ranked(_with_names_of_rows(runs), metric, higher)
        apart, measured = None, [run for run in ranked if metric and run.value(metric) is not None]
        if difference is not None and metric is not None and len(measured) > 1 and measured[0].rows == measured[1].rows:
            apart = difference(paths[measured[0].name], paths[measured[1].name], metric)
        saved = [] if model is None else [model(name, paths[name], history) for name, history in histories.items()]
        return cls(folder.resolve().name, metric, higher, ranked, histories, address, apart, saved)

    @property
    def best(self) -> ListedRun | None:
        """The run with the best value of the metric on the rows of most; without one, with the lowest training loss."""
        return next((run for run in self.runs if self._value(run) is not None), None)

    def _value(self, run: ListedRun) -> Interval | None:
        return _value(run, self.metric)

    @property
    def _measure(self) -> str:
        return "training loss" if self.metric is None else f"validation {self.metric}"

    @property
    def title(self) -> str:
        return f"Runs in {self.folder}"

    @property
    def caption(self) -> str:
        states = Counter(run.state for run in self.runs)
        known = ", ".join(f"{states[state]:,} {COUNTED.get(state, state)}" for state in STATES if state in states)
        same = [
            value for name in ("task", "data") if len(values := self._values_of(name)) == 1 for value in values if value
        ]
        return f"{counted(len(self.runs), 'run')}{' of ' * bool(same)}{' on '.join(same)}: {known}"

    def _values_of(self, name: str) -> set[str]:
        """What the runs that could be read have of a column."""
        return {str(getattr(run, name)) for run in self.runs if run.state not in ("not begun", "unreadable")}

    @property
    def finding(self) -> str:
        """The best run, and how far the next is from it; of runs that differ in their seed alone, their mean."""
        measured = [run for run in self.runs if self._value(run) is not None]
        if not measured:
            return "No run has a loss or a metric yet."
        best, value = measured[0], self._value(measured[0])
        assert value is not None
        most = "Highest" if self.higher else "Lowest"
        highest = f"{most} {self._measure}: {_written(value)}, of {best.name}"
        if len(measured) == 1:
            return f"{highest}; no other run has one."
        if self._settings[0] == [SEED] and len({run.settings.get(SEED) for run in measured}) == len(measured):
            values = [each.value for run in measured if (each := self._value(run))]
            spread = f"standard deviation {stdev(values):.3g}, from {min(values):.3g} to {max(values):.3g}"
            return f"{self._measure.capitalize()} of {len(values)} seeds: {fmean(values):.3g} on average, {spread}."
        comparable = [run for run in measured if run.rows == best.rows]
        if len(comparable) == 1:
            return self._without_best(measured)
        following = comparable[1]
        other = self._value(following)
        assert other is not None
        elsewhere = len(measured) - len(comparable)
        distance = _distance(value, other, following, self.apart)
        if not elsewhere:
            return f"{highest}; {distance}."
        of = f"of {len(comparable)} runs validated on {best.rows}"
        others = f"{counted(elsewhere, 'run')} on other data cannot be compared with them"
        return f"{most} {self._measure} {of}: {_written(value)}, of {best.name}; {distance}. {others}."

    def _without_best(self, measured: Sequence[ListedRun]) -> str:
        """What runs have of which no two were validated on the same rows."""
        (highest, first), *_, (lowest, last) = [(value, run) for run in measured if (value := self._value(run))]
        return (
            f"No two of {len(measured)} runs were validated on the same rows, so none is known to be the best: "
            f"{self._measure} from {_written(highest)}, of {first.name}, to {_written(lowest)}, of {last.name}."
        )

    def charts(self) -> list[Series]:
        """The metric and the training loss of each run: a page draws those of the runs that are selected."""
        runs = [self.histories[run.name] for run in self.runs if run.name in self.histories]
        points = max(min(MAX_POINTS_PER_LINE, MAX_POINTS // max(2 * len(runs), 1)), MIN_POINTS_PER_LINE)
        of = {chart.name: chart.lines for chart in charts(runs, points, [self.metric or "loss", "loss"])}
        titled = {
            f"Validation {self.metric}": [line for line in of.get(self.metric or "", ()) if line.kind == "points"],
            "Training loss": [line for line in of.get("loss", ()) if line.kind == "smooth"],
        }
        series = [
            Series(title=title, x_label="step", lines=[_series_line(runs[line.run], line) for line in lines])
            for title, lines in titled.items()
            if lines
        ]
        return leading_to(series, self.saved)

    def tables(self) -> list[Table]:
        """A run a row, the best first, with the settings that differ; then those that all have."""
        differ, same = self._settings
        metrics = list(dict.fromkeys([*filter(None, [self.metric]), *(x for run in self.runs for x in run.metrics)]))
        shown = [name for name in COLUMNS if len(self._values_of(name)) > 1]
        headings = [
            "run", "state", "started", *(COLUMNS[name] for name in shown),
            *(f"validation {name}" for name in metrics), "training loss", "steps", "time of steps",
            *differ[:MAX_SETTINGS],
        ]  # fmt: skip
        rows = [
            [
                run.name,
                run.shown_state or run.state,
                _date(run.started),
                *(getattr(run, name) or "–" for name in shown),
                *(_cell(run.metrics.get(name)) for name in metrics),
                "–" if run.training_loss is None else number(run.training_loss),
                _steps(run),
                clock(run.seconds) if run.steps else "–",
                *(run.settings.get(name, "–") for name in differ[:MAX_SETTINGS]),
            ]
            for run in self.runs
        ]
        hidden = len(differ) - MAX_SETTINGS
        table = Table(
            headings,
            rows,
            "Runs",
            left=3 + len(shown),
            address=self.address,
            measure=headings.index(self._measure),
            note=f"{hidden:,} more settings differ; the page of a run has all." if hidden > 0 else "",
        )
        shared = Table(["setting", "all runs"], same, f"Settings of all runs ({len(same)})", left=2, folded=True)
        return [table, shared] if same else [table]

    @cached_property
    def _settings(self) -> tuple[list[str], list[list[str]]]:
        """The settings in which runs differ, by name; and those that all have, with their values."""
        flat = [run.settings for run in self.runs if run.settings]
        names = dict.fromkeys(name for settings in flat for name in settings if name not in OWN_SETTINGS)
        values = {name: {settings.get(name) for settings in _having(flat, name)} for name in names}
        differ = sorted((x for x in values if len(values[x]) > 1), key=lambda x: not x.startswith("training."))
        return differ, [[name, str(*values[name])] for name in values if len(values[name]) == 1]

    def remarks(self) -> list[str]:
        intervals = any(value.low is not None for run in self.runs for value in run.metrics.values())
        brackets = "; in brackets 95% intervals, of runs that were evaluated on these rows" * intervals
        metrics = f"Metrics are those of the validation at which the best model of a run was saved{brackets}."
        damaged = [f"{name}: {line}" for name, run in self.histories.items() for line in run.left_out]
        hidden = len(damaged) - MAX_LEFT_OUT
        more = f"{counted(hidden, 'more damaged line')} left out; the page of a run names its own."
        return [metrics, *damaged[:MAX_LEFT_OUT], *([more] if hidden > 0 else [])]


def named_runs(folder: str | Path, names: Sequence[str]) -> dict[str, Path]:
    """The paths of runs of a folder, by their names in its list. Raises: DataError: there is no such run (any more)."""
    folder = as_path(folder, "folder")
    known = dict(zip(run_names(folder, folders := find_runs(folder)), folders, strict=True))
    for name in names:
        if name not in known:
            raise DataError(f"{folder}: has no run {safe_repr(name)} (any more){nearest(name, known)}")
    return {name: known[name] for name in names}


def stamp(paths: Iterable[Path]) -> str:
    """The state of runs as far as it is known without reading them: another one where a log or a report was written."""
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        digest.update(f"{path}\n".encode("utf-8", "surrogateescape"))
        for file in (run_log(path), path / REPORT):
            with suppress(OSError):  # which is not there (yet)
                about = None if file is None else file.stat()
                digest.update(f"{about and (about.st_size, about.st_mtime_ns)}\n".encode())
        if (log := run_log(path)) is not None:
            digest.update(f"{state_stamp(path, log)}\n".encode())
    return digest.hexdigest()


def find_runs(folder: str | Path) -> list[Path]:
    """The run folders in a folder and its folders, by path; what is within a run is not searched."""
    return sorted(iterate_runs(as_path(folder, "folder")))[:MAX_RUNS]


def run_names(folder: Path, paths: Sequence[Path]) -> list[str]:
    """A name for each run: its path in the folder, as it is shown; no two are the same."""
    names: dict[str, None] = {}
    for path in paths:
        text = shown_text(path.relative_to(folder).as_posix() if path != folder else folder.resolve().name)
        text = text if len(text) <= MAX_NAME else f"…{text[-MAX_NAME:]}"
        names[text if text not in names else f"{text} ({len(names) + 1})"] = None
    return list(names)


def _listed(name: str, path: Path, histories: dict[str, RunHistory]) -> ListedRun:
    """What a run folder says; its history goes to the others, where there is one."""
    log = run_log(path)
    try:
        run = read_run(path, name)
    except GlassformerError as error:
        if log is None:
            return ListedRun(name=name, state="running" if holder_lives(path / LOCK) else "not begun")
        problem = str(error)
        for file in (log, path / CONFIG, *path.glob(f"{EVENTS}*")):  # a page names no folder of the machine
            problem = problem.removeprefix(f"{file}: ")
        shown = f"unreadable: {problem}"
        return ListedRun(name=name, state="unreadable", shown_state=shown, log=log_kind(log), problem=problem)
    histories[name] = run
    metrics, metric, evaluated_on = _metrics(run, path)
    settings = {name: text for name, text in settings_of(run).items() if text not in UNSET}
    loss = float(run.smoothed("loss")[-1]) if run.last else math.nan
    return ListedRun(
        name=name,
        state=run.state.name,
        shown_state=str(run.state),
        log=log_kind(log or event_log_path(path)),
        started=run.started,
        task=settings.get("task", ""),
        data=settings.get("data.train", ""),
        rows=evaluated_on.get("name") or validation_rows(settings)[0],
        fingerprint=evaluated_on.get("fingerprint", ""),
        steps=run.last,
        planned=run.planned,
        seconds=run.seconds,
        metrics=metrics,
        metric=metric,
        training_loss=loss if math.isfinite(loss) else None,
        settings=settings,
    )


def _having(runs: Sequence[dict[str, str]], setting: str) -> Sequence[dict[str, str]]:
    """The settings of the runs among which one is compared."""
    section = next((each for each in SECTIONS if setting.startswith(each) and setting not in SHARED), "")
    of_methods = section == "method."
    having = [x for x in runs if (METHOD in x) == of_methods and any(name.startswith(section) for name in x)]
    return having if section else runs


def _series_line(run: RunHistory, line: CurveLine) -> SeriesLine:
    points = line.kind == "points"
    x, y = line.steps.tolist(), line.values.tolist()
    return SeriesLine(run.name, x, y, group=run.name, markers=points, best=run.best if points else None)


def _metrics(run: RunHistory, path: Path) -> tuple[dict[str, Interval], str | None, dict[str, str]]:
    """The metrics of the best validation, with the intervals that an evaluation of its rows has; and the main one.

    A run without steps has no validation: its metrics are those of the evaluation.

    Returns: also the name and the fingerprint of the rows of the evaluation, where there is one.
    """
    rows: dict[str, str] = {}
    metrics = {name: Interval(value) for name, value in run.best_metrics().items()}
    main = main_metric(run)
    with suppress(DataError, ConfigError):  # of another version, or damaged: then there are no intervals
        report = read_json_object(path / REPORT, DataError, optional=True)
        reported = report.get("metrics")
        for name, each in reported.items() if isinstance(reported, dict) else ():
            if (name in metrics or run.stepless) and isinstance(each, dict):
                metrics[name] = parse(Interval, nan_from_null(each))
        if main is None and report.get("metric") in metrics:
            main = str(report["metric"])
        rows = _evaluated_rows(report.get("data"))
    return metrics, main, rows


def _evaluated_rows(data: object) -> dict[str, str]:
    """The name and the fingerprint of the rows of a report, where it has them."""
    if not isinstance(data, dict) or not isinstance(data.get("fingerprint"), str):
        return {}
    files = data.get("files")
    return {
        "name": shown_text(", ".join(map(str, files))) if isinstance(files, list) else "",
        "fingerprint": data["fingerprint"],
    }


def _with_names_of_rows(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Runs whose names of rows tell other rows apart: by what they were evaluated on, else by their settings."""
    evaluated = {validation_rows(run.settings): run.fingerprint for run in runs if run.fingerprint}
    names: dict[object, str] = {}
    alike: Counter[str] = Counter()
    result = []
    for run in runs:
        settings = validation_rows(run.settings)
        key = run.fingerprint or evaluated.get(settings) or settings
        if key not in names:
            alike[run.rows] += 1
            names[key] = run.rows if alike[run.rows] == 1 else f"{run.rows}, other rows ({alike[run.rows]})"
        result.append(replace(run, rows=names[key]))
    return result


def _ranked(runs: Sequence[ListedRun], metric: str | None, higher: bool) -> list[ListedRun]:
    """Runs from the best to the worst, of most on the same rows first; then those without a value, by name."""
    sign = -1 if higher else 1
    values = {run.name: sign * value.value for run in runs if (value := _value(run, metric)) is not None}
    measured: dict[str, list[float]] = {}
    for run in runs:
        if run.name in values:
            measured.setdefault(run.rows, []).append(values[run.name])
    order = {rows: (-len(on), min(on)) for rows, on in measured.items()}

    def rank(run: ListedRun) -> tuple[bool, tuple[int, float], str, float]:
        value = values.get(run.name)
        return (True, (0, 0.0), "", 0.0) if value is None else (False, order[run.rows], run.rows, value)

    return sorted(runs, key=rank)


def _value(run: ListedRun, metric: str | None) -> Interval | None:
    if metric is not None:
        return run.value(metric)
    return None if run.training_loss is None else Interval(run.training_loss)


def _steps(run: ListedRun) -> str:
    """`600`, or `200 of 600`; of a method without steps `–`."""
    if run.planned is None and not run.steps:
        return "–"
    return f"{run.steps:,}" if run.planned in (None, run.steps) else f"{run.steps:,} of {run.planned:,}"


def _date(seconds: float | None) -> str:
    with suppress(ValueError, OverflowError, OSError):  # of a damaged log
        return "–" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
    return "–"


def _written(value: Interval) -> str:
    return value.written(3) if 1e-3 <= abs(value.value) < 1e3 else number(value.value)


def _cell(value: Interval | None) -> str:
    """A metric as a cell; without an interval a dot on the same scale."""
    return "–" if value is None else IntervalCell(_written(value), value.value, value.low, value.high)


def _distance(best: Interval, other: Interval, following: ListedRun, paired: Interval | None = None) -> str:
    """How far the next run is from the best, and whether that may be chance."""
    if paired is not None and paired.low is not None:
        sure = "" if paired.leaves_out_zero else ", which may be chance"
        return (
            f"on the same rows, its difference to the next, {following.name}, is {paired.written(3, signed=True)}{sure}"
        )
    apart = abs(best.value - other.value)
    distance = "has the same" if apart == 0 else f"has {apart:.3g} {'less' if best.value > other.value else 'more'}"
    sure = ""
    if best.low is not None and other.low is not None and apart:
        overlap = best.overlaps(other)
        sure = ", and their intervals " + ("overlap, so compare them" if overlap else "do not overlap")
    return f"the next, {following.name}, {distance}{sure}"
