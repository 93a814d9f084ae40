"""Metrics that are one number by several names: of one label a row, accuracy is micro-averaged F1, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from glassformer.tasks.metrics.metric import Interval


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
