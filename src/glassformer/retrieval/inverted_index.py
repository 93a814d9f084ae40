"""Inverted index for full-text search by BM25: for each term, the passages that have it, in a mapped file.

    write_inverted_index("words.bm25", ids, lengths, words, occurrences)      derived data: made again when stale
    index = InvertedIndex("words.bm25")                                       maps the file; reads what it searches
    index.best({term: (index.postings(term), idf)}, 10, mean_length)          rows of the ten best, exact scores

The scores of all passages are an array, to which the postings of a term are added at once. Terms come in the order of
their number of passages, rare ones first. A term adds at most its idf times the largest factor that it has in any
passage (MaxScore). Where the terms to come add less together than the k-th best passage has already, a passage with
none of the terms before cannot be among the best: from there on, terms are looked up for the passages that still can,
and their postings are not added. Sums are in 32 bits, and the passages that rounding could bring among the best are
scored again by the formula in 64 bits, so results are exact.

    rows [P], the passages of the postings · counts [P], how often each has its term (tf), 255 = see large
    · large [M, 2], postings and their tf · ids of passages [N] · their lengths [N] · text, all terms · text_ends [T]
    · ends of the postings of each term [T] · factors, the largest of each [T] · checks, checksums of the postings [T]

`mapped.py` has the form of the file.

Source: Turtle and Flood 1995, "Query evaluation: strategies and optimizations" (MaxScore); `bm25.py` has the formula.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.errors import DataError
from glassformer.files import as_path
from glassformer.retrieval.bm25 import K1, B
from glassformer.retrieval.mapped import damaged, map_arrays, write_arrays

KIND = "words, version 1"
SATURATED = 255
"""tf in a byte: this, or more."""
MAX_TERM = 32_768
"""Bytes of a term that FTS5 reads."""
TOGETHER = 1 << 20
"""Occurrences that are read together."""
ROUNDING = 2e-5
"""Relative error of a sum in 32 bits, at most: of 200 terms, each addition rounds by 6e-8."""
FREQUENT = 16
"""A term in more than 1 of so many passages is worth the time of finding out whether it can be skipped."""
LOOKUP = 16
"""Looking up a passage in the postings of a term takes the time of adding so many postings."""


# ------------------------------------------------------------------------------------------------------- writing


def write_inverted_index(
    path: str | Path,
    ids: np.ndarray,
    lengths: np.ndarray,
    words: Iterable[tuple[bytes, int, int]],
    occurrences: Iterable[int],
) -> None:
    """Write an inverted index, atomically: readers see the old file or the new one; one that has it open keeps it.

    Args:
        ids: of passages, rising. [N] int64
        lengths: their terms, counted with repetition. [N]
        words: terms in UTF-8, in the order of their bytes, each with the number of passages that have it, and how often
            they do
        occurrences: of the terms in this order, for each time that a passage has it, the id; rising for each term
    Raises: DataError: no passages, or numbers that contradict each other; the disk refuses.
    """
    path, occurrences = as_path(path), iter(occurrences)
    if not len(ids):
        raise DataError(f"{path}: an index needs 1 passage or more; search without one")
    ids, lengths = np.asarray(ids, np.int64), np.asarray(lengths, np.int64)
    norms, total = K1 * (1 - B + B * lengths / _mean(lengths)), np.zeros(len(ids), np.int64)
    text, text_sizes, sizes, times = _columns(words)
    ends = np.cumsum(sizes, dtype=np.int64)
    postings = int(ends[-1]) if len(ends) else 0
    rows, counts, start = np.empty(postings, np.int32), np.empty(postings, np.uint8), 0
    large, factors = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for some in _blocks(times):
        own, tf = _block(path, ids, sizes[some], times[some], occurrences)
        total += np.bincount(own, tf, len(ids)).astype(np.int64)
        saturated, span = np.flatnonzero(tf >= SATURATED), slice(start, start + len(own))
        large.append(np.stack([saturated + start, tf[saturated]], axis=1))
        factors.append(np.maximum.reduceat(tf / (tf + norms[own]), np.cumsum(sizes[some]) - sizes[some]))
        rows[span], counts[span], start = own, np.minimum(tf, SATURATED), span.stop
    if next(occurrences, None) is not None or not np.array_equal(total, lengths):
        raise DataError(f"{path}: the words of the passages do not add up to their lengths")
    arrays: dict[str, np.ndarray] = {
        "rows": rows, "counts": counts, "large": np.concatenate(large), "ids": ids, "lengths": lengths.astype(np.int32),
        "text": np.frombuffer(text, np.uint8), "text_ends": np.cumsum(text_sizes, dtype=np.int64), "ends": ends,
        # A bound is not below what it bounds, in 32 bits too.
        "factors": np.nextafter(np.concatenate(factors).astype(np.float32), np.float32(2)),
        "checks": np.fromiter((_checksum(rows[x:y], counts[x:y]) for x, y in pairwise(chain([0], ends))), np.int64),
    }  # fmt: skip
    write_arrays(path, KIND, arrays, unchecked=("rows", "counts"))


def _mean(lengths: np.ndarray) -> float:
    return max(float(lengths.mean()), 1e-9)


def _columns(words: Iterable[tuple[bytes, int, int]]) -> tuple[bytearray, np.ndarray, np.ndarray, np.ndarray]:
    """Terms end to end, and of each its bytes, its passages and its occurrences: logs have millions.

    Returns: text; three times [t] int64
    """
    text, columns = bytearray(), (array("q"), array("q"), array("q"))
    for term, size, count in words:
        text += term
        for column, value in zip(columns, (len(term), size, count), strict=True):
            column.append(value)
    text_sizes, sizes, times = (np.frombuffer(column, np.int64) for column in columns)
    return text, text_sizes, sizes, times


def _blocks(times: np.ndarray) -> Iterator[slice]:
    """Terms that have about as many occurrences together."""
    ends = np.flatnonzero(np.diff(np.cumsum(times, dtype=np.int64) // TOGETHER, append=-1)) + 1
    yield from (slice(start, stop) for start, stop in pairwise(chain([0], ends)))


def _block(
    path: Path, ids: np.ndarray, sizes: np.ndarray, times: np.ndarray, occurrences: Iterator[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Read the postings of some terms: their rows and tf. [p], [p]

    Args:
        sizes, times: how many passages have each, and how often they do. [t]
    Raises: DataError: they are not what the counts of the terms say.
    """
    total, starts, done, last = int(times.sum()), np.cumsum(times) - times, 0, -1
    places, passages = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while done < total:  # in pieces: "the" may stand in a million passages thirty times each
        read = np.fromiter(islice(occurrences, min(TOGETHER, total - done)), np.int64)
        if not len(read):
            break
        first = np.diff(read, prepend=last) != 0
        first[starts[(starts >= done) & (starts < done + len(read))] - done] = True
        at = np.flatnonzero(first)
        places.append(at + done)
        passages.append(read[at])
        last, done = int(read[-1]), done + len(read)
    place, passage = np.concatenate(places), np.concatenate(passages)
    rows = np.minimum(np.searchsorted(ids, passage), len(ids) - 1)
    counted = np.diff(np.searchsorted(place, starts), append=len(place))
    if done != total or not times.all() or not np.array_equal(ids[rows], passage) or (counted != sizes).any():
        raise DataError(f"{path}: the postings of the full-text index are not those that it counts")
    return rows, np.diff(place, append=done)


