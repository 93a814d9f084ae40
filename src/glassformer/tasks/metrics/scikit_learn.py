"""The packages that the field reports scores by: a report names them where they are installed, with their settings.

Scores are counted by glassformer in any case. Where the package is installed, a report gives its numbers, after a check
that both agree; without it ours, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from glassformer.errors import MissingExtraError, import_optional
from glassformer.version import __version__

AVERAGES = ("weighted", "macro", "micro")


def sklearn(part: str = "metrics", purpose: str = "evaluating classes") -> Any:
    """A module of scikit-learn. Raises: MissingExtraError: it is not installed."""
    return import_optional(f"sklearn.{part}", "scikit-learn", "evaluate", purpose)


def reference(module: str, package: str) -> Any | None:
    """A module that scores are checked against; None where it is not installed."""
    try:
        return import_optional(module, package, "evaluate", "checking scores")
    except MissingExtraError:
        return None


def method(module: str, package: str, *settings: str) -> str:
    """How a score is computed: by which package in which version, or by glassformer as the package does it."""
    if reference(module, package) is None:
        return ", ".join([f"glassformer {__version__}, as {package}", *settings])
    try:
        number = version(package)
    except PackageNotFoundError:  # a module without the metadata of its package
        number = "of an unknown version"
    return ", ".join([f"{package} {number}", *settings])


def by_sklearn(*settings: str) -> str:
    """Which package in which version, with which settings."""
    return method("sklearn.metrics", "scikit-learn", *settings)


def average_methods() -> dict[str, str]:
    """How each of `sklearn_averages` is computed."""
    return {
        f"{name}_{average}": by_sklearn(f"average='{average}'", "zero_division=0")
        for average in AVERAGES
        for name in ("f1", "precision", "recall")
    }


def sklearn_averages(true: Any, predicted: Any, labels: Sequence[Any] | None = None) -> dict[str, float]:
    """Precision, recall and F1, each weighted, macro, micro.

    Args:
        labels: those that count; None = true or predicted ones
    """
    scores = {}
    for average in AVERAGES:
        precision, recall, f1, _ = sklearn().precision_recall_fscore_support(
            true, predicted, labels=labels, average=average, zero_division=0
        )
        of_average = {"f1": f1, "precision": precision, "recall": recall}
        scores.update({f"{name}_{average}": float(value) for name, value in of_average.items()})
    return scores
