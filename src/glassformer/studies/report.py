"""The report of a study: a table of all combinations, paired differences, curves, and quality by cost.

    method   labels   accuracy               time
    prompt   8        0.612 [0.570, 0.655]   2:10     intervals over seeds (t), or over rows (bootstrap)
    knn      8        0.655 [0.610, 0.701]   0:40     knn instead of prompt (8 labels): +0.043 [+0.010, +0.076]
    knn      16       …                               a curve over labels; where it crosses the line of prompt for good

How intervals and differences are computed: summary.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import ConfigError, nearest
from glassformer.files import as_path, counted, safe_repr
from glassformer.files.schema import Schema
from glassformer.reports.charts import Axis, Chart, Point, Series, SeriesLine, TradeOff
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, amount, clock, hours_and_minutes, number
from glassformer.runs.folder import RESULTS
from glassformer.studies.cells import Level, Levels, NamedLevel, is_scale, label_of, written
from glassformer.studies.effects import Effect
from glassformer.studies.winners import Winner, best_by_number
from glassformer.tasks.metrics.metric import Interval

DIFFERENCES, MAX_DIFFERENCES, MAX_COMBINATIONS = "Paired differences, 95% intervals", 12, 20
"""Differences, and combinations with metrics next to the main one, that are shown at once."""
MAX_SENTENCES = 5
"""Differences that are all put into sentences; of more the table alone has each."""
TITLE_LEVELS = 4
"""Levels of a factor that a title names; of more it says how many."""
MAX_BARS = 2
"""Columns whose intervals are drawn; of more there would be no room for any."""
LOG_FROM = 4.0
"""A chart has a logarithmic axis where its largest number is so many times the smallest."""
COSTS = {
    "seconds": ("time", "min", 60.0),
    "bytes": ("size", "MB", 1e6),
    "ram": ("RAM", "MB", 1e6),
    "read": ("read", "MB", 1e6),
    "flops": ("FLOPs", "G", 1e9),
    "latency": ("latency", "ms", 1.0),
    "p95": ("p95", "ms", 1.0),
    "throughput": ("rows/s", "", 1.0),
    "speed": ("speed", "×", 1.0),
}
"""Costs that are shown in another unit: name → what it is, the unit, and its size."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Schema):
    """What the report of a study shows.

    metric: the main one; None = the first of those that the cells have
    more: further metrics, each with a table of its own
    columns: a factor whose levels are columns of the table, such as test sets, which are not compared with each other
    over: a factor of numbers: the horizontal axis of curves; None = the one that there is
    at: factor → level that the curve in front, the trade-off and the sentences are of
    against: factor → level of one combination, whose metric is a horizontal line for curves to cross: all factors
        with several levels, but for `columns` and those that do not apply to it
    cost: which cost the metric is drawn over
    area: which cost is the area of a point there
    compare: factors whose levels are compared with the first; None = all but numbers and `columns`
    baseline: level of such a factor that the others are compared with; None = the first of each
    intervals: over "seeds", where there are several, or over "rows", for which seeds are averaged, or over "both",
        which are resampled together; None = over seeds, and with a language model over rows
    winners: whether a sentence for each number of `over` says which combination is best there
    """

    metric: str | None = None
    more: list[str] = field(default_factory=list)
    columns: str | None = None
    over: str | None = None
    at: dict[str, NamedLevel] = field(default_factory=dict)
    against: dict[str, NamedLevel] = field(default_factory=dict)
    cost: str | None = None
    area: str | None = None
    compare: list[str] | None = None
    baseline: NamedLevel | None = None
    intervals: Literal["seeds", "rows", "both"] | None = None
    winners: bool = False

    def first_of(self, levels: Sequence[Level]) -> Level:
        """The level of a factor that the others are compared with."""
        return next((x for x in levels if str(x) == str(self.baseline)), levels[0])

    def check(self, factors: Mapping[str, Sequence[Level]]) -> None:
        """Check the factors and levels that are named. Raises: ConfigError: there is no such one."""
        numbers = [name for name, levels in factors.items() if is_scale(levels)]
        named: list[tuple[str, Level, Sequence[Level]]] = [
            ("columns", self.columns, [None, *factors]),
            ("over", self.over, [None, *numbers]),
            *(("compare", name, list(factors)) for name in self.compare or []),
        ]
        if self.baseline is not None:
            compared = [each for name, each in factors.items() if name not in (*numbers, self.columns)]
            named.append(("baseline", str(self.baseline), [str(x) for each in compared for x in each]))
        for key, levels in (("at", self.at), ("against", self.against)):
            named += [(key, name, list(factors)) for name in levels]
            named += [(f"{key}.{name}", level, factors.get(name, ())) for name, level in levels.items()]
        for key, value, known in named:
            if value not in known:
                texts = [str(x) for x in known if x is not None]
                raise ConfigError(
                    f"study.report.{key} is {safe_repr(value)}{nearest(str(value), texts)}; allowed: "
                    f"{', '.join(texts) or 'none'}"
                )

    def check_against(self, cells: Sequence[Levels]) -> None:
        """Check that `against` is one combination of levels. Raises: ConfigError: it is several, or none."""
        wanted = {name: level for name, level in self.against.items() if name != self.columns}
        if not self.against:
            return
        matches = [x for x in cells if all(x[name] == level for name, level in wanted.items())]
        problem = f"study.report.against is {safe_repr(self.against)}"
        if not matches:
            raise ConfigError(f"{problem}; there is no such combination of levels")
        missing = [name for name in matches[0] if name != self.columns and len({x[name] for x in matches}) > 1]
        if missing:
            example = {**wanted, **{name: matches[0][name] for name in missing}}
            raise ConfigError(f"{problem}; it leaves out {', '.join(missing)}: name one level, such as {example}")


