"""Maps of embeddings: places at each layer, neighbours, selections, and files that other projectors read."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.errors import ConfigError, DataError
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.semantic_change import Distance, semantic_change, word_change
from tests.e2e.tiny_models import make_folder

TEXTS = ["time flies like an arrow", "fruit flies like\ta banana", "time flies . time flies ."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> glassformer.Model:
    folder = make_folder(tmp_path_factory.mktemp("bert"), "bert", num_hidden_layers=3)
    return glassformer.load(folder)


@pytest.fixture(scope="module")
def points(model: glassformer.Model) -> EmbeddingMap:
    return EmbeddingMap.of(embed_words(model, TEXTS, "flies", labels=["a", "b", "a"]))


def vectors(count: int = 30, width: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, width)).astype(np.float32)


def test_places_at_each_level(points: EmbeddingMap) -> None:
    assert points.levels == ("embedding", "layer 0", "layer 1", "layer 2 (output)") and len(points) == 4
    assert points.pca.shape == (4, 4, 2) and points.explained.shape == (4, 2)
    assert points.spans == [(5, 10), (6, 11), (5, 10), (18, 23)]
    for level in range(4):  # a turn keeps distances, so these are the components of that level
        from glassformer.inspect.embeddings.projection import pca

        plain = pca(points.states[level])[0]
        own, turned = (np.linalg.norm(x[:, None] - x, axis=-1) for x in (plain, points.pca[level]))
        np.testing.assert_allclose(own, turned, atol=1e-6)


def test_its_page_has_the_places_as_a_picture(points: EmbeddingMap) -> None:
    [chart] = points.charts()
    assert [(point.x.value, point.y.value) for point in chart.points] == [
        tuple(each) for each in points.pca[-1].tolist()
    ]
    assert [point.group for point in chart.points] == ["a", "b", "a", "a"] and chart.groups == ["a", "b"]
    assert chart.points[1].name == "1 fruit flies like a banana" and "% of the variance" in chart.x.label
    assert points.live_page() is not None
    [many] = EmbeddingMap.of_vectors(vectors(900)).charts()
    assert len(many.points) == 400 and "400 of 900 points" in many.title


def test_a_level_lies_on_the_one_before() -> None:
    """Vectors that were turned and mirrored in space have the same places."""
    first = vectors()
    turned = first @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    both = EmbeddingMap(("one", "two"), np.stack([first, turned]), [{"text": ""}] * 30)
    np.testing.assert_allclose(both.pca[0], both.pca[1], atol=1e-5)


def test_where_one_vector_is_much_longer_directions_are_mapped() -> None:
    long = vectors()
    long[3] *= 100
    made, plain = EmbeddingMap.of_vectors(long), EmbeddingMap.of_vectors(long, directions=False)
    assert made.of_directions and made.select([3, 4]).of_directions and made.longest[:2] == (0, 3)
    assert not plain.of_directions and not EmbeddingMap.of_vectors(vectors()).of_directions
    unit = torch.nn.functional.normalize(torch.from_numpy(long).double(), dim=1)
    centred = unit - unit.mean(0)
    _, singular, axes = torch.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(made.pca[0]), (centred @ axes[:2].T).abs().numpy(), atol=1e-6)
    np.testing.assert_allclose(made.explained[0], (singular**2 / (singular**2).sum())[:2].numpy(), atol=1e-6)
    np.testing.assert_allclose(made.lengths[0], torch.from_numpy(long).double().norm(dim=1).numpy(), rtol=1e-6)
    others = [i for i in range(30) if i != 3]
    across = [np.ptp(each.pca[0][others, 0]) / np.ptp(each.pca[0][:, 0]) for each in (made, plain)]
    assert across[0] > 0.5 > 0.1 > across[1], "as they are, the others lie on one point"
    assert "scaled to length 1" in made.charts()[0].title and "scaled" not in plain.charts()[0].title


def test_neighbours_and_selections(points: EmbeddingMap) -> None:
    unit = points.states[-1] / np.linalg.norm(points.states[-1], axis=1, keepdims=True)
    expected = sorted(((float(unit[0] @ unit[i]), i) for i in (1, 2, 3)), reverse=True)
    assert [i for i, _ in points.neighbours(0)] == [i for _, i in expected]
    assert points.neighbours(0, k=1)[0][1] == pytest.approx(expected[0][0], abs=1e-6)
    part = points.select([3, 1])
    assert part.labels == ["a", "b"] and part.rows[0]["position"] == 5 and len(part) == 2
    frame = points.select([1]).to_pandas()
    assert frame.columns.tolist() == ["sentence", "position", "form", "label", "text", "x", "y"]
    for wrong in (
        lambda: points.neighbours(4),
        lambda: points.level(4),
        lambda: points.select([]),
        lambda: points.select([9]),
    ):
        with pytest.raises(DataError):
            wrong()


def test_files_of_the_embedding_projector(points: EmbeddingMap, tmp_path: Path) -> None:
    """As many rows in both; names of columns only where there are several; no tab or line break inside a cell."""
    import pyarrow.parquet

    names = [path.name for path in points.export(tmp_path / "several")]
    assert names == ["embeddings.tsv", "metadata.tsv", "embeddings.parquet"]
    with (tmp_path / "several/embeddings.tsv").open(newline="") as file:
        rows = [[float(x) for x in row] for row in csv.reader(file, delimiter="\t")]
    np.testing.assert_allclose(rows, points.states[-1], rtol=1e-6)
    lines = (tmp_path / "several/metadata.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["sentence", "position", "form", "label", "text"] and len(lines) == 5
    assert lines[2].split("\t") == ["1", "2", "flies", "b", "fruit flies like a banana"]
    table = pyarrow.parquet.read_table(tmp_path / "several/embeddings.parquet")
    assert table.column_names == ["sentence", "position", "form", "label", "text", "x", "y", "vector"]
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), points.states[-1])
    EmbeddingMap.of_vectors(vectors(3), ["one", "two", "three"]).export(tmp_path / "one")
    assert (tmp_path / "one/metadata.tsv").read_text() == "one\ntwo\nthree\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        points.export(tmp_path / "file" / "folder")


def test_any_vectors() -> None:
    embedding_map: Any = EmbeddingMap.of_vectors(vectors(), labels=list(range(30)))
    assert embedding_map.labels[3] == "3" and embedding_map.rows[3] == {"label": "3", "text": "3"}
    assert embedding_map.project("pca").shape == (30, 2) and "<table>" in embedding_map._repr_html_()
    with pytest.raises(DataError, match="2 texts for 30 vectors"):
        EmbeddingMap.of_vectors(vectors(), ["a", "b"])
    with pytest.raises(DataError, match="NaN"):
        EmbeddingMap.of_vectors(np.full((3, 3), np.nan))
    one = EmbeddingMap.of_vectors(np.ones((1, 4)))
    assert not one.pca.any() and one.neighbours(0) == []


# ── semantic change ──────────────────────────────────────────────────────────────────────────────────────


def test_a_distance_has_no_minus_zero() -> None:
    assert str(Distance(value=-1e-9, low=-1e-7, high=0.25, chance=0.1)) == "0.000 [0.000, 0.250]"


def test_distances_are_those_of_all_pairs(model: glassformer.Model) -> None:
    early = ["time flies like an arrow", "time flies ."]
    late = ["fruit flies like a banana", "fruit flies . fruit flies"]
    change = semantic_change(model, early, late, "flies", names=("early", "late"))
    (flies,) = change.words
    embedded = embed_words(model, early + late, "flies")
    unit = embedded.vectors("last") / np.linalg.norm(embedded.vectors("last"), axis=1, keepdims=True)
    assert flies.counts == (2, 3)
    assert flies.apd.value == pytest.approx(1 - (unit[:2] @ unit[2:].T).mean(), abs=1e-6)
    means = unit[:2].mean(0), unit[2:].mean(0)
    cosine = means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1])
    assert flies.prt.value == pytest.approx(1 - cosine, abs=1e-6)
    assert flies.prt.low <= flies.prt.high and flies.apd.low <= flies.apd.value <= flies.apd.high
    (shown,) = change.tables()
    headings, rows = shown.headings, shown.rows
    assert headings[:3] == ["word", "early", "late"] and rows[0][1:3] == ["2", "3"]
    assert change.to_dict()["words"][0]["control"] is False and "<table>" in change._repr_html_()


def test_a_change_that_was_made_is_larger_than_by_chance() -> None:
    from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, Occurrence

    draw = np.random.default_rng(0)
    states = draw.normal(size=(60, 8)) * 0.3 + 1
    states[30:, 0] += 2
    items = [Occurrence(i, 0, 0, 1, "w") for i in range(60)]
    labels = ["x"] * 30 + ["y"] * 30
    made = ContextualEmbeddings(
        "w", ["w"] * 60, items, labels, states[None], states, "word", states[None, :0], np.array([])
    )
    change = word_change(made, ("x", "y"), layers=0)
    assert change.prt.low > 5 * change.prt.chance
    with pytest.raises(DataError, match="occurs 0 times in z"):
        word_change(made, ("x", "z"), layers=0)
    with pytest.raises(ConfigError, match="resamples"):
        word_change(made, ("x", "y"), layers=0, resamples=0)
