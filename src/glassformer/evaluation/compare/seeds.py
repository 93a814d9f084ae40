"""Random seeds: mean and confidence interval of metrics over several trainings that differ in their seed alone.

    runs/mood/seed-0   seed-1   seed-2        each evaluated, every metric with its interval over rows
    runs/mood/seeds.json                      mean ± half-width of the 95% t-interval over seeds

The two intervals answer different questions: would other *rows* have given this, and would another *seed* have?
The t-interval of n seeds is mean ± t · s / √n, with t for n - 1 degrees of freedom (4.303 for three seeds).
Source: Student, The probable error of a mean (1908).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.evaluation.compare.costs import Cost, minutes, read_cost
from glassformer.evaluation.evaluate import REPORT, EvaluationReport, equal_metrics
from glassformer.evaluation.runs import TrainedRun, open_run
from glassformer.files import counted, safe_repr
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.runs.folder import seed_folders
from glassformer.tasks.metrics.metric import LEVEL, Interval

SUMMARY = "seeds.json"
MAX_SEEDS = 1_000  # a larger number alone is taken for a mistake, not for as many trainings


@dataclass(frozen=True)
class Mean:
    """The mean of a metric over seeds.

    value: the mean
    half: half the width of its 95% t-interval; None for a single seed
    """

    value: float
    half: float | None = None

    def written(self, digits: int = 3) -> str:
        """The mean as text: `0.926 ± 0.004`; `0.926` where no seed differs, or there is only one."""
        return f"{self.value:z.{digits}f}" + (f" ± {self.half:.{digits}f}" if self.half else "")

    @property
    def interval(self) -> Interval:
        """The mean as an interval."""
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
    return Mean(fmean(values), _t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values)))


def difference_of(own: Sequence[float], others: Sequence[float]) -> Interval | None:
    """The difference of two means, with Welch's confidence interval; None where either is of a single value.

    Source: Welch, The generalization of Student's problem (1947).
    """
    if min(len(own), len(others)) < 2:
        return None
    difference = fmean(own) - fmean(others)
    a, b = stdev(own) ** 2 / len(own), stdev(others) ** 2 / len(others)
    if a + b == 0:
        return Interval(difference, difference, difference)
    freedom = (a + b) ** 2 / (a**2 / (len(own) - 1) + b**2 / (len(others) - 1))
    half = _t_quantile(freedom) * math.sqrt(a + b)
    return Interval(difference, difference - half, difference + half)


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """The run of one seed: its report and its costs."""

    report: EvaluationReport
    cost: Cost

    @property
    def seed(self) -> int:
        return self.report.seed or 0


@dataclass(frozen=True, kw_only=True, repr=False)
class SeedSummary(Report, kind="seeds", keys=("name", "seeds", "means", "runs")):
    """Several runs that differ in their seed alone, in the order of the seeds.

    Raises: ConfigError: none at all, the same seed twice, or runs of different tasks.
    """

    name: str
    runs: list[SeedRun]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ConfigError(f"{self.name}: no run of any seed")
        numbers = [run.seed for run in self.runs]
        if len(set(numbers)) < len(numbers):
            raise ConfigError(f"{self.name}: seeds {', '.join(map(str, numbers))}; one of them is there twice")
        tasks = {(run.report.task, run.report.metric) for run in self.runs}
        if len(tasks) > 1:
            kinds = " and ".join(sorted(f"{task} by {metric}" for task, metric in tasks))
            raise ConfigError(f"{self.name}: the runs differ in more than their seed: {kinds}")

    @property
    def first(self) -> EvaluationReport:
        return self.runs[0].report

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def means(self) -> dict[str, Mean]:
        """The means of the metrics that all runs have."""
        return _means([run.report.metrics for run in self.runs])

    @property
    def baselines(self) -> dict[str, dict[str, Mean]]:
        """Baseline → means of its metrics, which differ from seed to seed only where other rows were held out."""
        means: dict[str, dict[str, Mean]] = {}
        for name in self.first.baselines:
            metrics = [x.baselines[name].metrics for run in self.runs if name in (x := run.report).baselines]
            means[name] = _means(metrics)
        return means

    @property
    def seconds(self) -> Mean | None:
        """Mean wall-clock training time of a run, in seconds."""
        return _mean_of_known(run.cost.seconds for run in self.runs)

    @property
    def cpu_seconds(self) -> Mean | None:
        """Mean processor time of a training, in seconds."""
        return _mean_of_known(run.cost.cpu_seconds for run in self.runs)

    @property
    def cost(self) -> Cost:
        """Its costs: the mean times of a training, and what the runs have in common."""
        seconds, cpu_seconds = (None if mean is None else mean.value for mean in (self.seconds, self.cpu_seconds))
        return replace(self.runs[0].cost, precision=None, seconds=seconds, cpu_seconds=cpu_seconds)

    @property
    def notes(self) -> list[str]:
        notes = list(dict.fromkeys(note for run in self.runs for note in run.report.notes))
        if len({run.report.data.get("fingerprint") for run in self.runs}) > 1:
            notes.append("each seed was evaluated on other rows; so the spread is also that of the rows")
        return notes

    def merged(self, other: SeedSummary) -> SeedSummary:
        """Merge with the runs of another time or machine; of a seed that both have, the other's."""
        runs = {run.seed: run for run in (*self.runs, *other.runs)}
        return SeedSummary(name=self.name, runs=[runs[seed] for seed in sorted(runs)])

    def tables(self, digits: int = 3) -> list[Table]:
        """A metric a row; the mean, every seed, the baselines, a column each."""
        headings = ["", "mean", *(f"seed {seed}" for seed in self.seeds), *self.baselines]
        rows = []
        for name, mean in self.means.items():
            per_seed = [run.report.metrics[name].written(digits) for run in self.runs]
            others = [metrics[name].written(digits) if name in metrics else "" for metrics in self.baselines.values()]
            rows.append([f"{name} *" if name == self.first.metric else name, mean.written(digits), *per_seed, *others])
        for label, time, field in (
            ("training, minutes", self.seconds, "seconds"),
            ("training, CPU minutes", self.cpu_seconds, "cpu_seconds"),
        ):
            if time is not None:
                per_seed = [minutes(getattr(run.cost, field)) for run in self.runs]
                rows.append([label, minutes(time.value), *per_seed, *([""] * len(self.baselines))])
        return [Table(headings, rows)]

    def remarks(self) -> list[str]:
        """Metrics that are one number by several names, and notes."""
        systems = [{name: mean.interval for name, mean in self.means.items()}]
        return [*equal_metrics(systems, self.first.metric), *self.notes]

    @property
    def title(self) -> str:
        return f"{self.name}, {counted(len(self.runs), 'seed')}"

    @property
    def finding(self) -> str:
        """The mean of the main metric, next to that of the best baseline."""
        metric, higher = self.first.metric, self.first.higher
        if metric not in self.means:
            return ""
        score = f"{metric} {self.means[metric].written()}"
        values = {name: means[metric] for name, means in self.baselines.items() if metric in means}
        if not values:
            return f"{score}."
        best = (max if higher else min)(values, key=lambda name: values[name].value)
        return f"{score}; the best baseline, “{best}”, has {values[best].written()}."

    @property
    def caption(self) -> str:
        """The caption of the table."""
        several = "mean ± half-width of the 95% t-interval over seeds; " * (len(self.runs) > 1)
        files = ", ".join(self.first.data.get("files", [])) or "rows"
        return (
            f"{self.name}, {counted(len(self.runs), 'seed')}, on {self.first.data['rows']:,} rows of "
            f"{files}; {several}in brackets 95% intervals over rows"
        )


