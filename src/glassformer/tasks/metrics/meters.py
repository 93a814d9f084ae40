"""Figures that are added up pass by pass: how a model does, in memory that does not grow with the data.

    pass ──add──> state: sums ──figures──> accuracy, F1, …
                    └ the states of several processes are added, and then read in the same way

A meter knows its head, whose loss it adds up too, and the names of what the head says. A figure that would be 0 / 0
is 0, as with scikit-learn's `zero_division=0`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.tasks.microbatch import Pass


class Losses:
    """loss = Σ over its parts of (sum of losses / labels that count), exactly, however the data was cut into passes.

    Args: head: whose loss · parts: of what it consists, where that is more than one sum
    """

    def __init__(self, head: Head, parts: Sequence[str] = ("loss",)) -> None:
        self.head = head
        self.parts = tuple(parts)
        self.state: dict[str, Tensor] = {}
        for part in parts:
            self._keep(f"{part}.sum")
            self._keep(f"{part}.count")

    def _keep(self, name: str, *shape: int) -> None:
        self.state[name] = torch.zeros(shape, dtype=torch.float64)

    def add(self, output: Output, item: Pass) -> None:
        """What was said to one pass."""
        counts = self.head.counts(item.labels)
        with torch.no_grad():
            for part, total in self.head.sums(output, item.labels).items():
                self.state[f"{part}.sum"] += total.cpu().double()
                self.state[f"{part}.count"] += counts[part]

    def figures(self) -> dict[str, float]:
        """The mean loss.

        Raises: DataError: nothing that counts was added.
        """
        counts = [float(self.state[f"{part}.count"]) for part in self.parts]
        if not any(counts):
            raise DataError("there is nothing to judge: none of the examples has a label that counts")
        sums = (float(self.state[f"{part}.sum"]) for part in self.parts)
        return {"loss": sum(total / max(count, 1) for total, count in zip(sums, counts, strict=True))}


class Perplexity(Losses):
    """perplexity = exp(mean loss a token): among how many tokens the model is undecided, as if all were as likely.

    1 where it is certain and right, about the size of the vocabulary before it has learned anything. The mean is over
    tokens, not over texts or passes. `bits` is the same as bits a token: loss / ln 2.

    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks".
    """

    def figures(self) -> dict[str, float]:
        figures = super().figures()
        loss = figures["loss"]
        return {**figures, "perplexity": float(np.exp(min(loss, 700.0))), "bits": loss / math.log(2)}


class Classification(Losses):
    """accuracy, and F1 of one class of several, from the table of what was true against what was said.

                   said a   said b
        true a        5        1          precision of a = 5 / (5 + 2)      recall of a = 5 / (5 + 1)
        true b        2        9          F1 = 2 · hits / (times said + times true)

    f1_macro is the mean over classes, f1_weighted that by how often each is true, f1_micro counts all alike (and is the
    accuracy, where each example has one label). As in scikit-learn, a class that is neither true nor said of any
    example is left out of the macro mean; one that is true and never said has 0.

    Args: names: of the classes, by number
    """

    def __init__(self, head: Head, names: Sequence[str]) -> None:
        super().__init__(head)
        self.names = tuple(names)
        self._keep("confusion", len(names), len(names))

    def add(self, output: Output, item: Pass) -> None:
        super().add(output, item)
        said, true = counted_labels(output, item)
        classes = len(self.names)
        table = torch.bincount(true * classes + said, minlength=classes * classes)
        self.state["confusion"] += table.view(classes, classes).cpu()

    def figures(self) -> dict[str, float]:
        hits, said, true = self._counts()
        f1 = ratio(2 * hits, said + true)
        seen = said + true > 0
        return {
            **super().figures(),
            "accuracy": float(hits.sum() / true.sum()),
            "f1_macro": float(f1[seen].mean()),
            "f1_weighted": float((f1 * true).sum() / true.sum()),
            "f1_micro": float(2 * hits.sum() / (said + true).sum()),
        }

    def each(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and number of examples of each class."""
        return per_name(self.names, *self._counts())

    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = self.state["confusion"].numpy()
        return table.diagonal(), table.sum(0), table.sum(1)


