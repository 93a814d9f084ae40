"""Precision, recall and F1 score of classes, labels and entities: one computation for batches, rows and resamples.

    class      true   predicted   hits        precision = hits / predicted    recall = hits / true
    joy           9          10      8        0.80                            0.89
    anger         2           1      1        1.00                            0.50
    micro        11          11      9        counts added up first           macro, weighted: the mean over classes

The three counts are the sufficient statistics: `ClassificationMetric` adds them up batch by batch, and
`ClassificationScores` keeps them row by row for the bootstrap, where a resample is counted by one product of matrices.
0 / 0 counts as 0, as with scikit-learn's `zero_division=0`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.tasks.metrics.metric import Bootstrap, Metric, PerClassReport, counted_labels
from glassformer.tasks.metrics.scikit_learn import average_methods, by_sklearn, reference, sklearn, sklearn_averages

if TYPE_CHECKING:
    from glassformer.tasks.types import MicroBatch

F1_AVERAGES = ("f1_macro", "f1_weighted", "f1_micro")

Counts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""How often each class was a hit, predicted, and true. [..., K] each"""

Items = tuple[np.ndarray, ...]
"""The row and the class of each of some items. [n] each"""


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, and 0 for 0 / 0."""
    shares: np.ndarray = np.divide(
        part, whole, out=np.zeros_like(whole, dtype=np.float64), where=whole > 0, dtype=np.float64
    )
    return shares


def precision_recall_f1(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    """precision = hits / predicted, recall = hits / true, and their harmonic mean F1, of counts of any shape."""
    return {
        "f1": ratio(2 * hits, predicted + true),
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, true),
    }


def averages(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray, *, seen: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 over classes: weighted by support, macro over those `seen`, micro. [..., K] → [...]"""
    of_classes = precision_recall_f1(hits, predicted, true)
    micro = precision_recall_f1(*(counts.sum(-1) for counts in (hits, predicted, true)))
    of_averages = {
        f"{name}_{average}": ratio((score * weight).sum(-1), weight.sum(-1).astype(np.float64))
        for average, weight in (("weighted", true), ("macro", seen))
        for name, score in of_classes.items()
    }
    return {**of_averages, **{f"{name}_micro": score for name, score in micro.items()}}


