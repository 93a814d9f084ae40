"""Runs side by side: every figure with its interval, and how far it lies above that of the first.

    the same rows, one run each       drawn in the same samples: what makes a row hard for both cancels out
    the same rows, several seeds      Welch's interval of the difference of the two means
    other rows                        no difference: rows differ more than models do

A place is a run's folder, one of several seeds, or an evaluation's folder, which holds a report.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.costs import Cost, Latency, cost_of, latency_of
from glassformer.evaluation.compare.seeds import (
    Mean,
    Seed,
    Seeds,
    difference_of,
    minutes,
    summarise,
)
from glassformer.evaluation.evaluate import RECORDS, REPORT
from glassformer.evaluation.report import Report
from glassformer.evaluation.runs import EVALUATION, Run, open_run
from glassformer.pages.tables import html_table
from glassformer.runs.folder import CONFIG, name_of_run, seed_folders
from glassformer.tasks.evaluator import Judge
from glassformer.tasks.metrics.bootstrap import Sampled, differences
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.predictions import read_records

OTHER_ROWS = "judged on other rows"
Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How one of them did.

    name: of its folder, or of a baseline · seeds: how many; 0 of a baseline · about: what a baseline is
    figures: with intervals over rows, or over seeds · differences: how far each lies above the first's
    apart: why there is no difference · rows: it was judged on
    seconds_a_row: that judging took · cost, latency: what is known of them
    """

    name: str
    figures: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)
    apart: str | None = None
    seeds: int = 0
    about: str = ""
    rows: int = 0
    seconds_a_row: float | None = None
    cost: Cost = field(default_factory=Cost)
    latency: Latency | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Runs side by side.

    task, metric, higher: as in a report · methods: figure → how it was computed · notes: what should be known beside
    standings: the first is what the others are compared with; baselines come last
    """

    task: str
    metric: str
    higher: bool
    standings: list[Standing]
    methods: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def figures(self) -> list[str]:
        """The figures, the main one first."""
        names = dict.fromkeys(name for one in self.standings for name in one.figures)
        return sorted(names, key=lambda name: name != self.metric)

    def of(self, figure: str) -> list[Standing]:
        """Those that have a figure."""
        return [one for one in self.standings if figure in one.figures]

    @property
    def headed(self) -> str:
        """What is shown, in a sentence."""
        better = "" if self.higher else " (less is better)"
        runs = [one for one in self.standings if one.seeds]
        several = [one for one in runs if one.seeds > 1]
        named = ", ".join(f"{one.name} ({one.seeds} seeds)" if one in several else one.name for one in runs)
        over = (
            "over rows"
            if not several
            else "over seeds"
            if len(several) == len(runs)
            else "over rows, or over seeds"
        )
        return (
            f"{self.task}, by {self.metric}{better}: {named}; differences are to {runs[0].name}, in brackets "
            f"95 % intervals {over}"
        )

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: for each figure every run, and how far it lies above the first."""
        rows = []
        for figure in self.figures:
            for number, one in enumerate(self.of(figure)):
                difference = one.differences.get(figure)
                apart = (one.apart or "") if difference is None else difference.written(digits, signed=True)
                named = f"{figure} *" if figure == self.metric else figure
                rows.append(["" if number else named, one.name, one.figures[figure].written(digits), apart])
        return ["", "", "95 % interval", "difference"], rows

    def costs(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: what each run cost, as far as it is known; columns that nobody knows are left out.

        minutes: of training · MB: on disk · ms a row: of judging many at once, and of one row alone
        """
        columns: dict[str, Callable[[Standing], str]] = {
            "rows": lambda one: f"{one.rows:,}",
            "minutes": lambda one: minutes(one.cost.seconds),
            "CPU minutes": lambda one: minutes(one.cost.cpu_seconds),
            "steps": lambda one: _said(one.cost.steps, ",d"),
            "parameters": lambda one: _said(one.cost.parameters, ",d"),
            "MB": lambda one: "" if one.cost.bytes is None else f"{one.cost.bytes / 1e6:,.1f}",
            "ms a row": lambda one: _said(one.seconds_a_row and 1000 * one.seconds_a_row, ".3g"),
            "ms alone": lambda one: "" if (x := one.latency) is None else f"{x.mean:.1f} ± {x.deviation:.1f}",
            "median, p95": lambda one: "" if (x := one.latency) is None else f"{x.median:.1f}, {x.p95:.1f}",
        }
        runs = [one for one in self.standings if one.seeds]
        known = {name: cells for name, f in columns.items() if any(cells := [f(one) for one in runs])}
        rows = [[one.name, *(cells[i] for cells in known.values())] for i, one in enumerate(runs)]
        return ["", *known], rows

    def __str__(self) -> str:
        return "\n\n".join(
            [self.headed, *(_aligned(*shown) for shown in (self.table(), self.costs())), *self.notes]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed) + html_table(*self.costs())


def compare_runs(
    places: Sequence[str | Path],
    *,
    resamples: int | None = None,
    latency: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Put runs side by side; those that were not evaluated yet are evaluated first.

    Args:
        places: folders of runs, of several seeds, or of evaluations; the first is what the others are compared with
        resamples: how many samples the intervals of differences are drawn from; None = as in an evaluation
        latency: also measure how long one row alone takes · progress: called with how many more rows are judged
    Raises: ConfigError: no places, a folder that holds no run, or runs of different tasks. DataError: damaged files.
    """
    if not places:
        raise ConfigError("no run to compare; name at least one folder")
    sides = [_side(place, progress) for place in places]
    _name_apart(sides)
    first = sides[0]
    for side in sides:
        if side.report.task != first.report.task:
            raise ConfigError(
                f"{first.name} was trained to {first.report.task}, {side.name} to {side.report.task}; "
                "runs of one task can be compared"
            )
    standings = [_standing(side, first, resamples, latency) for side in sides]
    return Comparison(
        task=first.report.task,
        metric=first.report.metric,
        higher=first.report.higher,
        standings=[*standings, *_baselines(first)],
        methods={name: how for side in reversed(sides) for name, how in side.report.methods.items()},
        notes=_notes(sides),
    )


@dataclass
class _Side:
    """A place, read. evaluation: of a single run · run: that, or the first of several, where it is there"""

    name: str
    seeds: Seeds
    evaluation: Path | None = None
    run: Run | None = None

    @property
    def report(self) -> Report:
        return self.seeds.first

    @property
    def single(self) -> bool:
        return len(self.seeds.runs) == 1

    @property
    def rows(self) -> set[str]:
        """Fingerprints of what it was judged on."""
        return {str(one.report.data.get("fingerprint")) for one in self.seeds.runs}

    @cached_property
    def judge(self) -> Judge | None:
        return None if self.run is None else self.run.judge()

    @cached_property
    def judged(self) -> Sampled | None:
        """What it said of the rows, to be drawn from; None where it was not kept."""
        if self.evaluation is None or self.judge is None or not (self.evaluation / RECORDS).is_file():
            return None
        return self.judge.judged(read_records(self.evaluation / RECORDS))


def is_place(folder: str | Path) -> bool:
    """Is this the folder of a run, of several seeds, or of an evaluation?"""
    path = Path(folder)
    return (path / CONFIG).is_file() or (path / REPORT).is_file() or bool(seed_folders(path))


def _side(place: str | Path, progress: Progress | None) -> _Side:
    path = Path(place)
    named = name_of_run(path)
    if folders := seed_folders(path):
        if len(folders) > 1:
            return _Side(named, summarise(path, progress), run=open_run(folders[0]))
        path = folders[0]
    if (path / REPORT).is_file():
        evaluation, home = path, path.absolute().parent.parent
        run = (
            open_run(home)
            if path.absolute().parent.name == EVALUATION and (home / CONFIG).is_file()
            else None
        )
        name = named if run is None else f"{name_of_run(home)}, {named}"
    else:
        run, name = open_run(path), named
        evaluation = run.evaluated(progress)
    seed = Seed(report=Report.load(evaluation / REPORT), cost=Cost() if run is None else cost_of(run.folder))
    return _Side(name, Seeds(name=name, runs=[seed]), evaluation, run)


def _name_apart(sides: Sequence[_Side]) -> None:
    """No two of the same name."""
    seen: dict[str, int] = {}
    for side in sides:
        seen[side.name] = seen.get(side.name, 0) + 1
        if seen[side.name] > 1:
            side.name = f"{side.name} ({seen[side.name]})"


def _standing(side: _Side, first: _Side, resamples: int | None, latency: bool) -> Standing:
    runs, report = side.seeds.runs, side.report
    apart, why = (None, None) if side is first else _apart(side, first, resamples)
    figures = report.figures if side.single else {name: x.interval for name, x in side.seeds.means.items()}
    return Standing(
        name=side.name,
        seeds=len(runs),
        figures=figures,
        differences=apart or {},
        apart=why,
        rows=int(report.data["rows"]),
        seconds_a_row=sum(one.report.seconds / int(one.report.data["rows"]) for one in runs) / len(runs),
        cost=Cost(
            seconds=_value(side.seeds.seconds),
            cpu_seconds=_value(side.seeds.cpu_seconds),
            steps=runs[0].cost.steps,
            parameters=runs[0].cost.parameters,
            bytes=runs[0].cost.bytes,
        ),
        latency=_latency(side) if latency else None,
    )


def _apart(side: _Side, first: _Side, resamples: int | None) -> tuple[dict[str, Interval] | None, str | None]:
    """How far it lies above the first; or why that cannot be said."""
    if len(side.rows | first.rows) > 1:
        return None, OTHER_ROWS
    if side.single != first.single:
        return None, "one run beside several seeds"
    if not side.single:
        mine, theirs = (
            {name: [one.report.figures[name].value for one in x.seeds.runs] for name in x.seeds.means}
            for x in (side, first)
        )
        found = {name: difference_of(mine[name], theirs[name]) for name in mine if name in theirs}
        return {name: x for name, x in found.items() if x is not None}, None
    if side.judged is None or first.judged is None:
        return None, "what it said of each row is not kept"
    return differences(
        side.judged, first.judged, **({} if resamples is None else {"resamples": resamples})
    ), None


def _baselines(first: _Side) -> list[Standing]:
    """The baselines of the first run. How far the run lies above one is known of the main figure alone."""
    report, found = first.report, []
    for name, standing in report.baselines.items():
        above = standing.difference if first.single else None
        turned = {} if above is None else {report.metric: -above}
        figures = (
            standing.figures
            if first.single
            else {figure: x.interval for figure, x in first.seeds.baselines[name].items()}
        )
        found.append(
            Standing(
                name=name,
                about=standing.about,
                figures=figures,
                differences=turned,
                rows=int(report.data["rows"]),
            )
        )
    return found


def _latency(side: _Side) -> Latency | None:
    """How long a row of its validation part takes; of several seeds, the first."""
    run, judge = side.run, side.judge
    if run is None or judge is None:
        return None  # an evaluation that lies beside no run: there is no model to ask
    if (rows := run.parts[1]) is None:
        raise DataError(f"{side.name}: has no validation rows to ask about one by one")
    return latency_of(judge, rows)


def _notes(sides: Sequence[_Side]) -> list[str]:
    first, found = sides[0], []
    for side in sides[1:]:
        for name, how in side.report.methods.items():
            if (other := first.report.methods.get(name)) not in (None, how):
                found.append(f"{name} was computed otherwise: {first.name} by {other}; {side.name} by {how}")
        where = [x.report.environment.get("processor") for x in (first, side)]
        if where[0] != where[1]:
            found.append(
                f"{first.name} and {side.name} were judged on other machines: do not compare their times"
            )
    return [*found, *(f"{side.name}: {note}" for side in sides for note in side.seeds.notes)]


def _value(mean: Mean | None) -> float | None:
    return None if mean is None else mean.value


def _said(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
