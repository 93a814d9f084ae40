"""Training curves of one run or several: a report whose page is one HTML file that needs no network."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.reports.charts import Marks, Series, SeriesLine
from glassformer.reports.page import page, report_page, shown_path
from glassformer.reports.page import write_page as write_html
from glassformer.reports.report import Display
from glassformer.reports.table import Table
from glassformer.runs.charts import MAX_CHECKPOINT_MARKS, CurveChart, charts, clock, main_metric, number, verdict
from glassformer.runs.history import STEPS, RunHistory, read_run, read_runs

STATIC = Path(__file__).parent / "static"
MAX_POINTS = 80_000  # of all lines together: below 2 MB
MIN_POINTS_PER_LINE, MAX_POINTS_PER_LINE = 16, 8_000
"""Of one line: enough to see its shape, however many lines share the points; several per pixel of a wide screen."""
MAX_CHARTS = 16
"""Each adds half a screen to the page."""
MAX_LISTED_STEPS = 50
"""Rows of a table of skipped or worst steps."""
MAX_VALIDATIONS = 2 * MAX_CHARTS * MAX_LISTED_STEPS
MAX_NAMED_RUNS = 3  # in a title; of more it states the number
MAX_RUN_COLUMNS = 4
NOT_APPLIED = "not applied: its loss was not finite"


def write_page(
    folders: Sequence[str | Path] | str | Path, path: str | Path, config: Mapping[str, Any] | None = None
) -> Path:
    """Write the training curves of a run folder, or of several, atomically.

    Args:
        config: the effective configuration of one run, where it is known; None = those that are in the folders
    Returns: the path.
    Raises: DataError: a folder holds no run, or the file cannot be written.
    """
    paths = [folders] if isinstance(folders, str | Path) else list(folders)
    runs = read_runs(paths) if config is None else [read_run(paths[0], config=config)]
    return write_html(path, curves_page(runs))


def curves_page(runs: Sequence[RunHistory]) -> str:
    """The HTML page of the training curves of runs."""
    return report_page(TrainingCurves(runs))


@dataclass(frozen=True, repr=False)
class TrainingCurves(Display):
    """Training curves of runs, their last metrics, steps that were not applied, validations and settings.

    whole: show all charts, tables and the settings; else fold all but the loss and the metric of the best model
    """

    runs: Sequence[RunHistory]
    whole: bool = True

    @property
    def title(self) -> str:
        names = [run.name for run in self.runs]
        return " · ".join(names) if len(names) <= MAX_NAMED_RUNS else f"{len(names)} runs"

    @property
    def caption(self) -> str:
        return subtitle(self.runs)

    @property
    def finding(self) -> str:
        """Of a single run, what happened in it; a page around it has said it."""
        return verdict(self.runs[0]) if len(self.runs) == 1 and self.whole else ""

    def charts(self) -> list[Series]:
        """The charts, the most important first; no more than a page has room for."""
        return [self._series(chart) for chart in self._all_charts[:MAX_CHARTS]]

    @property
    def _points(self) -> int:
        """The points of a line at most."""
        lines = sum(len(STEPS) + len(run.validation) for run in self.runs)
        return max(min(MAX_POINTS_PER_LINE, MAX_POINTS // max(lines, 1)), MIN_POINTS_PER_LINE)

    @cached_property
    def _all_charts(self) -> list[CurveChart]:
        return charts(self.runs, self._points)

    def _series(self, chart: CurveChart) -> Series:
        several = len(self.runs) > 1
        lines = [
            SeriesLine(
                line.name,
                line.steps.tolist(),
                line.values.tolist(),
                group=self.runs[line.run].name if several else "",
                faint=line.behind,
                dashed=line.kind == "points",
                markers=line.kind == "points",
                best=self.runs[line.run].best if line.kind == "points" else None,
            )
            for line in chart.lines
        ]
        loss = chart.name == "loss"
        return Series(
            title=chart.title,
            x_label="step",
            lines=lines,
            marks=[marks for run in self.runs for marks in _marks(run, run.name if several else "")] if loss else (),
            wide=loss,
            folded=not self.whole and not loss and chart.name not in map(main_metric, self.runs),
            note=self._smoothing_note if loss else "",
        )

    @property
    def _smoothing_note(self) -> str:
        shortest, longest = (f(round(run.half_life) for run in self.runs) for f in (min, max))
        steps = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        half = "1 step" if longest <= 1 else f"{steps} steps"
        note = f"Thick lines are exponential moving averages with a half-life of {half}."
        logged = max((run.logged for run in self.runs), default=0)
        rest = f" Of {logged:,} lines of the log, the minimum and maximum of each interval."
        return note + rest * (logged > self._points)

    def tables(self) -> list[Table]:
        """The final metrics of each run, and the steps that were not applied."""
        headings, rows = metrics_table(self.runs)
        if len(rows) <= MAX_RUN_COLUMNS:  # a dozen metrics side by side are wider than a screen: a run a column
            headings, *rows = map(list, zip(headings, *rows, strict=True))
        return [Table(headings, rows, "Metrics"), *_skipped_steps(self.runs)]

    def page_tables(self) -> list[Table]:
        """Also all validations, and the settings."""
        if not self.whole:
            return [replace(table, folded=True) for table in [*self.tables(), *_validations(self.runs)]]
        return [*self.tables(), *_validations(self.runs), *settings_tables(self.runs)]

    def remarks(self) -> list[str]:
        left_out = [chart.title for chart in self._all_charts[MAX_CHARTS:]]
        return [f"Not drawn: {', '.join(left_out)}."] if left_out else []


@dataclass(frozen=True, repr=False)
class RunSettings(Display):
    """The settings of runs; those that differ first."""

    runs: Sequence[RunHistory]

    def tables(self) -> list[Table]:
        return settings_tables(self.runs)


def chart_page(title: str, body: Iterable[str], *, style: str = "", script: str = "") -> str:
    """A standalone page in the style of all pages of charts, and some of its own."""
    shared = (STATIC / "page.css").read_text("utf-8")
    return page(title, "\n".join(filter(None, body)), style=shared + style, script=script)


def subtitle(runs: Sequence[RunHistory]) -> str:
    """How many steps runs have, and how long these took, as on top of a page."""
    alone = "excluding validation and checkpoints"
    if len(runs) > MAX_NAMED_RUNS:
        return f"{sum(run.last for run in runs):,} steps in {clock(sum(run.seconds for run in runs))}, {alone}"
    ends = ("" if run.ended else ", not at its end" for run in runs)
    times = (f"{run.last:,} steps in {clock(run.seconds)}{end}" for run, end in zip(runs, ends, strict=True))
    return f"{' · '.join(times)}, {alone}"


def _marks(run: RunHistory, group: str) -> Iterator[Marks]:
    """Checkpoints, and steps that were not applied."""
    yield Marks("checkpoint", run.checkpoints[-MAX_CHECKPOINT_MARKS:], group=group)
    yield Marks(NOT_APPLIED, [at["step"] for at in run.skipped], group=group, alert=True)


# ---------------------------------------------------------------------------------------------- tables


def metrics_table(runs: Sequence[RunHistory]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the final metrics of runs, a run a row."""
    names = list(dict.fromkeys(name for run in runs for name in run.validation))
    head = ["run", "steps", "epochs", "time of steps", "tokens", "tokens a second", "training loss", "best validation"]
    rows = []
    for run in runs:
        steps, at_best = run.steps, run.best_metrics()
        rows.append(
            [
                run.name,
                f"{run.last:,}",
                number(float(steps["epoch"][-1])) if run.last else "–",
                clock(run.seconds),
                f"{run.tokens:,}",
                f"{run.tokens / run.seconds:,.0f}" if run.seconds else "–",
                number(float(run.smoothed("loss")[-1])) if run.last else "–",
                "–" if run.best is None else f"step {run.best:,}",
                *(number(at_best[name]) if name in at_best else "–" for name in names),
            ]
        )
    return head + [f"validation {name}" for name in names], rows


