"""The trials of a search as a page: each setting against the figure, and a table, the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from glassformer.pages.standalone import page
from glassformer.pages.tables import html_table
from glassformer.runs.charts import COLUMNS, ROWS, number, ticks
from glassformer.runs.curves import STATIC

if TYPE_CHECKING:
    from glassformer.training.trials import Search, Trial

LOG_FROM = 20  # a setting that spans so many times its lowest value is drawn on a logarithmic scale


def trials_page(found: Search) -> str:
    """The whole page: no script, nothing from elsewhere."""
    done = [trial for trial in found.trials if math.isfinite(trial.figures.get(found.metric, math.nan))]
    best = found.best
    counts = {
        state: sum(t.state == state for t in found.trials) for state in ("complete", "pruned", "failed")
    }
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.settings))
    places: dict[str, Callable[[Trial], Any]] = {"trial": lambda trial: trial.number}
    places |= {name: lambda trial, name=name: trial.settings.get(name) for name in names}  # type: ignore[misc]
    pictures = [_figure(name, place, done, found) for name, place in places.items()] if done else []
    body = [
        f"<main><h1>Search for the {'lowest' if found.direction == 'minimize' else 'highest'} "
        f"{escape(found.metric)}</h1><p class='dim'>{len(found.trials)} trials: {said or 'none yet'}</p>",
        "" if best is None else f"<h2>Best</h2><p>{_best(best, found.metric)}</p>",
        "<h2>Each setting</h2>" if pictures else "",
        f'<div class="charts">{"".join(pictures)}</div>',
        '<p class="dim">Full dots: complete; rings: pruned, as they fell behind; the large one: the best.</p>'
        if pictures
        else "",
        '<h2>All trials</h2><div class="scroll" tabindex="0" role="region" aria-label="all trials">'
        f"{html_table(*found.table())}</div></main>",
    ]
    style = (STATIC / "page.css").read_text("utf-8")
    return page(f"Search for {found.metric}", "\n".join(filter(None, body)), style=style)


def _best(best: Trial, metric: str) -> str:
    settings = ", ".join(f"{name} {_said(x)}" for name, x in best.settings.items())
    return f"<b>{escape(metric)} {number(best.figures[metric])}</b>, trial {best.number}: {escape(settings)}"


def _figure(name: str, place: Callable[[Trial], Any], done: Sequence[Trial], found: Search) -> str:
    """A dot for each trial, over the values of a setting."""
    across, marks = _scale([place(trial) for trial in done])
    values = [trial.figures[found.metric] for trial in done]
    room = (max(values) - min(values)) * 0.08 or 1.0
    low, high = min(values) - room, max(values) + room
    rows = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/><text x="-7" y="{y}">{number(tick)}</text>'
        for tick in ticks(low, high, ROWS)
        if (y := f"{100 * (high - tick) / (high - low):.2f}%")
    )
    columns = "".join(f'<text x="{x:.2f}%" y="100%" dy="18">{escape(text)}</text>' for x, text in marks)
    best = found.best
    dots = "".join(
        f'<circle class="c0 trial {trial.state}" cx="{across(place(trial)):.2f}%" '
        f'cy="{100 * (high - value) / (high - low):.2f}%" r="{7 if trial is best else 4.5}">'
        f"<title>trial {trial.number}: {escape(found.metric)} {number(value)}, "
        f"{escape(name)} {escape(_said(place(trial)))}</title></circle>"
        for trial, value in zip(done, values, strict=True)
    )
    label = f"{found.metric} of each trial over {name}; the table below has the numbers"
    return (
        f'<figure class="chart"><figcaption><h3>{escape(name)}</h3></figcaption>'
        f'<div class="plot" role="img" aria-label="{escape(label)}">'
        f'<svg><g class="y">{rows}</g><g class="x">{columns}</g>{dots}</svg></div></figure>'
    )


def _scale(values: Sequence[Any]) -> tuple[Callable[[Any], float], list[tuple[float, str]]]:
    """Where a value stands, in percent from the left, and the labels below."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)
    if not numbers or len(set(values)) == 1:
        kinds = sorted(set(map(_said, values)))
        at = {kind: 100 * (i + 0.5) / len(kinds) for i, kind in enumerate(kinds)}
        return (lambda x: at[_said(x)]), [(at[kind], kind) for kind in kinds]
    low, high = min(values), max(values)
    log = low > 0 and high / low > LOG_FROM
    scale: Callable[[float], float] = math.log10 if log else float
    start, length = scale(low), scale(high) - scale(low)

    def across(x: float) -> float:
        return 4 + 92 * (scale(x) - start) / length

    if log:
        powers = range(math.ceil(start), math.floor(start + length) + 1)
        labels = [10.0**power for power in powers] or [low, high]
    else:
        labels = ticks(low, high, COLUMNS)
    if all(isinstance(x, int) for x in values):
        labels = [x for x in labels if float(x).is_integer()]
    return across, [(across(x), number(x)) for x in labels]


def _said(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
