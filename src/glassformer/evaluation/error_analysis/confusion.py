"""Confusion matrix of predictions.

        predicted
true    anger  joy  love        a row: the true class · a column: the predicted class
anger     120    9     0        normalise="true": shares of each row, recall on the diagonal
joy         4  310    12        normalise="predicted": shares of each column, precision on the diagonal
love        1   64    51
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.errors import label_kind, scored_tokens
from glassformer.files import safe_repr
from glassformer.reports.charts import PairCounts
from glassformer.reports.report import Report
from glassformer.reports.table import Table, natural, percent
from glassformer.tasks.metrics.classes import confusion_matrix as count_pairs
from glassformer.tasks.types import Prediction

Normalise = Literal["true", "predicted"] | None

MAX_TERMINAL_CLASSES = 12
"""Maximum classes of a table; of more it has the pairs that are confused most."""
MAX_PAIRS = 12
"""Rows of the table of confused pairs: a screen without scrolling."""


@dataclass(frozen=True, repr=False)
class ConfusionMatrix(Report, kind="confusion-matrix"):
    """A confusion matrix.

    names: of the classes
    counts: rows are true classes, columns predicted ones. [C, C]
    unit: what is counted: rows, or words where these are tagged
    """

    names: list[str]
    counts: np.ndarray
    unit: Literal["rows", "words"] = "rows"

    def shares(self, normalise: Normalise = None) -> np.ndarray:
        """The counts, normalised by row ("true") or column ("predicted"); 0 for an empty one. [C, C]

        Raises: ConfigError: another value.
        """
        if normalise not in (None, "true", "predicted"):
            raise ConfigError(
                f"normalise is {safe_repr(normalise)}; it must be 'true' (shares of rows), 'predicted' (of columns) "
                "or None"
            )
        counts = self.counts.astype(np.float64)
        if normalise is None:
            return counts
        totals = counts.sum(1 if normalise == "true" else 0, keepdims=True)
        shares: np.ndarray = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
        return shares

    def pairs(self, top: int = MAX_PAIRS) -> list[tuple[str, str, int, float]]:
        """The most confused pairs: true class, predicted class, count, and its share of the true class."""
        counts = self.counts.copy()
        np.fill_diagonal(counts, 0)
        shares = self.shares("true")
        order = np.argsort(-counts, axis=None, kind="stable")[:top]
        cells = (np.unravel_index(position, counts.shape) for position in order)
        return [
            (self.names[i], self.names[j], int(counts[i, j]), float(shares[i, j])) for i, j in cells if counts[i, j]
        ]

    @property
    def title(self) -> str:
        return "Confusion matrix"

    def charts(self) -> list[PairCounts]:
        """The matrix."""
        return [PairCounts(self.title, self.names, self.counts.tolist(), self.unit)]

    def page_tables(self) -> list[Table]:
        """None: the matrix has its numbers and the pairs that are confused most."""
        return []

    def tables(self) -> list[Table]:
        """The matrix, shaded by shares of the true class; of many classes the pairs that are confused most."""
        if len(self.names) > MAX_TERMINAL_CLASSES:
            rows = [[true, predicted, f"{n:,}", percent(share)] for true, predicted, n, share in self.pairs()]
            caption = f"Confusion matrix of {len(self.names)} classes: confused most"
            return [Table(["true", "predicted", "count", "of the true class"], rows, caption, left=2)]
        shares = self.shares("true")
        signs = 2 * np.eye(len(self.names)) - 1  # right answers in one colour, confusions in the other
        counts = zip(self.names, self.counts.tolist(), strict=True)
        rows = [[name, *(f"{n:,}" for n in row)] for name, row in counts]
        return [Table(["true \\ predicted", *self.names], rows, "Confusion matrix", shades=(shares * signs).tolist())]


def confusion_matrix(records: Sequence[Prediction], names: Sequence[str] | None = None) -> ConfusionMatrix | None:
    """The confusion matrix of predictions, of tokens where these are tagged; None where rows have no one class.

    Args:
        names: of all classes, in order; where that is the alphabet's, numbers in them count; None = those that occur
    Raises: DataError: a class that `names` lacks.
    """
    kind = label_kind(records)
    if kind == "tags":
        pairs = [(tag, answer) for record in records for _, tag, answer, _ in scored_tokens(record)]
    elif kind == "classes":
        pairs = [(record.label, record.predicted) for record in records]
    else:
        return None
    occurring = {name for pair in pairs for name in pair}
    # as tags are numbered: O first, then type by type
    ordered = list(names or sorted(occurring, key=lambda x: (x != "O", x.partition("-")[2], x)))
    if ordered == sorted(ordered):  # not an order of a configuration: "class 2" is before "class 10"
        ordered.sort(key=natural)
    if unknown := sorted(occurring - set(ordered)):
        raise DataError(
            f"the predictions have the class {safe_repr(unknown[0])}, which is none of {', '.join(ordered[:10])}"
        )
    number = {name: i for i, name in enumerate(ordered)}
    true, predicted = np.array([(number[a], number[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2).T
    counts = np.array(count_pairs(true, predicted, len(ordered)))
    return ConfusionMatrix(ordered, counts, "words" if kind == "tags" else "rows")
