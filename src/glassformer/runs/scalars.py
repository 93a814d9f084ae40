"""Logs of other programs as a digest of ours: scalars by their tags become training curves and validations.

train/loss, train_loss, loss       the training loss          eval/f1, validation/f1, val_f1      the validation f1
train/lr, learning_rate            the learning rate          any other tag                       a metric
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glassformer.runs.digest import CURVES, STEPS, Blocks, Digest
from glassformer.tasks.metrics.metric import greater_is_better

TRAINING = ("train/", "training/", "train_", "training_", "")
VALIDATION = ("validation/", "valid/", "val/", "eval/", "validation_", "valid_", "val_", "eval_")
COLUMNS = {
    **{name: name for name in (*CURVES, "epoch", "tokens")},
    "learning_rate": "lr",
    "gradient_norm": "grad_norm",
    "tokens_per_second": "tokens_per_s",
}
"""Names of training curves elsewhere → those of ours."""


@dataclass
class Scalars:
    """What a log of another program says.

    values: tag → step → value; of a step that is there twice, the later one
    times: step → when it was logged, in seconds since 1970
    options: the settings of the run
    ended: whether the log has its end
    """

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    ended: bool = False

    def add(self, tag: str, step: int, value: float, time: float | None = None) -> None:
        """Add a value."""
        self.values.setdefault(tag, {})[step] = value
        if time is not None:
            self.times[step] = time

    def drop_from(self, step: int) -> None:
        """Leave out what was logged at a step and after it: a resumed run logs it again."""
        for values in self.values.values():
            for each in [x for x in values if x >= step]:
                del values[each]

    def digest(self) -> Digest:
        """The same as the digest of an event log."""
        columns, metrics = self._sorted_tags()
        steps = np.array(sorted({*self.times, *(step for values in self.values.values() for step in values)}), np.int64)
        last = np.full((len(steps), len(STEPS)), math.nan)
        for name, values in columns.items():
            last[np.searchsorted(steps, list(values)), STEPS.index(name)] = list(values.values())
        times = np.array([self.times.get(int(step), math.nan) for step in steps])
        last[:, STEPS.index("time")] = times
        zeros = np.zeros_like(steps)
        blocks = Blocks.of_steps(steps, zeros, zeros, last, 0.0)
        # The time between two steps: what a log of others says of its speed.
        seconds = np.diff(times, prepend=times[:1])
        blocks = replace(blocks, seconds=np.where(seconds > 0, seconds, 0.0)).compact() if len(steps) else blocks
        metric = _main(metrics)
        begin: dict[str, Any] = {"options": self.options, "metric": metric}
        known = times[np.isfinite(times)]
        begin |= {"time": float(known.min())} if len(known) else {}
        return Digest(
            blocks,
            {"step": int(steps[0]), **dict(zip(STEPS, last[0].tolist(), strict=True))} if len(steps) else {},
            [(0, 0, {"event": "begin", **begin}), *((0, 0, x) for x in _validations(metrics, metric))],
            "end" if self.ended else "",
        )

    def _sorted_tags(self) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:
        """The values of training curves, by the names of ours; and those of metrics."""
        columns: dict[str, dict[int, float]] = {}
        metrics: dict[str, dict[int, float]] = {}
        for tag, values in self.values.items():
            column, metric = _named(tag, TRAINING, COLUMNS), _named(tag, VALIDATION)
            if column is not None and column not in columns:
                columns[column] = values
            else:
                metrics[metric if metric is not None and metric not in metrics else tag] = values
        return columns, metrics


def _named(tag: str, prefixes: tuple[str, ...], known: Mapping[str, str] | None = None) -> str | None:
    """What a tag names behind one of these prefixes, or, as in `Loss/train`, before one of them."""
    lower = tag.lower()
    for prefix in prefixes:
        swapped = f"/{prefix.rstrip('/_')}"
        for name in (lower.removeprefix(prefix) if lower.startswith(prefix) else None,
                     lower.removesuffix(swapped) if prefix and lower.endswith(swapped) else None):  # fmt: skip
            if name and (known is None or name in known):
                return name if known is None else known[name]
    return None


def _main(metrics: Mapping[str, Mapping[int, float]]) -> str | None:
    """The metric that the best step is chosen by: the first that is no loss."""
    names = [name for name, values in metrics.items() if any(map(math.isfinite, values.values()))]
    return next(iter(sorted(names, key=lambda name: name.endswith("loss"))), None)


def _validations(metrics: Mapping[str, Mapping[int, float]], main: str | None) -> list[dict[str, Any]]:
    steps: dict[int, dict[str, float]] = {}
    for name, values in metrics.items():
        for step, value in values.items():
            steps.setdefault(step, {})[name] = value
    finite = {step: x for step, x in metrics[main].items() if math.isfinite(x)} if main is not None else {}
    best = None
    if main is not None and finite:
        best = (max if greater_is_better(main) else min)(finite, key=lambda step: (finite[step], -step))
    return [
        {"event": "validation", "step": step, "metrics": steps[step], "best": step == best} for step in sorted(steps)
    ]