def _checksum(rows: np.ndarray, counts: np.ndarray) -> int:
    return zlib.crc32(counts.data, zlib.crc32(rows.data))


# ----------------------------------------------------------------------------------------------------- searching


class Postings(NamedTuple):
    """The passages that have a term.

    rows: rising. [p] int32
    counts: tf. [p]
    factor: the largest that a passage has, at the mean length of the index
    """

    rows: np.ndarray
    counts: np.ndarray
    factor: float

    def counts_at(self, rows: np.ndarray) -> np.ndarray:
        """tf of a term in some passages. [r] → [r] float64"""
        if not len(self.rows):
            return np.zeros(len(rows))
        rows = rows.astype(self.rows.dtype)  # or all postings would be copied in the type of `rows`
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[places] == rows, self.counts[places], 0).astype(np.float64)


class InvertedIndex:
    """Search by BM25 over an index file of `write_inverted_index`.

    path: the file; it is mapped, and may be replaced while it is searched
    ids: of its passages, rising. [N] int64
    lengths: of its passages, in terms. [N] int32
    mean_length: of its passages
    Raises: DataError: no such file, or one that is cut, damaged, or of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        # What a search reads of `rows` and `counts` is compared with the checksum of its term.
        _, arrays = map_arrays(self.path, (KIND,), unchecked=("rows", "counts"))
        self.ids, self.lengths = arrays["ids"], arrays["lengths"]
        self._rows, self._counts, self._large = arrays["rows"], arrays["counts"], arrays["large"]
        self._text, self._text_ends = arrays["text"].data, arrays["text_ends"]
        self._ends, self._factors, self._checks = arrays["ends"], arrays["factors"], arrays["checks"]
        self._verified, self.mean_length = np.zeros(len(self._ends), bool), _mean(self.lengths)
        self._norms: tuple[float, np.ndarray] = (0.0, np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def newest(self) -> int:
        """The largest id in the index: what came later is to be searched in another way."""
        return int(self.ids[-1])

    def holds(self, ids: np.ndarray) -> np.ndarray:
        """Which rows have one of some ids. [N] bool

        Args:
            ids: rising; those that the index lacks are left out
        """
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self) - 1)
        held = np.zeros(len(self), bool)
        held[rows[self.ids[rows] == ids]] = True
        return held

    def verify(self) -> None:
        """Compare all of the file with its checksums. Raises: DataError."""
        for number in range(len(self._ends)):
            self._of(number)

    def postings(self, term: str) -> Postings:
        """The passages that have a term, or one that begins with it where it ends with `*`.

        Raises: DataError: they differ from their checksum.
        """
        text = term.removesuffix("*").encode()[:MAX_TERM]
        first = self._place(text)
        if not term.endswith("*"):
            there = first < len(self._ends) and self._term(first) == text
            return self._of(first) if there else Postings(self._rows[:0], self._counts[:0], 0.0)
        last = self._place(text + b"\xff")  # which UTF-8 does not have
        parts = [self._of(number) for number in range(first, last)]
        if len(parts) == 1:
            return parts[0]
        rows, where = np.unique(np.concatenate([self._rows[:0], *(part.rows for part in parts)]), return_inverse=True)
        counts = np.concatenate([self._counts[:0], *(part.counts for part in parts)])
        return Postings(rows, np.bincount(where, counts, len(rows)), 1.0)

    def _place(self, text: bytes) -> int:
        """The number of the first term that is not before a text in the order of bytes."""
        return bisect_left(range(len(self._ends)), text, key=self._term)

    def _term(self, number: int) -> bytes:
        return bytes(self._text[self._text_ends[number - 1] if number else 0 : self._text_ends[number]])

    def _of(self, number: int) -> Postings:
        start, stop = self._ends[number - 1] if number else 0, self._ends[number]
        rows, counts = self._rows[start:stop], self._counts[start:stop]
        if not self._verified[number]:
            if _checksum(rows, counts) != self._checks[number]:
                raise damaged(self.path, "the postings of a term differ from their checksum")
            self._verified[number] = True
        some = slice(*np.searchsorted(self._large[:, 0], [start, stop]))
        if some.start < some.stop:
            counts = counts.astype(np.int64)
            counts[self._large[some, 0] - start] = self._large[some, 1]
        return Postings(rows, counts, float(self._factors[number]))

    def best(
        self,
        terms: Mapping[str, tuple[Postings, float]],
        limit: int,
        mean_length: float,
        allowed: np.ndarray | None = None,
        least: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best passages by BM25, and of equal scores those with the lowest ids.

        Args:
            terms: with their postings and their idf; scores are sums in this order
            mean_length: of the passages of the store, which may be others than those of the index
            allowed: which passages may be results; None = all. [N] bool
            least: passages below this score are left out
        Returns: rows [r] and scores [r] float64, the best first.
        """
        norms, few = self._all_norms(mean_length), None
        if allowed is not None:
            norms = np.where(allowed, norms, np.float32(np.inf))
            if np.count_nonzero(allowed) * LOOKUP < max((len(x.rows) for x, _ in terms.values()), default=0):
                few = np.flatnonzero(allowed)
        # A greater mean length raises a factor, at most in proportion; the bound is that of the index.
        longer = max(1.0, mean_length / self.mean_length)
        rows = _candidates(list(terms.values()), norms, limit, longer, least, few)
        scores = np.zeros(len(rows))
        for postings, idf in terms.values():
            tf = postings.counts_at(rows)
            scores += idf * (tf * (K1 + 1) / (tf + K1 * (1 - B + B * self.lengths[rows] / mean_length)))
        order = np.lexsort((rows, -scores))[:limit]
        order = order[scores[order] > least]
        return rows[order], scores[order]

    def _all_norms(self, mean_length: float) -> np.ndarray:
        """k₁ · (1 − b + b · length / mean length) of all passages. [N] float32"""
        if self._norms[0] != mean_length:
            slope = np.float32(K1 * B / mean_length)
            self._norms = (mean_length, self.lengths.astype(np.float32) * slope + np.float32(K1 * (1 - B)))
        return self._norms[1]


