"""Approximate nearest-neighbour search (ANN): an index file of k-means clusters of int8 vectors, mapped, re-scored.

    write_approximate("vectors.ann", ids, vectors)                        derived data: made again when much has changed
    search = ApproximateVectors("vectors.ann", vectors_of)                maps the file; reads what it searches
    search.search(queries, k=10)                                          scores are those of the vectors in 16 bits

A query is compared with the centres of 4·√N clusters (inverted file, IVF), then with the int8 vectors of the nearest
ones, a 32-bit sum each, and the best of these are re-scored by the vectors that `vectors_of` gives. By default as many
clusters are probed as hold a tenth of the vectors, or 30,000 where that is more. Of a million sentence vectors of 384
dimensions that is a recall@10 of 0.984, from a file of 398 MB (docs/performance.md has the curve).

Of 100,000 vectors, a graph (HNSW, usearch) gives the same recall in 0.6 of the time, but takes three times as long to
build and a third more disk; faiss searches such clusters in half of the time. Both follow the numbers in a file
wherever they lead. Here only NumPy and torch read it, within the bounds of its arrays: damage can give a wrong number,
which a checksum of each part refuses when it is first read, and cannot crash the process.

    steps [D] · centres [k, D] · starts [k + 1] · ids [N] · checks, checksums of clusters [k]
    · codes [N, D], int8 vectors in the order of their clusters                      (`mapped.py` has the form)

Sources: Sivic and Zisserman 2003, "Video Google"; Jégou et al. 2011, "Product Quantization for Nearest Neighbor Search"
(inverted files with re-scoring); Malkov and Yashunin 2018 (HNSW, the alternative).
"""

from __future__ import annotations

import math
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from glassformer.errors import DataError
from glassformer.files import as_path, check_count
from glassformer.retrieval.clusters import by_cluster, directions, kmeans, nearest_clusters
from glassformer.retrieval.mapped import damaged, map_arrays, write_arrays
from glassformer.retrieval.vectors import (
    MEASURES,
    ExactVectors,
    VectorSearch,
    VectorsOf,
    blocks,
    largest_products,
    value_ranges,
)
from glassformer.sentence_embeddings import quantized

KINDS = {measure: f"vectors by {measure}, version 1" for measure in MEASURES}
SHARE, LEAST_PROBED = 0.1, 30_000
"""What is probed by default: this share of the vectors, and at least so many of them."""
ROUNDS = 8
"""Of k-means: later ones move few centres far."""
OVERSAMPLING = 4


def write_approximate(
    path: str | Path,
    ids: np.ndarray,
    vectors: np.ndarray,
    *,
    clusters: int | None = None,
    measure: str = "cosine",
    seed: int = 0,
) -> None:
    """Write an index of vectors, atomically: readers see the old file or the new one; one that has it open keeps it.

    Args:
        ids: from 0 up, each once. [N] int64
        vectors: in memory, or mapped. [N, D] float16
        clusters: None = 4·√N
        seed: of k-means
    Raises: DataError: no vectors, ids that are negative or repeated, vectors that are not finite; the disk refuses.
    """
    path = as_path(path)
    if not len(vectors):
        raise DataError(f"{path}: an index needs 1 vector or more; search without one")
    count = min(len(vectors), 4 * math.isqrt(len(vectors))) if clusters is None else clusters
    centres = _chained(kmeans(vectors, count, rounds=ROUNDS, seed=seed))
    ids = ExactVectors(ids, vectors, measure).ids  # checked
    if ids.min() < 0 or len(np.unique(ids)) < len(ids):
        raise DataError(f"{path}: ids must be whole numbers from 0 up, each of one vector")
    ranges = value_ranges(vectors)
    if not np.isfinite(ranges).all():
        raise DataError(f"{path}: a vector holds NaN or an infinity; make the vectors again")
    order, starts = by_cluster(vectors, centres)
    codes = np.empty(vectors.shape, np.int8)
    for rows, some in blocks(order):
        codes[rows] = quantized(vectors[some].astype(np.float32), "int8", ranges=ranges)
    arrays = {
        "steps": np.maximum(ranges[1] - ranges[0], 1e-12) / 255, "centres": centres, "starts": starts,
        "ids": ids[order], "codes": codes,
        "checks": np.array([zlib.crc32(codes[x:y].data) for x, y in pairwise(starts.tolist())], np.int64),
    }  # fmt: skip
    write_arrays(path, KINDS[measure], arrays, unchecked=("codes",))


