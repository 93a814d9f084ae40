"""The approximate index: its file, what it refuses, and how near it comes to exact search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.errors import DataError
from glassformer.retrieval import approximate as module
from glassformer.retrieval.approximate import ApproximateVectors, write_approximate
from glassformer.retrieval.clusters import directions, nearest_clusters
from glassformer.retrieval.vectors import ExactVectors, recall, recall_curve
from tests.retrieval.made import place_of, unit_vectors

COUNT, SIZE = 3_000, 32
VECTORS = unit_vectors(COUNT, SIZE)
IDS = np.random.default_rng(5).permutation(9_000)[:COUNT]
QUERIES = unit_vectors(40, SIZE, seed=1).astype(np.float32)


def vectors_of(ids: np.ndarray) -> np.ndarray:
    rows = np.argsort(IDS)
    return VECTORS[rows[np.searchsorted(IDS[rows], ids)]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "vectors.ann"
    write_approximate(path, IDS, VECTORS)
    return path


@pytest.fixture
def index(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    path = tmp_path / "vectors.ann"
    path.write_bytes(written.read_bytes())
    return path


def test_it_finds_what_exact_search_finds_with_the_same_scores(written: Path) -> None:
    search, exact = ApproximateVectors(written, vectors_of), ExactVectors(IDS, VECTORS).search(QUERIES, 10)
    assert len(search) == COUNT and search.newest == IDS.max() and len(search.centres) == 4 * 54
    assert search.n_probe == len(search.centres)  # 3,000 vectors are fewer than are compared in any case
    found = search.search(QUERIES, 10)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_array_equal(found.scores, exact.scores)
    assert written.stat().st_size < COUNT * (SIZE + 8) + 4 * 54 * (4 * SIZE + 16) + 2_000


def test_a_search_leaves_the_number_of_threads_as_it_was(index: Path) -> None:
    threads, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        search = ApproximateVectors(index, vectors_of)
        inner = search._nearest
        search._nearest = lambda *args: (seen.append(torch.get_num_threads()), inner(*args))[1]  # type: ignore[method-assign]
        search.search(QUERIES, 10)
        assert seen == [1] and torch.get_num_threads() == 2
        search.checks[:] += 1
        search._verified[:] = False
        with pytest.raises(DataError, match="differ from their checksum"):
            search.search(QUERIES, 10)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_recall_rises_with_the_clusters_probed(written: Path) -> None:
    search, exact = ApproximateVectors(written, vectors_of, n_probe=1), ExactVectors(IDS, VECTORS)
    curve = recall_curve(search, exact, QUERIES, 10, "n_probe", [1, 10, 60, 216])
    means = [point.recall.mean() for point in curve]
    assert means == sorted(means) and means[0] < 0.6 and means[2] > 0.95 and means[3] == 1.0


def test_many_vectors_are_probed_by_a_share(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_PROBED", 300)
    assert ApproximateVectors(written, vectors_of).n_probe == 22  # 300 of 3,000 vectors are a tenth of 216 clusters
    monkeypatch.setattr(module, "LEAST_PROBED", 3)
    assert ApproximateVectors(written, vectors_of).n_probe == int(np.ceil(module.SHARE * 216))


def test_dot_products_of_vectors_of_any_length(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).uniform(0.2, 3, (COUNT, 1))
    vectors = (VECTORS * lengths).astype(np.float16)
    write_approximate(tmp_path / "dot.ann", np.arange(COUNT), vectors, measure="dot", clusters=50)
    search = ApproximateVectors(tmp_path / "dot.ann", lambda ids: vectors[ids])
    exact = ExactVectors(np.arange(COUNT), vectors, "dot").search(3 * QUERIES, 10)
    assert search.measure == "dot" and len(search.centres) == 50
    assert recall(search.search(3 * QUERIES, 10), exact).mean() >= 0.99


def test_ids_that_are_gone_are_left_out(written: Path) -> None:
    def without_odd(ids: np.ndarray) -> np.ndarray:
        return np.where(ids[:, None] % 2, np.nan, vectors_of(ids)).astype(np.float16)

    found = ApproximateVectors(written, without_odd, oversampling=20).search(QUERIES, 5)
    even = IDS % 2 == 0
    exact = ExactVectors(IDS[even], VECTORS[even]).search(QUERIES, 5)
    np.testing.assert_array_equal(found.ids, exact.ids)


@pytest.mark.parametrize("count", [1, 2, 15])
def test_few_vectors_and_more_results_than_there_are(count: int, tmp_path: Path) -> None:
    write_approximate(tmp_path / "few.ann", np.arange(count) + 7, VECTORS[:count])
    found = ApproximateVectors(tmp_path / "few.ann", lambda ids: VECTORS[ids - 7]).search(QUERIES, 50)
    assert found.ids.shape == (40, count) and (np.sort(found.ids, axis=1) == np.arange(count) + 7).all()


def test_clusters_that_follow_each_other_are_near(written: Path) -> None:
    """So that those which a query probes are few runs of the file: of 40 random ones, almost all are alone."""
    search = ApproximateVectors(written, vectors_of, n_probe=40)
    probed = nearest_clusters(search._directions, QUERIES, 40)
    assert ((np.diff(probed, axis=1) > 1).sum(1) + 1).mean() < 24
    unit = directions(search.centres, "cosine")
    following = (unit[1:] * unit[:-1]).sum(1)
    assert following.mean() > 2 * abs((unit @ unit.T).mean())


def test_an_open_index_goes_on_when_its_file_is_replaced(index: Path) -> None:
    search = ApproximateVectors(index, vectors_of)
    write_approximate(index, np.arange(5), VECTORS[:5])
    assert len(search.search(QUERIES, 10).ids[0]) == 10
    assert len(ApproximateVectors(index, vectors_of)) == 5


def test_what_cannot_be_indexed_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    damaged = VECTORS.copy()
    damaged[100, 3] = np.nan
    for ids, vectors, said in (
        (IDS[:0], VECTORS[:0], "needs 1 vector or more"),
        (np.zeros(COUNT, np.int64), VECTORS, "each of one vector"),
        (IDS - 1_000, VECTORS, "from 0 up"),
        (IDS, damaged, "holds NaN"),
    ):
        with pytest.raises(DataError, match=said):
            write_approximate(tmp_path / "no.ann", ids, vectors)
    with pytest.raises(DataError, match="cannot be written"):
        write_approximate(tmp_path / "none" / "no.ann", IDS, VECTORS)
    assert not list(tmp_path.iterdir())


def test_swapped_blocks_are_refused(index: Path) -> None:
    whole = index.read_bytes()
    codes, ids = place_of(index, "codes"), place_of(index, "ids")
    for first, second in ((codes.start, codes.stop - 4_096), (ids.start, codes.start)):
        swapped = bytearray(whole)
        swapped[first : first + 512], swapped[second : second + 512] = (
            swapped[second : second + 512], swapped[first : first + 512],
        )  # fmt: skip
        index.write_bytes(swapped)
        with pytest.raises(DataError, match="differ from their checksum"):
            ApproximateVectors(index, vectors_of).search(QUERIES, 10)
