"""How a study is summarised: cells of several seeds with intervals, and paired differences between combinations.

Differences are paired: of the same seeds, or of the same rows, which are resampled for both systems, so that what
makes a row hard for both cancels out. Source: Bisani and Ney 2004, "Bootstrap estimates for confidence intervals in ASR
performance evaluation".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.seeds import mean_of
from glassformer.studies.cells import Cell, CellResult, Level, Levels, is_scale, label_of
from glassformer.studies.effects import Effect
from glassformer.studies.report import ReportOptions, StudyPoint, StudyReport
from glassformer.studies.winners import Winner
from glassformer.tasks.metrics.metric import Interval, ResampledScore, greater_is_better

Factors = Mapping[str, Sequence[Level]]
ROWS = ("rows", "both")
"""Intervals for which rows are resampled."""


@dataclass(frozen=True)
class _Group:
    """The results of one combination of levels, by seed."""

    levels: dict[str, Level]
    results: dict[int, CellResult]

    @property
    def rows(self) -> set[str]:
        """Fingerprints of the rows."""
        return {x.rows for x in self.results.values()}

    def scores(self, metric: str) -> dict[int, ResampledScore]:
        return {seed: x.scores[metric] for seed, x in self.results.items()}

    def mean(self, metric: str) -> float:
        return fmean(x.value for x in self.scores(metric).values())

    def score(self, metric: str, over: str | None) -> ResampledScore | None:
        """The mean over seeds, resampled with the same rows for each; None = they are of other rows.

        Args:
            over: "both" = seeds are resampled too, the same ones for all combinations with as many
        """
        first, *others = self.scores(metric).values()
        if not others:
            return first
        if len(self.rows) > 1 or not all(first.paired_with(x) for x in others):
            return None
        every = np.array([first.resamples, *(x.resamples for x in others)])
        if over == "both" and every.size:
            picks = np.random.default_rng(0).integers(len(every), size=every.shape)
            every = np.take_along_axis(every, picks, axis=0)
        return ResampledScore(self.mean(metric), every.mean(0).tolist(), first.rows)

    def interval(self, metric: str, over: str | None) -> Interval:
        """The metric with its interval, over rows or over seeds."""
        score = self.score(metric, over)
        if score is not None and (over in ROWS or len(self.results) == 1):
            return score.interval
        return mean_over_seeds([Interval(x.value) for x in self.scores(metric).values()])

    def point(self, metrics: Sequence[str], over: str | None) -> StudyPoint:
        costs: dict[str, list[float]] = {}
        baselines: dict[str, list[Interval]] = {}
        (first, *others) = self.results.values()

        def spread(name: str, values: list[float]) -> Interval:
            ends = [min(values), max(values)] if len(values) > 1 else []
            return first.intervals[name] if not others and name in first.intervals else Interval(fmean(values), *ends)

        for result in self.results.values():
            for name, cost in result.costs.items():
                costs.setdefault(name, []).append(cost)
            for name, value in result.baselines.items():
                baselines.setdefault(name, []).append(value)
        return StudyPoint(
            levels=self.levels,
            seeds=list(self.results),
            metrics={name: self.interval(name, over) for name in metrics},
            costs={name: spread(name, x) for name, x in costs.items()},
            baselines={name: mean_over_seeds(x) for name, x in baselines.items()},
        )


_Pair = tuple[Sequence[str], _Group, _Group]
"""The factors that two combinations differ in, and these: before, after."""


def study_report(
    factors: Factors, cells: Mapping[str, tuple[Cell, CellResult]], planned: int, options: ReportOptions
) -> StudyReport:
    """The report of the cells that are done, by their folders."""
    groups: dict[tuple[Level, ...], _Group] = {}
    for cell, result in cells.values():
        groups.setdefault(tuple(cell.levels.values()), _Group(dict(cell.levels), {})).results[cell.seed] = result
    first = next(iter(cells.values()))[1]
    metric = options.metric or next(iter(first.scores))
    metrics = list(dict.fromkeys([metric, *options.more]))
    alone = {folder: _Group(dict(cell.levels), {cell.seed: result}) for folder, (cell, result) in cells.items()}
    pairs = list(_compared(list(groups.values()), factors, options))
    points = [
        replace(group.point(metrics, options.intervals), beyond=_beyond(group, list(groups.values()), metric, options))
        for group in groups.values()
    ]
    over = options.over or next((name for name, levels in factors.items() if is_scale(levels)), None)
    winners, closest = _winners(list(groups.values()), over, metric, options) if options.winners and over else ([], [])
    known = [{id(before), id(after)} for _, before, after in pairs]
    pairs += [pair for pair in closest if {id(pair[1]), id(pair[2])} not in known]
    several = len({cell.seed for cell, _ in cells.values()}) > 1
    grouping = next((name for name, levels in factors.items() if not is_scale(levels)), "")

    def under(cell: Cell) -> str:
        """The heading of what was done in a cell: the level of the first factor that is no number, such as a method."""
        return label_of({grouping: cell.levels[grouping]}) if grouping else ""

    def place(done: tuple[Cell, CellResult]) -> tuple[list[int], int]:
        """By the order of levels, then by the seed."""
        of = [(list(levels), done[0].levels[name]) for name, levels in factors.items()]
        return [levels.index(own) if own in levels else -1 for levels, own in of], done[0].seed

    return StudyReport(
        winners=winners,
        factors={name: list(levels) for name, levels in factors.items()},
        metric=metric,
        higher=greater_is_better(metric),
        methods={name: first.methods[name] for name in metrics if name in first.methods},
        options=options,
        planned=planned,
        cells=[replace(one.point(metrics, "rows"), folder=folder) for folder, one in alone.items()],
        points=points,
        effects=[_effect(*pair, name, factors, options.intervals) for name in metrics for pair in pairs],
        notes=[result.note for _, result in cells.values() if result.note],
        details=[
            replace(table, caption=": ".join(filter(None, [name, table.caption])), folded=True, under=under(cell))
            for cell, result in sorted(cells.values(), key=place)
            for name in [str(cell) if several else label_of(cell.levels)]
            for table in result.tables
        ],
    )


def check_comparable(
    factors: Factors,
    cell: Cell,
    result: CellResult,
    done: Mapping[str, tuple[Cell, CellResult]],
    options: ReportOptions,
) -> None:
    """Check that a cell can be in one report with those that are done.

    Raises: ConfigError: it lacks the metric of the first. DataError: it has another number of rows than a cell that it
        is compared with.
    """
    first, scores = next((cell, result.scores) for cell, result in done.values())
    metric = options.metric or next(iter(scores))
    if metric not in result.scores:
        raise ConfigError(
            f"{first} has the metrics {', '.join(scores)}, and {cell} has {', '.join(result.scores)}; all cells must "
            f"have the main one, {metric}"
        )
    for other, its in done.values():
        if other.seed != cell.seed or its.rows != result.rows:
            continue
        pairs = (other.levels, cell.levels), (cell.levels, other.levels)
        if not any(_is_pair(names, *x, factors, options) for names in _comparisons(factors, options) for x in pairs):
            continue
        for name in (metric, *options.more):
            before, after = its.scores[name], result.scores[name]
            if before.resamples and after.resamples and before.rows != after.rows:
                raise DataError(
                    f"{name} of {other} is of {before.rows:,} rows, that of {cell} of {after.rows:,}; what is compared "
                    "needs the same rows (where they are others on purpose: scored(…, rows=…) says which)"
                )


def _beyond(group: _Group, groups: Sequence[_Group], metric: str, options: ReportOptions) -> Interval | None:
    """The paired difference to the combination of `against`; None = there is none, or it is of other rows."""
    if not options.against:
        return None
    wanted = dict(options.against)
    if options.columns is not None:
        wanted[options.columns] = group.levels[options.columns]  # type: ignore[assignment] # columns are never None
    line = next((x for x in groups if all(x.levels[name] == level for name, level in wanted.items())), None)
    if line is None or line is group or line.rows != group.rows:
        return None
    return _difference(line, group, metric, options.intervals)[0]


def _winners(
    groups: Sequence[_Group], over: str, metric: str, options: ReportOptions
) -> tuple[list[Winner], list[_Pair]]:
    """For each number that several have the best combination, and those whose paired difference to it may be chance.

    Returns: those, and for each number the pair of the second best and the best: factors, before, after.

    Combinations to which the factor does not apply are compared at each number.
    """
    numbers = sorted({n for x in groups if isinstance(n := x.levels[over], int | float)})
    pairs = list[_Pair]()
    winners, sign = list[Winner](), 1 if greater_is_better(metric) else -1
    for number in numbers:
        there = [x for x in groups if x.levels[over] in (number, None)]
        if len(there) < 2:
            continue
        best = max(there, key=lambda x: sign * x.mean(metric))
        names = {id(x): label_of({name: level for name, level in x.levels.items() if name != over}) for x in there}
        others = [x for x in there if x is not best]
        second = max(others, key=lambda x: sign * x.mean(metric))
        differ = [name for name in best.levels if name != over and best.levels[name] != second.levels[name]]
        if best.rows == second.rows:
            pairs.append((differ, second, best))
        equal = [x for x in others if not _difference(x, best, metric, options.intervals)[0].leaves_out_zero]
        winners.append(
            Winner(
                over=over, number=number, name=names[id(best)], value=best.mean(metric),
                equal=[names[id(x)] for x in equal],
            )
        )  # fmt: skip
    return winners, pairs


def _comparisons(factors: Factors, options: ReportOptions) -> list[list[str]]:
    """The factors that are compared: each alone, and all together where each has two levels."""
    several = [name for name, levels in factors.items() if len(levels) > 1 and name != options.columns]
    compare = options.compare
    if compare is None:
        compare = [name for name in several if not is_scale(factors[name])] or several
    together = [compare] if len(compare) > 1 and all(len(factors[name]) == 2 for name in compare) else []
    return [*([name] for name in compare), *together]


def _compared(groups: Sequence[_Group], factors: Factors, options: ReportOptions) -> Iterator[_Pair]:
    """Pairs that differ in one factor, and in all together where each has two levels: factors, before, after."""
    for names in _comparisons(factors, options):
        first = [x for x in groups if all(x.levels[name] == options.first_of(factors[name]) for name in names)]
        for after, before in product(groups, first):
            if before.rows == after.rows and _differ_in(names, before.levels, after.levels):
                yield names, before, after


def _is_pair(names: Sequence[str], before: Levels, after: Levels, factors: Factors, options: ReportOptions) -> bool:
    """Whether two combinations are compared by these factors: the first has the baseline's level of each."""
    first = all(before[name] == options.first_of(factors[name]) for name in names)
    return first and _differ_in(names, before, after)


