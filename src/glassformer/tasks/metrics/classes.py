"""Precision, recall and F1 of what was said of rows: classes, labels, entities, each of a kind.

    kind       true   said   both       precision = both / said    recall = both / true
    joy           9     10      8       0.80                       0.89
    anger         2      1      1       1.00                       0.50
    micro        11     11      9       counts added up first      macro, weighted: the mean over kinds

All three counts are of pairs (row, kind), so a sample of rows is counted by one product of matrices for each.
0 / 0 counts as 0, as with scikit-learn's `zero_division=0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from glassformer.errors import MissingExtraError
from glassformer.tasks.metrics.bootstrap import Sampled
from glassformer.tasks.metrics.meters import ratio

AVERAGES = ("weighted", "macro", "micro")
SETTINGS = "zero_division=0"


class Counts:
    """Things in rows, each of a kind: how many of each kind a sample of the rows has.

    Args: things: the row and the kind of each [n, n] · shape: how many rows and kinds there are
    """

    def __init__(self, things: tuple[np.ndarray, ...], shape: tuple[int, int]) -> None:
        import scipy.sparse

        rows, kinds = things
        ones = np.ones(len(rows))
        self._table = scipy.sparse.csr_array((ones, (kinds, rows)), shape=shape[::-1])  # [K, N]

    def of(self, times: np.ndarray) -> np.ndarray:
        """[S, N] → [S, K]"""
        counted: np.ndarray = (self._table @ times.T.astype(np.float64)).T
        return counted


class SaidKinds(Sampled):
    """What is true of rows, what was said, and what both have, as pairs of a row and a kind.

    Args: names: of the kinds, by number · rows: how many · true, said, both: rows and kinds of the pairs
    """

    def __init__(
        self,
        names: Sequence[str],
        rows: int,
        *,
        true: tuple[np.ndarray, ...],
        said: tuple[np.ndarray, ...],
        both: tuple[np.ndarray, ...],
    ) -> None:
        self.names = list(names)
        self._rows = rows
        shape = (rows, len(names))
        self._true, self._said, self._both = (Counts(pairs, shape) for pairs in (true, said, both))

    def __len__(self) -> int:
        return self._rows

    def counts(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many of each kind are both true and said, are said, and are true. [S, K] each"""
        return self._both.of(times), self._said.of(times), self._true.of(times)

    def each(self) -> dict[str, dict[str, float | None]]:
        """Precision, recall, F1 and support of each kind; None where nothing is said or true that defines it."""
        both, said, true = (counts[0] for counts in self.counts(np.ones((1, len(self)), dtype=np.int64)))
        return {
            name: {
                "precision": _share(both[i], said[i]),
                "recall": _share(both[i], true[i]),
                "f1": _share(2 * both[i], said[i] + true[i]),
                "support": float(true[i]),
            }
            for i, name in enumerate(self.names)
        }


