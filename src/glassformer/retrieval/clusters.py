"""k-means clusters (Lloyd's algorithm, k-means++), and vector search in the nearest of them (inverted file, IVF).

    centres = kmeans(vectors, 1_000)                     k points such that every vector is near to one of them
    ClusteredVectors(ids, vectors, n_probe=16).search(queries, k=10)

A search compares a query with the k centres, and then with the vectors of the `n_probe` nearest clusters alone. With
k = √N clusters, both take about √N comparisons for each cluster probed. What it misses are neighbours on the other side
of a border; `recall_curve` says how many, for each `n_probe`.

Sources: Lloyd 1982, "Least squares quantization in PCM"; Arthur and Vassilvitskii 2007, "k-means++"; Sivic and
Zisserman 2003, "Video Google" (inverted files of clusters).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files import check_count
from glassformer.retrieval.vectors import VectorSearch, blocks, largest_products, pieces, unit

SAMPLE_PER_CLUSTER, FIRST_PER_CLUSTER = 64, 8
"""Vectors that centres, and first centres, are computed from, for each: more change them little."""
ROUNDS = 20
LEAST_GAIN = 1e-4
"""A round that lowers the mean squared distance by less than this share is the last."""


def kmeans(
    vectors: np.ndarray,
    k: int,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
    on_round: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Centres of k clusters by Lloyd's algorithm: assign each vector to its nearest centre, move centres to the means.

    A centre to which no vector is assigned moves to the vector that is farthest from its own.

    Args:
        vectors: of more than 64 a cluster, a random sample is taken. [N, D], any floating-point type
        k: number of clusters, at most N
        on_round: called with the round and the mean squared distance to the nearest centre, which never grows
    Returns: float32. [k, D]
    Raises: ConfigError: more clusters than vectors.
    """
    check_count("k", k)
    check_count("rounds", rounds)
    if k > len(vectors):
        raise ConfigError(f"k is {k}; there are {len(vectors)} vectors, and each cluster needs one")
    draw = np.random.default_rng(seed)
    rows = np.sort(draw.choice(len(vectors), min(len(vectors), k * SAMPLE_PER_CLUSTER), replace=False))
    points = torch.from_numpy(np.asarray(vectors[rows], np.float32))
    some = draw.choice(len(points), min(len(points), max(k * FIRST_PER_CLUSTER, 1_000)), replace=False)
    centres = plus_plus(points[torch.from_numpy(some)], k, draw)
    before = math.inf
    for number in range(rounds):
        nearest, distances = assign(points, centres)
        error = float(distances.mean())
        if on_round is not None:
            on_round(number, error)
        if before - error <= LEAST_GAIN * error:
            break
        before = error
        centres = _means(points, nearest, distances, centres)
    return np.asarray(centres)


def plus_plus(points: Tensor, k: int, draw: np.random.Generator) -> Tensor:
    """First centres (k-means++): points, each drawn by its squared distance to those before, so that they start apart.

    [N, D] → [k, D]
    """
    taken = [int(draw.integers(len(points)))]
    squares = (points * points).sum(1)
    distances = torch.full_like(squares, math.inf)
    while len(taken) < k:
        last = points[taken[-1]]
        distances = torch.minimum(distances, (squares - 2 * (points @ last) + last @ last).clamp(min=0))
        distances[taken[-1]] = 0  # exactly: rounding may leave a little, and a point is no second centre
        sums = distances.double().cumsum(0)
        if sums[-1] > 0:
            position = torch.tensor(draw.random() * float(sums[-1]), dtype=sums.dtype)
            number = min(int(torch.searchsorted(sums, position, right=True)), len(points) - 1)
        else:  # all others are copies of centres
            number = int(draw.integers(len(points)))
        taken.append(number)
    return points[taken]


