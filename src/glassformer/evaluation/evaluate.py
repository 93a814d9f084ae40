"""Evaluate a model: its predictions and those of baselines, scored on the same rows, in a report.

evaluate(…) → Evaluation      predictions, and a report: metrics with 95% confidence intervals, next to baselines
EvaluationReport              strict JSON, in report.json of an evaluation's folder; printed, or shown in a notebook:
                              a table with the model, its baselines, and how much better it is
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

from glassformer.data.rows import RowSequence
from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.evaluation.groups import MetricsByGroup, group_names, metrics_by_group
from glassformer.files import as_path, counted, readable_path, safe_repr
from glassformer.files.atomic import disk_errors
from glassformer.progress import with_bar
from glassformer.reports.chance import near_chance
from glassformer.reports.page import shown_label
from glassformer.reports.report import Report, plain
from glassformer.reports.table import Table
from glassformer.runs.folder import describe_environment, event_log_path
from glassformer.runs.history import read_run
from glassformer.tasks.base import Progress, Task, metrics_of
from glassformer.tasks.metrics.metric import (
    RESAMPLES,
    Bootstrap,
    Interval,
    PerClassReport,
    differences,
    greater_is_better,
    intervals,
)
from glassformer.tasks.predictions import write_predictions
from glassformer.tasks.types import Baseline, Dataset, Prediction

REPORT, PREDICTIONS = "report.json", "examples.jsonl"
CLASS_COLUMNS = ("precision", "recall", "f1", "support")
MAX_CLASSES, CLASSES_PER_END = 12, 5
"""This many classes are all shown; of more, this many from either end."""
MAX_ABOUT = 200
"""Characters of the description of a baseline in a table."""
TRAIN_LONGER = "train longer (--epochs), with another learning rate (--learning-rate), or on more rows"
LEARN_OTHERWISE = "try another method of few labels (`glassformer advise` compares them), or label more rows"
"""What to do where a baseline is better than a model; and than a method of few labels, which has no epochs."""


@dataclass(frozen=True)
class Evaluation:
    """A report, and the predictions it rests on."""

    report: EvaluationReport
    predictions: list[Prediction]

    def save(self, folder: str | Path) -> None:
        """Write `examples.jsonl` and `report.json` into a folder, which is made. Raises: DataError: the disk refuses.

        The report comes last: where it is there, the evaluation counts as done.
        """
        folder = as_path(folder, "folder")
        with disk_errors(folder / PREDICTIONS, DataError):
            folder.mkdir(parents=True, exist_ok=True)
            write_predictions(folder / PREDICTIONS, self.predictions)
        self.report.save(folder / REPORT)


def evaluate(
    task_name: str,
    task: Task,
    rows: Dataset,
    *,
    train: Dataset | None = None,
    name: str = "model",
    files: list[str] | None = None,
    seed: int | None = None,
    baselines: bool = True,
    by: str | None = None,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
    advice: str = TRAIN_LONGER,
) -> Evaluation:
    """Evaluate a model on rows, with its baselines. What is warned of meanwhile is among the report's notes.

    Args:
        task_name: as in `glassformer train`
        task: of the model, with its options: `task.for_evaluation(beams=5)`
        train: the training rows, which baselines learn from; without them only those that learn nothing
        name, seed: of the model, and of its training
        files: where the rows are from
        by: a column whose values group the rows (groups.py)
        resamples: of the bootstrap
        progress: called with how many more rows are done
        advice: what to do where a baseline is better
    Raises: DataError: no rows, or one that cannot be evaluated; no such column.
    """
    if not len(rows):
        raise DataError("there is no row to evaluate; the split is empty")
    names, shown = [] if by is None else group_names(rows, by), None if progress else False
    with _user_warnings() as messages:
        start = perf_counter()  # of the model alone: metrics, baselines and the bootstrap are not its time
        predictions = list(task.predict(rows, progress))
        seconds = perf_counter() - start
        metrics = metrics_of(task, predictions)
    with _user_warnings() as baseline_messages:
        results = _baseline_results(task, train, predictions, metrics, resamples, shown) if baselines else {}
    others = [f"baselines: {message}" for message in baseline_messages]
    own = [*metrics.notes(), *task.notes(predictions), *beaten_by(results, task.METRIC, advice)]
    report = EvaluationReport(
        task=task_name,
        name=name,
        data={"files": files or [], "rows": len(rows), "fingerprint": rows.fingerprint},
        metric=task.METRIC,
        higher=greater_is_better(task.METRIC),
        metrics=intervals(metrics, resamples),
        methods=dict(metrics.methods),
        baselines=results,
        classes=metrics.report(),
        groups=None if by is None else metrics_by_group(task, predictions, by, names, resamples, shown=shown),
        notes=[*messages, *others, *own],
        seed=seed,
        seconds=seconds,
        environment=describe_environment(task.model.device),
    )
    return Evaluation(report, predictions)


def _possible(baselines: Iterator[Baseline]) -> Iterator[Baseline]:
    """Baselines, with a warning at the first that needs a package which is not installed."""
    try:
        yield from baselines
    except MissingExtraError as error:
        warnings.warn(f"further baselines are left out: {error}", stacklevel=2)


def _baseline_results(
    task: Task,
    train: Dataset | None,
    predictions: Sequence[Prediction],
    metrics: Bootstrap,
    resamples: int,
    shown: bool | None,
) -> dict[str, SystemResult]:
    """The metrics of each baseline, and how far the model's are from them: in the same resamples of the same rows."""
    results: dict[str, SystemResult] = {}
    for baseline in with_bar(_possible(task.baselines(train, predictions)), "baselines", shown=shown):
        own = metrics_of(task, baseline.predictions)
        difference = differences(metrics, own, resamples).get(task.METRIC)
        results[baseline.name] = SystemResult(
            about=baseline.about, metrics=intervals(own, resamples), difference=difference
        )
    return results