def parse_seeds(text: str) -> list[int]:
    """Parse seeds: `3` means 0, 1, 2; `0,5,7` means those, and `5,` that one.

    Raises: ConfigError: invalid seeds.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if re.fullmatch("[0-9]{1,18}", part)]
    count = len([part for part in parts if part])
    if count and len(numbers) == count and len(set(numbers)) == count:
        if len(parts) > 1:
            return numbers
        if 0 < numbers[0] <= MAX_SEEDS:
            return list(range(numbers[0]))
        raise ConfigError(
            f"seeds are {safe_repr(text)}: a number alone is how many seeds, 1 to {MAX_SEEDS:,}; the single seed "
            f"{numbers[0]} is written with a comma: {numbers[0]},"
        )
    raise ConfigError(f"seeds are {safe_repr(text)}; give how many, such as 3, or which, such as 0,1,2, each once")


def load_seed_run(run: TrainedRun, progress: Callable[[int], None] | None = None, split: str | None = None) -> SeedRun:
    """The report and costs of a run.

    Args:
        split: name of an evaluation; None = its validation rows, on which it is evaluated now if it was not
    """
    folder = run.ensure_evaluated(progress) if split is None else run.evaluation_folder(split)
    report = EvaluationReport.load(folder / REPORT)  # without its classes, which the summary would repeat for each seed
    return SeedRun(report=replace(report, classes=None), cost=read_cost(run.folder))


def summarise_seeds(
    folder: str | Path, progress: Callable[[int], None] | None = None, split: str | None = None
) -> SeedSummary:
    """Summarise the runs of several seeds, or one; evaluates where needed, writes `seeds.json` next to several.

    Args:
        split: as in `load_seed_run`; the file is then `seeds-SPLIT.json`
    Raises: ConfigError: the folder holds no run. DataError: a run was not evaluated on this split.
    """
    folders = seed_folders(folder)
    runs = [load_seed_run(open_run(path), progress, split) for path in folders or [Path(folder)]]
    summary = SeedSummary(name=Path(folder).absolute().name, runs=runs)
    if folders:
        summary.save(Path(folder) / (SUMMARY if split is None else f"seeds-{split}.json"))
    return summary


def _means(metrics: Sequence[Mapping[str, Interval]]) -> dict[str, Mean]:
    shared = [name for name in metrics[0] if all(name in of_run for of_run in metrics)]
    return {name: mean_of([of_run[name].value for of_run in metrics]) for name in shared}


def _mean_of_known(values: Iterable[float | None]) -> Mean | None:
    known = [value for value in values if value is not None]
    return mean_of(known) if known else None


def _t_quantile(freedom: float) -> float:
    """The quantile of the t distribution for a 95% interval."""
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "intervals over seeds") from error
    return float(stdtrit(freedom, (1 + LEVEL) / 2))
