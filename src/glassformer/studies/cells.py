"""Cells of a study: a combination of levels, and its scores row by row, which are kept and compared with others.

{method: knn, labels: 16}, seed 0      ──evaluate──>      scored({"accuracy": right}, {"seconds": 12.0})
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np

from glassformer.errors import DataError, UnknownNameError, nearest
from glassformer.files import counted, is_int, is_number, safe_repr
from glassformer.files.schema import Allowed, NonNegative, check
from glassformer.reports.table import Table
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapMeans, Interval, ResampledScore, resampled

Level = str | int | float | bool | None
"""A value of a factor; None = the factor does not apply."""
NamedLevel = Annotated[str | int | float | bool, Allowed("a text, a number, or true or false")]
"""A level as a user names it."""
Levels = Mapping[str, Level]


@dataclass(frozen=True)
class Cell:
    """A combination of levels, and a seed.

    levels: factor → level; None = the factor does not apply, such as a number of rows to a model that is not trained
    folder: for its result, and files of its own
    options: those of the study, the same for all cells
    about: what an `Evaluator` knows of it
    """

    levels: Levels
    seed: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    about: Any = None

    def __getitem__(self, factor: str) -> Any:
        if factor not in self.levels:
            raise UnknownNameError(
                f"the cell has no factor {safe_repr(factor)}{nearest(factor, self.levels)}; it has: "
                f"{', '.join(self.levels)}"
            )
        return self.levels[factor]

    def __str__(self) -> str:
        return f"{label_of(self.levels)}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """The result of a cell, as it is kept: see `scored`.

    scores: metric → its value, and that of each resample of the rows; the main one first
    intervals: of costs that were measured row by row
    tables: what was done in the cell, for the page of the report
    note: what one has to know of it, for the report
    """

    scores: dict[str, ResampledScore]
    costs: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    rows: str = ""
    baselines: dict[str, Interval] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    note: str = ""


def scored(
    metrics: Bootstrap | Mapping[str, Any],
    costs: Mapping[str, float] = MappingProxyType({}),
    *,
    rows: str = "",
    baselines: Mapping[str, Interval] = MappingProxyType({}),
) -> CellResult:
    """The result of a cell.

    Args:
        metrics: statistics of each row (`task.metrics(predictions)`); or name → a number for each row, of which the
            metric is the mean; or name → one number, which has no interval over rows. The first is the main one
        costs: such as {"seconds": 12.0, "bytes": 4e6, "latency": 3.1}
        rows: fingerprint of the rows; cells of other rows are not compared. Empty = those of one number are the same
        baselines: name → the main metric
    Raises: DataError: a metric that is no finite number, or none for a row. ConfigError: so a cost, or a negative one.
    """
    if isinstance(metrics, Bootstrap):
        scores, methods = resampled(metrics), dict(metrics.methods)
    else:
        scores, methods = {name: _score(name, x) for name, x in metrics.items()}, {}
    numbers = {name: x.item() if hasattr(x, "item") else x for name, x in costs.items()}  # those of NumPy and torch
    for name, value in numbers.items():
        check(NonNegative, value, f"the cost {safe_repr(name)}")
    numbers = {name: float(value) for name, value in numbers.items()}
    return CellResult(scores=scores, costs=numbers, rows=rows, baselines=dict(baselines), methods=methods)


def _score(name: str, values: Any) -> ResampledScore:
    """The mean of a number for each row; or one number. Raises: DataError: anything else, by the metric's name."""
    problem = f"the metric {safe_repr(name)} is {safe_repr(values)}; it must be a number for each row, or one"
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO" or given.ndim > 1 or not given.size:  # "0.5" would be converted
            raise DataError(problem)
        rows = given.astype(float)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths; a tensor that has a gradient
        raise error if isinstance(error, DataError) else DataError(f"{problem}: {error}") from error
    if len(wrong := np.flatnonzero(~np.isfinite(rows))):
        value, of = rows.flat[wrong[0]], f" for {counted(len(wrong), 'row')} of {len(rows):,}" if rows.ndim else ""
        raise DataError(f"the metric {safe_repr(name)} is {value}{of}; it must be a finite number")
    return resampled(BootstrapMeans({"": rows}, {}))[""] if rows.ndim else ResampledScore(float(rows))


def changed(before: Any, now: Mapping[str, Any]) -> str:
    """What differs in the settings of a result that was saved as JSON; empty = nothing.

    The first setting that does, by its path: `training.learning_rate was 0.0001, is now 0.0002`.
    """
    return _changed(before if isinstance(before, dict) else {}, json.loads(json.dumps(now)), "")  # tuples become lists


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], path: str) -> str:
    for name in dict.fromkeys([*now, *before]):
        was, value = before.get(name), now.get(name)
        if was == value:
            continue
        if isinstance(was, dict) and isinstance(value, dict):
            return _changed(was, value, f"{path}{name}.")
        old, new = ("left out" if name not in x else safe_repr(x[name]) for x in (before, now))
        return f"{path}{name} was {old}, is now {new}"
    return ""


def is_scale(levels: Sequence[Level]) -> bool:
    """Are the levels of a factor numbers, over which a curve can be drawn?"""
    known = [level for level in levels if level is not None]
    return bool(known) and all(map(is_number, known))


def written(level: Level) -> str:
    """A level in a column of its factor."""
    if level is None or isinstance(level, str):
        return level or ""
    if level is True or level is False:
        return "yes" if level else "no"
    return f"{level:,.0f}" if float(level).is_integer() else f"{level:g}"


def label_of(levels: Levels) -> str:
    """Levels as a name: `knn, 16 labels`, `learning_rate 0.001`, `no fusion`, `trained on fr`."""
    labels = []
    for factor, level in levels.items():
        if isinstance(level, str):
            labels.append(f"{factor} {level}" if factor.endswith(" on") else level)
        elif level is True or level is False:
            labels.append(factor if level else f"no {factor}")
        elif level is not None:
            labels.append(f"{written(level)} {factor}" if is_int(level) else f"{factor} {written(level)}")
    return ", ".join(labels)


def folder_name(levels: Levels) -> str:
    """Levels as the name of a folder: `knn-16-labels`."""
    return re.sub(r"[^\w.+→]+", "-", label_of(levels).replace(",", "")).strip("-.") or "cell"