@contextmanager
def _user_warnings() -> Iterator[list[str]]:
    """The warnings meant for users, such as that texts were cut, as texts; the others go on."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield messages
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


# ------------------------------------------------------------------------------------------------ the report


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """The metrics of one system, such as a baseline, on the rows of an evaluation.

    about: what it is
    metrics: by name
    difference: the model's main metric minus its, on the same rows
    """

    about: str
    metrics: dict[str, Interval]
    difference: Interval | None = None

    def improvement(self, higher: bool) -> Interval | None:
        """How much better the model is; positive also where less of the metric is better."""
        return self.difference if self.difference is None or higher else -self.difference


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationReport(Report, kind="evaluation"):
    """The evaluation report of a model.

    task: as in `glassformer train`
    name: of the model
    data: files, rows, fingerprint of what it was evaluated on; of a run also the SHA-256 of its weights
    metric: the main metric
    higher: whether more of it is better
    metrics: by name
    methods: metric → how it was computed, by which package in which version
    baselines: name → their metrics
    classes: metrics per class
    groups: by the values of a column
    notes: warnings and remarks
    seed: of the training, where it is known
    seconds: that the model took for all rows
    environment: what it was computed with and on
    """

    task: str
    name: str
    data: dict[str, Any]
    metric: str
    higher: bool
    metrics: dict[str, Interval]
    methods: dict[str, str]
    baselines: dict[str, SystemResult] = field(default_factory=dict)
    classes: PerClassReport | None = None
    groups: MetricsByGroup | None = None
    notes: list[str] = field(default_factory=list)
    seed: int | None = None
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)

    def validate(self) -> None:
        """Raises: ConfigError: the number of rows or the main metric is missing."""
        if type(self.data.get("rows")) is not int:
            raise ConfigError(f"data.rows is {safe_repr(self.data.get('rows'))}; it must be a whole number")
        if self.metric not in self.metrics:
            raise ConfigError(f"its main metric, {safe_repr(self.metric)}, is none of its metrics")

    @property
    def caption(self) -> str:
        """What was evaluated, in a sentence."""
        files = ", ".join(map(str, self.data.get("files") or ["rows of its own"]))
        return f"{self.name} on {self.data['rows']:,} rows of {files}; in brackets 95% intervals"

    @property
    def method(self) -> str:
        """How the main metric was computed, and by which packages the others, by name where they differ from it."""
        main, packages = self.methods.get(self.metric, "a way that it does not say"), dict[str, list[str]]()
        for name, method in self.methods.items():
            packages.setdefault(method.partition(",")[0], []).append(name)
        others = [
            f"; {', '.join(names)} by {way if len(names) > 1 else self.methods[names[0]]}"
            for way, names in packages.items()
            if not main.startswith(way)
        ]
        return f"{self.metric} by {main}" + "".join(others)

    def systems_table(self) -> Table:
        """The model and each baseline a row: their main metric and how much better the model is."""
        own = [self.name, _written(self.metrics[self.metric])]
        if not self.baselines:
            return Table(["", self.metric], [own])
        rows = [[*own, "", "this model"]]
        for name, system in self.baselines.items():
            better = _written(system.improvement(self.higher), signed=True)
            rows.append([name, _written(system.metrics.get(self.metric)), better, system.about])
        return Table(["", self.metric, f"{self.name} better by", ""], rows, longest=MAX_ABOUT)

    def other_metrics_table(self) -> Table:
        """Every metric but the main one, and those that are it by another name: of the model and of each baseline."""
        systems = self._systems()
        names = [name for name in distinct_metrics(systems, self.metric) if name != self.metric]
        rows = [[name, *(_written(system.get(name)) for system in systems)] for name in names]
        return Table(["metric", self.name, *self.baselines], rows)

    def equal_metrics(self) -> list[str]:
        """Sentences that say which metrics are one number by several names."""
        return equal_metrics(self._systems(), self.metric)

    def _systems(self) -> list[Mapping[str, Interval]]:
        return [self.metrics, *(system.metrics for system in self.baselines.values())]

    def class_table(self) -> Table | None:
        """Scores per class, a class a row; of many the best and worst by F1. None = no classes."""
        if self.classes is None:
            return None
        # the best F1 first, and last the classes without one
        classes = sorted(self.classes.scores.items(), key=lambda x: (x[1].get("f1") is None, -(x[1].get("f1") or 0.0)))
        rows = [
            [shown_label(name), *(_score(scores.get(column), column) for column in CLASS_COLUMNS)]
            for name, scores in classes
        ]
        if len(rows) > MAX_CLASSES:
            gap = ["…", *[""] * len(CLASS_COLUMNS)]
            rows = [*rows[:CLASSES_PER_END], gap, *rows[-CLASSES_PER_END:]]
        return Table(["", *CLASS_COLUMNS], rows)

    def card_comparison(self) -> dict[str, Any]:
        """The main metric next to those of the baselines, for a model card."""
        systems: dict[str, dict[str, Interval | None]] = {self.name: {"value": self.metrics[self.metric]}}
        for name, system in self.baselines.items():
            better = system.improvement(self.higher)
            systems[name] = {"value": system.metrics.get(self.metric), "better": better}
        comparison = {"metric": self.metric, "method": self.methods.get(self.metric), "rows": self.data.get("rows")}
        return dict(plain({**comparison, "systems": systems}))

    def tables(self) -> list[Table]:
        """The main metric next to those of baselines, the other metrics, those per class and per group."""
        classes, groups = self.class_table(), self.groups
        tables = [self.systems_table(), self.other_metrics_table(), classes, None if groups is None else groups.table()]
        return [table for table in tables if table is not None and table.rows]

    @property
    def title(self) -> str:
        return self.name

    @property
    def finding(self) -> str:
        return f"{beside_baselines(self)}."

    def page_tables(self) -> list[Table]:
        """The main metric as bars, and the others, folded; then those per class and per group."""
        systems, others = self.systems_table(), self.other_metrics_table()
        about = [[name, system.about] for name, system in self.baselines.items()]
        systems = systems.of(range(min(len(systems.headings), 3)))  # without what they are
        baselines = range(1, len(systems.rows))
        caption = f"{self.metric} next to baselines" if baselines else self.metric
        classes, groups = self.class_table(), self.groups
        tables = [
            replace(systems, caption=caption, baselines=baselines, reference=0 if baselines else None),
            replace(others, caption="Other metrics", folded=True),
            Table(["", ""], about, "What the baselines are", left=2, folded=True),
            None if classes is None else replace(classes, caption="Scores of each class"),
            None if groups is None else groups.table(),
        ]
        return [table for table in tables if table is not None and table.rows]

    def remarks(self) -> list[str]:
        """Groups that stand out, metrics that are equal, how they were computed, and notes."""
        groups = self.groups.sentences() if self.groups else []
        return [*groups, *self.equal_metrics(), self.method, *(f"note: {note}" for note in self.notes)]


def file_names(rows: RowSequence) -> list[str]:
    """The names of the files of rows."""
    return [readable_path(Path(name).name) for name in dict.fromkeys(map(rows.file, range(len(rows))))]


def _written(x: Interval | None, *, signed: bool = False) -> str:
    return "" if x is None else x.cell(3, signed=signed)


def _score(value: float | None, column: str) -> str:
    return "–" if value is None else f"{value:,.0f}" if column == "support" else f"{value:.3f}"


def distinct_metrics(systems: Sequence[Mapping[str, Interval]], main: str) -> dict[str, list[str]]:
    """Metrics that differ in some system, and of each those that are the same number by another name.

    Of one label a row, accuracy is micro-averaged F1, precision and recall too, and weighted recall. `main` is first.
    """
    names: dict[Any, list[str]] = {}
    for name in sorted(dict.fromkeys(chain.from_iterable(systems)), key=lambda name: name != main):
        scores = tuple((x := system.get(name)) and x.written(9) for system in systems)
        names.setdefault(scores, []).append(name)
    return {first: others for first, *others in names.values()}


def equal_metrics(systems: Sequence[Mapping[str, Interval]], main: str) -> list[str]:
    """Sentences that say which metrics are one number by several names."""
    return [f"{name} is also {', '.join(same)}" for name, same in distinct_metrics(systems, main).items() if same]


def beside_baselines(report: EvaluationReport) -> str:
    """The main metric, and how the model stands to the baseline that has the best value of it.

        f1 0.890 [0.719, 1.000]; not distinguishable from the baseline “bag of words” (0.889) on 18 rows

    By the paired difference of the report, since the values alone say nothing of chance; with the remark about chance.
    """
    return ". ".join(filter(None, (_beside_the_best(report), chance_remark(report).removesuffix("."))))


def chance_remark(report: EvaluationReport) -> str:
    """A sentence where the answers of a classifier hardly depend on the class; else "".

        Hardly better than chance: accuracy 0.355 [0.270, 0.440], and always “joy” has 0.345; the Matthews …

    By the Matthews correlation, which is 0 of any guess, however unequal classes are.
    """
    accuracy, matthews = (report.metrics.get(name) for name in ("accuracy", "matthews"))
    classes = report.classes
    if accuracy is None or matthews is None or matthews.low is None or classes is None or not classes.confusion:
        return ""
    if not near_chance(matthews.value, 0.0, matthews.low):
        return ""
    rows = [sum(row) for row in classes.confusion]
    most = max(range(len(rows)), key=rows.__getitem__)
    return (
        f"Hardly better than chance: accuracy {accuracy.written(3)}, and always “{classes.names[most]}” has "
        f"{rows[most] / sum(rows):.3f}; the Matthews correlation is {matthews.written(3)}, and that of a guess 0."
    )


def _beside_the_best(report: EvaluationReport) -> str:
    """The main metric, next to the baseline that has the best value of it."""
    score = f"{report.metric} {report.metrics[report.metric].written(3)}"
    values = {
        name: system.metrics[report.metric].value
        for name, system in report.baselines.items()
        if report.metric in system.metrics and math.isfinite(system.metrics[report.metric].value)
    }
    if not values:
        return score
    name = (max if report.higher else min)(values, key=lambda name: values[name])
    better = report.baselines[name].improvement(report.higher)
    compared = "" if better is None else f"{better.comparison} "
    return f"{score}; {compared}the baseline “{name}” ({values[name]:.3f}) on {counted(report.data['rows'], 'row')}"


def beaten_by(baselines: Mapping[str, SystemResult], metric: str, advice: str = TRAIN_LONGER) -> list[str]:
    """A sentence about the baseline that is furthest above the model, and what to do; none where none is.

    One that is above it by no more than chance is not said to be better.
    """
    improvements = {name: system.improvement(greater_is_better(metric)) for name, system in baselines.items()}
    better = {name: -x for name, x in improvements.items() if x is not None and x.value < 0}
    if not better:
        return []
    name = max(better, key=lambda name: better[name].value)
    size = better[name].written(3)
    note = f"the baseline {name!r} is {better[name].comparison} the model, by {size}"
    if not better[name].leaves_out_zero:
        note = f"the baseline {name!r} is {better[name].comparison} the model: its {metric} is better by {size}"
    return [f"{note}; {advice}"]


def loss_remarks(report: EvaluationReport, run: Path, config: Mapping[str, Any] | None = None) -> list[str]:
    """Where a baseline is better than the model of a run: a sentence, if the training loss still fell at the end."""
    logged = event_log_path(run).is_file()
    if (
        not logged
        or not beaten_by(report.baselines, report.metric)
        or (fall := read_run(run, config=config).falling_loss()) is None
    ):
        return []
    third, last = fall
    return [f"the training loss still fell: {third:.3g} in the third quarter of the steps, {last:.3g} in the last"]
