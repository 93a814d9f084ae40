"""Retrieval metrics: recall at k and the mean reciprocal rank (MRR) of candidates that are ranked for queries.

    query     candidates, best first        rank of the best of its own     recall@1     reciprocal rank
    a         t  u  v                       t is its own: 1                 1            1
    b         u  t  v                       t and v are: 2                  0            0.5

Source: recall at k: Karpathy and Fei-Fei 2015, section 4.1; MRR@10: Bajaj et al. 2016, "MS MARCO", section 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.tasks.metrics.metric import Bootstrap, BootstrapMeans
from glassformer.tasks.metrics.scikit_learn import by_sklearn, reference, sklearn

TOP_KS = (1, 5, 10)
"""The ranks at which recall is published."""
MRR_DEPTH = 10
TOP_CANDIDATES = 5
"""Candidates of a ranking whose probabilities a prediction holds."""
SCORED_AT_ONCE = 512
"""Queries whose scores with all candidates are in memory together."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of one query, such as all texts for an image.

    rank: of the best of its own, from 1; candidates of the same score come before it
    probabilities: of the best few
    losses: -log of the probability of each of its own
    """

    rank: int
    probabilities: dict[Hashable, float]
    losses: dict[Hashable, float]


def rank_pairs(
    queries: Tensor,
    query_keys: Sequence[Hashable],
    candidates: Tensor,
    candidate_keys: Sequence[Hashable],
    scale: float,
) -> dict[Hashable, Ranking]:
    """Rank all candidates for each query by their dot product; equal keys are one thing.

    Row i of both is a pair; candidates beyond the queries belong to none, and are ranked with the others.

    Args:
        queries, candidates: vectors, of length 1 where they are compared by cosine [N, E], [N or more, E]
        scale: of dot products, for probabilities
    """
    own: dict[Hashable, set[Hashable]] = defaultdict(set)
    for query, candidate in zip(query_keys, candidate_keys, strict=False):
        own[query].add(candidate)
    rows, columns = ({key: i for i, key in reversed(list(enumerate(keys)))} for keys in (query_keys, candidate_keys))
    names, among = list(own), list(dict.fromkeys(candidate_keys))
    places = {key: place for place, key in enumerate(among)}
    pool = candidates[[columns[key] for key in among]]
    ranked: dict[Hashable, Ranking] = {}
    for start in range(0, len(names), SCORED_AT_ONCE):
        chunk = names[start : start + SCORED_AT_ONCE]
        scores = queries[[rows[key] for key in chunk]] @ pool.T  # [chunk, candidates]
        logs = (scale * scores).log_softmax(-1)
        best = scores.topk(min(TOP_CANDIDATES, len(among))).indices.tolist()
        for key, row, log, first in zip(chunk, scores, logs, best, strict=True):
            mine = sorted(places[each] for each in own[key])
            right = row[mine]
            rank = int((row >= right.max()).sum()) - int((right >= right.max()).sum()) + 1
            losses = {among[place]: -float(log[place]) for place in mine}
            ranked[key] = Ranking(rank, {among[place]: float(log[place].exp()) for place in first}, losses)
    return ranked


def reciprocal_ranks(ranks: np.ndarray) -> np.ndarray:
    """1 / rank, and 0 beyond the first ten. [N]"""
    return np.where(ranks <= MRR_DEPTH, 1 / ranks, 0.0)


def ranking_scores(ranks: Sequence[int]) -> dict[str, float]:
    """Recall at each k and MRR@10 of the ranks of queries."""
    array = np.array(ranks)
    recalls = {f"recall@{k}": float((array <= k).mean()) for k in TOP_KS}
    return {**recalls, f"mrr@{MRR_DEPTH}": float(reciprocal_ranks(array).mean())}


def ranking_bootstrap(ranks: Sequence[int]) -> BootstrapMeans:
    """The same scores, for any resample of the queries."""
    array = np.array(ranks)
    recalls = {f"recall@{k}": (array <= k).astype(np.float64) for k in TOP_KS}
    how = "of the best text of its own among all texts of the rows that were evaluated"
    methods = dict.fromkeys(recalls, f"share of rows with a rank of at most k, {how}; numpy {np.__version__}")
    mrr = f"mrr@{MRR_DEPTH}"
    methods[mrr] = f"mean of 1 / rank, 0 beyond {MRR_DEPTH}, {how}; numpy {np.__version__}"
    return BootstrapMeans({**recalls, mrr: reciprocal_ranks(array)}, methods)


class AveragePrecisionScores(Bootstrap):
    """Average precision: precision at each rank of a true row, in the order of the predicted numbers; 1 at best.

        AP = Σ (recall_k - recall_{k-1}) · precision_k        rows of one number share a rank; 0 without a true row

    Args:
        true: 1 or 0 [N]
        predicted: [N]
    """

    def __init__(self, true: np.ndarray, predicted: np.ndarray) -> None:
        self.true, self.predicted = true.astype(np.float64), predicted.astype(np.float64)
        self.methods = {"average_precision": by_sklearn()}
        self._order = np.argsort(-self.predicted, kind="stable")
        falls = np.flatnonzero(np.diff(self.predicted[self._order]))
        self._last = np.append(falls, len(true) - 1)  # of each run of equal numbers

    def __len__(self) -> int:
        return len(self.true)

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        ordered = resample_counts[:, self._order]
        true = np.cumsum(ordered * self.true[self._order], axis=1)[:, self._last]
        shown = np.cumsum(ordered, axis=1)[:, self._last]
        precision = np.divide(true, shown, out=np.zeros(true.shape), where=shown > 0)
        steps = np.diff(true, axis=1, prepend=0)
        total = np.maximum(true[:, -1], 1)
        return {"average_precision": (steps * precision).sum(1) / total}

    def reference_scores(self) -> dict[str, float]:
        if reference("sklearn.metrics", "scikit-learn") is None or not self.true.any():
            return {}
        return {"average_precision": float(sklearn().average_precision_score(self.true, self.predicted))}

    def notes(self) -> list[str]:
        return [] if self.true.any() else ["no row is true: no average precision is defined, and 0 is reported"]


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1. [N, E]"""
    return torch.nn.functional.normalize(vectors, dim=-1)
