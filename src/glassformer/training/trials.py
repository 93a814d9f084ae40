"""Trials of a hyperparameter search: the results of each, the best, a table, and their files."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import DataError
from glassformer.files import as_path, is_number
from glassformer.reports.page import scroll_region
from glassformer.reports.report import Report
from glassformer.reports.table import Table, number
from glassformer.runs.curves import COLUMNS, chart_page, ticks, y_axis

Direction = Literal["minimize", "maximize"]
STATES = ("complete", "pruned", "failed")
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
class SearchResult(Report, kind="search", keys=("metric", "direction", "best", "trials")):
    """The results of a hyperparameter search so far."""

    metric: str
    direction: Direction
    trials: list[Trial] = field(default_factory=list)

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
    def caption(self) -> str:
        return f"Trials, by {self.metric}"

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
            "trials.json": json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=2) + "\n",
            "trials.html": trials_page(self),
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


LOG_SCALE_RATIO = 5  # a setting whose highest value is this many times its lowest has a logarithmic axis
MIN_GAP = 14.0  # percent of the width between two tick labels, on a phone too


def trials_page(results: SearchResult) -> str:
    """The page as one self-contained HTML file without a script."""
    done = [trial for trial in results.trials if math.isfinite(trial.metrics.get(results.metric, math.nan))]
    best = results.best
    counts = {state: sum(t.state == state for t in results.trials) for state in STATES}
    counted = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    values: dict[str, list[Any]] = {"trial": [trial.number for trial in done]}
    values |= {name: [trial.settings.get(name) for trial in done] for name in results.settings}
    charts = [_chart(name, across, done, results) for name, across in values.items()] if done else []
    complete = counts["complete"]
    caution = "" if complete < 2 else f'<p class="dim">{CAUTION.format(count=f"{complete:,}")}</p>'
    body = [
        f"<main><h1>Search for the {'lowest' if results.direction == 'minimize' else 'highest'} "
        f"{escape(results.metric)}</h1><p class='dim'>{len(results.trials)} trials: {counted or 'none yet'}</p>",
        "" if best is None else f"<h2>Best</h2><p>{_best(best, results.metric)}</p>{caution}",
        "<h2>Each setting</h2>" if charts else "",
        f'<div class="charts">{"".join(charts)}</div>',
        '<p class="dim">Full dots: complete; rings: pruned, as they fell behind; the large one: the best.</p>'
        if charts
        else "",
        f"<h2>All trials</h2>{scroll_region('all trials', results.tables()[0].html())}</main>",
    ]
    return chart_page(f"Search for {results.metric}", body)


def _best(best: Trial, metric: str) -> str:
    settings = ", ".join(f"{name} {_text(x)}" for name, x in best.settings.items())
    return f"<b>{escape(metric)} {number(best.metrics[metric])}</b>, trial {best.number}: {escape(settings)}"


def _chart(name: str, settings: Sequence[Any], done: Sequence[Trial], results: SearchResult) -> str:
    """A scatter chart: a dot for each trial, over the values of a setting."""
    across, marks = _scale(settings)
    values = [trial.metrics[results.metric] for trial in done]
    room = (max(values) - min(values)) * 0.08 or 1.0
    low, high = min(values) - room, max(values) + room
    columns = "".join(f'<text x="{x:.2f}%" y="100%" dy="18">{escape(text)}</text>' for x, text in marks)
    best = results.best
    dots = "".join(
        f'<circle class="c0 trial {trial.state}" cx="{across(setting):.2f}%" '
        f'cy="{100 * (high - value) / (high - low):.2f}%" r="{7 if trial is best else 4.5}">'
        f"<title>trial {trial.number}: {escape(results.metric)} {number(value)}, "
        f"{escape(name)} {escape(_text(setting))}</title></circle>"
        for trial, setting, value in zip(done, settings, values, strict=True)
    )
    label = f"{results.metric} of each trial over {name}; the table below has the numbers"
    return (
        f'<figure class="chart"><figcaption><h3>{escape(name)}</h3></figcaption>'
        f'<div class="plot" role="img" aria-label="{escape(label)}">'
        f'<svg><g class="y">{y_axis(low, high)}</g><g class="x">{columns}</g>{dots}</svg></div></figure>'
    )


def _scale(values: Sequence[Any]) -> tuple[Callable[[Any], float], list[tuple[float, str]]]:
    """The horizontal position of a value, in percent, and the tick labels."""
    numbers = all(map(is_number, values))
    if not numbers or len(set(values)) == 1:
        labels = sorted(set(map(_text, values)))
        position = {label: 100 * (i + 0.5) / len(labels) for i, label in enumerate(labels)}
        return (lambda x: position[_text(x)]), [(position[label], label) for label in labels]
    low, high = min(values), max(values)
    log = low > 0 and high / low > LOG_SCALE_RATIO
    scale: Callable[[float], float] = math.log10 if log else float
    start, length = scale(low), scale(high) - scale(low)

    def across(x: float) -> float:
        return 4 + 92 * (scale(x) - start) / length

    distinct = sorted(set(values))
    if all(across(after) - across(before) >= MIN_GAP for before, after in itertools.pairwise(distinct)):
        marks = distinct  # such as batch sizes of 8 and 16: no 10, 12, 14 that was never tried
    elif log:
        powers = range(math.ceil(start), math.floor(start + length) + 1)
        marks = [10.0**power for power in powers] or [low, high]
    else:
        marks = ticks(low, high, COLUMNS)
    if all(isinstance(x, int) for x in values):
        marks = [x for x in marks if float(x).is_integer()]
    return across, [(across(x), number(x)) for x in marks]


def _text(value: Any) -> str:
    return number(value) if is_number(value) else str(value)
