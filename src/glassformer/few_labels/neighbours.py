"""Nearest neighbours in embedding space: a text has the labels of the most similar labelled texts.

    scores     share of the k nearest labelled texts that have a label, by cosine; ties are broken by similarity
    labels     the first; of several: all that at least m of the k have
    k and m    by leaving each labelled text out in turn, which costs no label

Source: Cover and Hart 1967, "Nearest Neighbor Pattern Classification"; k and m: Tunstall et al. 2022, chapter 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Count, Doc, Schema
from glassformer.reports.table import Table
from glassformer.tasks.classify.scorer import TIE, NeighbourScores, SentenceVectors, TextScorer, neighbour_votes

SIZES = (1, 2, 3, 5, 7, 9, 12, 15, 20, 25, 30, 40, 50)


@dataclass(frozen=True, kw_only=True)
class NeighbourOptions(Schema):
    """Options of nearest neighbours."""

    k: Annotated[Count | None, Doc("Number of neighbours. Default: chosen by leaving each labelled text out.")] = None
    m: Annotated[
        Count | None, Doc("Of several labels: neighbours that must have one. Default: chosen in the same way.")
    ] = None


class NearestNeighbours(Method[NeighbourOptions]):
    """k nearest neighbours among the sentence embeddings of labelled texts."""

    OPTIONS = NeighbourOptions

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        vectors = self.setting.vectors(labelled.texts)
        given = self.options
        most = max(1, len(labelled) - 1)
        sizes = [min(given.k, len(labelled))] if given.k else [k for k in SIZES if k <= most]
        near = vectors @ vectors.T
        np.fill_diagonal(near, -np.inf)  # each text is left out of its own neighbours
        rows: list[list[float]] = []
        for k in sizes:
            votes = neighbour_votes(near, labelled.holds, min(k, most))
            needed = range(1, min(k, max(sizes)) + 1) if labelled.several else range(1, 2)
            if given.m and labelled.several:
                needed = range(given.m, given.m + 1)
            rows.append([f1_of(labelled, votes, m) for m in needed])
        self.grid = rows
        best = max(range(len(rows)), key=lambda i: max(rows[i]))
        self.k = sizes[best]
        self.m = (given.m or 1 + int(np.argmax(rows[best]))) if labelled.several else 1
        self._sizes, self._several = sizes, labelled.several
        self._score = NeighbourScores(vectors, labelled.holds, self.k)
        self.thresholds = (self.m - 0.5) / (self.k * (1 + TIE))
        return None

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self._score(self.setting.vectors(texts))

    def saved(self) -> TextScorer:
        return self.scorer(SentenceVectors(self.setting.vectors.model), self._score)

    def tables(self) -> list[Table]:
        """The F1 of each k and m, in colours."""
        width = max(map(len, self.grid))
        cells = [[f"{x:.3f}" for x in row] + [""] * (width - len(row)) for row in self.grid]
        low, high = min(map(min, self.grid)), max(map(max, self.grid))
        shades = [[(x - low) / max(high - low, 1e-9) for x in row] + [0.0] * (width - len(row)) for row in self.grid]
        headings = ["k", *(f"m = {m}" for m in range(1, width + 1))] if self._several else ["k", "accuracy"]
        chosen = f"k = {self.k}" + f", m = {self.m}" * self._several
        what = "micro F1" if self._several else "accuracy"
        return [
            Table(
                headings,
                [[str(k), *row] for k, row in zip(self._sizes, cells, strict=True)],
                f"Nearest neighbours: {what} of labelled texts, each left out in turn; chosen: {chosen}",
                shades=shades,
                folded=True,
            )
        ]


def f1_of(labelled: LabelledTexts, votes: np.ndarray, m: int) -> float:
    """Micro F1 of the labels with m votes; of a single label the accuracy of the one with most."""
    if not labelled.several:
        return float((votes.argmax(1) == labelled.classes).mean())
    predicted = votes > m - 0.5
    hits = (predicted & labelled.holds).sum()
    return float(2 * hits / max(predicted.sum() + labelled.holds.sum(), 1))
