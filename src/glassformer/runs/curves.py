"""The curves of a run, or of several side by side, as one HTML file that needs no network.

The pictures are drawn here, once, as SVG that any browser shows. Where scripts run, `static/curves.js` draws them again
from the numbers in the page, and lets one point, zoom, and leave out runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import reason
from glassformer.pages.standalone import page
from glassformer.pages.tables import html_table
from glassformer.runs.charts import MOST_SAVED, clock, look, named, number, picture, under
from glassformer.runs.history import STEPS, Chart, Line, Run, charts, read_runs

STATIC = Path(__file__).parent / "static"
MOST_POINTS = 80_000  # of all lines together: below 2 MB
LEAST_A_LINE, MOST_A_LINE = 16, 8_000
MOST_CHARTS = 16
MOST_LISTED = 50
MOST_NAMED = 3


def write_page(places: Sequence[str | Path] | str | Path, path: str | Path) -> Path:
    """Write the page of a run's folder, or of several, beside its place, then move it there.

    Returns: where it is.
    Raises: DataError: a folder holds no run, or the place cannot be written.
    """
    from glassformer.weights.write import atomic_file

    several = [places] if isinstance(places, str | Path) else list(places)
    text = curves_page(read_runs(several))
    try:
        with atomic_file(Path(path).resolve()) as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as problem:
        raise DataError(f"{path}: the page cannot be written: {reason(problem)}") from problem
    return Path(path)


def curves_page(runs: Sequence[Run]) -> str:
    """The page of runs."""
    lines = sum(len(STEPS) + len(run.validation) for run in runs)
    points = max(min(MOST_A_LINE, MOST_POINTS // max(lines, 1)), LEAST_A_LINE)
    drawn = charts(runs, points)
    shown, left_out = drawn[:MOST_CHARTS], drawn[MOST_CHARTS:]
    title = " · ".join(run.name for run in runs) if len(runs) <= MOST_NAMED else f"{len(runs)} runs"
    last = max((run.last for run in runs), default=0)
    body = [
        f"<main><h1>{escape(title)}</h1><p class='dim'>{escape(_headed(runs))}</p>",
        '<div class="bar" hidden><div class="runs" role="group" aria-label="Runs shown"></div>'
        '<span class="dim">Drag to zoom in; arrow keys go from step to step.</span>'
        '<span class="grow"></span><output></output>'
        '<button data-zoom="0.5">Zoom in</button><button data-zoom="2">Zoom out</button>'
        '<button data-zoom="0">Whole run</button></div>',
        f'<div class="charts">{"".join(_figure(chart, runs, last, i) for i, chart in enumerate(shown))}</div>',
        f'<p class="dim key">{_key(runs)}<span>{_smoothed(runs)}{_thinned(runs, points)}</span></p>',
        *([f'<p class="dim">Not drawn: {escape(_listed(left_out))}.</p>'] if left_out else []),
        "<h2>Figures</h2>" + _table("figures", *figures(runs)),
        *_happened(runs),
        *_validations(runs),
        *_settings(runs),
        f'</main><script type="application/json" id="curves">{_data(shown, runs, last)}</script>',
    ]
    style, script = ((STATIC / name).read_text("utf-8") for name in ("page.css", "curves.js"))
    return page(title, "\n".join(body), style=style, script=script)


def _headed(runs: Sequence[Run]) -> str:
    if len(runs) > MOST_NAMED:
        return f"{sum(run.last for run in runs):,} steps in {clock(sum(run.seconds for run in runs))}"
    ends = ("" if run.ended else ", not at its end" for run in runs)
    return " · ".join(
        f"{run.last:,} steps in {clock(run.seconds)}{end}" for run, end in zip(runs, ends, strict=True)
    )


def _smoothed(runs: Sequence[Run]) -> str:
    least, most = (f(round(run.half_life) for run in runs) for f in (min, max))
    steps = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    last = "one or two steps" if most <= 1 else f"{steps} steps"
    return f"Thick lines are smoothed: half of what counts lies within the last {last}."


def _thinned(runs: Sequence[Run], points: int) -> str:
    most = max(len(run.steps["step"]) for run in runs)
    return "" if most <= points else f" Of {most:,} lines of the log, the lowest and highest of each stretch."


def _listed(left_out: Sequence[Chart]) -> str:
    return ", ".join(chart.title for chart in left_out)


# -------------------------------------------------------------------------------------------- pictures


def _figure(chart: Chart, runs: Sequence[Run], last: int, place: int) -> str:
    legend = "".join(
        f'<li class="{look(line, chart, runs)}" data-line="{i}"><span class="swatch"></span>'
        f"{escape(named(line, runs))} <b>{number(_last(line))}</b></li>"
        for i, line in enumerate(chart.lines)
        if not (len(runs) > 1 and under(line, chart))
    )
    said = f"{chart.title} over steps. " + "; ".join(
        f"{named(line, runs)}: from {number(float(line.values[0]))} to {number(_last(line))}"
        for line in chart.lines
        if not under(line, chart)
    )
    wide = " wide" if chart.name == "loss" else ""
    return (
        f'<figure class="chart{wide}" data-chart="{place}"><figcaption><h2>{escape(chart.title)}</h2></figcaption>'
        f'<ul class="legend">{legend}</ul>'
        f'<div class="plot" role="img" aria-label="{escape(said)}">{picture(chart, runs, last)}</div></figure>'
    )


def _last(line: Line) -> float:
    return float(line.values[-1])


def _key(runs: Sequence[Run]) -> str:
    """What the marks in the picture of the loss mean."""
    marks = {
        "saved": ("M8 12v-7", "checkpoint", any(run.checkpoints for run in runs)),
        "best": ("M8 6h0", "best validation", any(run.best and run.validation for run in runs)),
        "skip": ("M8 0v12", "step not applied: its loss was not finite", any(run.skipped for run in runs)),
    }
    return "".join(
        f'<span><svg aria-hidden="true"><path class="{name}" d="{d}"/></svg>{text}</span>'
        for name, (d, text, there) in marks.items()
        if there
    )


# ---------------------------------------------------------------------------------------------- tables


def figures(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """What became of runs, a row each: the headings, and the rows."""
    names = list(dict.fromkeys(name for run in runs for name in run.validation))
    head = ["run", "steps", "epochs", "time", "tokens", "tokens a second", "training loss", "best validation"]
    rows = []
    for run in runs:
        steps, at_best = run.steps, run.at_best()
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


def _happened(runs: Sequence[Run]) -> Iterator[str]:
    """Steps that were not applied, each with all that the log says of it."""
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
        more = f"<p class='dim'>The last {MOST_LISTED} of {len(rows)}.</p>" if len(rows) > MOST_LISTED else ""
        head = ["run", "step", "loss", "first module with it", "examples"]
        yield f"<h2>Steps not applied</h2>{more}" + _table("steps not applied", head, rows[-MOST_LISTED:])


def _validations(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        names = list(run.validation)
        found: dict[int, dict[str, float]] = {}
        for name, (steps, values) in run.validation.items():
            for step, value in zip(steps, values, strict=True):
                found.setdefault(int(step), {})[name] = float(value)
        rows = [
            [
                f"{step:,}" + (" · best" if step == run.best else ""),
                *(number(found[step][name]) if name in found[step] else "–" for name in names),
            ]
            for step in sorted(found)[-2 * MOST_CHARTS * MOST_LISTED :]
        ]
        if rows:
            yield (
                f"<details><summary>Validations of {escape(run.name)} ({len(rows)})</summary>"
                + _table(f"validations of {run.name}", ["step", *names], rows)
                + "</details>"
            )


def _settings(runs: Sequence[Run]) -> Iterator[str]:
    """What each run was set to; where runs differ, in bold and first."""
    flat = [dict(_flat(run.options)) for run in runs]
    names = list(dict.fromkeys(name for each in flat for name in each))
    if not names:
        return
    differ = {name for name in names if len({each.get(name) for each in flat}) > 1}
    marks = {True: "differs", False: "same"}
    rows = "".join(
        f'<tr class="{marks[name in differ]}"><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(each.get(name, '–'))}</td>" for each in flat)
        + "</tr>"
        for name in sorted(names, key=lambda name: name not in differ)
    )
    head = "".join(f'<th scope="col">{escape(x)}</th>' for x in ("setting", *(run.name for run in runs)))
    yield (
        '<h2>Settings</h2><div class="scroll" tabindex="0" role="region" aria-label="settings">'
        f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _flat(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield (
                f"{before}{name}",
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            )


def _table(label: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{html_table(head, rows)}</div>'


# --------------------------------------------------------------------------------- numbers for the script


def _data(shown: Sequence[Chart], runs: Sequence[Run], last: int) -> str:
    """What the script draws from; `<` is written so that no name can end the element."""
    found = {
        "last": last,
        "runs": [
            {
                "name": run.name,
                "best": run.best,
                "saved": run.checkpoints[-MOST_SAVED:],
                "skipped": [at["step"] for at in run.skipped],
            }
            for run in runs
        ],
        "charts": [
            {
                "name": chart.name,
                "title": chart.title,
                "lines": [
                    {
                        "run": line.run,
                        "kind": line.kind,
                        "name": named(line, runs),
                        "look": look(line, chart, runs),
                        "steps": line.steps.tolist(),
                        "values": [float(f"{y:.5g}") if math.isfinite(y) else number(y) for y in line.values],
                    }
                    for line in chart.lines
                ],
            }
            for chart in shown
        ],
    }
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
