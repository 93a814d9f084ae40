"""Counts of every n-gram of a corpus, up to an order, in bounded memory.

    <s> the cat sat </s>        order 1    <s>  the  cat  sat  </s>
                                order 2    <s>→the   the→cat   cat→sat   sat→</s>
                                order 3    <s> the→cat   the cat→sat   cat sat→</s>

An n-gram is one number, 2³² · (place of its first n - 1 words among those of order n - 1) + (id of its last word). So
each order is counted by a pass over the text that sorts numbers, whatever the order; what does not fit in memory is
sorted in runs on disk, which are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
UNKNOWN_ID, BEGIN_ID, END_ID = 0, 1, 2
SPECIAL = (UNKNOWN, BEGIN, END)
WORD_BITS = 32  # of a key: the id of the last word; above it, the place of the others
MAX_NGRAMS = 2**31 - 1  # of an order: a place among them is an int32
MAX_WORD_BYTES = 1_000
"""Longer ones are data without spaces, such as base64, and each would be stored whole."""
CHUNK = 1 << 20  # words of the corpus at a time

Progress = Callable[[int], None]


@dataclass(frozen=True)
class OrderCounts:
    """The n-grams of one order.

    keys: places of first words and last word, ascending [N] int64
    counts: [N] int64
    """

    keys: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class NgramCounts:
    """Counts of n-grams.

    words: of the vocabulary, by id
    orders: of length 1, 2, …; the first has every word, by id
    """

    words: list[str]
    orders: list[OrderCounts]


def count_ngrams(
    texts: Iterable[Sequence[str]],
    order: int,
    folder: Path,
    *,
    min_count: int = 1,
    max_words: int | None = None,
    memory_bytes: int = 1 << 30,
    progress: Progress = lambda words: None,
) -> NgramCounts:
    """Count the n-grams of 1 to `order` words; each text is between `<s>` and `</s>`.

    Args:
        texts: their words; read once. `<s>` and `</s>` among them count as `<unk>`.
        folder: for files that are needed as long as the counts are
        min_count: words that are rarer become `<unk>`
        max_words: the most frequent this many stay; None = all
        memory_bytes: for sorting; the vocabulary comes on top
        progress: called with how many words more were read, once an order
    Raises: ConfigError: an order below 1. DataError: no text; a word that is empty or has white space; too many.
    """
    if order < 1:
        raise ConfigError(f"the order of an n-gram model is {order}; it must be at least 1, and 3 to 5 is usual")
    words, ids = _encode(texts, folder / "words", min_count, max_words, progress)
    orders = [OrderCounts(np.arange(len(words)), np.bincount(ids, minlength=len(words)))]
    np.asarray(ids).tofile(folder / "places")  # written first: a full disk would end the process at a mapped page
    places = np.memmap(folder / "places", np.int32, "r+")
    for n in range(2, order + 1):
        counter = SortedCounter(folder, f"order{n}", max(memory_bytes // 64, 1_000))
        for _, keys in _keys(ids, places):
            counter.add(keys)
            progress(CHUNK)
        orders.append(counter.counts())
        if n < order:
            _update(places, ids, orders[-1].keys)
    return NgramCounts(words, orders)


def _encode(
    texts: Iterable[Sequence[str]], path: Path, min_count: int, max_words: int | None, progress: Progress
) -> tuple[list[str], np.ndarray]:
    """The vocabulary, most frequent word first, and the ids of all texts, one after another, in a file. [T] int32"""
    number_of = {word: number for number, word in enumerate(SPECIAL)}
    frequency = np.zeros(0, dtype=np.int64)
    with open(path, "wb") as file:
        buffer: list[int] = []

        def flush() -> None:
            nonlocal frequency
            counted = np.bincount(np.array(buffer, dtype=np.int32), minlength=len(number_of))
            counted[: len(frequency)] += frequency
            frequency = counted
            np.array(buffer, dtype=np.int32).tofile(file)
            progress(len(buffer))
            buffer.clear()

        for text in texts:
            if isinstance(text, str):
                raise DataError(f"a text is {safe_repr(text[:40])}; give its words, such as text.split()")
            buffer.append(BEGIN_ID)
            for word in text:
                number = number_of.get(word)
                if number is None:
                    number = number_of[check_word(word)] = len(number_of)
                buffer.append(UNKNOWN_ID if number in (BEGIN_ID, END_ID) else number)
            buffer.append(END_ID)
            if len(buffer) >= CHUNK:
                flush()
        flush()
    if not frequency[BEGIN_ID]:
        raise DataError("an n-gram model needs at least one text; there is none")
    ids = np.memmap(path, dtype=np.int32, mode="r+")
    ordinary = np.arange(len(SPECIAL), len(number_of))
    by_frequency = ordinary[np.argsort(-frequency[ordinary], kind="stable")]
    stay = by_frequency[frequency[by_frequency] >= min_count][:max_words]
    new_id = np.zeros(len(number_of), dtype=np.int32)
    new_id[[BEGIN_ID, END_ID]] = BEGIN_ID, END_ID
    new_id[stay] = np.arange(len(SPECIAL), len(SPECIAL) + len(stay))
    for start in range(0, len(ids), CHUNK):
        ids[start : start + CHUNK] = new_id[ids[start : start + CHUNK]]
    words = list(number_of)
    return [*SPECIAL, *(words[number] for number in stay)], ids


def check_word(word: str) -> str:
    """The word, which one line of an ARPA file can hold.

    Raises: DataError: it is empty, has white space, is no Unicode, or is very long.
    """
    try:
        size = len(word.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or size > MAX_WORD_BYTES or word.split() != [word]:
        raise DataError(
            f"{safe_repr(word[:40])} is no word of an n-gram model: it must have 1 to {MAX_WORD_BYTES} bytes of UTF-8 "
            "and no white space"
        )
    return word


def _keys(ids: np.ndarray, places: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Chunk by chunk: positions where an n-gram ends, and its key, from the places of those one shorter."""
    for start in range(1, len(ids), CHUNK):
        end = min(start + CHUNK, len(ids))
        before, word = places[start - 1 : end - 1], ids[start:end]
        inside = (before >= 0) & (word != BEGIN_ID)  # a text does not go on in the next one
        yield start + np.flatnonzero(inside), key_of(before[inside], word[inside])


