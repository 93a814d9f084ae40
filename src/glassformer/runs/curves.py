"""Training curves of one run or several, as one HTML file that needs no network.

The charts are drawn here as SVG that any browser shows. Where scripts run, `static/curves.js` draws them again from the
numbers in the page, with tooltips, zoom, and a choice of runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from glassformer.reports.page import json_script, page, scroll_region, shown_path
from glassformer.reports.page import write_page as write_html
from glassformer.reports.table import html_table
from glassformer.runs.charts import (
    MAX_CHECKPOINT_MARKS,
    CurveChart,
    chart_svg,
    charts,
    clock,
    number,
)
from glassformer.runs.digest import STEPS
from glassformer.runs.history import RunHistory, read_runs

STATIC = Path(__file__).parent / "static"
MAX_POINTS = 80_000  # of all lines together: below 2 MB
MIN_POINTS_PER_LINE, MAX_POINTS_PER_LINE = 16, 8_000
MAX_CHARTS = 16
MAX_LISTED_STEPS = 50
MAX_NAMED_RUNS = 3
MAX_RUN_COLUMNS = 4


def write_page(folders: Sequence[str | Path] | str | Path, path: str | Path) -> Path:
    """Write the training curves of a run folder, or of several, atomically.

    Returns: the path.
    Raises: DataError: a folder holds no run, or the file cannot be written.
    """
    paths = [folders] if isinstance(folders, str | Path) else list(folders)
    return write_html(path, curves_page(read_runs(paths)))


def curves_page(runs: Sequence[RunHistory]) -> str:
    """The HTML page of the training curves of runs."""
    title = " · ".join(run.name for run in runs) if len(runs) <= MAX_NAMED_RUNS else f"{len(runs)} runs"
    body = [
        f"<main><h1>{escape(title)}</h1><p class='dim'>{escape(subtitle(runs) + _best(runs))}</p>",
        *curves_html(runs),
        *(["<h2>Settings</h2>", settings] if (settings := settings_html(runs)) else []),
        "</main>",
    ]
    return chart_page(title, body, script=curves_script())


def curves_script() -> str:
    """The script that brings the charts of `curves_html` to life."""
    return (STATIC / "curves.js").read_text("utf-8")


def curves_html(runs: Sequence[RunHistory]) -> Iterator[str]:
    """The charts of runs, final metrics, steps that were not applied, validations; and the numbers for the script."""
    lines = sum(len(STEPS) + len(run.validation) for run in runs)
    points = max(min(MAX_POINTS_PER_LINE, MAX_POINTS // max(lines, 1)), MIN_POINTS_PER_LINE)
    all_charts = charts(runs, points)
    shown, left_out = all_charts[:MAX_CHARTS], all_charts[MAX_CHARTS:]
    last = max((run.last for run in runs), default=0)
    yield from (
        '<div class="bar" hidden><div class="runs" role="group" aria-label="Runs shown"></div>'
        '<span class="dim">Drag to zoom in; arrow keys go from step to step.</span>'
        '<span class="grow"></span><output></output>'
        '<button data-zoom="0.5">Zoom in</button><button data-zoom="2">Zoom out</button>'
        '<button data-zoom="0">Whole run</button></div>',
        f'<div class="charts">{"".join(_chart_html(chart, runs, last, i) for i, chart in enumerate(shown))}</div>',
        f'<p class="dim key">{_mark_legend(runs)}'
        f"<span>{_smoothing_note(runs)}{_downsampling_note(runs, points)}</span></p>",
        *([f'<p class="dim">Not drawn: {escape(", ".join(x.title for x in left_out))}.</p>'] if left_out else []),
        "<h2>Metrics</h2>" + scroll_region("Metrics of each run", html_table(*_metrics_page_table(runs))),
        *_skipped_steps_section(runs),
        *_validation_tables(runs),
        json_script("curves", _chart_data(shown, runs, last)),
    )


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


def _best(runs: Sequence[RunHistory]) -> str:
    """Of a single run, its best validation: ` · best at step 400: f1_weighted 0.9354, accuracy 0.9349`"""
    if len(runs) != 1 or runs[0].best is None:
        return ""
    metrics, training = runs[0].best_metrics(), runs[0].options.get("training")
    main = training.get("metric") if isinstance(training, dict) else None
    names = [main] if main in metrics else list(metrics)[:2]
    return f" · best at step {runs[0].best:,}: " + ", ".join(f"{name} {number(metrics[name])}" for name in names)


def _smoothing_note(runs: Sequence[RunHistory]) -> str:
    shortest, longest = (f(round(run.half_life) for run in runs) for f in (min, max))
    steps = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
    half = "1 step" if longest <= 1 else f"{steps} steps"
    return f"Thick lines are exponential moving averages with a half-life of {half}."


def _downsampling_note(runs: Sequence[RunHistory], points: int) -> str:
    longest = max((run.logged for run in runs), default=0)
    note = f" Of {longest:,} lines of the log, the minimum and maximum of each interval."
    return note if longest > points else ""


# -------------------------------------------------------------------------------------------- pictures


def _chart_html(chart: CurveChart, runs: Sequence[RunHistory], last: int, index: int) -> str:
    legend = "".join(
        f'<li class="{line.css_classes}" data-line="{i}"><span class="swatch"></span>'
        f"{escape(line.name)} <b>{number(float(line.values[-1]))}</b></li>"
        for i, line in enumerate(chart.lines)
        if not (len(runs) > 1 and line.behind)
    )
    description = f"{chart.title} over steps. " + "; ".join(
        f"{line.name}: from {number(float(line.values[0]))} to {number(float(line.values[-1]))}"
        for line in chart.lines
        if not line.behind
    )
    wide = " wide" if chart.name == "loss" else ""
    return (
        f'<figure class="chart{wide}" data-chart="{index}"><figcaption><h2>{escape(chart.title)}</h2></figcaption>'
        f'<ul class="legend">{legend}</ul>'
        f'<div class="plot" role="img" aria-label="{escape(description)}">{chart_svg(chart, runs, last)}</div></figure>'
    )


def _mark_legend(runs: Sequence[RunHistory]) -> str:
    """The legend of the marks in the chart of the loss."""
    marks = {
        "saved": ("M8 12v-7", "checkpoint", any(run.checkpoints for run in runs)),
        "best": ("M8 6h0", "best validation", any(run.best and run.validation for run in runs)),
        "skip": ("M8 0v12", "step not applied: its loss was not finite", any(run.skipped for run in runs)),
    }
    return "".join(
        f'<span><svg aria-hidden="true"><path class="{name}" d="{d}"/></svg>{text}</span>'
        for name, (d, text, present) in marks.items()
        if present
    )


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


def _metrics_page_table(runs: Sequence[RunHistory]) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    """The same for a page: of few runs a run a column, since a dozen metrics side by side are wider than a screen."""
    headings, rows = metrics_table(runs)
    if len(rows) > MAX_RUN_COLUMNS:
        return headings, rows
    across = list(zip(headings, *rows, strict=True))
    return across[0], across[1:]


def _skipped_steps_section(runs: Sequence[RunHistory]) -> Iterator[str]:
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
        more = f"<p class='dim'>The last {MAX_LISTED_STEPS} of {len(rows)}.</p>"
        head = ["run", "step", "loss", "first module with it", "examples"]
        table = scroll_region("steps not applied", html_table(head, rows[-MAX_LISTED_STEPS:]))
        yield f"<h2>Steps not applied</h2>{more if len(rows) > MAX_LISTED_STEPS else ''}{table}"


def _validation_tables(runs: Sequence[RunHistory]) -> Iterator[str]:
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
            for step in sorted(by_step)[-2 * MAX_CHARTS * MAX_LISTED_STEPS :]
        ]
        if rows:
            table = scroll_region(f"validations of {run.name}", html_table(["step", *names], rows))
            yield f"<details><summary>Validations of {escape(run.name)} ({len(rows)})</summary>{table}</details>"


def settings_html(runs: Sequence[RunHistory]) -> str:
    """Table of the settings of runs, empty where none is known; those in which runs differ come first, in bold."""
    flat = [dict(_flatten(run.options)) for run in runs]
    names = list(dict.fromkeys(name for options in flat for name in options))
    if not names:
        return ""
    differ = {name for name in names if len({options.get(name) for options in flat}) > 1}
    marks = {True: "differs", False: "same"}
    rows = "".join(
        f'<tr class="{marks[name in differ]}"><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(options.get(name, '–'))}</td>" for options in flat)
        + "</tr>"
        for name in sorted(names, key=lambda name: name not in differ)
    )
    head = "".join(f'<th scope="col">{escape(x)}</th>' for x in ("setting", *(run.name for run in runs)))
    table = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return scroll_region("settings", table)


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


# --------------------------------------------------------------------------------- numbers for the script


def _chart_data(shown: Sequence[CurveChart], runs: Sequence[RunHistory], last: int) -> dict[str, Any]:
    """What the script draws from."""
    about = [
        {
            "name": run.name,
            "best": run.best,
            "saved": run.checkpoints[-MAX_CHECKPOINT_MARKS:],
            "skipped": [at["step"] for at in run.skipped],
        }
        for run in runs
    ]

    data = [
        {
            "name": chart.name,
            "title": chart.title,
            "lines": [
                {
                    "run": line.run,
                    "kind": line.kind,
                    "name": line.name,
                    "look": line.css_classes,
                    "steps": line.steps.tolist(),
                    "values": [float(f"{y:.5g}") if math.isfinite(y) else number(y) for y in line.values],
                }
                for line in chart.lines
            ],
        }
        for chart in shown
    ]
    return {"last": last, "runs": about, "charts": data}
