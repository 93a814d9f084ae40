"""Metrics by group: a model's metrics on the rows of each value of a column, such as speaker, corpus or author.

    by speaker  rows  words  seconds  wer                                          the worst first
    theo          50     50     21.4  0.180 [0.080, 0.300]
    lucas         50     50     25.3  0.020 [0.000, 0.060]
    theo: its wer is worse than that of all other rows by 0.160 [0.060, 0.280]; times 50 words that is 8.0

A group stands out where its distance from all other rows is beyond chance. Those that do are ordered by distance times
size: a large source that is somewhat worse costs more than a small one that is bad.

Source: Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", section 2.1, whose sources
were inspected in the order of "both high error rate and data source size".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from glassformer.data.sequence import missing_column
from glassformer.errors import DataError
from glassformer.files import counted, safe_repr
from glassformer.progress import with_bar
from glassformer.reports.table import Table
from glassformer.tasks.base import Task, metrics_of
from glassformer.tasks.metrics.metric import RESAMPLES, Bootstrap, Interval, differences, greater_is_better, intervals
from glassformer.tasks.types import Dataset, Prediction

MIN_ROWS = 10
"""Rows of a group that may stand out: of fewer, resamples are too much similar for an interval."""
MAX_TESTED = 20
"""Groups whose distance from all others is resampled, those that cost most."""
MAX_SHOWN = 20
"""Groups in a table, the worst; a file of the report has all."""
SECONDS_OF_AN_HOUR = 3_600
MAX_METRICS = 2
"""Metrics in a table."""


@dataclass(frozen=True, kw_only=True)
class GroupMetrics:
    """The metrics of a model on the rows of one group.

    name: the value of the column; None: rows without one
    rows: how many
    amounts: how much they are otherwise, such as words; of what the main metric is divided by first
    metrics: by name; none where there is nothing to divide by, such as no word
    worse_by: in the main metric, than all other rows; None: not compared
    excess: the same times its size
    """

    name: str | None
    rows: int
    amounts: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Interval] = field(default_factory=dict)
    worse_by: Interval | None = None
    excess: float | None = None

    @property
    def stands_out(self) -> bool:
        """Is it worse than the others beyond what chance would give?"""
        return self.worse_by is not None and self.worse_by.leaves_out_zero and self.worse_by.value > 0

    @property
    def size(self) -> tuple[str, float]:
        """What its size is counted in, and how much that is."""
        return next(iter(self.amounts.items()), ("rows", float(self.rows)))


@dataclass(frozen=True, kw_only=True)
class MetricsByGroup:
    """A model's metrics by the values of a column.

    metric: the main one
    groups: the worst first
    """

    column: str
    metric: str
    groups: list[GroupMetrics]
    notes: list[str] = field(default_factory=list)

    @property
    def outliers(self) -> list[GroupMetrics]:
        """The groups that are worse beyond chance, those that cost most first."""
        return sorted((x for x in self.groups if x.stands_out), key=lambda x: -(x.excess or 0.0))

    def table(self) -> Table:
        """A group a row, the worst first."""
        shown = self.groups[:MAX_SHOWN]
        amounts = list(dict.fromkeys(name for group in shown for name in group.amounts))
        long = any(group.amounts.get("seconds", 0.0) >= SECONDS_OF_AN_HOUR for group in shown)
        known = dict.fromkeys(name for group in shown for name in group.metrics)
        names = sorted(known, key=lambda name: name != self.metric)[:MAX_METRICS]
        rows = [
            [
                self.shown_name(group.name),
                f"{group.rows:,}",
                *(_amount(name, group.amounts.get(name), hours=long) for name in amounts),
                *("–" if (x := group.metrics.get(name)) is None else x.written(3) for name in names),
            ]
            for group in shown
        ]
        if more := len(self.groups) - len(shown):
            rows.append([f"… {more:,} more", *[""] * (len(rows[0]) - 1)])
        units = ["hours" if long and name == "seconds" else name for name in amounts]
        return Table([f"by {self.column}", "rows", *units, *names], rows, f"By {self.column}", chooses="group")

    def sentences(self) -> list[str]:
        """Which groups stand out, and what is to be known besides the table."""
        sentences = []
        for group in self.outliers:
            assert group.worse_by is not None and group.excess is not None
            unit, size = group.size
            sentences.append(
                f"{self.shown_name(group.name)}: its {self.metric} is worse than that of all other rows by "
                f"{group.worse_by.written(3)}; times {size:,.0f} {unit} that is {group.excess:,.1f}"
            )
        if not sentences and len(self.groups) > 1:
            sentences.append(f"no {self.column} is worse than all others beyond chance")
        return [*sentences, *self.notes]

    def shown_name(self, name: str | None) -> str:
        """A group as tables have it."""
        return f"(no {self.column})" if name is None else name

    def __str__(self) -> str:
        return "\n".join([self.table().text(), *self.sentences()])


def _amount(name: str, value: float | None, *, hours: bool) -> str:
    if value is None:
        return ""
    if name == "seconds":
        return f"{value / SECONDS_OF_AN_HOUR:,.2f}" if hours else f"{value:,.1f}"
    return f"{value:,.0f}"


GroupNames: TypeAlias = str | tuple[str, ...] | None
"""The group of a row; None = it has none; several, as of a column of lists: it is in each of them."""


def group_names(rows: Dataset, column: str) -> list[GroupNames]:
    """The group of each row: its value in a column as text, None where it has none; of a list, each of its items.

    Raises: DataError: no such column, a value that is no text, number or truth value, nor a list of them, or no row
        has one.
    """
    check_group_column(rows, column)
    names: list[GroupNames] = []
    for index in range(len(rows)):
        value = rows[index].get(column)
        items = list(value) if isinstance(value, list | tuple) else [value]
        if not all(item is None or isinstance(item, str | int | float) for item in items):
            raise DataError(
                f"{rows.where(index)}: {column!r} is {safe_repr(value)}; rows are grouped by a text or a number, or by "
                "each of a list of them"
            )
        groups = tuple(dict.fromkeys(str(item) for item in items if item is not None and str(item).strip()))
        names.append(groups if len(groups) > 1 else groups[0] if groups else None)
    if not any(names):
        raise DataError(f"{rows.where(0)}: no row has a value in {column!r}; there is nothing to group by")
    return names


def check_group_column(rows: Dataset, column: str) -> None:
    """Check that rows have the column that groups them. Raises: DataError: they have not."""
    if column not in rows.columns:
        raise DataError(f"{rows.where(0)}: {missing_column(column, rows.columns)}; --by names one of them")


def metrics_by_group(
    task: Task,
    predictions: Sequence[Prediction],
    column: str,
    names: Sequence[GroupNames],
    resamples: int = RESAMPLES,
    *,
    shown: bool | None = False,
) -> MetricsByGroup:
    """The metrics of each group of rows, the worst first, and how much worse than all other rows it is.

    Args:
        predictions: of rows, in any order
        names: the group of each row, or its groups, by its number
        resamples: of the bootstrap
        shown: a progress bar, as of `with_bar`
    Raises: DataError: predictions that do not say which row they are of.
    """
    members: dict[str | None, list[int]] = defaultdict(list)
    rows: dict[str | None, set[int]] = defaultdict(set)
    for place, row in enumerate(_row_numbers(predictions, len(names))):
        row_groups = names[row]
        for name in row_groups if isinstance(row_groups, tuple) else (row_groups,):
            members[name].append(place)
            rows[name].add(row)
    bootstraps = {name: metrics_of(task, [predictions[i] for i in places]) for name, places in members.items()}
    groups = {
        name: GroupMetrics(
            name=name,
            rows=len(rows[name]),
            amounts=dict(bootstrap.amounts),
            metrics=intervals(bootstrap, resamples) if _can_be_scored(bootstrap) else {},
        )
        for name, bootstrap in with_bar(bootstraps.items(), "groups", len(bootstraps), shown=shown)
    }
    overall = metrics_of(task, predictions).values()[task.METRIC]
    for name in with_bar(_to_compare(groups, task.METRIC, overall), "comparing groups", shown=shown):
        inside = set(members[name])
        outside = [x for place, x in enumerate(predictions) if place not in inside]
        # An item that every list has leaves no others.
        if outside and _can_be_scored(others := metrics_of(task, outside)):
            groups[name] = _compared(groups[name], bootstraps[name], others, task.METRIC, resamples)
    return MetricsByGroup(
        column=column,
        metric=task.METRIC,
        groups=sorted(groups.values(), key=lambda group: _badness(group, task.METRIC)),
        notes=[
            *_notes(groups, column, task.METRIC),
            *([f"a row with several {column} is in each of their groups"] if tuple in map(type, names) else []),
        ],
    )


def _row_numbers(predictions: Sequence[Prediction], rows: int) -> list[int]:
    """The number of the row that each prediction is of; a long text has several predictions, its stretches."""
    if len(predictions) > rows and not all("row" in x.details for x in predictions):
        raise DataError("these predictions do not say which row they are of; evaluate the model again")
    return [x.details.get("row", x.index) for x in predictions]


def _can_be_scored(bootstrap: Bootstrap) -> bool:
    return next(iter(bootstrap.amounts.values()), 1.0) > 0


def _badness(group: GroupMetrics, metric: str) -> tuple[bool, float]:
    """By which groups are sorted: the worst first, last those without the metric."""
    score = group.metrics.get(metric)
    if score is None or math.isnan(score.value):
        return True, 0.0
    return False, score.value if greater_is_better(metric) else -score.value


def _to_compare(groups: Mapping[str | None, GroupMetrics], metric: str, overall: float) -> list[str | None]:
    """The groups that are worse than all rows together and large enough, those that cost most first."""
    sign, costs = (-1 if greater_is_better(metric) else 1), {}
    for name, group in groups.items():
        if group.metrics and group.rows >= MIN_ROWS and len(groups) > 1:
            costs[name] = sign * (group.metrics[metric].value - overall) * group.size[1]
    return sorted((name for name, cost in costs.items() if cost > 0), key=lambda name: -costs[name])[:MAX_TESTED]


def _compared(group: GroupMetrics, own: Bootstrap, others: Bootstrap, metric: str, resamples: int) -> GroupMetrics:
    """A group, with how much worse than the other rows it is."""
    above = differences(own, others, resamples, paired=False)[metric]
    worse_by = -above if greater_is_better(metric) else above
    return replace(group, worse_by=worse_by, excess=worse_by.value * group.size[1])


def _notes(groups: Mapping[str | None, GroupMetrics], column: str, metric: str) -> list[str]:
    """What one has to know to read the table."""
    if len(groups) == 1:
        return [f"all rows have one {column}: there is nothing to compare it with"]
    notes = []
    if nothing := [group for group in groups.values() if not group.metrics]:
        notes.append(f"{_groups(len(nothing))} without any {nothing[0].size[0]}: no {metric}")
    if small := sum(group.rows < MIN_ROWS for group in groups.values()):
        notes.append(f"{_groups(small)} of fewer than {MIN_ROWS} rows: too few to say what stands out")
    if len(groups) > MAX_TESTED:
        notes.append(
            f"of {len(groups):,} groups the {MAX_TESTED} that cost most are compared; of a hundred similar, three or "
            "four stand out by chance"
        )
    return notes


def _groups(count: int) -> str:
    return f"{counted(count, 'group')}"
