"""scikit-learn, whose scores a report gives: its modules, its version, and the settings that each score has."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from glassformer.errors import import_optional

AVERAGES = ("weighted", "macro", "micro")


def sklearn(part: str = "metrics", purpose: str = "evaluating classes") -> Any:
    """A module of scikit-learn. Raises: MissingExtraError: it is not installed."""
    return import_optional(f"sklearn.{part}", "scikit-learn", "evaluate", purpose)


def by_sklearn(*settings: str) -> str:
    """Which package in which version, with which settings."""
    return ", ".join([f"scikit-learn {version('scikit-learn')}", *settings])


def average_methods() -> dict[str, str]:
    """How each of `sklearn_averages` is computed."""
    return {
        f"{name}_{average}": by_sklearn(f"average='{average}'", "zero_division=0")
        for average in AVERAGES
        for name in ("f1", "precision", "recall")
    }


def sklearn_averages(true: Any, predicted: Any, labels: Sequence[Any] | None = None) -> dict[str, float]:
    """Precision, recall and F1, each weighted, macro, micro. labels: those that count; None = true or predicted ones"""
    scores = {}
    for average in AVERAGES:
        precision, recall, f1, _ = sklearn().precision_recall_fscore_support(
            true, predicted, labels=labels, average=average, zero_division=0
        )
        of_average = {"f1": f1, "precision": precision, "recall": recall}
        scores.update({f"{name}_{average}": float(value) for name, value in of_average.items()})
    return scores