@dataclass(frozen=True)
class PlannedCell:
    """A training, or another cell, that is to be done.

    counts: of a training: `examples`, `steps`, and `tokens` that all its steps read
    otherwise: what differs in a result that is there, and that the study would refuse
    seconds: that it took, or will take if it is as the finished ones of its kind; None = nothing is known of it
    """

    name: str
    seed: int
    finished: bool
    counts: dict[str, int] = field(default_factory=dict)
    otherwise: str = ""
    seconds: float | None = None


@dataclass(frozen=True, repr=False)
class PlannedStudy(Report, kind="planned-study", version=2):
    """What a study would do.

    trainings: or other cells
    test_sets: name → rows that each is evaluated on
    basis: what the times are read off
    """

    trainings: list[PlannedCell]
    test_sets: dict[str, int] = field(default_factory=dict)
    basis: str = "as finished ones took"

    def tables(self) -> list[Table]:
        """A row a training, or another cell."""
        names = list(self.trainings[0].counts) if self.trainings else []
        was = "trained" if names else "evaluated"
        rows = [
            [
                *(x.name, str(x.seed), *(f"{n:,}" for n in x.counts.values())),
                f"was {was} otherwise: {x.otherwise}" if x.otherwise else "finished" * x.finished,
            ]
            for x in self.trainings
        ]
        return [Table(["training" if names else "cell", "seed", *names, ""], rows)]

    def remarks(self) -> list[str]:
        """What is left to do."""
        left = [x for x in self.trainings if not x.finished]
        others = sum(bool(x.otherwise) for x in left)
        refused = ["results that were made otherwise are refused: choose another output, or remove those folders"] * (
            others > 0
        )
        if not self.test_sets:
            known = [x.seconds for x in left if x.seconds is not None]
            about = f"; about {hours_and_minutes(sum(known))} for {len(known)} of them, {self.basis}"
            return [f"to evaluate: {counted(len(left), 'cell')}{about if known else ''}", *refused]
        rows, tokens = sum(self.test_sets.values()), amount(sum(x.counts["tokens"] for x in left))
        to_train = f"to train: {tokens} tokens; then each is evaluated on {rows:,} rows of {', '.join(self.test_sets)}"
        return [to_train, *refused]


