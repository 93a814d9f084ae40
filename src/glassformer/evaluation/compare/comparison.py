"""Comparison of systems: every metric with its confidence interval, its paired difference to the first, and the costs.

    trained runs, seeds, evaluations    runs.py     their saved predictions, scored by their task
    lead-3, a model, any function       texts.py    what they generate for the same rows, by ROUGE, or BLEU and chrF

Both come to sufficient statistics of each row, which are resampled together: what makes a row hard for two systems
cancels out of their difference (`tasks/metrics/metric.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.deprecation import former_attributes
from glassformer.evaluation.compare.costs import Cost, LatencySummary, minutes
from glassformer.pages.tables import html_table, text_table
from glassformer.tasks.metrics.metric import Interval


@former_attributes(figures="metrics", seconds="seconds_a_row")
@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """One system of a comparison.

    seeds: how many runs it is; 0 = a baseline of the first run · about: what a baseline is
    metrics: with intervals over rows, or over seeds · differences: of each metric to that of the first system
    apart: why there is no difference · rows: it was evaluated on · seconds_a_row: of its predictions
    words: of a generated text, on average · cost, latency: where they are known
    """

    name: str
    metrics: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)
    apart: str | None = None
    seeds: int = 1
    about: str = ""
    rows: int | None = None
    seconds_a_row: float | None = None
    words: float | None = None
    cost: Cost = field(default_factory=Cost)
    latency: LatencySummary | None = None

    def selected(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Values for JSON. keys: field → its key"""
        values = asdict(self)
        return {key: values[name] for name, key in keys.items()}


@dataclass(frozen=True)
class ExampleRow:
    """A row and what each system generated for it, by name."""

    line: int
    text: str
    references: list[str]
    outputs: dict[str, str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(ABC):
    """Systems on the same rows.

    systems: the others are compared with the first; baselines of a run come last
    shown: the metrics of the table, with their digits · metric, higher: the main one, and whether more of it is better
    methods: metric → how it was computed · notes: remarks · examples: of texts
    """

    task: str
    systems: list[ComparedSystem]
    shown: dict[str, int]
    metric: str = ""
    higher: bool = True
    methods: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    examples: list[ExampleRow] = field(default_factory=list)

    @property
    @abstractmethod
    def caption(self) -> str:
        """The caption of the table."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON."""

    @property
    def title(self) -> str:
        return f"{self.task.capitalize()}: {', '.join(one.name for one in self.systems if one.seeds)}"

    def systems_with(self, metric: str) -> list[ComparedSystem]:
        """The systems that have a metric."""
        return [one for one in self.systems if metric in one.metrics]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: for each metric every system, and its difference to the first."""
        rows = []
        for metric, digits in self.shown.items():
            for number, one in enumerate(self.systems_with(metric)):
                difference = one.differences.get(metric)
                apart = (one.apart or "") if difference is None else difference.written(digits, signed=True)
                label = f"{metric} *" if metric == self.metric else metric
                rows.append(["" if number else label, one.name, one.metrics[metric].written(digits), apart])
        headings = ["", "", "95 % interval", "difference"]
        if len(self.systems) == 1:
            return headings[:-1], [row[:-1] for row in rows]
        return headings, rows

    def costs(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: the costs of each system; columns without a value are left out.

        minutes: of training · MB: on disk · ms a row: in batches · ms alone: latency of one row at a time
        words, seconds: of a generated text, on average
        """
        columns: dict[str, Callable[[ComparedSystem], str]] = {
            "rows": lambda one: _formatted(one.rows, ",d"),
            "words": lambda one: _formatted(one.words, ".1f"),
            # A text takes seconds, a label milliseconds.
            "seconds": lambda one: "" if one.words is None else _formatted(one.seconds_a_row, ".2g"),
            "minutes": lambda one: minutes(one.cost.seconds),
            "CPU minutes": lambda one: minutes(one.cost.cpu_seconds),
            "steps": lambda one: _formatted(one.cost.steps, ",d"),
            "parameters": lambda one: _formatted(one.cost.parameters, ",d"),
            "MB": lambda one: "" if one.cost.bytes is None else f"{one.cost.bytes / 1e6:,.1f}",
            "ms a row": lambda one: (
                "" if one.words is not None else _formatted(one.seconds_a_row and 1000 * one.seconds_a_row, ".3g")
            ),
            "ms alone": lambda one: "" if (x := one.latency) is None else f"{x.mean:.1f} ± {x.deviation:.1f}",
            "median, p95": lambda one: "" if (x := one.latency) is None else f"{x.median:.1f}, {x.p95:.1f}",
        }
        runs = [one for one in self.systems if one.seeds]
        known = {name: cells for name, f in columns.items() if any(cells := [f(one) for one in runs])}
        rows = [[one.name, *(cells[i] for cells in known.values())] for i, one in enumerate(runs)]
        return ["", *known], rows

    def __str__(self) -> str:
        tables = (text_table(*self.table()), text_table(*self.costs()))
        return "\n\n".join([self.caption, *tables, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.caption) + html_table(*self.costs())


def interval_range(values: Iterable[Interval]) -> tuple[float, float]:
    """The range of an axis: all intervals, with a margin."""
    ends = [end for x in values for end in (x.low, x.value, x.high) if end is not None]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.04 or abs(high) * 0.05 or 0.5
    return low - room, high + room


def _formatted(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)
