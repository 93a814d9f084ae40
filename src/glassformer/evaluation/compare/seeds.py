"""One training with several seeds: how much of a figure is luck.

    runs/mood/seed-0   seed-1   seed-2        evaluated each, every figure with its interval over rows
    runs/mood/seeds.json                      mean ± half-width of the 95 % t-interval over seeds

The two intervals answer different questions: would other *rows* have given this, and would another *seed* have?
The t-interval of n seeds is mean ± t · s / √n, with t for n - 1 degrees of freedom (4.303 for three seeds).
Source: Student, The probable error of a mean (1908).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.evaluation.compare.costs import Cost, cost_of
from glassformer.evaluation.evaluate import REPORT
from glassformer.evaluation.report import Report
from glassformer.evaluation.runs import Run, open_run
from glassformer.files.parsing import read_record
from glassformer.files.strict_json import read_object
from glassformer.pages.tables import html_table
from glassformer.runs.folder import seed_folders
from glassformer.tasks.metrics.intervals import LEVEL, Interval
from glassformer.weights.write import write_json

SUMMARY = "seeds.json"
FORMAT = 1
MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Mean:
    """A figure over seeds.

    value: the mean · half: half the width of its 95 % t-interval; None of a single seed, which says nothing about that
    """

    value: float
    half: float | None = None

    def written(self, digits: int = 3) -> str:
        """`0.926 ± 0.004`; `0.926` where no seed differs, or there is but one."""
        return f"{self.value:.{digits}f}" + (f" ± {self.half:.{digits}f}" if self.half else "")

    @property
    def interval(self) -> Interval:
        if self.half is None:
            return Interval(self.value)
        return Interval(self.value, self.value - self.half, self.value + self.half)


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of independent values, with its t-interval.

    Raises: DataError: no value. MissingExtraError: without scipy.
    """
    if not values:
        raise DataError("there is no value to take a mean of")
    if len(values) == 1:
        return Mean(values[0])
    return Mean(fmean(values), _quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values)))


def difference_of(mine: Sequence[float], theirs: Sequence[float]) -> Interval | None:
    """How far one mean lies above another, with its interval; None where either is of a single value.

    Source: Welch, The generalization of Student's problem (1947).
    """
    if min(len(mine), len(theirs)) < 2:
        return None
    apart = fmean(mine) - fmean(theirs)
    a, b = stdev(mine) ** 2 / len(mine), stdev(theirs) ** 2 / len(theirs)
    if a + b == 0:
        return Interval(apart, apart, apart)
    freedom = (a + b) ** 2 / (a**2 / (len(mine) - 1) + b**2 / (len(theirs) - 1))
    half = _quantile(freedom) * math.sqrt(a + b)
    return Interval(apart, apart - half, apart + half)


