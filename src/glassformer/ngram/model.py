"""N-gram language model: the probability of a word after the longest known end of what came before.

    log P(sat | the cat)    "the cat sat" is known:   its own
                            else:                     backoff(the cat) + log P(sat | cat), and so on to log P(sat)

Tables are sorted arrays, one an order, linked in two directions: an n-gram's key has the place of its first n - 1
words, and `suffixes` the place of its last n - 1. A state is the place of the longest known n-gram that ends here,
and a step to the next word or to a shorter state looks up one number.

Source: Katz 1987 for the form with back-off weights, in which every n-gram model can be stored.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.errors import DataError
from glassformer.ngram.counts import BEGIN_ID, CHUNK, END_ID, UNKNOWN_ID, WORD_BITS, key_of
from glassformer.reports.report import Report
from glassformer.reports.table import Table


@dataclass(frozen=True)
class NgramTable:
    """All n-grams of one order.

    keys: 2³² · place of the first n - 1 words in the order below + id of the last word, ascending. [N] int64
    log_probs: ln P(last word | first words) [N]
    backoffs: ln of what is left for words that never followed it [N]
    suffixes: place of the last n - 1 words in the order below [N] int32
    """

    keys: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray
    suffixes: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def prefixes(self) -> np.ndarray:
        """Place of the first n - 1 words in the order below. [N]"""
        prefixes: np.ndarray = self.keys >> WORD_BITS
        return prefixes

    @property
    def last_words(self) -> np.ndarray:
        """Id of the last word. [N]"""
        words: np.ndarray = self.keys & (2**WORD_BITS - 1)
        return words

    def find(self, prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The place of each n-gram, -1 where it is not known. [M], [M] → [M]"""
        if not len(self):
            return np.full(len(words), -1)
        keys = key_of(prefixes, words)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return np.where(self.keys[places] == keys, places, -1)


class NgramState(NamedTuple):
    """What the next word's probability depends on: the longest known n-gram that ends here. (0, 0) = nothing."""

    length: int
    place: int


@dataclass(frozen=True, repr=False)
class Perplexity(Report, kind="ngram-perplexity"):
    """How surprised a model is by texts.

    perplexity: exp of the mean -ln P of a word or an end of a text
    known: the same without unknown words
    words: how many are predicted, ends too
    unknown: how many of them are not in the vocabulary
    texts: how many
    """

    perplexity: float
    known: float
    words: int
    unknown: int
    texts: int

    def tables(self) -> list[Table]:
        """The perplexities, and what was read."""
        unknown = f"{self.unknown:,} ({self.unknown / max(self.words, 1):.2%})"
        row = [f"{self.perplexity:,.2f}", f"{self.known:,.2f}", f"{self.words:,}", unknown, f"{self.texts:,}"]
        return [Table(["perplexity", "of known words", "words", "unknown", "texts"], [row], left=0)]

    def remarks(self) -> list[str]:
        return ["words: ends of texts counted"]


