"""k-means: known clusters, rounds that never get worse, empty clusters; and search in the nearest clusters."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.retrieval.clusters import ClusteredVectors, _means, assign, kmeans, plus_plus
from glassformer.retrieval.vectors import ExactVectors, recall, recall_curve
from tests.retrieval.made import unit_vectors


def test_kmeans_finds_clusters_that_are_far_apart() -> None:
    draw = np.random.default_rng(0)
    true = draw.normal(size=(12, 6)) * 20
    points = (np.repeat(true, 50, axis=0) + draw.normal(size=(600, 6)) * 0.1).astype(np.float32)
    centres = kmeans(points, 12)
    distances = np.linalg.norm(true[:, None] - centres[None], axis=2)
    assert sorted(distances.argmin(1)) == list(range(12)) and distances.min(1).max() < 0.1


def test_kmeans_is_as_good_as_that_of_scikit_learn() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    points = unit_vectors(1_500, 16).astype(np.float32)
    theirs = cluster.KMeans(25, n_init=1, random_state=0).fit(points).inertia_
    ours = float(assign(torch.from_numpy(points), torch.from_numpy(kmeans(points, 25)))[1].sum())
    assert ours <= 1.05 * theirs


def test_the_error_of_a_round_never_grows_and_the_seed_decides() -> None:
    points = unit_vectors(2_000, 16)
    errors: list[float] = []
    centres = kmeans(points, 40, on_round=lambda number, error: errors.append(error))
    assert len(errors) >= 3 and all(a >= b for a, b in pairwise(errors))
    np.testing.assert_array_equal(kmeans(points, 40), centres)
    assert (kmeans(points, 40, seed=1) != centres).any()
    assert centres.shape == (40, 16) and centres.dtype == np.float32
    nearest, distances = assign(torch.from_numpy(points.astype(np.float32)), torch.from_numpy(centres))
    whole = ((points[:, None].astype(np.float64) - centres[None]) ** 2).sum(2)
    np.testing.assert_array_equal(nearest, whole.argmin(1))
    np.testing.assert_allclose(distances, whole.min(1), atol=1e-5)


def test_many_vectors_are_sampled() -> None:
    """The centres of 4 clusters come from 256 of the vectors: rows of NaN that are not among them do not matter."""
    points = unit_vectors(5_000, 8).astype(np.float32)
    rows = np.random.default_rng(0).choice(5_000, 256, replace=False)
    hidden = np.full_like(points, np.nan)
    hidden[rows] = points[rows]
    np.testing.assert_array_equal(kmeans(points, 4), kmeans(hidden, 4))


def test_first_centres_are_distinct_points_drawn_by_distance() -> None:
    points = torch.randn(1_000, 4, generator=torch.Generator().manual_seed(0))
    points[995:] = 1_000 + 500 * torch.arange(5.0)[:, None]
    centres = plus_plus(points, 6, np.random.default_rng(0))
    assert len(torch.unique(centres, dim=0)) == 6
    assert (centres[:, 0] > 900).sum() == 5  # each of the far points, 5 of 1,000


def test_an_empty_cluster_moves_to_the_farthest_point() -> None:
    points = torch.tensor([[0.0], [1.0], [10.0], [30.0]])
    centres = torch.tensor([[5.0], [100.0], [200.0]])
    nearest, distances = assign(points, centres)
    assert nearest.tolist() == [0, 0, 0, 0]
    # The farthest from 5 is 30; 0 and 10 are as far as each other.
    moved = _means(points, nearest, distances, centres)[:, 0].tolist()
    assert moved[:2] == [10.25, 30.0] and moved[2] in (0.0, 10.0)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_copies_of_few_vectors_are_no_endless_search(k: int) -> None:
    points = np.repeat(unit_vectors(2, 8), 10, axis=0)
    centres = kmeans(points, k)
    assert centres.shape == (k, 8) and np.isfinite(centres).all()
    search = ClusteredVectors(np.arange(20), points, k, n_probe=k)
    assert search.sizes().sum() == 20
    exact = ExactVectors(np.arange(20), points).search(points[:1].astype(np.float32), 10)
    np.testing.assert_array_equal(search.search(points[:1].astype(np.float32), 10).ids, exact.ids)


def test_more_clusters_than_vectors_are_refused() -> None:
    with pytest.raises(ConfigError, match="k is 6; there are 5 vectors"):
        kmeans(unit_vectors(5, 8), 6)
    for options in ({"clusters": 0}, {"n_probe": 0}, {"centres": np.ones((3, 7), np.float32)}):
        with pytest.raises(ConfigError):
            ClusteredVectors(np.arange(5), unit_vectors(5, 8), **options)


@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_all_clusters_probed_is_exact_search(measure: str) -> None:
    vectors, queries = unit_vectors(2_000, 24), unit_vectors(30, 24, seed=1).astype(np.float32)
    if measure == "dot":
        vectors = (vectors * np.random.default_rng(0).uniform(0.2, 3, (2_000, 1))).astype(np.float16)
    ids = np.random.default_rng(2).permutation(9_000)[:2_000]
    search = ClusteredVectors(ids, vectors, n_probe=44, measure=measure)
    assert len(search.centres) == 44  # √2,000
    exact = ExactVectors(ids, vectors, measure).search(queries, 10)
    found = search.search(queries, 10)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_array_equal(found.scores, exact.scores)
    search.n_probe = 6
    assert recall(search.search(queries, 10), exact).mean() > 0.5


def test_recall_rises_with_the_clusters_probed() -> None:
    vectors, queries = unit_vectors(6_000, 32), unit_vectors(60, 32, seed=1).astype(np.float32)
    exact = ExactVectors(np.arange(6_000), vectors)
    search = ClusteredVectors(np.arange(6_000), vectors)
    curve = recall_curve(search, exact, queries, 10, "n_probe", [1, 4, 16, 77])
    means = [point.recall.mean() for point in curve]
    assert means == sorted(means) and means[0] < 0.9 < means[2] and means[3] == 1.0


def test_one_probe_looks_at_one_cluster_alone_and_says_what_it_lacks() -> None:
    vectors = unit_vectors(300, 16)
    search = ClusteredVectors(np.arange(300), vectors, 30, n_probe=1)
    query = vectors[:1].astype(np.float32)
    found = search.search(query, 200)
    own = assign(torch.from_numpy(query / np.linalg.norm(query)), torch.from_numpy(search.centres))[0]
    size = search.sizes()[int(own)]
    assert (found.ids[0] >= 0).sum() == size < 200 and found.ids[0, 0] == 0


def test_centres_of_a_sample_serve_all_vectors_and_no_vectors_are_searched() -> None:
    vectors, queries = unit_vectors(2_000, 16), unit_vectors(20, 16, seed=1).astype(np.float32)
    centres = kmeans(vectors[:500], 20)
    search = ClusteredVectors(np.arange(2_000), vectors, centres=centres, n_probe=20)
    np.testing.assert_array_equal(
        search.search(queries, 5).ids, ExactVectors(np.arange(2_000), vectors).search(queries, 5).ids
    )
    none = ClusteredVectors(np.zeros(0, np.int64), vectors[:0]).search(queries, 5)
    assert none.ids.shape == (20, 0)
