"""Vector search (k-nearest neighbours): exact, or over int8, binary or shortened vectors with re-scoring.

    ExactVectors(ids, vectors).search(queries, k=10)                          every vector, in blocks
    QuantisedVectors(ids, vectors, "int8").search(queries, k=10)              half the memory of 16 bits
    QuantisedVectors(ids, vectors, "binary").search(queries, k=10)            a sixteenth
    QuantisedVectors(ids, vectors, "int8", dimensions=128)                    of the first 128 dimensions (Matryoshka)
    recall_curve(clustered, exact, queries, 10, "n_probe", [1, 4, 16])        what a faster search misses, and its time

Each search finds candidates in its own way, then computes their scores from the vectors in 16 bits, a row at a time in
64 bits. So a vector has the same score, bit for bit, in every search, wherever it is and whatever else is found; equal
scores are in the order of their ids.

Sources: Kusupati et al. 2022, "Matryoshka Representation Learning"; Yamada et al. 2021, "Efficient Passage Retrieval
with Hashing" (binary candidates, re-scored).
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import check_count, safe_repr
from glassformer.sentence_embeddings import quantized

MEASURES = ("cosine", "dot")
PRECISIONS = {"float16": 2, "int8": 4, "binary": 40}
"""Precision of a quantised search → how many candidates are re-scored for each result."""
QUERY_BLOCK, PIECE_ROWS, SCORED_ROWS = 64, 2_048, 65_536
"""Rows of a piece, converted to 32 bits, fit in the processor's cache."""
MARGIN = 16
"""Candidates beyond k: sums in 32 bits depend on where a row is, so the k-th by these may not be the k-th."""

VectorsOf = Callable[[np.ndarray], np.ndarray]
"""Maps ids [n] to their vectors [n, D] float16, from wherever they are stored; a row of NaN = the id is gone."""


class Neighbours(NamedTuple):
    """The nearest vectors of each query, the nearest first; id -1 and score -inf where fewer than k were found.

    scores: [Q, k] float32
    ids: [Q, k] int64
    """

    scores: np.ndarray
    ids: np.ndarray


class RecallPoint(NamedTuple):
    """A search with one value of its setting, compared with exact search.

    recall: of each query: the share of its k nearest vectors that was found. [Q]
    seconds: a query, asked alone: the median
    """

    value: int
    recall: np.ndarray
    seconds: float