class NgramModel:
    """An n-gram language model.

        model = NgramModel.load("talks.arpa")
        model.score("the cat sat".split())          ln P of the text and its end
        state = model.state(["the", "cat"])
        model.log_probs(state)                      of every word as the next one [V]

    Args:
        words: the vocabulary by id; `<unk>`, `<s>` and `</s>` are the first three
        tables: of 1-grams, by id, then of 2-grams, …
    """

    def __init__(self, words: Sequence[str], tables: Sequence[NgramTable]) -> None:
        self.words = list(words)
        self.tables = tuple(tables)
        self._id_of = {word: number for number, word in enumerate(self.words)}

    @property
    def order(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        sizes = " · ".join(f"{len(table):,} {n}-grams" for n, table in enumerate(self.tables, 1))
        return f"NgramModel({sizes})"

    def fingerprint(self) -> str:
        """Hash of its words and probabilities: ten hexadecimal digits."""
        digest = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        for table in self.tables:
            for column in (table.keys, table.log_probs, table.backoffs):
                digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()[:10]

    def ids(self, words: Iterable[str]) -> np.ndarray:
        """The id of each word, of `<unk>` where it is not in the vocabulary. [T] int64"""
        return np.fromiter((self._id_of.get(word, UNKNOWN_ID) for word in words), dtype=np.int64)

    def word_ids(self, length: int, places: np.ndarray) -> np.ndarray:
        """The words of n-grams of a length, by their places. [N] → [N, length]"""
        columns = []
        for table in reversed(self.tables[:length]):
            columns.append(table.last_words[places])
            places = table.prefixes[places]
        return np.stack(columns[::-1], axis=1)

    def __contains__(self, word: object) -> bool:
        return word in self._id_of

    def has_prefix(self, part: str) -> bool:
        """Whether a word of the vocabulary begins with this."""
        place = bisect_left(self._sorted_words, part)
        return place < len(self.words) and self._sorted_words[place].startswith(part)

    @cached_property
    def _sorted_words(self) -> list[str]:
        return sorted(self.words)

    # --------------------------------------------------------------------------------------- texts

    def score(self, words: Sequence[str], *, begin: bool = True, end: bool = True) -> float:
        """ln P of a text: of its words, and of its end.

        Args:
            begin: the text begins here, else it may continue from anywhere
            end: count the end of the text too.
        """
        ids = np.concatenate([[BEGIN_ID] * begin, self.ids(words), [END_ID] * end]).astype(np.int64)
        return float(np.nansum(self.log_probs_of(ids)))

    def log_probs_of(self, ids: np.ndarray) -> np.ndarray:
        """ln P of each word after those before it; texts are one after another. NaN for `<s>`. [T] → [T]"""
        begins = ids == BEGIN_ID
        log_probs: np.ndarray = self.tables[0].log_probs[ids].astype(np.float64)
        log_probs[begins] = np.nan
        places = ids
        for shorter, table in zip(self.tables, self.tables[1:], strict=False):
            before = np.concatenate([[-1], places[:-1]])
            before[begins] = -1
            known = before >= 0
            places = np.full(len(ids), -1)
            places[known] = table.find(before[known], ids[known])
            backed_off = known & (places < 0)
            log_probs[backed_off] += shorter.backoffs[before[backed_off]]
            log_probs[places >= 0] = table.log_probs[places[places >= 0]]
        return log_probs

    def perplexity(self, texts: Iterable[Sequence[str]]) -> Perplexity:
        """How surprised the model is by texts, each from its beginning to its end.

        Raises: DataError: no text.
        """
        total = unknown_total = 0.0
        words = unknown = count = 0
        for batch in _batches(texts):
            count += len(batch)
            ids = np.concatenate([[BEGIN_ID, *self.ids(text), END_ID] for text in batch]).astype(np.int64)
            log_probs = self.log_probs_of(ids)
            missing = ids == UNKNOWN_ID
            words += int((ids != BEGIN_ID).sum())
            unknown += int(missing.sum())
            total += float(np.nansum(log_probs))
            unknown_total += float(log_probs[missing].sum())
        if not count:
            raise DataError("the perplexity of no text; give at least one")
        return Perplexity(
            math.exp(-total / words), math.exp((unknown_total - total) / (words - unknown)), words, unknown, count
        )

    # -------------------------------------------------------------------------------------- states

    def state(self, words: Sequence[str], *, begin: bool = True) -> NgramState:
        """The state after these words, at the beginning of a text unless `begin` is False."""
        state = self.step(NgramState(0, 0), BEGIN_ID)[1] if begin else NgramState(0, 0)
        for word in self.ids(words).tolist():
            state = self.step(state, word)[1]
        return state

    def step(self, state: NgramState, word: int) -> tuple[float, NgramState]:
        """ln P of the word with this id after a state, and the state behind it."""
        backoff = 0.0
        length, place = state
        while length:
            longer = int(self.tables[length].find(np.array([place]), np.array([word]))[0])
            if longer >= 0:
                break
            table = self.tables[length - 1]
            backoff += float(table.backoffs[place])
            length, place = length - 1, int(table.suffixes[place])
        else:
            longer = word
        table = self.tables[length]
        log_prob = backoff + float(table.log_probs[longer])
        if length + 1 < self.order:
            return log_prob, NgramState(length + 1, longer)
        return log_prob, NgramState(length, int(table.suffixes[longer]))

    def log_probs(self, state: NgramState) -> np.ndarray:
        """ln P of every word of the vocabulary after a state. [V]"""
        chain = []
        length, place = state
        while length:
            chain.append((length, place))
            length, place = length - 1, int(self.tables[length - 1].suffixes[place])
        log_probs = self.tables[0].log_probs.astype(np.float64)
        for length, place in reversed(chain):
            table = self.tables[length]
            first, last = np.searchsorted(table.keys, key_of(np.array([place, place + 1]), np.zeros(2, np.int64)))
            log_probs += self.tables[length - 1].backoffs[place]
            log_probs[table.last_words[first:last]] = table.log_probs[first:last]
        return log_probs

    def entropy(self, state: NgramState) -> float:
        """Bits of the next word."""
        log_probs = self.log_probs(state)
        return float(-(np.exp(log_probs) * log_probs).sum() / math.log(2))


def _batches(texts: Iterable[Sequence[str]]) -> Iterable[list[Sequence[str]]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text) + 2
        if size >= CHUNK:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