def key_of(places: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The number of an n-gram, from the place of its first words and the id of its last. [N], [N] → [N] int64"""
    keys: np.ndarray = (places.astype(np.int64) << WORD_BITS) | words
    return keys


def _update(places: np.ndarray, ids: np.ndarray, keys: np.ndarray) -> None:
    """From the places of n-grams that end at each position to those that are a word longer; -1 where there is none."""
    last, carry = -1, int(places[0])  # a chunk writes the place that the next one reads
    for start in range(1, len(ids), CHUNK):
        end = min(start + CHUNK, len(ids))
        before = np.concatenate([[carry], places[start : end - 1]])
        carry = int(places[end - 1])
        inside = (before >= 0) & (ids[start:end] != BEGIN_ID)
        longer = np.full(end - start, -1, dtype=np.int32)
        longer[inside] = np.searchsorted(keys, key_of(before[inside], ids[start:end][inside]))
        places[start:end] = longer
    places[0] = last


class SortedCounter:
    """How often each number was added, ascending, in bounded memory: sorted runs on disk, merged range by range.

    Args:
        folder, name: of the files
        limit: numbers in memory at a time
    """

    def __init__(self, folder: Path, name: str, limit: int) -> None:
        self._folder, self._name = folder, name
        self._limit = limit
        self._pending: list[OrderCounts] = []
        self._runs: list[OrderCounts] = []

    def add(self, numbers: np.ndarray) -> None:
        self._pending.append(OrderCounts(*np.unique(numbers, return_counts=True)))
        if sum(len(part.keys) for part in self._pending) >= self._limit:
            self._pending = [_merged(self._pending)]
            if len(self._pending[0].keys) >= self._limit // 2:
                self._spill()

    def _spill(self) -> None:
        path = self._folder / f"{self._name}.run{len(self._runs)}"
        self._runs.append(_stored([self._pending.pop()], path))

    def counts(self) -> OrderCounts:
        """All of them. Raises: DataError: more than fit."""
        if self._pending:
            self._pending = [_merged(self._pending)]
        if self._runs:
            if self._pending:
                self._spill()
            total = _stored(self._ranges(), self._folder / f"{self._name}.all")
        else:
            total = self._pending.pop() if self._pending else OrderCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        if len(total.keys) > MAX_NGRAMS:
            raise DataError(f"{len(total.keys):,} n-grams of one order; at most {MAX_NGRAMS:,} fit in a model")
        return total

    def _ranges(self) -> Iterable[OrderCounts]:
        """Ranges of numbers, ascending; each has at most `limit` entries in all runs together."""
        step = max(self._limit // (4 * len(self._runs)), 1)
        samples = np.sort(np.concatenate([run.keys[::step] for run in self._runs]))
        bounds = [*np.unique(samples[:: 2 * len(self._runs)])[1:], None]
        starts = [0] * len(self._runs)
        for bound in bounds:
            parts = []
            for i, run in enumerate(self._runs):
                end = len(run.keys) if bound is None else int(np.searchsorted(run.keys, bound))
                parts.append(OrderCounts(run.keys[starts[i] : end], run.counts[starts[i] : end]))
                starts[i] = end
            yield _merged(parts)


def _merged(parts: Sequence[OrderCounts]) -> OrderCounts:
    keys = np.concatenate([part.keys for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return OrderCounts(keys[first], np.add.reduceat(counts, first) if len(first) else counts)


def _stored(parts: Iterable[OrderCounts], path: Path) -> OrderCounts:
    """One after another in two files, which are mapped."""
    with open(f"{path}.keys", "wb") as keys, open(f"{path}.counts", "wb") as counts:
        for part in parts:
            part.keys.tofile(keys)
            part.counts.tofile(counts)
    return OrderCounts(np.memmap(f"{path}.keys", np.int64, "r"), np.memmap(f"{path}.counts", np.int64, "r"))