def assign(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each point, and the squared distance to it. [N, D], [k, D] → [N], [N]"""
    half = (centres * centres).sum(1) / 2
    parts = []
    for block in points.split(4_096):
        # |x - c|² = |x|² - 2 (x · c - |c|² / 2): the nearest centre has the largest of the numbers in brackets.
        largest, number = (block @ centres.T).sub_(half).max(dim=1)
        parts.append((number, ((block * block).sum(1) - 2 * largest).clamp_(min=0)))
    return torch.cat([number for number, _ in parts]), torch.cat([distance for _, distance in parts])


def _means(points: Tensor, nearest: Tensor, distances: Tensor, centres: Tensor) -> Tensor:
    """The means of clusters; empty ones get the points that are farthest from their centres. → [k, D]"""
    counts = torch.bincount(nearest, minlength=len(centres))
    sums = torch.zeros_like(centres).index_add_(0, nearest, points)
    means = sums / counts.clamp(min=1)[:, None]
    empty = (counts == 0).nonzero()[:, 0]
    means[empty] = points[distances.topk(len(empty)).indices]
    return means


class ClusteredVectors(VectorSearch):
    """Search in the nearest of k-means clusters: n_probe of them, of √N by default.

    vectors: copied, in the order of their clusters
    clusters: k; None = √N
    n_probe: how many clusters a query is compared with
    centres: of clusters made earlier, such as of a sample; None = made now. [k, D]
    seed: of the sample, and of the first centres
    """

    def __init__(
        self,
        ids: np.ndarray,
        vectors: np.ndarray,
        clusters: int | None = None,
        *,
        n_probe: int = 16,
        centres: np.ndarray | None = None,
        measure: str = "cosine",
        seed: int = 0,
    ) -> None:
        super().__init__(ids, vectors, measure)
        check_count("n_probe", n_probe)
        self.n_probe = n_probe
        if centres is None:
            count = max(1, math.isqrt(len(self))) if clusters is None else clusters
            centres = kmeans(self.vectors, count, seed=seed) if len(self) else np.zeros((1, self.dimension), np.float32)
        elif centres.ndim != 2 or centres.shape[1] != self.dimension:
            raise ConfigError(f"centres have the shape {list(centres.shape)}; they must be [k, {self.dimension}]")
        self.centres = np.asarray(centres, np.float32)
        self._directions = directions(self.centres, measure)
        order, self.starts = by_cluster(self.vectors, self.centres)
        self.ids, self.vectors = self.ids[order], self.vectors[order]

    def sizes(self) -> np.ndarray:
        """How many vectors each cluster has. [k]"""
        return np.diff(self.starts)

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        keys = np.full((len(queries), k), -1, np.int64)
        for row, clusters in enumerate(nearest_clusters(self._directions, queries, self.n_probe)):
            spans = [slice(self.starts[cluster], self.starts[cluster + 1]) for cluster in clusters]
            best = largest_products(
                chain.from_iterable(pieces(self.vectors[span]) for span in spans), queries[row : row + 1], k
            )
            places = np.concatenate([np.arange(span.start, span.stop) for span in spans])[best.ids[0]]
            keys[row, : len(places)] = places
        return keys


def by_cluster(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of vectors in the order of their nearest centres, and where those of each begin. → [N], [k + 1]"""
    targets, own = torch.from_numpy(centres), np.empty(len(vectors), np.int64)
    for rows, block in blocks(vectors):
        own[rows] = assign(torch.from_numpy(block.astype(np.float32)), targets)[0].numpy()
    order = np.argsort(own, kind="stable")
    return order, np.searchsorted(own[order], np.arange(len(centres) + 1))


def directions(centres: np.ndarray, measure: str) -> np.ndarray:
    """What queries are multiplied with to find their nearest clusters: for cosine, centres of unit length. [k, D]

    A mean of unit vectors is the shorter the wider its cluster is, and neighbours are as likely in a wide one.
    """
    return centres if measure == "dot" else unit(centres)


def nearest_clusters(directions: np.ndarray, queries: np.ndarray, count: int) -> np.ndarray:
    """The clusters that a search looks into, in the order of their numbers. [Q, count]"""
    if count >= len(directions):
        return np.tile(np.arange(len(directions)), (len(queries), 1))
    products = torch.from_numpy(queries) @ torch.from_numpy(directions).T
    return np.asarray(products.topk(count, dim=1).indices.sort(dim=1).values)