class VectorSearch(ABC):
    """What every search over vectors does: check the queries, re-score candidates, and put them in order.

    ids: [N] int64
    vectors: in memory, or mapped from a file. [N, D] float16
    measure: "cosine", of vectors that have unit length already; or "dot"
    vectors_of: where vectors for re-scoring come from; None = `vectors`
    """

    def __init__(
        self, ids: np.ndarray, vectors: np.ndarray, measure: str = "cosine", vectors_of: VectorsOf | None = None
    ) -> None:
        ids, vectors = np.asarray(ids), np.asarray(vectors)
        numbers = "f" if vectors_of is None else "fi"
        if (
            vectors.ndim != 2
            or vectors.dtype.kind not in numbers
            or ids.shape != vectors.shape[:1]
            or ids.dtype.kind not in "iu"
        ):
            raise ConfigError(
                f"ids are {ids.dtype} of the shape {list(ids.shape)}, vectors {vectors.dtype} of the shape "
                f"{list(vectors.shape)}; give whole numbers [N] and floating-point vectors [N, D]"
            )
        if measure not in MEASURES:
            raise ConfigError(f"measure is {safe_repr(measure)}; allowed: {', '.join(MEASURES)}")
        check_count("dimension", vectors.shape[1])
        self.ids, self.vectors, self.vectors_of = ids.astype(np.int64, copy=False), vectors, vectors_of
        self.dimension, self.measure = vectors.shape[1], measure

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """Rows of vectors that may be among the k nearest; -1 = none. [Q, D] → [Q, candidates] int64"""

    def _vectors_at(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of candidates; a row of NaN = the vector is gone. [n] → [n, D]"""
        return np.asarray(self.vectors[rows] if self.vectors_of is None else self.vectors_of(self.ids[rows]))

    def search(self, queries: np.ndarray, k: int = 10) -> Neighbours:
        """The k nearest vectors of each query; all of them where k is more than there are.

        Args:
            queries: of any length; for cosine they are normalised. [Q, D]
        Raises: ConfigError: k below 1. DataError: queries, or vectors found, that are no vectors of finite numbers.
        """
        check_count("k", k)
        queries, k = self._checked(queries), min(k, len(self))
        scores = np.full((len(queries), k), -np.inf, np.float32)
        ids = np.full((len(queries), k), -1, np.int64)
        for start in range(0, len(queries) if k else 0, QUERY_BLOCK):
            keys = self._candidates(queries[start : start + QUERY_BLOCK], k)
            distinct = np.unique(keys[keys >= 0])
            vectors = self._vectors_at(distinct)
            if vectors.shape != (len(distinct), self.dimension):
                raise DataError(
                    f"vectors of {len(distinct)} ids have the shape {list(vectors.shape)}; give one each, of "
                    f"{self.dimension} dimensions"
                )
            for row, own in enumerate(keys, start):
                at = np.searchsorted(distinct, np.unique(own[own >= 0]))
                ranked = self._ranked(queries[row], self.ids[distinct[at]], vectors[at])
                count = min(k, len(ranked.ids))
                scores[row, :count], ids[row, :count] = ranked.scores[:k], ranked.ids[:k]
        return Neighbours(scores, ids)

    def _checked(self, queries: np.ndarray) -> np.ndarray:
        """Queries as float32, of unit length for cosine. [Q, D]"""
        given = np.asarray(queries)
        if given.ndim != 2 or given.shape[1] != self.dimension or given.dtype.kind != "f":
            raise DataError(
                f"queries are {given.dtype} of the shape {list(given.shape)}; they must be floating-point vectors "
                f"[Q, {self.dimension}], of the model that made the stored ones"
            )
        given = given.astype(np.float32)
        if not np.isfinite(given).all():
            raise DataError("a query holds NaN or an infinity; its text cannot be searched for")
        return unit(given) if self.measure == "cosine" else given

    def _ranked(self, query: np.ndarray, ids: np.ndarray, vectors: np.ndarray) -> Neighbours:
        """All of them, the best first, of equal ones the lowest id; without vectors that are gone. [n], [n]"""
        # Products, then sums of each row: a matrix product adds in an order that depends on where the row is.
        scores = (vectors.astype(np.float64) * query).sum(axis=1).astype(np.float32)
        ids, scores = ids[~np.isnan(scores)], scores[~np.isnan(scores)]
        order = np.lexsort((ids, -scores))
        return Neighbours(scores[order], ids[order])


class ExactVectors(VectorSearch):
    """Exact search (brute force): every vector, in blocks, so that memory does not grow with their number."""

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        rows = largest_products(pieces(self.vectors), queries, k + MARGIN)
        damaged = ~np.isfinite(rows.scores[:, 0])  # NaN counts as the largest number
        if damaged.any():
            vector = self.ids[rows.ids[damaged, 0][0]]
            raise DataError(f"the vector of id {vector} holds NaN or an infinity; make the vectors again")
        return rows.ids


class QuantisedVectors(VectorSearch):
    """Search over quantised vectors: int8 or binary, of all dimensions or the first ones; the best are re-scored.

    precision: "int8": 256 steps between the extremes of each dimension; "binary": whether a number is above 0;
        "float16": as it is, for fewer dimensions
    dimensions: of the vectors that are compared, the first (Matryoshka); None = all
    oversampling: candidates that are re-scored for each result; None = 4, for binary 40
    vectors_of: with it, `vectors` are quantised and do not stay in memory
    """

    def __init__(
        self,
        ids: np.ndarray,
        vectors: np.ndarray,
        precision: str = "int8",
        *,
        dimensions: int | None = None,
        oversampling: int | None = None,
        measure: str = "cosine",
        vectors_of: VectorsOf | None = None,
    ) -> None:
        super().__init__(ids, vectors, measure, vectors_of)
        if precision not in PRECISIONS:
            raise ConfigError(f"precision is {safe_repr(precision)}; allowed: {', '.join(PRECISIONS)}")
        self.precision = precision
        self.oversampling = PRECISIONS[precision] if oversampling is None else oversampling
        check_count("oversampling", self.oversampling)
        self.dimensions = self.dimension if dimensions is None else dimensions
        check_count("dimensions", self.dimensions)
        if self.dimensions > self.dimension:
            raise ConfigError(f"dimensions is {dimensions}; the vectors have {self.dimension}")
        parts = [self._shorter(self.vectors[:0]), *(value_ranges(self._shorter(x)) for _, x in blocks(self.vectors))]
        self._ranges = value_ranges(np.concatenate(parts))
        codes = [self._coded(block) for _, block in blocks(self.vectors)]
        self._codes = np.concatenate(codes) if codes else np.empty((0, self.dimensions), np.int8)
        if vectors_of is not None:
            self.vectors = self.vectors[:0]

    @property
    def nbytes(self) -> int:
        """Bytes of the quantised vectors."""
        return self._codes.nbytes

    def _shorter(self, vectors: np.ndarray) -> np.ndarray:
        """The first dimensions, as float32."""
        if self.dimensions == self.dimension:
            return vectors.astype(np.float32)
        return shortened(vectors, self.dimensions, normalise=self.measure == "cosine")

    def _coded(self, vectors: np.ndarray) -> np.ndarray:
        """int8 or float16, or bits, 64 a number. [n, D] → [n, d], [n, words]"""
        part = self._shorter(vectors)
        if self.precision == "float16":
            return part.astype(np.float16)
        if self.precision == "int8":
            return np.asarray(quantized(part, "int8", ranges=self._ranges))
        bits = quantized(part, "ubinary")
        return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        count = min(k * self.oversampling, len(self))
        if self.precision == "binary":
            return np.stack([self._nearest_bits(row, count) for row in self._coded(queries)])
        # A dimension is low + step · (level + 128.5): low and 128.5 add the same to every score of a query.
        steps = (self._ranges[1] - self._ranges[0]) / 255 if self.precision == "int8" else np.float32(1)
        return largest_products(pieces(self._codes), self._shorter(queries) * steps, count).ids

    def _nearest_bits(self, query: np.ndarray, count: int) -> np.ndarray:
        """Rows of the smallest Hamming distances, of equal ones the first. [words] → [count]"""
        distances = np.empty(len(self._codes), np.int64)
        for rows, block in blocks(self._codes, SCORED_ROWS):
            distances[rows] = _bit_count(block ^ query)
        farthest = int(np.searchsorted(np.bincount(distances).cumsum(), count))
        nearer = np.flatnonzero(distances < farthest)
        return np.concatenate([nearer, np.flatnonzero(distances == farthest)[: count - len(nearer)]])


def _bit_count(words: np.ndarray) -> np.ndarray:
    """Bits that are set in each row. [N, words] uint64 → [N]"""
    if hasattr(np, "bitwise_count"):  # from NumPy 2 on
        counts: np.ndarray = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        return counts
    table = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
    return np.asarray(table[words.view(np.uint8)].sum(axis=1, dtype=np.int64))


def shortened(vectors: np.ndarray, dimensions: int, *, normalise: bool = True) -> np.ndarray:
    """The first dimensions of vectors, of unit length again, for models trained for it (Matryoshka). [N, D] → [N, d]"""
    first = vectors[:, :dimensions].astype(np.float32)
    return unit(first) if normalise else first


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; those of length 0 as they are. [..., D]"""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))