@dataclass(frozen=True, kw_only=True)
class Seed:
    """One run of several: how it did, and what it cost."""

    report: Report
    cost: Cost

    @property
    def seed(self) -> int:
        return self.report.seed or 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Seeds:
    """Several runs that differ in their seed alone, in its order.

    Raises: ConfigError: none at all, the same seed twice, or runs of different tasks.
    """

    name: str
    runs: list[Seed]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ConfigError(f"{self.name}: no run of any seed")
        numbers = [run.seed for run in self.runs]
        if len(set(numbers)) < len(numbers):
            raise ConfigError(
                f"{self.name}: seeds {', '.join(map(str, numbers))}; one of them stands there twice"
            )
        tasks = {(run.report.task, run.report.metric) for run in self.runs}
        if len(tasks) > 1:
            said = " and ".join(sorted(f"{task} by {metric}" for task, metric in tasks))
            raise ConfigError(f"{self.name}: the runs differ in more than their seed: {said}")

    @property
    def first(self) -> Report:
        return self.runs[0].report

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def means(self) -> dict[str, Mean]:
        """Each figure that all runs have."""
        return _means([run.report.figures for run in self.runs])

    @property
    def baselines(self) -> dict[str, dict[str, Mean]]:
        """Baseline → figures. It differs from seed to seed only where other rows were held out."""
        found: dict[str, dict[str, Mean]] = {}
        for name in self.first.baselines:
            figures = [x.baselines[name].figures for run in self.runs if name in (x := run.report).baselines]
            found[name] = _means(figures)
        return found

    @property
    def seconds(self) -> Mean | None:
        """Of training, on the wall."""
        return _known(run.cost.seconds for run in self.runs)

    @property
    def cpu_seconds(self) -> Mean | None:
        """Of training, of all processors."""
        return _known(run.cost.cpu_seconds for run in self.runs)

    @property
    def notes(self) -> list[str]:
        """What should be known beside the figures."""
        found = list(dict.fromkeys(note for run in self.runs for note in run.report.notes))
        if len({run.report.data.get("fingerprint") for run in self.runs}) > 1:
            found.append("each seed was judged on other rows; so the spread is also that of the rows")
        return found

    def merged(self, other: Seeds) -> Seeds:
        """These and those of another time or machine; of a seed that both have, the other's."""
        runs = {run.seed: run for run in (*self.runs, *other.runs)}
        return Seeds(name=self.name, runs=[runs[seed] for seed in sorted(runs)])

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: a figure a row; the mean, every seed, the baselines, a column each."""
        headings = ["", "mean", *(f"seed {seed}" for seed in self.seeds), *self.baselines]
        rows = []
        for name, mean in self.means.items():
            each = [run.report.figures[name].written(digits) for run in self.runs]
            others = [
                figures[name].written(digits) if name in figures else ""
                for figures in self.baselines.values()
            ]
            rows.append(
                [f"{name} *" if name == self.first.metric else name, mean.written(digits), *each, *others]
            )
        for word, spent, kind in (
            ("training, minutes", self.seconds, "seconds"),
            ("training, CPU minutes", self.cpu_seconds, "cpu_seconds"),
        ):
            if spent is not None:
                each = [minutes(getattr(run.cost, kind)) for run in self.runs]
                rows.append([word, minutes(spent.value), *each, *([""] * len(self.baselines))])
        return headings, rows

    @property
    def headed(self) -> str:
        """What the table shows, in a sentence."""
        several = "mean ± half-width of the 95 % t-interval over seeds; " * (len(self.runs) > 1)
        files = ", ".join(self.first.data.get("files", [])) or "rows"
        return (
            f"{self.name}, {len(self.runs)} seed{'s' * (len(self.runs) > 1)}, on {self.first.data['rows']:,} rows of "
            f"{files}; {several}in brackets 95 % intervals over rows"
        )

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
        written = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.headed, *written, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed)

    def to_dict(self) -> dict[str, Any]:
        """Strict JSON without the text of any row. `means` are for who reads the file: they follow from the rest."""
        runs = [
            {"report": replace(run.report, classes=None).to_dict(), "cost": asdict(run.cost)}
            for run in self.runs
        ]
        return {
            "format": FORMAT,
            "name": self.name,
            "seeds": self.seeds,
            "means": {name: asdict(mean) for name, mean in self.means.items()},
            "runs": runs,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Seeds:
        """Raises: ConfigError: no such summary, or one of another version."""
        runs = values.get("runs")
        if values.get("format") != FORMAT or not isinstance(runs, list):
            raise ConfigError(f"this is no summary of seeds of format {FORMAT}; evaluate the runs again")
        return cls(name=str(values.get("name")), runs=[read_record(Seed, run) for run in runs])

    def save(self, path: str | Path) -> None:
        write_json(Path(path), self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Seeds:
        """Raises: DataError: no such file, or no summary."""
        try:
            return cls.from_dict(read_object(Path(path), DataError))
        except ConfigError as error:
            raise DataError(f"{path}: {error}") from error


def seed_numbers(text: str) -> list[int]:
    """`3` are the seeds 0, 1, 2; `0,5,7` are those, and `5,` is one.

    Raises: ConfigError: no such numbers.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    count = len([part for part in parts if part])
    if count and len(numbers) == count and len(set(numbers)) == count:
        if len(parts) > 1:
            return numbers
        if 0 < numbers[0] <= MOST_SEEDS:
            return list(range(numbers[0]))
    raise ConfigError(f"seeds are {text!r}; give how many, such as 3, or which, such as 0,1,2, each once")


def judged_seed(run: Run, progress: Callable[[int], None] | None = None, part: str | None = None) -> Seed:
    """How a run did on a part of the data, and what it cost.

    Args: part: by the name of its evaluation; None = its validation rows, on which it is evaluated now if it was not
    """
    place = run.evaluated(progress) if part is None else run.place(part)
    return Seed(report=Report.load(place / REPORT), cost=cost_of(run.folder))


def summarise(
    folder: str | Path, progress: Callable[[int], None] | None = None, part: str | None = None
) -> Seeds:
    """Read the runs of several seeds, or a single one; evaluate those that are not; leave `seeds.json` beside several.

    Args: part: as of `judged_seed`; the summary is then `seeds-PART.json`
    Raises: ConfigError: the folder holds no run. DataError: a run was not judged on this part.
    """
    several = seed_folders(folder)
    runs = [judged_seed(open_run(each), progress, part) for each in several or [Path(folder)]]
    found = Seeds(name=Path(folder).absolute().name, runs=runs)
    if several:
        found.save(Path(folder) / (SUMMARY if part is None else f"seeds-{part}.json"))
    return found


def minutes(seconds: float | None) -> str:
    """A time in minutes: `3.4`."""
    return "" if seconds is None else f"{seconds / 60:.1f}"


def _means(figures: Sequence[Mapping[str, Interval]]) -> dict[str, Mean]:
    shared = [name for name in figures[0] if all(name in each for each in figures)]
    return {name: mean_of([each[name].value for each in figures]) for name in shared}


def _known(values: Iterable[float | None]) -> Mean | None:
    there = [value for value in values if value is not None]
    return mean_of(there) if there else None


def _quantile(freedom: float) -> float:
    """Within so many standard errors 95 % of means lie."""
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "intervals over seeds") from error
    return float(stdtrit(freedom, (1 + LEVEL) / 2))