def matthews(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Matthews correlation of classes, from -1 to 1: 0 for a guess, however unequal the classes. [..., K] → [...]

        (n · Σ hits - Σ predicted · true) / √((n² - Σ predicted²) · (n² - Σ true²))

    Source: Matthews 1975; for several classes Gorodkin 2004, "Comparing two K-category assignments", equation 8.
    """
    hits, predicted, true = (counts.astype(np.float64) for counts in (hits, predicted, true))
    n = true.sum(-1)
    covariance = n * hits.sum(-1) - (predicted * true).sum(-1)
    spreads = (n**2 - (predicted**2).sum(-1)) * (n**2 - (true**2).sum(-1))
    return ratio(covariance, np.sqrt(spreads))


def per_class(
    names: Sequence[str], hits: np.ndarray, predicted: np.ndarray, true: np.ndarray
) -> dict[str, dict[str, float | None]]:
    """Precision, recall, F1 and support of each class; None where it is 0 / 0. [K] each"""

    def defined(part: float, whole: float) -> float | None:
        return float(part / whole) if whole else None

    return {
        name: {
            "precision": defined(hits[i], predicted[i]),
            "recall": defined(hits[i], true[i]),
            "f1": defined(2 * hits[i], predicted[i] + true[i]),
            "support": float(true[i]),
        }
        for i, name in enumerate(names)
    }


# -------------------------------------------------------------------------------------------- batch by batch


class PrecisionRecallMetric(Metric):
    """The three counts of each class, added up batch by batch.

    Args:
        names: of the classes, by number
    """

    def __init__(self, head: Head, names: Sequence[str]) -> None:
        super().__init__(head)
        self.names = tuple(names)
        for name in ("hits", "predicted", "true"):
            self.add_state(name, len(names))

    def counts(self) -> Counts:
        """As `Counts`, of all that was added. [K] each"""
        return self.state["hits"].numpy(), self.state["predicted"].numpy(), self.state["true"].numpy()


class ClassificationMetric(PrecisionRecallMetric):
    """Accuracy and F1 of one class of several.

    f1_macro is the mean over classes, f1_weighted that by how often each is true, f1_micro counts all (and is the
    accuracy, where each example has one label); matthews is the Matthews correlation. As in scikit-learn, a class that
    is neither true nor predicted for any example is left out of the macro mean; one that is true and never predicted
    has 0.

    Args:
        names: of the classes, by number
        read: the predicted and the true class of what counts in a batch; a predicted one of -1 is of something that
            the model did not see, and counts as the class that was predicted most often
    """

    def __init__(
        self,
        head: Head,
        names: Sequence[str],
        read: Callable[[Output, MicroBatch], tuple[Tensor, Tensor]] = counted_labels,
    ) -> None:
        super().__init__(head, names)
        self._read = read
        self.add_state("unseen", len(names))

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        predicted, true = (classes.cpu() for classes in self._read(output, batch))
        seen = predicted >= 0
        counted = {"hits": true[predicted == true], "predicted": predicted[seen], "true": true, "unseen": true[~seen]}
        for name, classes in counted.items():
            self.state[name] += torch.bincount(classes, minlength=len(self.names))

    def counts(self) -> Counts:
        hits, predicted, true = (counts.copy() for counts in super().counts())
        most, unseen = int(predicted.argmax()), self.state["unseen"].numpy()
        hits[most] += unseen[most]
        predicted[most] += unseen.sum()
        return hits, predicted, true

    def compute(self) -> dict[str, float]:
        loss = super().compute()  # which says so where nothing was added
        hits, predicted, true = self.counts()
        averaged = averages(hits, predicted, true, seen=predicted + true > 0)
        scores = {name: averaged[name] for name in F1_AVERAGES} | {"matthews": matthews(hits, predicted, true)}
        accuracy = float(hits.sum() / true.sum())
        return {**loss, "accuracy": accuracy, **{name: float(score) for name, score in scores.items()}}


class MultiLabelMetric(PrecisionRecallMetric):
    """F1 where an example may have any number of labels, each predicted where its probability is above a half.

    f1_micro counts every yes equally; f1_macro is the mean over all labels, where one that is never true nor predicted
    has 0.
    """

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert output.logits is not None and isinstance(batch.labels, Tensor)
        # A logit of 0 is a probability of a half.
        predicted, true = output.logits > 0, batch.labels > 0.5
        for name, holds in (("hits", predicted & true), ("predicted", predicted), ("true", true)):
            self.state[name] += holds.sum(0).cpu()

    def compute(self) -> dict[str, float]:
        averaged = averages(*self.counts(), seen=np.ones(len(self.names)))
        return {**super().compute(), **{name: float(averaged[name]) for name in ("f1_micro", "f1_macro")}}


# ------------------------------------------------------------------------------------------------ row by row


class PrecisionRecallScores(Bootstrap):
    """The three counts of each class, kept row by row.

    item: what has a class, for notes: a "row", a "word", an "entity"
    LEFT_OUT: whether a class that is neither true nor predicted is left out of the macro means, or counts as 0
    MEANS: those to which a class that is never predicted adds 0

    Args:
        names: of the classes, by number
        rows: how many
    """

    LEFT_OUT = True
    MEANS = "the macro and weighted means"

    def __init__(
        self, names: Sequence[str], rows: int, item: str, *, true: Items, predicted: Items, hits: Items
    ) -> None:
        self.names, self._rows, self.item = list(names), rows, item
        self._tables = [  # how many items each row (a column) has of each class. [K, N]
            torch.sparse_coo_tensor(
                torch.from_numpy(np.stack((classes, of_rows))),
                torch.ones(len(of_rows), dtype=torch.float64),
                (len(names), rows),
                check_invariants=True,
            ).coalesce()
            for of_rows, classes in (hits, predicted, true)
        ]

    def __len__(self) -> int:
        return self._rows

    def counts(self, resample_counts: np.ndarray) -> Counts:
        """As `Counts`, of each resample. [S, N] → [S, K] each"""
        columns = torch.from_numpy(resample_counts.T.astype(np.float64))
        hits, predicted, true = (torch.sparse.mm(table, columns).T.numpy() for table in self._tables)
        return hits, predicted, true

    def per_class(self) -> dict[str, dict[str, float | None]]:
        """Precision, recall, F1 and support of each class, as `per_class`."""
        whole = self.counts(np.ones((1, len(self)), dtype=np.int64))
        return per_class(self.names, *(counts[0] for counts in whole))

    def report(self) -> PerClassReport:
        return PerClassReport(names=self.names, scores=self.per_class())

    def notes(self) -> list[str]:
        """On classes whose precision, recall or F1 is not defined."""
        scores = self.per_class()
        unseen = [name for name, row in scores.items() if row["f1"] is None]
        never_true, never_predicted = (
            [name for name, row in scores.items() if row[of] is None and name not in unseen]
            for of in ("recall", "precision")
        )
        effect = "left out of the macro means" if self.LEFT_OUT else "counts as 0 in the macro means"
        undefined = "is not defined there and counts as 0 in"
        notes = (
            (unseen, f"no {self.item} is %s, and none was predicted to be: {effect}"),
            (never_true, f"no {self.item} is %s: recall {undefined} the macro mean"),
            (never_predicted, f"never predicted: %s: precision {undefined} {self.MEANS}"),
        )
        return [note % _listed(classes) for classes, note in notes if classes]


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" … ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def confusion_matrix(true: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    """How often each class (a row) was taken for each (a column).

    Args:
        true, predicted: their numbers [n]
    """
    table = np.bincount(true * classes + predicted, minlength=classes * classes)
    matrix: list[list[int]] = table.reshape(classes, classes).tolist()
    return matrix


class ClassificationScores(PrecisionRecallScores):
    """One class of several, of each row or of each word of a row.

    A class that is neither true nor predicted for any row is left out of the macro mean.

    Args:
        names: of the classes, by number
        true, predicted: their numbers. [n]
        rows: which row each word is of; None = a row has one class. [n]
    """

    def __init__(
        self, names: Sequence[str], true: np.ndarray, predicted: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        self.true, self.predicted = true, predicted
        item, rows = ("row", np.arange(len(true))) if rows is None else ("word", rows)
        hit = true == predicted
        super().__init__(
            names,
            int(rows[-1]) + 1 if len(rows) else 0,
            item,
            true=(rows, true),
            predicted=(rows, predicted),
            hits=(rows[hit], true[hit]),
        )
        self.methods = {"accuracy": by_sklearn(), **average_methods(), "matthews": by_sklearn("matthews_corrcoef")}

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        hits, predicted, true = self.counts(resample_counts)
        averaged = averages(hits, predicted, true, seen=predicted + true > 0)
        main = {"f1_weighted": averaged.pop("f1_weighted"), "accuracy": hits.sum(-1) / true.sum(-1)}
        return {**main, **averaged, "matthews": matthews(hits, predicted, true)}

    def reference_scores(self) -> dict[str, float]:
        if reference("sklearn.metrics", "scikit-learn") is None:
            return {}
        return {
            "accuracy": float(sklearn().accuracy_score(self.true, self.predicted)),
            **sklearn_averages(self.true, self.predicted),
            # Of a single class scikit-learn gives 0 too, with a warning.
            "matthews": float(sklearn().matthews_corrcoef(self.true, self.predicted)) if self._several() else 0.0,
        }

    def _several(self) -> bool:
        return len(np.union1d(self.true, self.predicted)) > 1

    def confusion_matrix(self) -> list[list[int]]:
        return confusion_matrix(self.true, self.predicted, len(self.names))

    def report(self) -> PerClassReport:
        return PerClassReport(names=self.names, scores=self.per_class(), confusion=self.confusion_matrix())


class MultiLabelScores(PrecisionRecallScores):
    """Any number of labels for each row.

    subset_accuracy is the share of the rows of which every label is right. A label that is neither true nor predicted
    for any row counts as 0 in the macro mean.

    Args:
        names: of the labels, by number
        true, predicted: whether each holds. [N, K] bool
    """

    LEFT_OUT = False

    def __init__(self, names: Sequence[str], true: np.ndarray, predicted: np.ndarray) -> None:
        self.true, self.predicted = true, predicted
        super().__init__(
            names,
            len(true),
            "row",
            true=np.nonzero(true),
            predicted=np.nonzero(predicted),
            hits=np.nonzero(true & predicted),
        )
        self._all_right = (true == predicted).all(-1).astype(np.float64)
        self.methods = {"subset_accuracy": by_sklearn("accuracy_score"), **average_methods()}

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        hits, predicted, true = self.counts(resample_counts)
        averaged = averages(hits, predicted, true, seen=np.ones_like(true, dtype=bool))
        subset_accuracy = resample_counts @ self._all_right / resample_counts.sum(-1)
        return {"f1_micro": averaged.pop("f1_micro"), "subset_accuracy": subset_accuracy, **averaged}

    def reference_scores(self) -> dict[str, float]:
        if reference("sklearn.metrics", "scikit-learn") is None:
            return {}
        # A single label makes a column, which scikit-learn takes for two classes: yes, which counts, and no.
        alone = len(self.names) == 1
        true, predicted = (x.ravel() if alone else x for x in (self.true, self.predicted))
        return {
            "subset_accuracy": float(sklearn().accuracy_score(true, predicted)),
            **sklearn_averages(true, predicted, labels=[True] if alone else None),
        }