def _chained(centres: np.ndarray) -> np.ndarray:
    """Centres in an order where each is near to the one before, so that many clusters probed lie next to each other."""
    unit, used = directions(centres, "cosine"), np.zeros(len(centres), bool)
    order = [0]
    while len(order) < len(centres):
        used[order[-1]] = True
        order.append(int(np.where(used, -np.inf, unit @ unit[order[-1]]).argmax()))
    return np.asarray(centres[order])


class ApproximateVectors(VectorSearch):
    """Approximate search over an index file of `write_approximate`.

    path: the file; it is mapped, and may be replaced while it is searched
    vectors: in 8 bits
    vectors_of: for re-scoring, in 16 bits
    n_probe: how many clusters a query is compared with; None = those of a tenth of the vectors, or of 30,000
    oversampling: candidates that are re-scored for each result
    Raises: DataError: no such file, or one that is cut, damaged, or of another version.
    """

    def __init__(
        self,
        path: str | Path,
        vectors_of: VectorsOf,
        *,
        n_probe: int | None = None,
        oversampling: int = OVERSAMPLING,
    ) -> None:
        self.path, self.oversampling = as_path(path), oversampling
        check_count("oversampling", oversampling)
        kind, arrays = map_arrays(self.path, KINDS.values(), unchecked=("codes",))
        measure = next(measure for measure in MEASURES if KINDS[measure] == kind)
        super().__init__(arrays["ids"], arrays["codes"], measure, vectors_of)
        self.steps, self.centres, self.starts = arrays["steps"], arrays["centres"], arrays["starts"]
        self.checks, self._codes = arrays["checks"], torch.from_numpy(self.vectors)
        self._directions = directions(self.centres, self.measure)
        self._verified = np.zeros(len(self.centres), bool)
        if n_probe is None:
            share = max(SHARE, LEAST_PROBED / len(self))
            n_probe = min(len(self.centres), math.ceil(share * len(self.centres)))
        check_count("n_probe", n_probe)
        self.n_probe = n_probe

    @property
    def newest(self) -> int:
        """The largest id in the index: what came later is to be searched in another way."""
        return int(self.ids.max())

    def verify(self) -> None:
        """Compare all of the file with its checksums. Raises: DataError."""
        for cluster in range(len(self.centres)):
            self._verify(cluster)

    def _verify(self, cluster: int) -> None:
        """Compare the vectors of a cluster with their checksum, when they are first read."""
        span = slice(self.starts[cluster], self.starts[cluster + 1])
        if not self._verified[cluster] and zlib.crc32(self.vectors[span].data) != self.checks[cluster]:
            raise damaged(self.path, f"the vectors of cluster {cluster} differ from their checksum")
        self._verified[cluster] = True

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        threads = torch.get_num_threads()
        # A search is some 200 products of 0.02 ms. Threads that wait for each other after each of them take longer, and
        # where other programs run on the cores, 20 times as long. The number is that of this thread.
        torch.set_num_threads(1)
        try:
            return self._nearest(queries, k * self.oversampling)
        finally:
            torch.set_num_threads(threads)

    def _nearest(self, queries: np.ndarray, count: int) -> np.ndarray:
        """The rows of the largest products in int8, of the vectors in the nearest clusters. → [Q, count]"""
        keys = np.full((len(queries), count), -1, np.int64)
        for row, clusters in enumerate(nearest_clusters(self._directions, queries, self.n_probe)):
            for cluster in clusters[~self._verified[clusters]].tolist():
                self._verify(cluster)
            # Clusters that follow each other are multiplied at once.
            breaks = np.flatnonzero(np.diff(clusters) > 1)
            firsts = self.starts[clusters[np.append(0, breaks + 1)]]
            lasts = self.starts[clusters[np.append(breaks, len(clusters) - 1)] + 1]
            parts = [self._codes[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
            # A dimension is low + step · (level + 128.5): low and 128.5 add the same to every score of a query.
            best = largest_products(parts, queries[row : row + 1] * self.steps, count).ids[0]
            ends = (lasts - firsts).cumsum()
            within = np.searchsorted(ends, best, side="right")
            keys[row, : len(best)] = lasts[within] + best - ends[within]
        return keys
