"""Exact, quantised and shortened vector search, against what NumPy computes on whole arrays."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.retrieval import vectors as module
from glassformer.retrieval.vectors import (
    ExactVectors,
    Neighbours,
    QuantisedVectors,
    recall,
    recall_curve,
    shortened,
)
from tests.retrieval.made import unit_vectors


def whole(ids: np.ndarray, vectors: np.ndarray, queries: np.ndarray, k: int) -> Neighbours:
    """The nearest by one product in 64 bits, and a sort of everything."""
    scores = np.stack([(vectors.astype(np.float64) * query).sum(1).astype(np.float32) for query in queries])
    order = np.stack([np.lexsort((ids, -row)) for row in scores])[:, :k]
    return Neighbours(np.take_along_axis(scores, order, 1), ids[order])


def normalised(queries: np.ndarray) -> np.ndarray:
    return queries / np.linalg.norm(queries, axis=1, keepdims=True)


@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_exact_search_is_a_sort_of_all_scores_whatever_the_blocks(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCORED_ROWS", 300)
    monkeypatch.setattr(module, "PIECE_ROWS", 64)
    monkeypatch.setattr(module, "QUERY_BLOCK", 7)
    vectors, queries = unit_vectors(1_000, 24), 3 * unit_vectors(20, 24, seed=1).astype(np.float32)
    ids = np.random.default_rng(2).permutation(5_000)[:1_000]
    found = ExactVectors(ids, vectors, measure).search(queries, 12)
    asked = normalised(queries) if measure == "cosine" else queries
    expected = whole(ids, vectors, asked, 12)
    assert found.scores.dtype == np.float32 and found.ids.dtype == np.int64
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


def test_k_beyond_the_number_of_vectors_gives_all_of_them() -> None:
    vectors = unit_vectors(5, 8)
    found = ExactVectors(np.arange(5), vectors).search(unit_vectors(3, 8, seed=1).astype(np.float32), 50)
    assert found.ids.shape == (3, 5) and (np.sort(found.ids, axis=1) == np.arange(5)).all()
    for search in (ExactVectors, QuantisedVectors):
        none = search(np.zeros(0, np.int64), np.zeros((0, 8), np.float16)).search(np.ones((2, 8), np.float32), 3)
        assert none.ids.shape == none.scores.shape == (2, 0)


@pytest.mark.parametrize("copies", [2, 30, 150])
def test_equal_vectors_come_in_the_order_of_their_ids(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are, and if there are more of them than places: the first."""
    monkeypatch.setattr(module, "SCORED_ROWS", 97)
    vectors = unit_vectors(400, 48)
    places = np.random.default_rng(3).permutation(400)[:copies]
    vectors[places] = vectors[places[0]]
    query = vectors[places[:1]].astype(np.float32)
    found = ExactVectors(np.arange(400), vectors).search(query, 10)
    same = np.sort(places)[:10]
    np.testing.assert_array_equal(found.ids[0, : len(same)], same)
    assert len(np.unique(found.scores[0, : len(same)])) == 1


