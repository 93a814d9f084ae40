"""The report of a comparison: every metric of each system with its interval and difference to the first, and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from glassformer.evaluation.compare.best_value import Costed, best_value
from glassformer.evaluation.compare.costs import Cost, LatencySummary, minutes
from glassformer.reports.charts import Axis, Chart, Passages, Point, TradeOff
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, flops_amount
from glassformer.tasks.metrics.metric import Interval

MAX_TEXT = 600
"""Characters of a text in a table; the page and the JSON have all."""
TITLE_NAMES = 4
"""Systems that a title names; of more it says how many."""
MAX_PANELS = 2
"""Metrics that a page shows at once: of more, which often say nearly the same, the main one, and the others folded."""


@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """One system of a comparison.

    seeds: how many runs it is; 0 = a baseline of the first run
    about: what a baseline is
    metrics: with intervals over rows, or over seeds
    differences: of each metric to that of the first system
    apart: why there is no difference
    rows: it was evaluated on
    seconds_per_row: of its predictions
    words: of a generated text, on average
    cost, latency: where they are known
    speed: how many times as fast as the first system, where they were timed in turn
    """

    name: str
    metrics: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)
    apart: str | None = None
    seeds: int = 1
    about: str = ""
    rows: int | None = None
    seconds_per_row: float | None = None
    words: float | None = None
    cost: Cost = field(default_factory=Cost)
    latency: LatencySummary | None = None
    speed: Interval | None = None


@dataclass(frozen=True)
class ExampleRow:
    """A row, its file and line, and what each system generated for it, by name."""

    where: str
    text: str
    references: list[str]
    outputs: dict[str, str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Report, kind="comparison"):
    """Systems on the same rows.

    systems: the others are compared with the first; baselines of a run come last
    shown: the metrics of the tables, with their digits
    caption: what is compared, on what
    metric, higher: the main one, and whether more of it is better
    methods: metric → how it was computed
    rows, total: how many were predicted, of how many
    words: of a reference on average, where texts are generated
    interrupted: are these only the rows before Ctrl-C?
    examples: rows with the texts that were generated for them
    """

    task: str
    systems: list[ComparedSystem]
    shown: dict[str, int]
    caption: str
    metric: str = ""
    higher: bool = True
    methods: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: int | None = None
    total: int | None = None
    words: float | None = None
    interrupted: bool = False
    examples: list[ExampleRow] = field(default_factory=list)

    @property
    def title(self) -> str:
        names = [one.name for one in self.systems if one.seeds]
        rest = f" and {len(names) - TITLE_NAMES} more" if len(names) > TITLE_NAMES else ""
        return f"{self.task.capitalize()}: {', '.join(names[:TITLE_NAMES])}{rest}"

    def systems_with(self, metric: str) -> list[ComparedSystem]:
        """The systems that have a metric."""
        return [one for one in self.systems if metric in one.metrics]

    def tables(self) -> list[Table]:
        """For each metric every system with its difference to the first; their costs; what they generated."""
        return [*map(self.metric_table, self.shown), self.cost_table(), *map(_example_table, self.examples)]

    def metric_table(self, metric: str) -> Table:
        """A system a row: the metric with its interval, and its difference to the first system."""
        rows, digits = [], self.shown[metric]
        for one in self.systems_with(metric):
            difference = one.differences.get(metric)
            apart = (one.apart or "") if difference is None else difference.cell(digits, signed=True)
            rows.append([one.name, one.metrics[metric].cell(digits), apart])
        better = f", {'higher' if self.higher else 'lower'} is better" * (metric == self.metric)
        if len(self.systems) == 1:
            return Table(["", f"{metric}, 95% interval"], [row[:2] for row in rows], metric + better)
        return Table(["", "95% interval", "difference"], rows, metric + better, reference=0)

    def page_tables(self) -> list[Table]:
        """Baselines in grey; and how each metric was computed."""
        grey: list[Table] = []
        for metric in self.shown:
            baselines = [i for i, one in enumerate(self.systems_with(metric)) if not one.seeds]
            folded = bool(grey) and len(self.shown) > MAX_PANELS  # several metrics say nearly the same
            grey.append(replace(self.metric_table(metric), baselines=baselines, folded=folded))
        methods = [Table(["metric", "by"], list(self.methods.items()), "How it was computed", left=2, folded=True)]
        return [*grey, replace(self.cost_table(), caption="What they cost"), *(methods if self.methods else [])]

    def passages(self) -> list[Passages]:
        """What the systems wrote, uncut."""
        return [
            Passages(
                f"What they wrote, {example.where}",
                list(example.outputs.items()),
                references=[("reference", text) for text in example.references],
                source=example.text,
            )
            for example in self.examples
        ]

    @property
    def finding(self) -> str:
        """The best run by the main metric, and whether its difference to the first could be chance.

        Where latencies were measured: the smallest and the fastest that are not worse than the first.
        """
        if value := self._best_value():
            return value
        runs = [
            one for one in self.systems_with(self.metric) if one.seeds and math.isfinite(one.metrics[self.metric].value)
        ]
        if len(runs) < 2:
            return self._next_to_the_best_baseline(runs)
        best = (max if self.higher else min)(runs, key=lambda one: one.metrics[self.metric].value)
        first, other = runs[0], best
        if best is first:
            others = [one for one in runs[1:] if self.metric in one.differences]
            if not others:
                return ""
            other = (max if self.higher else min)(others, key=lambda one: one.metrics[self.metric].value)
        difference = other.differences.get(self.metric)
        if first is not self.systems[0] or difference is None or not math.isfinite(difference.value):
            return ""
        worse = first if best is other else other
        size = (difference if difference.value > 0 else -difference).written(self.shown.get(self.metric, 3))
        chance = "" if difference.leaves_out_zero else ", which may be chance: the interval includes 0"
        if not difference.value:
            return f"{first.name} and {other.name} have the same {self.metric}.{self._better_baseline(best)}"
        better = f"{best.name} has a better {self.metric} than {worse.name}, by {size}{chance}."
        return f"{better}{self._better_baseline(best)}"

    def _better_baseline(self, best: ComparedSystem) -> str:
        """The baseline with a better value than the best run, and by how much where that is known; "" = none."""
        sign, digits = 1 if self.higher else -1, self.shown.get(self.metric, 3)
        reached = {x.name: sign * x.metrics[self.metric].value for x in self.systems_with(self.metric)}
        over = [x for x in self.systems if not x.seeds and reached.get(x.name, -math.inf) > reached[best.name]]
        if not over:
            return ""
        one = max(over, key=lambda x: reached[x.name])
        difference = one.differences.get(self.metric) if best is self.systems[0] else None
        if difference is None or not math.isfinite(difference.value):
            return f" The baseline “{one.name}” has a better one ({one.metrics[self.metric].value:.{digits}f})."
        chance = "" if difference.leaves_out_zero else ", which may be chance"
        size = (difference if difference.value > 0 else -difference).written(digits)
        return f" The baseline “{one.name}” is better than {best.name}, by {size}{chance}."

    def _next_to_the_best_baseline(self, runs: Sequence[ComparedSystem]) -> str:
        """How the only run stands to the best of the others; "" = there is none, or it is not compared."""
        others = [x for x in self.systems_with(self.metric) if x not in runs and self.metric in x.differences]
        if not runs or not others:
            return ""
        best = (max if self.higher else min)(others, key=lambda x: x.metrics[self.metric].value)
        difference, digits = best.differences[self.metric], self.shown.get(self.metric, 3)
        better = (-difference if self.higher else difference).comparison
        score = f"{self.metric} {runs[0].metrics[self.metric].written(digits)}"
        return f"{score} of {runs[0].name}; {better} {best.name} ({best.metrics[self.metric].value:.{digits}f})."

    def _best_value(self) -> str:
        """The smallest and the fastest system that are not worse than the first; "" = latencies were not measured."""
        runs = [one for one in self.systems_with(self.metric) if one.seeds]
        if runs[:1] != self.systems[:1] or any(one.latency is None for one in runs):
            return ""
        costed = [
            Costed(one.name, one.differences.get(self.metric), one.cost.bytes, one.latency.p50, one.speed)
            for one in runs
            if one.latency is not None
        ]
        return best_value(costed[0], costed[1:], self.metric, higher=self.higher)

    def _speed(self, one: ComparedSystem) -> str:
        """How many times as fast as the first system it is, by the medians of single rows."""
        first = self.systems[0].latency
        known = first is not None and one.latency is not None and one.latency.p50 > 0 and len(self.systems) > 1
        return f"{first.p50 / one.latency.p50:.2f} ×" if known and first and one.latency else ""

    def charts(self) -> list[Chart]:
        """The metric over the latency, where it was measured; the area of a dot is the size of the files."""
        metric, timed = self.metric, [one for one in self.systems_with(self.metric) if one.latency is not None]
        points = [
            Point(
                one.name,
                IntervalCell(f"{one.latency.p50:.1f}", one.latency.p50, one.latency.p50, one.latency.p95),
                one.metrics[metric].cell(self.shown.get(metric, 3)),
                size=one.cost.bytes,
            )
            for one in timed
            if one.latency is not None
        ]
        if len(points) < 2:
            return []
        latency, quality = Axis("latency of a row, median to p95", "ms", more=False), Axis(metric, more=self.higher)
        return [TradeOff(f"{metric} by latency; area: size on disk", latency, quality, points)]

    def cost_table(self) -> Table:
        """The costs of each system, what decides between them first; columns without a value are left out.

        minutes: of training · MB: on disk · RAM, read: of the weights, and those that a row reads
        median, p95, ms alone: latency of one row at a time · speed: the first's median divided by it
        ms a row: in batches
        words, seconds: of a generated text, on average
        """
        columns: dict[str, Callable[[ComparedSystem], str]] = {
            "rows": lambda one: _formatted(one.rows, ",d"),
            "words": lambda one: _formatted(one.words, ".1f"),
            # A text takes seconds, a label milliseconds.
            "seconds": lambda one: "" if one.words is None else _formatted(one.seconds_per_row, ".2g"),
            "minutes": lambda one: minutes(one.cost.seconds),
            "CPU minutes": lambda one: minutes(one.cost.cpu_seconds),
            "steps": lambda one: _formatted(one.cost.steps, ",d"),
            "parameters": lambda one: _formatted(one.cost.parameters, ",d"),
            "MB": lambda one: "" if one.cost.bytes is None else f"{one.cost.bytes / 1e6:,.1f}",
            "median, p95": lambda one: "" if (x := one.latency) is None else f"{x.p50:.1f}, {x.p95:.1f}",
            "speed": self._speed,
            "ms a row": lambda one: (
                "" if one.words is not None else _formatted(one.seconds_per_row and 1000 * one.seconds_per_row, ".3g")
            ),
            "RAM, MB": lambda one: "" if one.cost.weights is None else f"{one.cost.weights / 1e6:,.1f}",
            "read, MB": lambda one: "" if one.cost.read is None else f"{one.cost.read / 1e6:,.1f}",
            "FLOPs": lambda one: "" if one.cost.flops is None else flops_amount(one.cost.flops),
            "ms alone": lambda one: "" if (x := one.latency) is None else f"{x.mean:.1f} ± {x.std:.1f}",
        }
        runs = [one for one in self.systems if one.seeds]
        known = {name: cells for name, f in columns.items() if any(cells := [f(one) for one in runs])}
        rows = [[one.name, *(cells[i] for cells in known.values())] for i, one in enumerate(runs)]
        if self.words is not None:
            rows.append(["references", *(f"{self.words:.1f}" if name == "words" else "" for name in known)])
        return Table(["", *known], rows, "costs")


def _example_table(example: ExampleRow) -> Table:
    """A row: its text, its references, and what each system generated for it."""
    texts = [("text", example.text), *(("reference", text) for text in example.references), *example.outputs.items()]
    rows = [[name, text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"] for name, text in texts]
    return Table(
        ["", "text"], [[name, text or "(nothing)"] for name, text in rows], example.where, left=2,
        longest=MAX_TEXT + 2,
    )  # fmt: skip


def _formatted(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
