"""Active learning: which texts to label next, by what a classifier is unsure of, by how much they differ, or by both.

    random             any
    least-confidence   the highest probability is lowest        1 − p₁
    margin             the two highest are nearest              1 − (p₁ − p₂)
    entropy            the probabilities are most even          −Σ p ln p
    core-set           farthest from all that are labelled, one after the other (k-centre, greedy)
    k-means            nearest to the centres of as many clusters
    both               k-means among the five times as many texts with the lowest margin

Before there is a classifier uncertainty is unknown: the first texts are random ones, or different ones where that
counts too. Each of several labels is a question with two answers; the mean over them counts.
Source: Settles 2009, "Active Learning Literature Survey", section 3.1; core-set: Sener and Savarese 2018, "Active
Learning for Convolutional Neural Networks: A Core-Set Approach"; both: Zhdanov 2019, "Diverse Mini-Batch Active
Learning".
Differs: Zhdanov weighs the texts of a cluster by their uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from glassformer.tasks.metrics.scikit_learn import sklearn

Strategy = Literal["random", "least-confidence", "margin", "entropy", "core-set", "k-means", "both"]
UNCERTAIN = ("least-confidence", "margin", "entropy", "both")
"""Strategies that ask a classifier."""
FILTER = 5
"""Of `both`: texts that clusters are made of, for each that is chosen."""
CANDIDATES = 2_000
"""Unlabelled texts that are looked at, a random sample: scoring all of many would take longer than learning."""
TINY = 1e-12


def choose_texts(
    texts: Sequence[str],
    labelled: np.ndarray,
    count: int,
    strategy: Strategy,
    draw: np.random.Generator,
    *,
    scores: Callable[[Sequence[str]], np.ndarray] | None,
    vectors: Callable[[Sequence[str]], np.ndarray],
    several: bool,
) -> np.ndarray:
    """The texts to label next.

    Args:
        labelled: indices of the texts that are. [M]
        count: how many are chosen
        scores: gives the probability of each label, by a classifier of the labelled texts; None = there is none
        vectors: sentence embeddings of texts, of length 1
        several: whether a text may have several labels
    Returns: indices of other texts. [count]
    """
    others = np.setdiff1d(np.arange(len(texts)), labelled)
    others = draw.permutation(others)[: max(CANDIDATES, count)]
    asked = strategy in UNCERTAIN and scores is not None
    if strategy == "random" or count >= len(others) or (strategy in UNCERTAIN[:3] and not asked):
        return others[:count]
    if asked:
        assert scores is not None
        measure = "margin" if strategy == "both" else strategy
        unsure = uncertainty(scores([texts[i] for i in others]), measure, several=several)  # type: ignore[arg-type]
        others = others[np.argsort(-unsure, kind="stable")]
        if strategy != "both":
            return others[:count]
        others = others[: FILTER * count]
    places = vectors([texts[i] for i in others])
    if strategy == "core-set":
        known = vectors([texts[i] for i in labelled]) if len(labelled) else None
        chosen = farthest(places, known, count)
    else:
        chosen = central(places, count, int(draw.integers(2**31)))
    return np.asarray(others[chosen])


def uncertainty(
    scores: np.ndarray, measure: Literal["least-confidence", "margin", "entropy"], *, several: bool
) -> np.ndarray:
    """How unsure a classifier is of each text; the higher, the less sure. [N, L] → [N]"""
    if several:
        scores = np.stack([scores, 1 - scores], -1)  # [N, L, 2]
    ranked = -np.sort(-scores, axis=-1)
    if measure == "least-confidence":
        unsure = 1 - ranked[..., 0]
    elif measure == "margin":
        unsure = 1 - (ranked[..., 0] - ranked[..., 1])
    else:
        unsure = -(ranked * np.log(np.maximum(ranked, TINY))).sum(-1)
    return np.asarray(unsure.mean(-1) if several else unsure)


def farthest(vectors: np.ndarray, centres: np.ndarray | None, count: int) -> np.ndarray:
    """Indices of vectors, each the farthest from the centres and from those before it.

    Args:
        vectors: of length 1. [N, D]
        centres: to be far from; None = there are none, and the first is the one nearest to the mean. [M, D]
    """
    chosen = list[int]()
    if centres is None:
        chosen.append(int(np.argmax(vectors @ vectors.mean(0))))
        centres = vectors[chosen]
    nearest = (vectors @ centres.T).max(1)  # the cosine to the nearest centre
    while len(chosen) < count:
        nearest[chosen] = np.inf
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return np.array(chosen)


def central(vectors: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Indices of the vectors that are nearest to the centres of as many clusters, each once. [count]"""
    clusters = sklearn("cluster", "active learning").KMeans(count, n_init=1, random_state=seed).fit(vectors)
    distances = clusters.transform(vectors)  # [N, count]
    chosen = list[int]()
    for cluster in range(count):
        distances[chosen] = np.inf  # where texts are alike, one would be the nearest to two centres
        chosen.append(int(np.argmin(distances[:, cluster])))
    return np.array(chosen)