def blocks(array: np.ndarray, rows: int = 16_384) -> Iterator[tuple[slice, np.ndarray]]:
    """An array, some rows at a time, and which these are."""
    for start in range(0, len(array), rows):
        yield slice(start, start + rows), array[start : start + rows]


def pieces(array: np.ndarray) -> Iterator[Tensor]:
    """An array in pieces for `largest_products`: int8 as it is, what else it is in float32. → [n, D]"""
    for _, block in blocks(array, PIECE_ROWS):
        own = block if block.flags.c_contiguous and block.flags.writeable else block.copy()  # what torch takes
        piece = torch.from_numpy(own)
        yield piece if piece.dtype == torch.int8 else piece.float()  # in a twentieth of the time that NumPy takes


def value_ranges(vectors: np.ndarray) -> np.ndarray:
    """The smallest and the largest number of each dimension. [N, D] → [2, D] float32"""
    parts = [(block.min(axis=0), block.max(axis=0)) for _, block in blocks(vectors)]
    if not parts:
        return np.zeros((2, vectors.shape[1]), np.float32)
    low, high = (np.stack(column).astype(np.float32) for column in zip(*parts, strict=True))
    return np.stack([low.min(axis=0), high.max(axis=0)])


def largest_products(parts: Iterable[Tensor], queries: np.ndarray, k: int) -> Neighbours:
    """Rows with the largest products with each query, of parts of a matrix; of equal ones the first.

    Products of int8 are sums in 32 bits, of queries that are rounded to int8 each: 20 times as fast as in float32.

    Args:
        parts: float32, or all int8; some rows each. [n, D]
        queries: float32. [Q, D]
    Returns: products (of int8: times a factor of each query), and numbers of the rows, as if the parts were one
        matrix; the largest first. [Q, min(k, N)]
    """
    columns = torch.from_numpy(np.ascontiguousarray(queries.T))
    largest = np.maximum(np.abs(queries).max(axis=1, keepdims=True, initial=0), np.finfo(np.float32).tiny)
    levels = torch.from_numpy(np.rint(queries / largest * 127).astype(np.int8)).T
    best, places = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    waiting: list[Tensor] = []
    seen = rows = 0

    def merge() -> None:
        nonlocal best, places, seen, rows
        here = torch.arange(seen, seen + rows).expand(len(queries), -1)
        # Earlier rows first: of equal numbers, the first is taken.
        best, taken = _largest(torch.cat([best, torch.cat(waiting).float().T], dim=1), k)
        places = torch.cat([places, here], dim=1).gather(1, taken)
        waiting.clear()
        seen, rows = seen + rows, 0

    for piece in parts:
        if piece.shape[0]:
            waiting.append(torch._int_mm(piece, levels) if piece.dtype == torch.int8 else piece @ columns)
        rows += piece.shape[0]
        if rows >= SCORED_ROWS:
            merge()
    if rows:
        merge()
    return Neighbours(best.numpy(), places.numpy())


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest numbers of each row, and where; of equal ones the first. [Q, N] → [Q, k], [Q, k]"""
    values, at = scores.topk(min(k, scores.shape[1]), dim=1)
    # `topk` takes any of those that equal the last; only a row where it had the choice is sorted as a whole.
    for row in ((scores >= values[:, -1:]).sum(1) > values.shape[1]).nonzero()[:, 0].tolist():
        at[row] = scores[row].sort(descending=True, stable=True).indices[: values.shape[1]]
    at = at.sort(dim=1).values
    values, order = scores.gather(1, at).sort(dim=1, descending=True, stable=True)
    return values, at.gather(1, order)


def recall(result: Neighbours, exact: Neighbours) -> np.ndarray:
    """Recall@k of each query: the share of its k nearest vectors, by exact search, that another search found. [Q]

    One that is as near as the k-th nearest counts: of equal vectors any may be among k.
    """
    if not exact.ids.shape[1] or result.ids.shape != exact.ids.shape:
        raise ConfigError(
            f"results of the shapes {list(result.ids.shape)} and {list(exact.ids.shape)} cannot be compared; "
            "search for the same queries, and for 1 vector or more each"
        )
    return np.asarray(((result.ids >= 0) & (result.scores >= exact.scores[:, -1:])).mean(axis=1))


def recall_curve(
    search: VectorSearch, reference: VectorSearch, queries: np.ndarray, k: int, setting: str, values: Sequence[int]
) -> list[RecallPoint]:
    """Recall@k and time of a search over values of one of its settings, compared with exact search.

    Args:
        search: such as `ClusteredVectors`; its own setting does not change
        reference: `ExactVectors` of the same vectors
        queries: [Q, D]
        setting: "n_probe", "oversampling" or "expansion"
    Raises: ConfigError: a setting that the search does not have.
    """
    if not isinstance(getattr(search, setting, None), int):
        raise ConfigError(f"{type(search).__name__} has no setting {safe_repr(setting)}")
    exact = reference.search(queries, k)
    points = []
    for value in values:
        check_count(setting, value)
        changed: Any = copy.copy(search)
        setattr(changed, setting, value)
        parts, seconds = [], []
        for query in queries:
            began = time.perf_counter()
            parts.append(changed.search(query[None], k))
            seconds.append(time.perf_counter() - began)
        result = Neighbours(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        points.append(RecallPoint(value, recall(result, exact), float(np.median(seconds))))
    return points
