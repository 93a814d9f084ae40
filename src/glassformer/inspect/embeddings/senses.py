"""Word sense induction: occurrences clustered by their contextual embeddings or by a bag of words of their contexts.

Sources: silhouette: Rousseeuw 1987; purity: Manning, Raghavan and Schütze 2008, section 16.3.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError, import_optional
from glassformer.files import safe_repr
from glassformer.reports.report import Report
from glassformer.reports.table import Table

METHODS = ("kmeans", "agglomerative")
MAX_SENSES = 6
"""Largest number of clusters that is tried where none is asked for."""
MAX_AGGLOMERATIVE = 5_000
"""Points: the distances of all pairs are in memory, 200 MB in fp64."""
SILHOUETTE_SAMPLE = 5_000
"""At most this many points enter a silhouette, whose cost is quadratic."""


@dataclass(frozen=True, slots=True, repr=False)
class Senses(Report, kind="senses"):
    """Clusters of occurrences.

    clusters: the cluster of each, 0 the largest
    silhouette: mean, -1 to 1; above 0 clusters are apart
    purity: share of items whose label is the most frequent of their cluster; None without labels
    bag_of_words_purity: of the same clustering of tf-idf vectors of the contexts
    majority: of one cluster for all
    """

    clusters: np.ndarray
    count: int
    method: str
    silhouette: float
    purity: float | None = None
    bag_of_words_purity: float | None = None
    majority: float | None = None

    @property
    def caption(self) -> str:
        return f"{self.count} clusters ({self.method})"

    def tables(self) -> list[Table]:
        """Sizes of the clusters, and how far they are apart and follow the labels."""
        numbers = {
            "silhouette": self.silhouette,
            "purity": self.purity,
            "purity of a bag of words": self.bag_of_words_purity,
            "purity of one cluster": self.majority,
        }
        sizes = Counter(self.clusters.tolist())
        return [
            Table(["cluster", "occurrences"], [[str(i), f"{sizes[i]:,}"] for i in sorted(sizes)]),
            Table(["", ""], [[name, f"{x:.3f}"] for name, x in numbers.items() if x is not None]),
        ]


def cluster_senses(
    vectors: np.ndarray,
    contexts: Sequence[str],
    labels: Sequence[str] | None,
    *,
    count: int | None = None,
    method: str = "kmeans",
    seed: int = 0,
) -> Senses:
    """Cluster vectors by direction.

    Args:
        contexts: the text around each
        labels: true senses
        count: None = of labels, else by the best silhouette
    Raises: DataError: fewer than three vectors, or all identical. ConfigError: no such method or number of clusters.
    """
    if method not in METHODS:
        raise ConfigError(f"method is {safe_repr(method)}; allowed: {', '.join(METHODS)}")
    if method == "agglomerative" and len(vectors) > MAX_AGGLOMERATIVE:
        raise ConfigError(
            f"agglomerative clustering compares all pairs, of at most {MAX_AGGLOMERATIVE:,} occurrences; these are "
            f"{len(vectors):,}: take kmeans"
        )
    distinct = len(np.unique(vectors.round(6), axis=0))
    if distinct < 3:
        raise DataError(
            f"{len(vectors)} occurrences with {distinct} different vectors cannot be clustered; at least 3 must differ"
        )
    most = min(distinct, len(vectors) - 1)
    if count is not None and not 2 <= count <= most:
        raise ConfigError(f"{count} senses of {len(vectors)} occurrences; there may be 2 to {most}")
    if count is None and labels is not None:
        count = min(max(len(set(labels)), 2), most)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    tried = [count] if count else range(2, min(MAX_SENSES, most) + 1)
    results = [(each, _clusters(unit, each, method, seed)) for each in tried]
    scored = [(_silhouette(unit, clusters, seed), number, clusters) for number, clusters in results]
    silhouette, number, clusters = max(scored, key=lambda each: each[0])
    order = {cluster: rank for rank, (cluster, _) in enumerate(Counter(clusters.tolist()).most_common())}
    senses = Senses(np.array([order[x] for x in clusters.tolist()]), number, method, silhouette)
    if labels is None:
        return senses
    bag = _clusters(_bag_of_words(contexts), number, method, seed)
    majority = max(Counter(labels).values()) / len(labels)
    return Senses(senses.clusters, number, method, silhouette, purity(clusters, labels), purity(bag, labels), majority)


def purity(clusters: Sequence[int] | np.ndarray, labels: Sequence[str]) -> float:
    """Σ over clusters of the count of their most frequent label / N."""
    members: dict[int, Counter[str]] = {}
    for cluster, label in zip(clusters, labels, strict=True):
        members.setdefault(int(cluster), Counter())[label] += 1
    return sum(max(counts.values()) for counts in members.values()) / len(labels)


def _clusters(unit: Any, count: int, method: str, seed: int) -> np.ndarray:
    cluster = _sklearn("cluster")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different points than clusters: the silhouette says as much
        if method == "kmeans":
            return np.asarray(cluster.KMeans(count, n_init=10, random_state=seed).fit_predict(unit))
        # Euclidean distances of unit vectors order pairs as cosines do, and a context without words has a place.
        dense = unit.toarray() if hasattr(unit, "toarray") else unit
        return np.asarray(cluster.AgglomerativeClustering(count, linkage="average").fit_predict(dense))


def _silhouette(unit: np.ndarray, clusters: np.ndarray, seed: int) -> float:
    if len(np.unique(clusters)) < 2:
        return -1.0
    size = SILHOUETTE_SAMPLE if len(unit) > SILHOUETTE_SAMPLE else None
    return float(
        _sklearn("metrics").silhouette_score(unit, clusters, metric="cosine", sample_size=size, random_state=seed)
    )


def _bag_of_words(contexts: Sequence[str]) -> Any:
    """tf-idf vectors, each of length 1, sparse; where no context has a word, they are all the same."""
    try:
        return _sklearn("feature_extraction.text").TfidfVectorizer().fit_transform(contexts)
    except ValueError:  # no word in any of them
        return np.ones((len(contexts), 1))


def _sklearn(module: str) -> Any:
    return import_optional(f"sklearn.{module}", "scikit-learn", "map", "clustering senses")
