"""Remarks of a report: metrics that are one number by several names, and how the model stands to its baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.files import counted
from glassformer.runs.event_log import event_log_path
from glassformer.runs.history import read_run
from glassformer.tasks.metrics.metric import Interval, greater_is_better

if TYPE_CHECKING:
    from glassformer.evaluation.evaluate import EvaluationReport, SystemResult


def distinct_metrics(systems: Sequence[Mapping[str, Interval]], main: str) -> dict[str, list[str]]:
    """Metrics that differ in some system, and of each those that are the same number by another name.

    Of one label a row, accuracy is micro-averaged F1, precision and recall too, and weighted recall. `main` is first.
    """
    names: dict[Any, list[str]] = {}
    for name in sorted(dict.fromkeys(chain.from_iterable(systems)), key=lambda name: name != main):
        scores = tuple((x := system.get(name)) and x.written(9) for system in systems)
        names.setdefault(scores, []).append(name)
    return {first: others for first, *others in names.values()}


def equal_metrics(systems: Sequence[Mapping[str, Interval]], main: str) -> list[str]:
    """Sentences that say which metrics are one number by several names."""
    return [f"{name} is also {', '.join(same)}" for name, same in distinct_metrics(systems, main).items() if same]


def beside_baselines(report: EvaluationReport) -> str:
    """The main metric, and how the model stands to the baseline that has the best value of it.

        f1 0.890 [0.719, 1.000]; not distinguishable from the baseline “bag of words” (0.889) on 18 rows

    By the paired difference of the report, since the values alone say nothing of chance.
    """
    score = f"{report.metric} {report.metrics[report.metric].written(3)}"
    values = {
        name: system.metrics[report.metric].value
        for name, system in report.baselines.items()
        if report.metric in system.metrics and math.isfinite(system.metrics[report.metric].value)
    }
    if not values:
        return score
    name = (max if report.higher else min)(values, key=lambda name: values[name])
    better = report.baselines[name].improvement(report.higher)
    compared = "" if better is None else f"{better.comparison} "
    return f"{score}; {compared}the baseline “{name}” ({values[name]:.3f}) on {counted(report.data['rows'], 'row')}"


def beaten_by(baselines: Mapping[str, SystemResult], metric: str) -> list[str]:
    """A sentence about the baseline that is furthest above the model, and what to do; none where none is.

    One that is above it by no more than chance is not said to be better.
    """
    improvements = {name: system.improvement(greater_is_better(metric)) for name, system in baselines.items()}
    better = {name: -x for name, x in improvements.items() if x is not None and x.value < 0}
    if not better:
        return []
    name = max(better, key=lambda name: better[name].value)
    size = better[name].written(3)
    note = f"the baseline {name!r} is {better[name].comparison} the model, by {size}"
    if not better[name].leaves_out_zero:
        note = f"the baseline {name!r} is {better[name].comparison} the model: its {metric} is better by {size}"
    return [f"{note}; train longer (--epochs), with another learning rate (--learning-rate), or on more rows"]


def loss_remarks(report: EvaluationReport, run: Path) -> list[str]:
    """Where a baseline is better than the model of a run: a sentence, if the training loss still fell at the end."""
    logged = event_log_path(run).is_file()
    if not logged or not beaten_by(report.baselines, report.metric) or (fall := read_run(run).falling_loss()) is None:
        return []
    third, last = fall
    return [f"the training loss still fell: {third:.3g} in the third quarter of the steps, {last:.3g} in the last"]