@dataclass(frozen=True, kw_only=True)
class StudyPoint:
    """A combination of levels: of one seed a cell, or over all its seeds.

    costs: of several seeds the mean, with the least and the most; of one, with the interval over rows if it has one
    baselines: name → the main metric
    beyond: the paired difference of the main metric to the combination of `against`, where there is one
    folder: of a cell, in that of the study
    """

    levels: dict[str, Level]
    seeds: list[int]
    metrics: dict[str, Interval]
    costs: dict[str, Interval] = field(default_factory=dict)
    baselines: dict[str, Interval] = field(default_factory=dict)
    beyond: Interval | None = None
    folder: str = ""

    def label(self, factors: Sequence[str]) -> str:
        """Its levels of some factors, as a name."""
        return label_of({name: self.levels[name] for name in factors})

    def has(self, levels: Levels) -> bool:
        """Has it these levels?"""
        return all(self.levels[name] == level for name, level in levels.items())


@dataclass(frozen=True, kw_only=True)
class Example:
    """A row that systems answer differently: the right answer, and that of each by name.

    text: the input of the row, where it is shown
    """

    test_set: str
    reference: str
    outputs: dict[str, str]
    text: str = ""


STUDY_KEYS = (
    *("factors", "seeds", "metric", "higher", "methods", "options", "planned", "cells", "points", "effects", "lines"),
    "winners",
    *("table", "sentences", "notes", "facts", "examples", "details"),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyReport(Report, kind="study", version=3, keys=STUDY_KEYS):
    """The results of a study so far.

    factors: name → levels
    metric, higher: the main metric, and whether more of it is better
    methods: metric → how it was computed
    options: what is shown
    planned: number of cells, done or not
    cells: those that are done
    points: combinations of levels, over their seeds
    effects: paired differences
    facts: what the evaluator of the cells adds, such as the files of test sets
    notes: what one has to know to defend the table
    examples: rows that the combinations answer differently
    details: what was done in each cell
    winners: for each number of `over` the best combination, where `options.winners` asks for them
    """

    factors: dict[str, list[Level]]
    metric: str
    higher: bool
    methods: dict[str, str]
    options: ReportOptions
    planned: int
    cells: list[StudyPoint]
    points: list[StudyPoint]
    effects: list[Effect]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    details: list[Table] = field(default_factory=list)
    winners: list[Winner] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for cell in self.cells for seed in cell.seeds})

    @property
    def over(self) -> str | None:
        """The factor of the horizontal axis of curves; None = there are no curves."""
        names = [name for name, levels in self.factors.items() if is_scale(levels) and len(levels) > 1]
        return self.options.over or next(iter(names), None)

    @property
    def varied(self) -> list[str]:
        """The factors that make the rows of the table: those with several levels, but for `columns`."""
        names = [name for name in self.factors if name != self.options.columns]
        return [name for name in names if len({x.levels[name] for x in self.points}) > 1] or names[:1]

    @property
    def panels(self) -> list[dict[str, Level]]:
        """The levels of `columns`, each with a chart of its own; that of `options.at` first."""
        columns = self.options.columns
        if columns is None:
            return [{}]
        levels = self.factors[columns]
        return [{columns: level} for level in dict.fromkeys([self.options.at.get(columns, levels[0]), *levels])]

    @property
    def title(self) -> str:
        if own := self.facts.get("title"):
            return str(own)
        by = (f"{name} ({_listed(self.factors[name])})" for name in self.varied)
        return f"{self.metric} by {', '.join(by)}"

    @property
    def caption(self) -> str:
        """The caption of the table."""
        several, rows = len(self.seeds) > 1, self.options.intervals != "seeds" and self.options.intervals is not None
        seeds = f"means of the seeds {', '.join(map(str, self.seeds))}, " * several
        over = "t-intervals over them" if several and not rows else "intervals over rows"
        over += " and seeds" * (several and self.options.intervals == "both")
        left = self.planned - len(self.cells)
        missing = f"; {left} of {self.planned} cells are still to come" if left else ""
        return (
            f"{self.metric}, {'higher' if self.higher else 'lower'} is better; {seeds}in brackets 95% {over}{missing}"
        )

    # ------------------------------------------------------------------------------------------------ tables

    @property
    def table(self) -> Table:
        """The main metric and the costs of each combination of levels."""
        return self._table(self.metric)

    def _table(self, metric: str, *, caption: str = "") -> Table:
        rows: dict[tuple[Level, ...], list[StudyPoint]] = {}
        for x in self.points:
            rows.setdefault(tuple(x.levels[name] for name in self.varied), []).append(x)
        columns = self.options.columns
        panels = [{}] if columns is None else [{columns: level} for level in self.factors[columns]]
        names = [metric] if columns is None else list(map(written, self.factors[columns]))
        costs = list(dict.fromkeys(name for x in self.points for name in x.costs)) if metric == self.metric else []
        cells = []
        for levels, points in rows.items():
            values = [next((x.metrics[metric] for x in points if x.has(panel)), None) for panel in panels]
            metrics = ["" if x is None else x.cell() if len(panels) <= MAX_BARS else x.written(3) for x in values]
            spent = [next((x.costs[name].value for x in points if name in x.costs), None) for name in costs]
            cells.append([*map(written, levels), *metrics, *map(written_cost, costs, spent)])
        headings = [*self.varied, *names, *map(_cost_heading, costs)]
        others = self._baseline_rows(panels).items() if metric == self.metric else []
        below = [[name, *[""] * (len(self.varied) - 1), *values, *[""] * len(costs)] for name, values in others]
        texts = next((i for i, name in enumerate(self.varied) if is_scale(self.factors[name])), len(self.varied))
        grey = range(len(cells), len(cells) + len(below))
        return Table(headings, [*cells, *below], caption, left=max(1, texts), baselines=grey)

    def _baseline_rows(self, panels: Sequence[Levels]) -> dict[str, list[str]]:
        """The metric of baselines by their names, where no curve has them: one for all combinations that share it."""
        groups: dict[str, dict[tuple[float, ...], str]] = {}
        whole = [x for x in self.points if not self.over and x.seeds == self.seeds]
        for levels in dict.fromkeys(x.label(self.varied) for x in whole):
            points = [x for x in whole if x.label(self.varied) == levels]
            for name in dict.fromkeys(name for x in points for name in x.baselines):
                of = [next((x.baselines.get(name) for x in points if x.has(panel)), None) for panel in panels]
                values = tuple(math.nan if x is None else round(x.value, 9) for x in of)
                groups.setdefault(name, {}).setdefault(values, levels)
        rows: dict[str, list[str]] = {}
        for name, by in groups.items():
            for values, levels in by.items():
                cells = [IntervalCell(f"{x:.3f}", x) if math.isfinite(x) else "" for x in values]
                rows[name if len(by) == 1 else f"{name} ({levels})"] = cells
        return rows

    @property
    def _unbeaten(self) -> str:
        """The best baseline in front, in a sentence, where no combination has a better value; empty = one has."""
        sign = 1 if self.higher else -1
        here = [sign * x.metrics[self.metric].value for x in self.points if x.has(self.panels[0])]
        rows = self._baseline_rows(self.panels[:1]).items()
        others = [(sign * x.value, name, x) for name, [x] in rows if isinstance(x, IntervalCell)]
        most, name, value = max(others, default=(-math.inf, "", ""))
        return f"No combination beats the baseline {name}: {value}." if here and most >= max(here) else ""

    @property
    def front(self) -> list[Effect]:
        """The differences of the level of `columns` that is in front."""
        panel = self.panels[0].items()
        return [x for x in self.effects if all(x.where.get(name, level) == level for name, level in panel)]

    def _effects_table(self, effects: Sequence[Effect]) -> Table:
        columns: dict[str, list[str]] = {
            "change": [f"{x.second} instead of {x.first}" for x in effects],
            "where": [label_of(x.where) for x in effects],
            "metric": [x.metric for x in effects] if self.options.more else [],
            "difference": [x.difference.cell(signed=True) for x in effects],
            "before": [f"{x.before:.3f}" for x in effects],
            "after": [f"{x.after:.3f}" for x in effects],
            "seeds that agree": [x.agreement for x in effects] if len(self.seeds) > 1 else [],
        }
        known = {name: cells for name, cells in columns.items() if any(cells)}
        rows, texts = list(zip(*known.values(), strict=True)), list(known).index("difference")
        return Table(list(known), rows, DIFFERENCES, left=texts, folded=len(rows) > MAX_DIFFERENCES)

    def tables(self) -> list[Table]:
        """All combinations, by each metric, of many by the main one; and as many differences in front as are read."""
        more = self.options.more if len(self.table.rows) <= MAX_COMBINATIONS else []
        return [self.table, *(self._table(x, caption=x) for x in more), *([self._few_effects()] if self.front else [])]

    def _few_effects(self) -> Table:
        """The differences in front; of many those of the main metric at the levels of `at`, the largest first."""
        effects, at = self.front, self.options.at
        if len(effects) <= MAX_DIFFERENCES:
            return self._effects_table(effects)
        own = [x for x in effects if x.metric == self.metric]
        here = [x for x in own if at.items() <= x.where.items()] if at else []
        shown = sorted(here or own, key=lambda x: -abs(x.difference.value))[:MAX_DIFFERENCES]
        few = ", ".join([f"{len(shown)} of {len(effects)}", *([label_of(at)] if here else []), "the largest first"])
        return replace(self._effects_table(shown), caption=f"{DIFFERENCES}: {few}; the page and the JSON have all")

    def page_tables(self) -> list[Table]:
        """Also every cell, and rows that were answered differently."""
        tables = [self._table(name, caption=name) for name in (self.metric, *self.options.more)]
        tables += [self._effects_table(self.effects)] if self.effects else []
        for test_set in dict.fromkeys(x.test_set for x in self.examples):
            shown = [x for x in self.examples if x.test_set == test_set]
            names = list(dict.fromkeys(name for x in shown for name in x.outputs))
            texts = any(x.text for x in shown)
            rows = [[x.text] * texts + [x.reference, *(x.outputs.get(name, "") for name in names)] for x in shown]
            about = f"Different answers: {len(rows)} rows of {test_set}, wrong by at least one, and not by all equally"
            headings = [*(["text"] if texts else []), "reference", *names]
            tables.append(Table(headings, rows, about, left=len(headings)))
        return [*tables, *self.details, self._cell_table()]

    def _cell_table(self) -> Table:
        costs, names = list(dict.fromkeys(name for x in self.cells for name in x.costs)), list(self.factors)
        rows = [
            [
                *(written(x.levels[name]) for name in names),
                str(x.seeds[0]),
                x.metrics[self.metric].written(3),
                *(written_cost(name, x.costs[name].value if name in x.costs else None) for name in costs),
                x.folder,
            ]
            for x in self.cells
        ]
        headings = [*names, "seed", self.metric, *map(_cost_heading, costs), "folder"]
        return Table(headings, rows, "Every cell; in brackets 95% intervals over rows", folded=True)

    # ------------------------------------------------------------------------------------------------ curves

    @property
    def lines(self) -> list[SeriesLine]:
        """The curves in front, then those of baselines."""
        return self.lines_of(self.panels[0])

    def lines_of(self, panel: Levels) -> list[SeriesLine]:
        """The curves of a level of `columns`: the main metric over the numbers of a factor."""
        over, groups = self.over or "", dict[str, dict[float, StudyPoint]]()
        others = [name for name in self.varied if name != over]
        for x in self.points:
            if over and x.has(panel) and (n := x.levels[over]) is not None:
                groups.setdefault(x.label(others) or self.metric, {})[float(n)] = x
        lines, dashed = [], []
        for name, points in groups.items():
            lines.append(_line(name, {n: x.metrics[self.metric] for n, x in points.items()}))
            for other in dict.fromkeys(other for x in points.values() for other in x.baselines):
                own = {n: x.baselines[other] for n, x in points.items() if other in x.baselines}
                dashed.append(_line(f"{name}: {other}", own, name))
        return lines + dashed

    def against(self, panel: Levels) -> StudyPoint | None:
        """The combination whose metric is a horizontal line; None = there is none."""
        wanted = {**self.options.against, **panel}
        return next((x for x in self.points if x.has(wanted)), None) if self.options.against else None

    def charts(self) -> list[Chart]:
        """Curves, one chart a level of `columns`; and the metric over a cost."""
        panels, cost = self.panels, self.options.cost
        charts: list[Chart] = [self._series(panel, folded=i > 0) for i, panel in enumerate(panels) if self.over]
        at = {**panels[0], **self.options.at}
        flat = {**at, **({self.over: None} if self.over else {})}  # of those without a number of `over`
        points = [x for x in self.points if (x.has(at) or x.has(flat)) and cost in x.costs]
        if cost is None or not points:
            return charts
        name, unit, size = COSTS.get(cost, (cost, "", 1.0))
        # A colour for each curve, as in the chart next to it; without curves, for each level of the first factor.
        within = [self.over] if self.over in self.varied else self.varied[1:]
        between = [factor for factor in self.varied if factor not in within]
        grouped = bool(within and between)
        # Points of one number, such as 32 labels, are named by the rest.
        named = within if len({x.label(within) for x in points} - {""}) > 1 else between
        marks = [
            Point(
                x.label(self.varied),
                _cost_cell(x.costs[cost], size),
                x.metrics[self.metric].cell(),
                size=x.costs[self.options.area].value if self.options.area in x.costs else None,
                group=x.label(between) if grouped else "",
                mark=x.label(named) if grouped else "",
            )
            for x in points
        ]
        curves = [line.name for line in self.lines if not line.dashed]  # first: a point may be of none
        groups = list(dict.fromkeys([*curves, *(point.group for point in marks)])) if grouped else []
        axis = Axis(name, unit, more=False, log=_is_wide([point.x.value for point in marks]))
        area = self.options.area
        sized = f"; area of a dot: {COSTS.get(area, (area, '', 1.0))[0]}" if area and any(x.size for x in marks) else ""
        title, metric = f"{self.metric} by {name}{_of(at)}{sized}", Axis(self.metric, more=self.higher)
        return [*charts, TradeOff(title, axis, metric, marks, groups)]

    def _series(self, panel: Levels, *, folded: bool) -> Series:
        lines = self.lines_of(panel)
        numbers = sorted({x for line in lines for x in line.x})
        if numbers and (zero := self.against(panel)) is not None:
            name = zero.label(self.varied) + f", without {self.over}" * (zero.levels[str(self.over)] is None)
            lines.append(_line(name, dict.fromkeys((numbers[0], numbers[-1]), zero.metrics[self.metric]), name))
        elif len(numbers) > 1:  # without numbers of their own, such as methods that need no labels
            flat = [x for x in self.points if x.has(panel) and x.levels[str(self.over)] is None]
            ends = numbers[0], numbers[-1]
            for x in flat:
                name = x.label(self.varied)
                lines.append(_line(name, dict.fromkeys(ends, x.metrics[self.metric]), name))
        return Series(
            title=f"{self.metric}{_of(panel)}", x_label=str(self.over), y_label=self.metric, lines=lines,
            log_x=_is_wide(numbers), wide=not folded, folded=folded,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- sentences

    @property
    def crossings(self) -> list[str]:
        """For each curve in front, from which number on it beats the horizontal line, in a sentence."""
        level = self.against(self.panels[0])
        if level is None or math.isnan(level.metrics[self.metric].value):
            return []
        own = level.label([name for name in self.varied if name != self.over])  # crosses itself
        curves = [x for x in self.lines if not x.dashed and len(x.x) > 1 and x.name != own]
        return [self._crossing(curve, level) for curve in curves]

    def _crossing(self, curve: SeriesLine, level: StudyPoint) -> str:
        over, line = self.over, level.metrics[self.metric]
        values = dict(zip(curve.x, curve.y, strict=True))
        better = [n for n, x in values.items() if (x > line.value if self.higher else x < line.value)]
        worse = max((n for n in values if n not in better), default=None)
        after, most = crossing_point(values, line.value, self.higher), written(max(values))
        beats = f"{curve.name} beats {level.label(self.varied)}{_of(self.panels[0])}"
        beyond = self._beyond(curve.name)

        def chance(n: float) -> str:
            """Whether chance may explain which is better: by the paired difference, else where intervals overlap."""
            if (difference := beyond.get(n)) is not None and difference.low is not None:
                return "" if difference.leaves_out_zero else " by its value (zero is within the paired interval)"
            at = list(curve.x).index(n)
            low, high = (ends[at] if ends else curve.y[at] for ends in (curve.low, curve.high))
            overlap = Interval(curve.y[at], low, high).overlaps(line)
            return " by its value (the 95% intervals overlap)" if overlap else ""

        if after is None and better:
            return f"With {', '.join(map(written, better))} {over}, {beats}{chance(better[-1])}, but not with {most}."
        if after is None:
            return f"With none of the numbers tried, up to {most} {over}, {beats}."
        if worse is None:
            return f"Already with {written(min(values))} {over}, the fewest tried, {beats}{chance(min(values))}."
        above = min(n for n in better if n > worse)
        # to two digits, for no more is known: 743 → 740
        digits = 1 - math.floor(math.log10(abs(after) or 1.0))
        about = f"With about {written(round(after, digits))} {over}, {beats}"
        return f"{about}: with {written(worse)} not yet, with {written(above)} it does{chance(above)}."

    def _beyond(self, curve: str) -> dict[float, Interval]:
        """The paired differences of a curve in front to the horizontal line, by the number."""
        others, over = [name for name in self.varied if name != self.over], str(self.over)
        points = [x for x in self.points if x.has(self.panels[0]) and (x.label(others) or self.metric) == curve]
        known = [(x.levels[over], x.beyond) for x in points]
        return {float(n): x for n, x in known if n is not None and x is not None}

    @property
    def unknown_cost(self) -> str:
        """That no cell has the cost that the report names, in a sentence; empty = they have, or it names none."""
        known, name = list(dict.fromkeys(cost for x in self.cells for cost in x.costs)), self.options.cost
        if name is None or name in known:
            return ""
        there = f"the cells have: {', '.join(known)}" if known else "the cells have no costs"
        return f"study.report.cost is {safe_repr(name)}{nearest(name, known)}; {there}"

    @property
    def sentences(self) -> list[str]:
        """What curves and differences say, and how sure it is."""
        own = [x for x in self.front if x.metric == self.metric]
        if self.winners:
            return [*(x.sentence for x in self.winners), *self.crossings]
        if len(own) <= MAX_SENTENCES:
            return [*self.crossings, *(x.sentence for x in own)]
        beyond = sum(x.difference.leaves_out_zero for x in own)
        return [
            *self.crossings,
            f"{beyond} of {len(own)} differences are beyond chance: their 95% intervals leave out zero.",
        ]

    @property
    def finding(self) -> str:
        """What the evaluator says, the winner of the largest number, the first crossing, or the largest change."""
        if own := self.facts.get("finding"):
            return str(own)
        if self.winners:
            last = self.winners[-1].sentence
            return last if len(self.winners) == 1 else f"{best_by_number(self.winners)} {last}"
        return f"{next(iter(self.crossings), '') or self._largest_change or self._best} {self._unbeaten}".strip()

    @property
    def _largest_change(self) -> str:
        """What the replacement that changes the metric most does; of many also how many are beyond chance."""
        own = [x for x in self.front if x.metric == self.metric]
        if not own:
            return ""
        size = [abs(x.difference.value) if math.isfinite(x.difference.value) else -1.0 for x in own]
        rest = self.sentences[-1:] if len(own) > MAX_SENTENCES else []
        return " ".join([own[size.index(max(size))].sentence, *rest])

    @property
    def _best(self) -> str:
        """The combination with the best value, where nothing is compared; empty = there is none."""
        here = [x for x in self.points if x.has(self.panels[0]) and math.isfinite(x.metrics[self.metric].value)]
        if not here:
            return ""
        best = (max if self.higher else min)(here, key=lambda x: x.metrics[self.metric].value)
        value = f"{self.metric} {best.metrics[self.metric].written(3)}{_of(self.panels[0])}"
        name = best.label(self.varied)
        return f"{f'{name}: ' if name else ''}{value}{f', the best of {len(here)}' if len(here) > 1 else ''}."

    def remarks(self) -> list[str]:
        """What the table says, and what one has to know to defend it."""
        further = [x for x in [*self.sentences, self.unknown_cost] if x and x not in self.finding]
        return [*further, *self.notes, *(f"{name}: {method}" for name, method in self.methods.items())]

    def write(self, folder: str | Path) -> None:
        """Write `study.json` and `study.html` into a folder."""
        folder = as_path(folder, "folder")
        self.save(folder / RESULTS["cell"])
        write_page(folder / "study.html", report_page(self))


def crossing_point(values: Mapping[float, float], level: float, higher: bool) -> float | None:
    """From which number on values are better than a level, and stay so.

    Interpolated linearly over the logarithm of the number, between two; the smallest where all are better, None where
    that of the largest is not. After NaN or infinity, the next number.
    """
    sign = 1.0 if higher else -1.0
    points = sorted((n, sign * (value - level)) for n, value in values.items())
    if not points or not points[-1][1] > 0:  # NaN is not better than anything
        return None
    worse = [i for i, (_, gap) in enumerate(points) if not gap > 0]
    if not worse:
        return float(points[0][0])
    (n, below), (m, above) = points[worse[-1]], points[worse[-1] + 1]
    if not math.isfinite(above - below):
        return float(m)
    share = -below / (above - below)
    return n + share * (m - n) if n <= 0 else float(n * (m / n) ** share)


def _listed(levels: Sequence[Level]) -> str:
    """Levels in a title: all, or how many where they are too many to read there."""
    names = list(filter(None, map(written, levels)))
    return ", ".join(names) if len(names) <= TITLE_LEVELS else f"{len(names)} levels"


def _of(levels: Levels) -> str:
    """Of which part a chart or a sentence is: ", evaluated on fr"."""
    return "".join(f", {name} {written(level)}" for name, level in levels.items())


def _is_wide(numbers: Sequence[float]) -> bool:
    """Do positive numbers differ so much that an axis of them is logarithmic?"""
    return bool(numbers) and min(numbers) > 0 and max(numbers) >= LOG_FROM * min(numbers)


def written_cost(name: str, value: float | None) -> str:
    """A cost as a table has it; None = it is not known."""
    if value is None or name == "seconds":
        return "" if value is None else clock(value)
    scaled = value / COSTS[name][2] if name in COSTS else value
    if name in COSTS and 1e-3 <= scaled < 1e3:  # measured: a fourth digit is noise
        return f"{scaled:.3g}"
    return f"{scaled:,.0f}" if scaled.is_integer() else number(scaled)


def _cost_heading(name: str) -> str:
    label, unit, _ = COSTS.get(name, (name, "", 1.0))
    return label if name == "seconds" or not unit else f"{label}, {unit}"


def _cost_cell(cost: Interval, size: float) -> IntervalCell:
    """A cost on the axis of a chart."""
    value, low, high = (None if x is None else x / size for x in (cost.value, cost.low, cost.high))
    assert value is not None
    ends = f" [{number(low)}, {number(high)}]" if low is not None and high is not None else ""
    return IntervalCell(number(value) + ends, value, low, high)


def _line(name: str, points: Mapping[float, Interval], group: str = "") -> SeriesLine:
    """A line with its band.

    Args:
        group: of a dashed line, which it belongs to
    """
    numbers = sorted(points)
    values = [points[n] for n in numbers]
    low, high = ([math.nan if x is None else x for x in (getattr(v, end) for v in values)] for end in ("low", "high"))
    band = any(x.low is not None for x in values)
    return SeriesLine(
        name, numbers, [x.value for x in values], low=low if band else None, high=high if band else None,
        group=group or name, dashed=bool(group), markers=not group,
    )  # fmt: skip