class SaidClasses(SaidKinds):
    """One class of several, of each row or of each word of a row.

    A class that is neither true nor said of any row is left out of the macro mean.

    Args:
        names: of the classes, by number · true, said: their numbers. [n]
        rows: which row each is of; None = a row has one. [n]
    """

    def __init__(
        self, names: Sequence[str], true: np.ndarray, said: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        self.true, self.said = true, said
        of = np.arange(len(true)) if rows is None else rows
        right = true == said
        super().__init__(
            names,
            int(of[-1]) + 1 if len(of) else 0,
            true=(of, true),
            said=(of, said),
            both=(of[right], true[right]),
        )
        self.methods = {"accuracy": by_sklearn(), **average_methods()}

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        both, said, true = self.counts(times)
        found = averages(both, said, true, seen=said + true > 0)
        main = {"f1_weighted": found.pop("f1_weighted"), "accuracy": both.sum(-1) / true.sum(-1)}
        return {**main, **found}

    def packaged(self) -> dict[str, float]:
        accuracy = float(sklearn_metrics().accuracy_score(self.true, self.said))
        return {"accuracy": accuracy, **packaged_averages(self.true, self.said)}

    def confusion(self) -> list[list[int]]:
        """How often each class (a row) was taken for each (a column)."""
        count = len(self.names)
        table = np.bincount(self.true * count + self.said, minlength=count * count)
        found: list[list[int]] = table.reshape(count, count).tolist()
        return found


class SaidLabels(SaidKinds):
    """Any number of labels of each row.

    subset_accuracy is the share of the rows of which every label is right. A label that is neither true nor said of any
    row counts as 0 in the macro mean.

    Args: names: of the labels, by number · true, said: whether each holds. [N, K] bool
    """

    def __init__(self, names: Sequence[str], true: np.ndarray, said: np.ndarray) -> None:
        self.true, self.said = true, said
        super().__init__(
            names, len(true), true=np.nonzero(true), said=np.nonzero(said), both=np.nonzero(true & said)
        )
        self._whole = (true == said).all(-1).astype(np.float64)
        self.methods = {"subset_accuracy": by_sklearn("accuracy_score"), **average_methods()}

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        both, said, true = self.counts(times)
        found = averages(both, said, true, seen=np.ones_like(true, dtype=bool))
        whole = times @ self._whole / times.sum(-1)
        return {"f1_micro": found.pop("f1_micro"), "subset_accuracy": whole, **found}

    def packaged(self) -> dict[str, float]:
        # A single label makes a column, which scikit-learn takes for two classes: yes, which counts, and no.
        alone = len(self.names) == 1
        true, said = (x.ravel() if alone else x for x in (self.true, self.said))
        return {
            "subset_accuracy": float(sklearn_metrics().accuracy_score(true, said)),
            **packaged_averages(true, said, labels=[True] if alone else None),
        }


def averages(
    both: np.ndarray, said: np.ndarray, true: np.ndarray, *, seen: np.ndarray
) -> dict[str, np.ndarray]:
    """Precision, recall and F1 over kinds: weighted by how often each is true, macro over those seen, micro. [S]"""

    def shares(both: np.ndarray, said: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "f1": ratio(2 * both, said + true),
            "precision": ratio(both, said),
            "recall": ratio(both, true),
        }

    each = shares(both, said, true)
    micro = shares(*(counts.sum(-1) for counts in (both, said, true)))
    found = {
        f"{name}_{average}": ratio((share * weight).sum(-1), weight.sum(-1).astype(np.float64))
        for average, weight in (("weighted", true), ("macro", seen))
        for name, share in each.items()
    }
    return {**found, **{f"{name}_micro": share for name, share in micro.items()}}


def packaged_averages(true: Any, said: Any, labels: Sequence[Any] | None = None) -> dict[str, float]:
    """The same by scikit-learn. Args: labels: those that count; None = all that are true or said"""
    found = {}
    for average in AVERAGES:
        precision, recall, f1, _ = sklearn_metrics().precision_recall_fscore_support(
            true, said, labels=labels, average=average, zero_division=0
        )
        of_average = {"f1": f1, "precision": precision, "recall": recall}
        found.update({f"{name}_{average}": float(value) for name, value in of_average.items()})
    return found


def average_methods() -> dict[str, str]:
    """How the figures of `averages` are computed."""
    return {
        f"{name}_{average}": by_sklearn(f"average='{average}'", SETTINGS)
        for average in AVERAGES
        for name in ("f1", "precision", "recall")
    }


def by_sklearn(*settings: str) -> str:
    """Which package in which version, with which settings."""
    return ", ".join([f"scikit-learn {version('scikit-learn')}", *settings])


def sklearn_metrics() -> Any:
    """Raises: MissingExtraError: without the package scikit-learn."""
    try:
        import sklearn.metrics
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "judging classes") from error
    return sklearn.metrics


def undefined(
    each: Mapping[str, Mapping[str, float | None]], true_of: str, *, left_out: bool, weighted: bool = True
) -> list[str]:
    """What is to be said of kinds whose figures are not defined.

    Args:
        true_of: how to say that one never occurs, before its name: "no row is"
        left_out: whether one that is neither true nor said is left out of the macro means, or counts as 0
        weighted: whether there are weighted means
    """
    unseen = [name for name, row in each.items() if row["f1"] is None]
    never_true = [name for name, row in each.items() if row["recall"] is None and name not in unseen]
    never_said = [name for name, row in each.items() if row["precision"] is None and name not in unseen]
    means = "the macro and weighted means" if weighted else "the macro mean"
    found = []
    if unseen:
        what = "left out of the macro means" if left_out else "counts as 0 in the macro means"
        found.append(f"{true_of} {_listed(unseen)}, and none was said to be: {what}")
    if never_true:
        found.append(
            f"{true_of} {_listed(never_true)}: recall is not defined there and counts as 0 in the macro mean"
        )
    if never_said:
        found.append(
            f"never said: {_listed(never_said)}: precision is not defined there and counts as 0 in {means}"
        )
    return found


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" … ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