def test_scores_of_one_vector_are_the_same_bits_in_every_search() -> None:
    vectors, queries = unit_vectors(3_000, 64), unit_vectors(5, 64, seed=1).astype(np.float32)
    exact = ExactVectors(np.arange(3_000), vectors).search(queries, 20)
    for precision in ("int8", "binary"):
        found = QuantisedVectors(np.arange(3_000), vectors, precision).search(queries, 20)
        for row in range(5):
            _, left, right = np.intersect1d(exact.ids[row], found.ids[row], return_indices=True)
            assert len(left) >= 5
            np.testing.assert_array_equal(exact.scores[row, left], found.scores[row, right])
    subset = np.arange(0, 3_000, 7)
    part = ExactVectors(subset, vectors[subset]).search(queries, 20)
    alone = [ExactVectors(subset, vectors[subset]).search(query[None], 20) for query in queries]
    np.testing.assert_array_equal(part.scores, np.concatenate([one.scores for one in alone]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_damaged_vectors_and_queries_are_refused(bad: float) -> None:
    vectors, query = unit_vectors(200, 16), np.ones((1, 16), np.float32)
    vectors[70, 3] = bad
    with pytest.raises(DataError, match="the vector of id 170 holds NaN"):
        ExactVectors(np.arange(100, 300), vectors).search(query, 5)
    query[0, 2] = bad
    with pytest.raises(DataError, match="a query holds NaN"):
        ExactVectors(np.arange(70), vectors[:70]).search(query, 5)


def test_arrays_of_other_shapes_are_refused() -> None:
    vectors = unit_vectors(10, 8)
    with pytest.raises(ConfigError, match=r"ids are int64 of the shape \[9\]"):
        ExactVectors(np.arange(9), vectors)
    with pytest.raises(ConfigError, match="measure is 'euclid'; allowed: cosine, dot"):
        ExactVectors(np.arange(10), vectors, "euclid")
    search = ExactVectors(np.arange(10), vectors)
    for queries in (np.ones(8, np.float32), np.ones((1, 7), np.float32), np.ones((1, 8), np.int64)):
        with pytest.raises(DataError, match=r"must be floating-point vectors \[Q, 8\]"):
            search.search(queries)
    with pytest.raises(ConfigError, match="k is 0"):
        search.search(np.ones((1, 8), np.float32), 0)


def test_a_zero_query_finds_the_lowest_ids() -> None:
    found = ExactVectors(np.arange(9, -1, -1), unit_vectors(10, 8)).search(np.zeros((1, 8), np.float32), 3)
    np.testing.assert_array_equal(found.ids, [[0, 1, 2]])
    assert (found.scores == 0).all()


@pytest.mark.parametrize(("precision", "dimension", "least"), [("int8", 64, 0.999), ("binary", 100, 0.95)])
def test_quantised_search_finds_what_exact_search_finds(precision: str, dimension: int, least: float) -> None:
    """Also where the dimensions fill no whole bytes."""
    vectors, queries = unit_vectors(5_000, dimension), unit_vectors(40, dimension, seed=1).astype(np.float32)
    exact = ExactVectors(np.arange(5_000), vectors).search(queries, 10)
    search = QuantisedVectors(np.arange(5_000), vectors, precision)
    assert recall(search.search(queries, 10), exact).mean() >= least
    assert search.nbytes == 5_000 * {"int8": dimension, "binary": -(-dimension // 64) * 8}[precision]
    search.oversampling = 1_000  # everything is re-scored
    np.testing.assert_array_equal(search.search(queries, 10).ids, exact.ids)


def test_dimensions_of_unlike_ranges_keep_their_resolution_in_int8() -> None:
    scale = np.geomspace(1e-3, 1, 32)
    draw = np.random.default_rng(0)
    vectors = (draw.normal(size=(4_000, 32)) * scale + 3 * scale).astype(np.float16)
    queries = (draw.normal(size=(30, 32)) / scale).astype(np.float32)
    exact = ExactVectors(np.arange(4_000), vectors, "dot").search(queries, 10)
    found = QuantisedVectors(np.arange(4_000), vectors, "int8", measure="dot").search(queries, 10)
    assert recall(found, exact).mean() >= 0.99


def test_binary_distances_are_counts_of_differing_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, query = unit_vectors(300, 70), unit_vectors(1, 70, seed=1).astype(np.float32)
    search = QuantisedVectors(np.arange(300), vectors, "binary", oversampling=1)
    differing = ((vectors > 0) != (query > 0)).sum(1)
    expected = np.sort(np.argsort(differing, kind="stable")[:25])
    np.testing.assert_array_equal(np.sort(search._candidates(query, 25)[0]), expected)
    if hasattr(np, "bitwise_count"):
        monkeypatch.delattr(np, "bitwise_count")  # as NumPy 1.26 is
        np.testing.assert_array_equal(np.sort(search._candidates(query, 25)[0]), expected)


def test_vectors_for_rescoring_come_from_the_callable_and_gone_ids_are_left_out() -> None:
    vectors, queries = unit_vectors(500, 16), unit_vectors(6, 16, seed=1).astype(np.float32)
    ids = np.arange(1_000, 1_500)
    asked: list[np.ndarray] = []

    def vectors_of(some: np.ndarray) -> np.ndarray:
        asked.append(some)
        rows = vectors[some - 1_000].copy()
        rows[some % 2 == 1] = np.nan
        return rows

    search = QuantisedVectors(ids, vectors, "int8", vectors_of=vectors_of, oversampling=20)
    assert not len(search.vectors)
    found = search.search(queries, 5)
    even = ExactVectors(ids[::2], vectors[::2]).search(queries, 5)
    np.testing.assert_array_equal(found.ids, even.ids)
    np.testing.assert_array_equal(found.scores, even.scores)
    assert len(asked) == 1 and len(np.unique(asked[0])) == len(asked[0])
    search.vectors_of = lambda some: vectors[:3]
    with pytest.raises(DataError, match=r"have the shape \[3, 16\]"):
        search.search(queries, 5)


def test_fewer_candidates_than_k_are_filled_with_none() -> None:
    vectors = unit_vectors(20, 8)
    search = QuantisedVectors(
        np.arange(20), vectors, "int8", vectors_of=lambda ids: np.where(ids[:, None] < 3, vectors[ids], np.nan)
    )
    found = search.search(np.ones((1, 8), np.float32), 6)
    assert set(found.ids[0, :3]) == {0, 1, 2}
    assert (found.ids[0, 3:] == -1).all() and np.isneginf(found.scores[0, 3:]).all()


def test_shortened_vectors_are_the_first_dimensions_of_unit_length() -> None:
    vectors = unit_vectors(50, 32)
    short = shortened(vectors, 8)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, rtol=1e-6)
    first = vectors[:, :8].astype(np.float32)
    np.testing.assert_allclose(short * np.linalg.norm(first, axis=1)[:, None], first, rtol=1e-6)
    np.testing.assert_array_equal(shortened(vectors, 8, normalise=False), vectors[:, :8])


def test_matryoshka_search_compares_the_first_dimensions_and_rescores_by_all() -> None:
    draw = np.random.default_rng(0)
    scale = np.where(np.arange(64) < 16, 1.0, 0.1)  # as such models are trained: the first dimensions tell most
    vectors = normalised(draw.normal(size=(3_000, 64)) * scale).astype(np.float16)
    queries = (draw.normal(size=(30, 64)) * scale).astype(np.float32)
    exact = ExactVectors(np.arange(3_000), vectors).search(queries, 10)
    for precision, least in (("float16", 0.99), ("int8", 0.99), ("binary", 0.6)):
        search = QuantisedVectors(np.arange(3_000), vectors, precision, dimensions=16)
        found = search.search(queries, 10)
        assert recall(found, exact).mean() >= least, precision
        assert search.nbytes == 3_000 * {"float16": 32, "int8": 16, "binary": 8}[precision]
    for precision, dimensions in (("int4", 16), ("int8", 65), ("int8", 0)):
        with pytest.raises(ConfigError):
            QuantisedVectors(np.arange(3_000), vectors, precision, dimensions=dimensions)


def test_recall_counts_what_is_as_near_as_the_last() -> None:
    exact = Neighbours(np.array([[3.0, 2.0], [3.0, 1.0]], np.float32), np.array([[1, 2], [3, 4]]))
    found = Neighbours(np.array([[2.0, 2.0], [3.0, -np.inf]], np.float32), np.array([[7, 2], [3, -1]]))
    np.testing.assert_array_equal(recall(found, exact), [1.0, 0.5])
    nothing = Neighbours(np.full((1, 2), -np.inf, np.float32), np.full((1, 2), -1))
    np.testing.assert_array_equal(recall(nothing, nothing), [0.0])
    with pytest.raises(ConfigError, match="cannot be compared"):
        recall(exact, nothing)


def test_a_recall_curve_rises_with_its_setting_and_leaves_the_search_as_it_was() -> None:
    vectors, queries = unit_vectors(4_000, 64), unit_vectors(50, 64, seed=1).astype(np.float32)
    exact = ExactVectors(np.arange(4_000), vectors)
    search = QuantisedVectors(np.arange(4_000), vectors, "binary")
    curve = recall_curve(search, exact, queries, 10, "oversampling", [1, 10, 400])
    means = [point.recall.mean() for point in curve]
    assert [point.value for point in curve] == [1, 10, 400] and curve[0].recall.shape == (50,)
    assert means[0] < means[1] < means[2] == 1.0
    assert all(point.seconds > 0 for point in curve) and search.oversampling == 40
    with pytest.raises(ConfigError, match="QuantisedVectors has no setting 'n_probe'"):
        recall_curve(search, exact, queries, 10, "n_probe", [1])
