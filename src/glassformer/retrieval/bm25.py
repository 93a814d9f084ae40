"""BM25, the score of passages by the words that they share with a question, as every store has it.

    score = Σ over terms t    idf(t) · tf · (k₁ + 1) / (tf + k₁ · (1 − b + b · length / mean length))
    idf(t) = log((N − n(t) + 0.5) / (n(t) + 0.5))             N passages, n(t) of them with t; 10⁻⁶ instead of 0 or less

Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

K1, B = 1.2, 0.75
LEAST_IDF = 1e-6
"""Of terms in half of the passages or more, as FTS5 has it."""
MAX_QUERY_TERMS = 200
"""Of a long question, the rarest terms."""
TELLING_FROM = 100
"""Passages from which a term that half of them have tells nothing: of three, two may well have the word asked for."""


def inverse_frequency(total: int, count: int) -> float:
    """idf of BM25: how much a term tells that `count` of `total` passages have."""
    weight = math.log((total - count + 0.5) / (count + 0.5))
    return weight if weight > 0 else LEAST_IDF


def term_weights(passages: int, counts: Mapping[str, int]) -> dict[str, float]:
    """idf of the terms that are in a store, the rarest first.

    Args:
        passages: of the store
        counts: how many of them have each term
    """
    rarest = sorted((term for term in counts if counts[term]), key=counts.__getitem__)[:MAX_QUERY_TERMS]
    return {term: inverse_frequency(passages, counts[term]) for term in rarest}


def frequent_score(passages: int, weights: Iterable[float]) -> float:
    """The most that terms add which are in half of the passages or more; 0 = of few passages, these may tell much."""
    if passages < TELLING_FROM:
        return 0.0
    return (K1 + 1) * LEAST_IDF * sum(weight <= LEAST_IDF for weight in weights)


def telling(scored: list[tuple[int, float]], passages: int, weights: Iterable[float]) -> list[tuple[int, float]]:
    """Scored passages, without those that share frequent terms alone with a question, where others share more."""
    least = frequent_score(passages, weights)
    return [x for x in scored if x[1] > least] or scored


def scores_by_term(
    listed: Sequence[str], weights: Mapping[str, float], mean_length: float
) -> Iterator[tuple[str, int, float]]:
    """The terms of a question that a passage has: how often, and what they add to its score.

    Args:
        listed: all terms of the passage
        weights: idf of the terms of the question; one that ends with `*` stands for all that begin with it
        mean_length: of a passage, in terms
    """
    norm = K1 * (1 - B + B * len(listed) / mean_length)
    for term, weight in weights.items():
        prefix = term.removesuffix("*")
        tf = sum(x.startswith(prefix) for x in listed) if term.endswith("*") else listed.count(term)
        if tf:
            yield term, tf, weight * (tf * (K1 + 1) / (tf + norm))
