"""What happened in a run, in one sentence or two, from its event log: its best value, its trend after it, its end.

verdict(read_run("runs/mood"))
Best f1 0.9354 at step 400 of 600. Overfitting since step 360: the validation loss rose from 0.41 to 0.58 while the
training loss fell. It ended at step 600, as planned.
"""

from __future__ import annotations

import math

import numpy as np

from glassformer.files import counted
from glassformer.runs.charts import number
from glassformer.runs.history import RunHistory
from glassformer.tasks.metrics.metric import greater_is_better

RISE, RISEN = 0.05, 2
"""Overfitting: this many last validations in a row have a loss above the lowest by more than this share.

A few percent come and go from one validation to the next, the more the fewer rows it has: on 18 rows 2% with an equal
metric. 5% is the largest of the thresholds that Prechelt compared (Automatic early stopping using cross validation,
1998: GL5, the most patient), and a single validation above it may be an outlier.
"""


def verdict(run: RunHistory, reported: str | None = None) -> str:
    """What happened in a run; empty where nothing is logged.

    Args:
        reported: the main metric of a report next to it; where another chose the model, both are named
    """
    return " ".join(filter(None, [_best(run, reported), _trend(run), _end(run)]))


def main_metric(run: RunHistory) -> str | None:
    """The metric of the best model: as logged or set; else the first whose best validation is the best of the run."""
    training = run.options.get("training")
    chosen = run.metric or (training.get("metric") if isinstance(training, dict) else None)
    if chosen in run.validation:
        return str(chosen)
    names = sorted(run.validation, key=lambda name: name == "loss")  # a loss stands in for metrics
    return next((name for name in names if run.best is not None and _best_step(run, name) == run.best), None)


def _best_step(run: RunHistory, metric: str) -> int | None:
    """The first step at which a metric was at its best."""
    steps, values = run.validation[metric]
    values = np.where(np.isfinite(values), values if greater_is_better(metric) else -values, -np.inf)
    return int(steps[values.argmax()]) if len(steps) and np.isfinite(values.max()) else None


def _best(run: RunHistory, reported: str | None) -> str:
    if run.best is None:
        return ""
    metrics, metric = run.best_metrics(), main_metric(run)
    names = [metric] if metric is not None else list(metrics)[:2]
    of = "" if run.planned is None or run.planned == run.best else f" of {run.planned:,}"
    best = f"est {', '.join(f'{name} {number(metrics[name])}' for name in names)} at step {run.best:,}{of}."
    if reported is None or metric in (None, reported):
        return f"B{best}"
    return f"The report leads with {reported}, but {metric} chose the model: b{best}"


def _trend(run: RunHistory) -> str:
    """Whether it overfits, or still improves at the end; empty with less than three validations."""
    if run.best is None or len(validations := _validations(run)) < 3:
        return ""
    if (overfitting := _overfitting(run)) is not None:
        return overfitting
    after = sum(step > run.best for step in validations)
    if after == 0:
        return "Still improving at its last validation: more steps may help."
    return f"No better since step {run.best:,}, in {counted(after, 'validation')}."


def _overfitting(run: RunHistory) -> str | None:
    """Since when the validation loss rose to the end while the training loss fell, where it did."""
    if "loss" not in run.validation or (since := _best_step(run, "loss")) is None:
        return None
    steps, losses = run.validation["loss"]
    lowest, last = float(losses[steps == since][0]), float(losses[-1])
    risen = losses[steps > since][-RISEN:] > lowest + RISE * abs(lowest)
    if len(risen) < RISEN or not risen.all():
        return None
    smoothed = run.smoothed("loss")
    then, now = (float(smoothed[np.searchsorted(run.steps["step"], step, "right") - 1]) for step in (since, run.last))
    if not now < then:
        return None
    return (
        f"Overfitting since step {since:,}: the validation loss rose from {number(lowest)} to {number(last)} while the "
        "training loss fell."
    )


def _validations(run: RunHistory) -> list[int]:
    return sorted({int(step) for steps, _ in run.validation.values() for step in steps})


def _end(run: RunHistory) -> str:
    """What stopped it, as far as its log says."""
    if not run.last:
        return ""
    of = "" if run.planned is None else f" of {run.planned:,}"
    if not run.ended:
        return (
            f"Its log stops at step {run.last:,}{of}: it runs still, or was stopped, and the same command resumes it."
        )
    if run.planned is None or run.last >= run.planned:
        return f"It ended at step {run.last:,}{', as planned' * (run.planned is not None)}."
    training = run.options.get("training")
    patience = (training if isinstance(training, dict) else run.options).get("patience")
    after = sum(step > (run.best or math.inf) for step in _validations(run))
    if patience is not None and after >= patience:
        return f"Early stopping ended it at step {run.last:,}{of}, after {after:,} validations without improvement."
    return f"It ended at step {run.last:,}{of}."