class MultiLabel(Losses):
    """F1 where an example may have any number of labels, each said where its probability is above a half.

    f1_micro counts every yes alike; f1_macro is the mean over all labels, where one that is never true nor said has 0.

    Args: names: of the labels, by number
    """

    def __init__(self, head: Head, names: Sequence[str]) -> None:
        super().__init__(head)
        self.names = tuple(names)
        for name in ("hits", "said", "true"):
            self._keep(name, len(names))

    def add(self, output: Output, item: Pass) -> None:
        super().add(output, item)
        assert output.logits is not None and isinstance(item.labels, Tensor)
        said, true = output.logits > 0, item.labels > 0.5  # a logit of 0 is a probability of a half
        for name, yes in (("hits", said & true), ("said", said), ("true", true)):
            self.state[name] += yes.sum(0).cpu()

    def figures(self) -> dict[str, float]:
        hits, said, true = self._counts()
        return {
            **super().figures(),
            "f1_micro": float(ratio(2 * hits.sum(), (said + true).sum())),
            "f1_macro": float(ratio(2 * hits, said + true).mean()),
        }

    def each(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and number of examples of each label."""
        return per_name(self.names, *self._counts())

    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.state["hits"].numpy(), self.state["said"].numpy(), self.state["true"].numpy()


class Regression(Losses):
    """Mean squared error, and how far what is said rises and falls with what is true (Pearson's r, from -1 to 1).

    r = Σ(x - x̄)(y - ȳ) / √(Σ(x - x̄)² Σ(y - ȳ)²), from sums; 0 where one of both is constant.
    """

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._keep("sums", 7)  # 1, x, y, x², y², xy, (x - y)²

    def add(self, output: Output, item: Pass) -> None:
        super().add(output, item)
        assert output.logits is not None and isinstance(item.labels, Tensor)
        x, y = output.logits.flatten().cpu().double(), item.labels.flatten().cpu().double()
        self.state["sums"] += torch.stack([torch.ones_like(x), x, y, x * x, y * y, x * y, (x - y) ** 2]).sum(
            -1
        )

    def figures(self) -> dict[str, float]:
        figures = super().figures()
        count, x, y, xx, yy, xy, squares = self.state["sums"].tolist()
        spread, other = (max(square - total * total / count, 0.0) for square, total in ((xx, x), (yy, y)))
        # What is left of equal squares is rounding: sums of doubles are right to about 1e-15 of themselves.
        constant = spread <= 1e-13 * xx or other <= 1e-13 * yy
        r = 0.0 if constant else (xy - x * y / count) / math.sqrt(spread * other)
        return {**figures, "mse": squares / count, "pearson": min(max(r, -1.0), 1.0)}


def counted_labels(output: Output, item: Pass) -> tuple[Tensor, Tensor]:
    """The likeliest class and the true one, wherever a label counts. [n] each"""
    assert output.logits is not None and isinstance(item.labels, Tensor)
    true = item.labels.flatten()
    counts = true >= 0  # -100 does not
    return output.logits.flatten(0, -2)[counts].argmax(-1), true[counts]


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, and 0 for 0 / 0."""
    shares: np.ndarray = np.divide(part, whole, out=np.zeros_like(whole, dtype=np.float64), where=whole > 0)
    return shares


def per_name(
    names: Sequence[str], hits: np.ndarray, said: np.ndarray, true: np.ndarray
) -> dict[str, dict[str, float]]:
    """Precision = hits / said, recall = hits / true, their harmonic mean F1, and how many are true, by name."""
    columns = {
        "precision": ratio(hits, said),
        "recall": ratio(hits, true),
        "f1": ratio(2 * hits, said + true),
        "support": true,
    }
    return {
        name: {figure: float(column[i]) for figure, column in columns.items()} for i, name in enumerate(names)
    }