def _candidates(
    terms: list[tuple[Postings, float]],
    norms: np.ndarray,
    limit: int,
    longer: float,
    least: float,
    few: np.ndarray | None,
) -> np.ndarray:
    """The rows that may be among the best, rising: all that are, and few others.

    Args:
        terms: each with its idf
        norms: infinite where a row is not allowed. [N]
        longer: by which the mean length rose since the bounds of the factors were computed, at least 1
        least: rows below this score are left out
        few: the rows that are allowed, where it takes less time to look up the terms of each; None = add postings
    """
    ordered = sorted(terms, key=lambda term: len(term[0].rows))
    terms = [(postings, (K1 + 1) * idf) for postings, idf in ordered]
    bounds = [weight * min(1.0, postings.factor * longer) for postings, weight in terms]
    rest = [*np.cumsum(bounds[::-1])[::-1].tolist(), 0.0]  # what a term and those behind it add at most
    scores, number = np.zeros(len(norms), np.float32), 0
    if few is None:
        number, least = _add(scores, terms, norms, rest, limit, least)
        few = np.flatnonzero(scores > max(0.0, least * (1 - ROUNDING) - rest[number]))
    rows, partial = few, scores[few]
    for later, (postings, weight) in enumerate(terms[number:], number + 1):
        if len(rows) * LOOKUP < len(postings.rows):
            partial += _parts(postings.counts_at(rows), norms[rows], weight)
        else:
            scores.fill(0)
            scores[postings.rows] = _parts(postings.counts, norms[postings.rows], weight)
            partial += scores[rows]
        least = max(least, _least(partial, limit))
        still = partial >= least * (1 - ROUNDING) - rest[later]
        rows, partial = rows[still], partial[still]
    return rows