def _skipped_steps(runs: Sequence[RunHistory]) -> Iterator[Table]:
    """A table of the steps that were not applied, as logged."""
    rows = [
        [
            run.name,
            f"{at['step']:,}",
            number(float(at.get("loss", math.nan))),
            str(at.get("module") or "–"),
            ", ".join(map(str, at.get("indices") or ())) or "–",
        ]
        for run in runs
        for at in run.skipped
    ]
    if rows:
        last = f", the last {MAX_LISTED_STEPS} of {len(rows)}" if len(rows) > MAX_LISTED_STEPS else ""
        headings = ["run", "step", "loss", "first module with it", "examples"]
        yield Table(headings, rows[-MAX_LISTED_STEPS:], f"Steps not applied{last}")


def _validations(runs: Sequence[RunHistory]) -> Iterator[Table]:
    """All validations of each run, folded."""
    for run in runs:
        names = list(run.validation)
        by_step: dict[int, dict[str, float]] = {}
        for name, (steps, values) in run.validation.items():
            for step, value in zip(steps, values, strict=True):
                by_step.setdefault(int(step), {})[name] = float(value)
        rows = [
            [
                f"{step:,}" + (" · best" if step == run.best else ""),
                *(number(by_step[step][name]) if name in by_step[step] else "–" for name in names),
            ]
            for step in sorted(by_step)[-MAX_VALIDATIONS:]
        ]
        if rows:
            yield Table(["step", *names], rows, f"Validations of {run.name} ({len(rows)})", folded=True)


def settings_tables(runs: Sequence[RunHistory]) -> list[Table]:
    """The settings of runs, none where none is known; those in which runs differ are a table of their own."""
    flat = [dict(_flatten(run.options)) for run in runs]
    names = list(dict.fromkeys(name for options in flat for name in options))
    differ = [name for name in names if len({options.get(name) for options in flat}) > 1]
    same = [name for name in names if name not in differ]
    values = [[name, *(options.get(name, "–") for options in flat)] for name in differ or same]
    headings = ["setting", *(run.name for run in runs)]
    if not differ or not same:
        caption = "Settings that differ" if differ else "Settings"
        return [Table(headings, values, caption, left=len(headings))] if names else []
    shared = [[name, flat[0][name]] for name in same]
    return [
        Table(headings, values, "Settings that differ", left=len(headings)),
        Table(["setting", "all runs"], shared, f"Settings of all runs ({len(same)})", left=2, folded=True),
    ]


def _flatten(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{before}{name}.")
        else:
            value = _without_paths(value)
            yield f"{before}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without_paths(value: Any) -> Any:
    """A setting whose paths name no folder of this machine."""
    if isinstance(value, list):
        return [_without_paths(x) for x in value]
    return shown_path(value) if isinstance(value, str) else value
