"""Baselines of sentence embeddings: shared words, BM25, and the model that the training began with.

    pairs with a score    the share of their words that both texts have (Jaccard), and the model before training
    ranked texts          BM25 among the same texts, and the model before training

Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", section 3.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.tasks.classify.baselines import WORD
from glassformer.tasks.types import Baseline, Dataset, Prediction

if TYPE_CHECKING:
    from glassformer.tasks.base import Task
    from glassformer.tasks.embed import Embed

SATURATION, LENGTH_WEIGHT = 1.2, 0.75
"""k₁ and b of BM25, as most search engines have them."""


def baselines_of_task(task: Embed, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
    """Predictions for the same rows by what learns nothing from training rows."""
    yield (scored if task.kind.scored else ranked)(predictions)
    if task.initial_model is None:
        return
    try:
        before = type(task)(task.initial_model(), **task.given_options)
        known = _scored_by(before, predictions) if task.kind.scored else _ranked_by(before, predictions)
    except GlassformerError as error:  # a model that is no longer there
        warnings.warn(f"the model before training is no baseline: {error}", stacklevel=2)
        return
    yield Baseline("before training", "the model that the training began with", known)


def baselines_of_pairs(task: Task, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
    """What shared words say of pairs that a cross-encoder scores."""
    yield scored(predictions)


def _scored_by(task: Embed, predictions: Sequence[Prediction]) -> list[Prediction]:
    similarities = task.similarities([[x.row["text"], x.row["text_pair"]] for x in predictions])
    return [x.by_baseline(similarity, None) for x, similarity in zip(predictions, similarities, strict=True)]


def _ranked_by(task: Embed, predictions: Sequence[Prediction]) -> list[Prediction]:
    rankings = task.rankings([[x.row["text"], *x.details["texts"]] for x in predictions])
    known = []
    for x in predictions:
        ranking = rankings[x.row["text"]]
        best = next(iter(ranking.probabilities))
        known.append(x.by_baseline(best, ranking.rank == 1, rank=ranking.rank, texts=x.details["texts"]))
    return known


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return WORD.findall(text.lower())


def scored(predictions: Sequence[Prediction]) -> Baseline:
    """The share of the words of both texts that both have."""

    def overlap(x: Prediction) -> float:
        a, b = (set(words(x.row[side])) for side in ("text", "text_pair"))
        return len(a & b) / max(len(a | b), 1)

    return Baseline(
        "word overlap",
        "the share of the words of either text that both have",
        [x.by_baseline(overlap(x), None) for x in predictions],
    )


def ranked(predictions: Sequence[Prediction]) -> Baseline:
    """BM25: texts that share rare words with a query, often, and are short."""
    texts = list(dict.fromkeys(text for x in predictions for text in x.details["texts"]))
    index, places = BM25(texts), {text: place for place, text in enumerate(texts)}
    known = []
    for x in predictions:
        scores = index.scores(x.row["text"])
        right = scores[[places[text] for text in x.label]]
        rank = int((scores >= right.max()).sum() - (right >= right.max()).sum()) + 1
        best = texts[int(scores.argmax())]
        known.append(x.by_baseline(best, rank == 1, rank=rank, texts=x.details["texts"]))
    return Baseline("BM25", "texts that share rare words with the query (k₁ 1.2, b 0.75)", known)


class BM25:
    """An inverted index of texts, and the scores of all of them for a query.

    Args:
        texts: what is searched
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.count = len(texts)
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float64)
        norms = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * lengths / max(lengths.mean(), 1))
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, count in enumerate(counts):
            for word, times in count.items():
                postings[word].append((place, times))
        self._weights: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for word, entries in postings.items():
            places, times_each = np.array(entries).T
            rarity = math.log(1 + (self.count - len(entries) + 0.5) / (len(entries) + 0.5))
            self._weights[word] = places, rarity * times_each * (SATURATION + 1) / (times_each + norms[places])

    def scores(self, query: str) -> np.ndarray:
        """The score of each text. [texts]"""
        scores = np.zeros(self.count)
        for word in words(query):
            if word in self._weights:
                places, weights = self._weights[word]
                scores[places] += weights
        return scores