def _add(
    scores: np.ndarray,
    terms: list[tuple[Postings, float]],
    norms: np.ndarray,
    rest: list[float],
    limit: int,
    least: float,
) -> tuple[int, float]:
    """Add the postings of terms to the scores of their passages, until the others cannot choose passages.

    Args:
        terms: with their weights, the rare ones first
        rest: what each term and those behind it add at most
    Returns: how many terms were added, and the score that the best passages reach.
    """
    for number, (postings, weight) in enumerate(terms):
        # No passage has more than the terms before it add at most.
        if len(postings.rows) * FREQUENT > len(norms) and rest[number] < rest[0] - rest[number]:
            least = max(least, _least(scores[np.flatnonzero(scores > least)], limit))
        if rest[number] < least:
            return number, least
        places = postings.rows.astype(np.intp)
        np.add.at(scores, places, _parts(postings.counts, norms[places], weight))
    return len(terms), max(least, _least(scores[np.flatnonzero(scores > least)], limit))


def _parts(counts: np.ndarray, norms: np.ndarray, weight: float) -> np.ndarray:
    """What a term adds to the scores of passages. [r] float32"""
    tf = counts.astype(np.float32)
    norms += tf  # a copy
    np.divide(tf, norms, out=tf)
    tf *= np.float32(weight)
    return tf


def _least(scores: np.ndarray, limit: int) -> float:
    """The least of the best scores, which any other has to reach; 0 = there are not as many."""
    if len(scores) < limit:
        return 0.0
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit]) * (1 - ROUNDING)