def _differ_in(names: Sequence[str], before: Mapping[str, Level], after: Mapping[str, Level]) -> bool:
    """Whether combinations differ in all of these factors, and in no other.

    Where one does not apply to the first, such as rows to a model that is not trained, any level will do.
    """
    return all(
        level != before[name] if name in names else before[name] in (level, None) for name, level in after.items()
    )


def _effect(
    names: Sequence[str], before: _Group, after: _Group, metric: str, factors: Factors, over: str | None
) -> Effect:
    difference, seeds = _difference(before, after, metric, over)
    shared = [name for name, levels in factors.items() if name not in names and len(levels) > 1]
    return Effect(
        factor=" + ".join(names),
        where={name: after.levels[name] for name in shared},
        first=" + ".join(label_of({name: before.levels[name]}) for name in names),
        second=" + ".join(label_of({name: after.levels[name]}) for name in names),
        metric=metric,
        before=before.mean(metric),
        after=after.mean(metric),
        difference=difference,
        seeds=seeds,
    )


def _difference(before: _Group, after: _Group, metric: str, over: str | None) -> tuple[Interval, list[float]]:
    """The paired difference, over seeds or over rows, and that of each seed."""
    its_own, other = after.scores(metric), before.scores(metric)
    seeds = [x.value - (other[seed].value if seed in other else before.mean(metric)) for seed, x in its_own.items()]
    was, now = before.score(metric, over), after.score(metric, over)
    if over not in ROWS and len(seeds) > 1:
        return mean_of(seeds).interval, seeds
    if was is not None and now is not None and now.paired_with(was):
        return now.minus(was).interval, seeds
    return Interval(fmean(seeds)), seeds


def mean_over_seeds(values: Sequence[Interval]) -> Interval:
    """The value of a single seed as it is; of several the mean, with its 95% t-interval: mean ± t · s / √n.

    Source: Student, The probable error of a mean (1908).
    """
    return values[0] if len(values) == 1 else mean_of([x.value for x in values]).interval
