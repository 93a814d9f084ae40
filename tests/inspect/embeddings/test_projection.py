"""Points of a plane: PCA by its reference, t-SNE and UMAP in a worker process, layers turned onto each other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.inspect.embeddings import projection
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.embeddings.projection import ProjectionFailed, pca, procrustes, project


def clusters(points: int = 40, width: int = 12, apart: float = 8.0) -> np.ndarray:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(points, width))
    vectors[points // 2 :, 3] += apart
    return vectors.astype(np.float32)


@pytest.mark.parametrize("points", [8, 40])
def test_pca_is_that_of_scikit_learn(points: int) -> None:
    """Fewer points than dimensions, and more: the same coordinates up to sign, the same shares of variance."""
    from sklearn.decomposition import PCA

    vectors = clusters(points)
    reference = PCA(3, svd_solver="full").fit(vectors.astype(np.float64))
    places, shares = pca(vectors, 3)
    theirs = reference.transform(vectors.astype(np.float64))
    signs = np.sign((places * theirs).sum(0))
    np.testing.assert_allclose(places * signs, theirs, atol=1e-5)
    np.testing.assert_allclose(shares, reference.explained_variance_ratio_, atol=1e-6)


def test_pca_of_a_million_points() -> None:
    vectors = np.random.default_rng(0).normal(size=(1_000_000, 4)).astype(np.float32) * [5, 1, 1, 1]
    places, shares = pca(vectors)
    assert places.shape == (1_000_000, 2) and shares[0] == pytest.approx(25 / 28, abs=0.01)


def test_pca_of_one_point_and_of_identical_ones() -> None:
    for vectors in (np.ones((1, 5)), np.full((30, 5), 0.1, np.float32)):
        places, shares = pca(vectors)
        assert not places.any() and not shares.any()


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, np.nan], [1, 2], [np.inf, 0]], r"2 of 3 vectors hold NaN or infinity, the first is row 0"),
        ([1.0, 2.0], r"have the shape \[2\]"),
        (np.zeros((0, 3)), r"have the shape \[0, 3\]"),
        ([["a"]], "type"),
    ],
)
def test_vectors_that_are_none(vectors: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pca(vectors)


def test_procrustes_undoes_a_turn_a_mirror_and_a_scale() -> None:
    target = np.random.default_rng(1).normal(size=(30, 2))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]]) @ np.diag([1, -1])
    np.testing.assert_allclose(procrustes(target @ turn * 3 + 7, target), target, atol=1e-9)
    assert not procrustes(np.zeros((3, 2)), np.zeros((3, 2))).any()


@pytest.mark.representative("tsne")  # UMAP compiles its functions for half a minute
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_neighbours_stay_together(method: str) -> None:
    """Two clusters are two clusters; the same seed gives the same points; progress arrives from the worker."""
    seen: list[tuple[int, int]] = []
    levels = [clusters(), clusters(apart=30)]
    places = project(levels, ProjectionOptions(method, perplexity=5, neighbours=5, seed=3), lambda *at: seen.append(at))
    for points in places:
        halves = points[:20], points[20:]
        spread = max(np.linalg.norm(half - half.mean(0), axis=1).mean() for half in halves)
        assert np.linalg.norm(halves[0].mean(0) - halves[1].mean(0)) > spread
    assert seen and seen[-1][0] > seen[0][0] and len({of for _, of in seen}) == 1
    if method == "tsne":
        again = project(levels[:1], ProjectionOptions(method, perplexity=5, seed=3))
        np.testing.assert_allclose(again[0], places[0])
        other = project(levels[:1], ProjectionOptions(method, perplexity=5, seed=4))
        assert np.abs(other[0] - places[0]).max() > 1e-3  # the seed does something


def test_what_has_no_map() -> None:
    with pytest.raises(DataError, match="tsne needs at least 4 points, there are 1; take pca"):
        project([np.ones((1, 3))], ProjectionOptions("tsne"))
    with pytest.raises(DataError, match="all 9 vectors are the same"):
        project([np.ones((9, 3))], ProjectionOptions("umap"))
    for options, message in (
        ({"method": "isomap"}, "allowed: pca, tsne, umap"),
        ({"perplexity": 0}, "from 1 to 1,000"),
        ({"neighbours": True}, "neighbours is True"),
        ({"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(ConfigError, match=message):
            ProjectionOptions(**options)  # type: ignore[arg-type]


def test_a_run_is_cancelled() -> None:
    """Whoever asks is free at once, and the worker has ended."""

    class Enough(Exception):
        pass

    began = time.perf_counter()

    def check() -> None:
        if time.perf_counter() - began > 0.3:
            raise Enough

    with pytest.raises(Enough):
        project([clusters(5_000)], ProjectionOptions("tsne"), check=check)
    assert time.perf_counter() - began < 60  # the run itself takes minutes


def test_a_worker_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection.child, "command", lambda *_: ["python3", "-c", "raise MemoryError('too many')"])
    with pytest.raises(ProjectionFailed, match="MemoryError: too many; take fewer points, or pca"):
        project([clusters()], ProjectionOptions("tsne"))
