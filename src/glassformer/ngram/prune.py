"""Entropy pruning: leave out the n-grams that change an n-gram model least.

Without h w, its probability is that of backing off, and the back-off weight of h changes for all other words. The
model's perplexity on text of its own grows by the factor exp D:

    D = -P(h) · { P(w|h) · [ln P(w|h') + ln α'(h) - ln P(w|h)]  +  [ln α'(h) - ln α(h)] · (1 - Σ known P(·|h)) }

h' is h without its first word, α and α' the back-off weights before and after. Source: Stolcke 1998. Each n-gram is
evaluated as if it alone were left out. Lower orders of Kneser-Ney are no marginals, so that its pruned models lose more
than others (Siivola et al. 2007): prune little, or train with a lower order.
"""

from __future__ import annotations

import numpy as np

from glassformer.errors import ConfigError
from glassformer.ngram.counts import BEGIN_ID, END_ID, key_of
from glassformer.ngram.model import NgramModel, NgramTable

SMALLEST = 1e-12
"""Probability that is left for unknown words below which a back-off weight is rounding error."""


def pruned(model: NgramModel, threshold: float) -> NgramModel:
    """A smaller model, without n-grams that raise its perplexity by less than a share, such as 1e-7.

    Words stay, and so do the beginnings and ends of n-grams that stay.

    Raises: ConfigError: a threshold that is negative or no number.
    """
    if not 0 <= threshold < 1:
        raise ConfigError(f"a pruning threshold is {threshold}; it must be from 0 (nothing) to below 1, such as 1e-8")
    stay = [np.ones(len(model.tables[0]), dtype=bool)]
    for n in range(1, model.order):
        stay.append(_perplexity_growth(model, n) >= threshold)
    for n in range(model.order - 1, 1, -1):
        table = model.tables[n]
        stay[n - 1][table.prefixes[stay[n]]] = True
        stay[n - 1][table.suffixes[stay[n]]] = True
    return NgramModel(model.words, _without(model.tables, stay))


def _history_log_probs(model: NgramModel, length: int) -> np.ndarray:
    """ln P of all words of each n-gram of a length, one after another; `<s>` is as frequent as `</s>`. [N]"""
    unigrams = model.tables[0].log_probs.astype(np.float64)
    unigrams[BEGIN_ID] = unigrams[END_ID]
    total = unigrams
    for table in model.tables[1:length]:
        total = total[table.prefixes] + table.log_probs
    return total


def _left_over(below: NgramTable, table: NgramTable, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """For each history: 1 - Σ of known words P(·|h), and the same of P(·|h'). [histories], [histories]"""
    places = np.arange(len(table)) if mask is None else np.flatnonzero(mask)
    prefixes = table.prefixes[places]
    own = np.bincount(prefixes, np.exp(table.log_probs[places].astype(np.float64)), len(below))
    lower = np.bincount(prefixes, np.exp(below.log_probs[table.suffixes[places]].astype(np.float64)), len(below))
    return 1 - own, 1 - lower


def _perplexity_growth(model: NgramModel, n: int) -> np.ndarray:
    """exp D - 1 of each n-gram in table `n`, whose histories are in the table before. [N]"""
    below, table = model.tables[n - 1], model.tables[n]
    own, lower = (np.maximum(x, SMALLEST) for x in _left_over(below, table))
    prefixes = table.prefixes
    log_prob = table.log_probs.astype(np.float64)
    log_lower = below.log_probs[table.suffixes].astype(np.float64)
    after = np.log(own[prefixes] + np.exp(log_prob)) - np.log(lower[prefixes] + np.exp(log_lower))
    before = below.backoffs[prefixes].astype(np.float64)
    change = np.exp(log_prob) * (log_lower + after - log_prob) + (after - before) * own[prefixes]
    return np.asarray(np.expm1(-np.exp(_history_log_probs(model, n)[prefixes]) * change))


def _without(tables: tuple[NgramTable, ...], stay: list[np.ndarray]) -> list[NgramTable]:
    """The tables with those that stay, links and back-off weights of their histories computed again."""
    smaller: list[NgramTable] = []
    new_place = [np.cumsum(mask) - 1 for mask in stay]
    for n, (table, mask) in enumerate(zip(tables, stay, strict=True)):
        prefixes = table.prefixes[mask]
        keys = key_of(new_place[n - 1][prefixes], table.last_words[mask]) if n else table.keys[mask]
        suffixes = new_place[n - 1][table.suffixes[mask]].astype(np.int32) if n else table.suffixes[mask]
        backoffs = table.backoffs[mask].copy()
        if n + 1 < len(tables):
            own, lower = _left_over(table, tables[n + 1], stay[n + 1])
            exact = (own > SMALLEST) & (lower > SMALLEST)
            weights = np.where(exact, np.log(np.maximum(own, SMALLEST) / np.maximum(lower, SMALLEST)), table.backoffs)
            changed = np.bincount(tables[n + 1].prefixes[~stay[n + 1]], minlength=len(table)) > 0
            backoffs = np.where(changed, weights, table.backoffs)[mask].astype(np.float32)
        smaller.append(NgramTable(keys, table.log_probs[mask], backoffs, suffixes))
    return smaller
