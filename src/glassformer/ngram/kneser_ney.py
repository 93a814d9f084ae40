"""Interpolated Kneser-Ney: the probabilities of an n-gram model from counts.

    P(w | h) = (a(h w) - D(a(h w))) / Σ a(h ·)  +  γ(h) · P(w | h without its first word)
    γ(h)     = Σ D(a(h ·)) / Σ a(h ·)           what the discounts D left over

    a(g)     for the longest n-grams, and those that begin a text: how often g was seen
             else: after how many different words ("Francisco" is frequent, but after one word alone)

D depends on a, 1, 2, or 3 and more (modified Kneser-Ney), and is estimated from how many n-grams have a = 1, 2, 3, 4.
One-word probabilities are interpolated with 1 / V, from which unknown words have theirs.

Source: Kneser and Ney 1995; Chen and Goodman 1999, section 3; Heafield et al. 2013, section 3, for the beginnings of
texts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import disk_errors
from glassformer.ngram.counts import BEGIN_ID, NgramCounts, OrderCounts, Progress, count_ngrams
from glassformer.ngram.model import NgramModel, NgramTable

NEVER = -99.0 * np.log(10)
"""ln P of `<s>`, which is never predicted, by the custom of the ARPA format."""

Discounts = tuple[float, float, float]
FALLBACK: Discounts = (0.5, 1.0, 1.5)
"""Discounts where too few n-grams have small counts to estimate them, as in tiny corpora."""


def train_ngram(
    texts: Iterable[Sequence[str]],
    order: int = 3,
    *,
    min_count: int = 1,
    max_words: int | None = None,
    memory_bytes: int = 1 << 30,
    discounts: Sequence[Discounts] | None = None,
    folder: Path | None = None,
    progress: Progress = lambda words: None,
) -> NgramModel:
    """Train an n-gram model with interpolated, modified Kneser-Ney smoothing.

    Args:
        texts: the words of each; read once
        order: of the longest n-grams
        min_count, max_words, memory_bytes, progress: see `count_ngrams`
        discounts: for counts of 1, 2, and 3 or more, of each order; None = estimated
        folder: for temporary files of some 20 bytes a word and n-gram; None = the system's
    Raises: ConfigError, DataError: as `count_ngrams`; DataError: the disk is full.
    """
    counting = disk_errors(folder or tempfile.gettempdir(), DataError, "what is counted")
    with counting, tempfile.TemporaryDirectory(dir=folder) as temporary:
        counts = count_ngrams(
            texts,
            order,
            Path(temporary),
            min_count=min_count,
            max_words=max_words,
            memory_bytes=memory_bytes,
            progress=progress,
        )
        return estimate(counts, discounts)


def estimate(counts: NgramCounts, discounts: Sequence[Discounts] | None = None) -> NgramModel:
    """The model of these counts. Raises: ConfigError: discounts for another number of orders."""
    orders = counts.orders
    if discounts is not None and len(discounts) != len(orders):
        raise ConfigError(f"discounts for {len(discounts)} orders; the counts have {len(orders)}")
    suffixes = _suffixes(orders)
    adjusted = _adjusted_counts(orders, suffixes)
    tables: list[NgramTable] = []
    for n, order in enumerate(orders):
        seen = adjusted[n]
        three = discounts[n] if discounts is not None else estimated_discounts(seen)
        discount = np.array([0.0, *three])[np.minimum(seen, 3)]
        prefixes = order.keys >> 32 if n else np.zeros(len(order.keys), dtype=np.int64)
        histories = len(orders[n - 1].keys) if n else 1
        total = np.bincount(prefixes, seen, histories)
        with np.errstate(invalid="ignore"):
            left_over = np.bincount(prefixes, discount, histories) / total
        if n:
            log_left_over = np.zeros(histories)
            np.log(left_over, where=(total > 0) & (left_over > 0), out=log_left_over)
            tables[-1].backoffs[:] = np.where((total > 0) & (left_over <= 0), NEVER, log_left_over)
            lower = np.exp(tables[-1].log_probs.astype(np.float64))[suffixes[n]]
        else:
            lower = np.full(len(seen), 1 / (len(seen) - 1))  # all but <s>
        probs = (seen - discount) / total[prefixes] + left_over[prefixes] * lower
        log_probs = np.full(len(probs), NEVER)
        np.log(probs, where=probs > 0, out=log_probs)
        if n == 0:
            log_probs[BEGIN_ID] = NEVER
        tables.append(NgramTable(np.asarray(order.keys), log_probs, np.zeros(len(probs)), suffixes[n]))
    return NgramModel(counts.words, [_compact(table) for table in tables])


def _compact(table: NgramTable) -> NgramTable:
    return NgramTable(
        np.array(table.keys), table.log_probs.astype(np.float32), table.backoffs.astype(np.float32), table.suffixes
    )


def _suffixes(orders: Sequence[OrderCounts]) -> list[np.ndarray]:
    """The place of each n-gram without its first word, in the order below. [N] int32 each"""
    suffixes = [np.zeros(len(orders[0].keys), dtype=np.int32)]
    for n, order in enumerate(orders[1:], 1):
        prefixes, words = order.keys >> 32, order.keys & (2**32 - 1)
        shorter = suffixes[-1][prefixes].astype(np.int64) << 32 | words if n > 1 else words
        suffixes.append(np.searchsorted(orders[n - 1].keys, shorter).astype(np.int32))
    return suffixes


def _adjusted_counts(orders: Sequence[OrderCounts], suffixes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """a(g) of each n-gram: of those below the longest, after how many different words they occur. [N] each"""
    adjusted = []
    begins_text = np.arange(len(orders[0].keys)) == BEGIN_ID
    for n, order in enumerate(orders):
        if n:
            begins_text = begins_text[order.keys >> 32]
        seen = np.asarray(order.counts)
        if n + 1 < len(orders):
            different = np.bincount(suffixes[n + 1], minlength=len(order.keys))
            seen = np.where(begins_text, seen, different)
        adjusted.append(seen.copy())
    adjusted[0][BEGIN_ID] = 0
    return adjusted


def estimated_discounts(counts: np.ndarray) -> Discounts:
    """Discounts of counts of 1, 2, and 3 or more, from how many n-grams have counts 1 to 4 (Chen and Goodman 1999)."""
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(float)
    if not n[1:5].all():
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    one, two, three = (k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
    return (one, two, three) if 0 < one <= 1 and 0 < two <= 2 and 0 < three <= 3 else FALLBACK
