"""Trials of a hyperparameter search: the results of each, the best, a table, and their files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import DataError
from glassformer.files import as_path, counted, is_number
from glassformer.reports.charts import Axis, Point, TradeOff
from glassformer.reports.page import report_page
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, number
from glassformer.runs.folder import RESULTS

Direction = Literal["minimize", "maximize"]
STATES = ("complete", "pruned", "failed")
LOG_SCALE_RATIO = 5  # a setting whose highest value is this many times its lowest has a logarithmic axis
CAUTION = (
    "Its value is the best of {count} on the same validation rows, each of one seed: expect a little less of new rows, "
    "and a small lead over other trials may be chance."
)


@dataclass(frozen=True)
class Trial:
    """One trial.

    state: complete, pruned (worse than others) or failed
    metrics: the last
    error: why it failed
    """

    number: int
    settings: dict[str, Any]
    metrics: dict[str, float]
    state: Literal["complete", "pruned", "failed"]
    seconds: float
    error: str | None = None


@dataclass(frozen=True, repr=False)
class SearchResult(Report, kind="search", keys=("metric", "direction", "best", "trials", "log")):
    """The results of a hyperparameter search so far.

    log: settings whose range is declared logarithmic
    """

    metric: str
    direction: Direction
    trials: list[Trial] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value of the metric; of equal ones that with the lowest loss."""
        return next((trial for trial in self.ranked() if trial.state == "complete"), None)

    @property
    def settings(self) -> list[str]:
        """The names of all settings."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.settings))

    def ranked(self) -> list[Trial]:
        """Trials from the best to the worst; then the pruned ones, then the failed ones."""
        sign = 1 if self.direction == "minimize" else -1

        def rank(trial: Trial) -> tuple[int, float, float]:
            if trial.state == "failed":
                return STATES.index(trial.state), 0.0, 0.0
            cost, loss = sign * trial.metrics.get(self.metric, math.nan), trial.metrics.get("loss", math.nan)
            cost, loss = (math.inf if math.isnan(x) else x for x in (cost, loss))
            return STATES.index(trial.state), cost, loss

        return sorted(self.trials, key=rank)

    @property
    def title(self) -> str:
        return f"Search for the {'lowest' if self.direction == 'minimize' else 'highest'} {self.metric}"

    @property
    def caption(self) -> str:
        counts = {state: sum(trial.state == state for trial in self.trials) for state in STATES}
        states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        return f"{counted(len(self.trials), 'trial')}, by {self.metric}: {states or 'none yet'}"

    @property
    def finding(self) -> str:
        """The best trial and its settings."""
        if (best := self.best) is None:
            return ""
        settings = ", ".join(f"{name} {cell(value)}" for name, value in best.settings.items())
        return f"Best: {self.metric} {number(best.metrics[self.metric])}, trial {best.number}, with {settings}."

    def remarks(self) -> list[str]:
        complete = sum(trial.state == "complete" for trial in self.trials)
        return [CAUTION.format(count=f"{complete:,}")] if complete > 1 else []

    @property
    def _measured(self) -> list[Trial]:
        return [trial for trial in self.trials if math.isfinite(trial.metrics.get(self.metric, math.nan))]

    def _of_numbers(self, name: str) -> bool:
        """Is a setting a number that differs between trials?"""
        values = [trial.settings.get(name) for trial in self._measured]
        return all(map(is_number, values)) and len(set(values)) > 1

    def charts(self) -> Iterator[TradeOff]:
        """The metric of each trial over the order of trials, and over each setting that is a number."""
        names = ["trial", *filter(self._of_numbers, self.settings)]
        for name in names if self._measured else []:
            values = [trial.number if name == "trial" else trial.settings[name] for trial in self._measured]
            low, high = min(values), max(values)
            points = [
                Point(
                    f"trial {trial.number}",
                    IntervalCell(cell(value), value),
                    IntervalCell(number(trial.metrics[self.metric]), trial.metrics[self.metric]),
                    group="the best" if trial is self.best else trial.state,
                    mark=str(trial.number),
                )
                for trial, value in zip(self._measured, values, strict=True)
            ]
            wide = name in self.log or high > LOG_SCALE_RATIO * low
            log = low > 0 and wide and name != "trial"
            across = Axis(name, log=log, ticks=() if name == "trial" else sorted(set(values)))
            up = Axis(self.metric, more=self.direction == "maximize")
            yield TradeOff(f"{self.metric} by {name}", across, up, points, groups=["complete", "the best", *STATES[1:]])

    def page_tables(self) -> Iterator[Table]:
        """The metric by each setting of words, and all trials."""
        for name in self.settings:
            if self._of_numbers(name) or not self._measured:
                continue
            values = {cell(trial.settings.get(name)): trial.settings.get(name) for trial in self._measured}
            if len(values) > 1:
                rows = [[shown, self._range(name, value)] for shown, value in values.items()]
                yield Table(
                    [name, self.metric], rows, name, note="A dot is the mean of its trials, the line their range."
                )
        yield from self.tables()

    def _range(self, name: str, value: Any) -> IntervalCell:
        """The metric of the trials with a value of a setting: its mean, and its range."""
        scores = [trial.metrics[self.metric] for trial in self._measured if trial.settings.get(name) == value]
        low, mean, high = min(scores), sum(scores) / len(scores), max(scores)
        return IntervalCell(f"{number(mean)} [{number(low)}, {number(high)}]", mean, low, high)

    def tables(self) -> list[Table]:
        """A trial a row, the best first."""
        rows = [
            [
                str(trial.number),
                *(cell(trial.settings.get(name)) for name in self.settings),
                cell(trial.metrics.get(self.metric)),
                trial.state + (f": {trial.error}" if trial.error else ""),
                f"{trial.seconds:.1f}",
            ]
            for trial in self.ranked()
        ]
        return [Table(["trial", *self.settings, self.metric, "state", "seconds"], rows)]

    def write(self, folder: str | Path) -> None:
        """Write `trials.json`, `trials.html`, and of the best trial `best.yaml`, its settings alone.

        Raises: DataError: the folder cannot be written.
        """
        import yaml

        from glassformer.files.atomic import atomic_file, disk_errors

        best = self.best
        files = {
            RESULTS["trial"]: json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=2) + "\n",
            "trials.html": report_page(self),
            **({} if best is None else {"best.yaml": yaml.safe_dump(best.settings, sort_keys=False)}),
        }
        folder = as_path(folder, "folder")
        with disk_errors(folder, DataError, "the trials"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                with atomic_file(folder / name) as stream:
                    stream.write(text.encode("utf-8", "replace"))


def cell(value: Any) -> str:
    """A setting or a score as text."""
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)
