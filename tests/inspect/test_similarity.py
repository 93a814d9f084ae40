"""Similarity explained: the cells sum to what `encode` and `similarity` give, for every pooling that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.engine.pooling import POOLINGS, PoolingSettings
from glassformer.engine.pooling_layers import ACTIVATIONS, DenseLayer, LayerNormLayer
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.model import Model, load

A, B = "A man is playing the guitar.", "Someone plays an unbelievably loud instrument, outside"
IDENTITY, TANH, RELU, GELU, SIGMOID = (
    next(name for name in ACTIVATIONS if name.endswith(end)) for end in ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")
)


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> Model:
    return load(minilm)


def dense(activation: str, inner: int, *, bias: bool = True) -> DenseLayer:
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(48, inner, generator=draw) / inner**0.5
    return DenseLayer(weight, torch.randn(48, generator=draw) if bias else None, activation)


def layer_norm(size: int) -> LayerNormLayer:
    draw = torch.Generator().manual_seed(2)
    return LayerNormLayer(torch.rand(size, generator=draw) + 0.5, torch.randn(size, generator=draw) / 3)


SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"poolings": (name,)} for name in POOLINGS},
    "several": {"poolings": ("cls", "mean", "max")},
    "not normalised": {"normalise": False},
    "dense": {"layers": (dense(IDENTITY, 384),)},
    "dense without bias": {"layers": (dense(IDENTITY, 384, bias=False),)},
    "dense, tanh": {"layers": (dense(TANH, 384),)},
    "dense, relu": {"layers": (dense(RELU, 384),)},
    "dense, gelu, of two poolings": {"poolings": ("mean", "cls"), "layers": (dense(GELU, 768),)},
    "layer norm": {"layers": (layer_norm(384),)},
    "dense, layer norm": {"layers": (dense(TANH, 384), layer_norm(48))},
    "truncated": {"truncate_dim": 100, "normalise_last": True},
    "dot": {"similarity": "dot", "normalise": False, "layers": (dense(IDENTITY, 384),)},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_cells_sum_to_the_similarity_of_the_vectors(encoder: Model, kind: str) -> None:
    settings = replace(PoolingSettings(normalise=True, max_tokens=256), **SETTINGS[kind])
    before, encoder.pooling = encoder.pooling, settings
    try:
        vectors = encoder.encode([A, B])
        found = encoder.explain_similarity(A, B)
        expected = float(encoder.similarity(vectors[:1], vectors[1:]))
    finally:
        encoder.pooling = before
    scale = max(1.0, float(np.abs(found.cells).sum()))
    assert abs(found.similarity - expected) < 1e-6 * scale
    assert found.measure == settings.similarity
    assert abs(found.words().similarity - found.similarity) < 1e-12 * scale
    for share, tokens in zip(found.shares, found.tokens, strict=True):
        assert len(share) == len(tokens)
        assert share.sum() == pytest.approx(found.similarity)
    has_constant = any(layer.bias is not None for layer in settings.layers)
    assert [tokens[-1].text == "(constant)" for tokens in found.tokens] == [has_constant] * 2


def test_the_cells_of_mean_pooling_are_products_of_states(encoder: Model) -> None:
    a, b = (x.double() for x in encoder.encode([A, B], output_value="token_embeddings"))
    norm = a.mean(0).norm() * b.mean(0).norm()
    cells = (a / len(a)) @ (b / len(b)).T / norm
    np.testing.assert_allclose(encoder.explain_similarity(A, B).cells, cells.numpy(), atol=1e-9)


def test_words_have_the_sums_of_their_pieces(encoder: Model) -> None:
    found = encoder.explain_similarity(A, B)
    words = found.words()
    pieces = [token.text for token in found.tokens[1]]
    assert [token.text for token in words.tokens[1]][5:7] == ["loud", "instrument"]
    start = pieces.index("un")
    at = [token.text for token in words.tokens[1]].index("unbelievably")
    np.testing.assert_allclose(words.cells[2, at], found.cells[2, start : pieces.index("loud")].sum())
    assert words.words().cells.shape == words.cells.shape


def test_top_and_json(encoder: Model) -> None:
    found = encoder.explain_similarity(A, A)
    assert found.similarity == pytest.approx(1.0)
    numbers = [abs(number) for _, _, number in found.top(5)]
    assert len(numbers) == 5
    assert numbers == sorted(numbers, reverse=True)
    row, column, number = found.top(1)[0]
    told = found.to_dict()
    assert told["cells"][row][column] == number
    assert told["similarity"] == found.similarity
    assert [token["text"] for token in told["tokens"][0]] == [token.text for token in found.tokens[0]]


def test_one_token_of_a_text_stands_for_all(encoder: Model) -> None:
    before, encoder.pooling = encoder.pooling, PoolingSettings(poolings=("cls",), max_tokens=256)
    try:
        found = encoder.explain_similarity(A, B)
    finally:
        encoder.pooling = before
    assert np.count_nonzero(found.cells) == 1
    assert found.cells[0, 0] == found.similarity
    assert "cls pooling reads the first token alone" in found.notes[0]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"similarity": "euclidean"}, UnsupportedError, "'euclidean' distance, which is no sum"),
        ({"layers": (dense(SIGMOID, 384),)}, UnsupportedError, "Sigmoid is not 0 at 0"),
    ],
)
def test_what_is_no_sum_is_refused(encoder: Model, change: Any, error: type[Exception], message: str) -> None:
    before, encoder.pooling = encoder.pooling, replace(PoolingSettings(max_tokens=256), **change)
    try:
        with pytest.raises(error, match=message):
            encoder.explain_similarity(A, B)
    finally:
        encoder.pooling = before


def test_a_distance_is_explained_by_its_cosine_where_asked(encoder: Model) -> None:
    before, encoder.pooling = encoder.pooling, PoolingSettings(max_tokens=256, similarity="euclidean")
    try:
        assert encoder.explain_similarity(A, B, measure="cosine").measure == "cosine"
    finally:
        encoder.pooling = before


@pytest.mark.filterwarnings("ignore:the .* text was cut")
def test_long_texts_are_cut_and_it_is_said(encoder: Model) -> None:
    long = "word and " * 120_000  # 1 MB
    with pytest.warns(UserWarning, match="the second text was cut to 256 tokens"):
        found = encoder.explain_similarity(A, long)
    assert found.cells.shape[1] == 256
    assert "the second text was cut to 256 tokens" in found.notes


def test_bad_calls_are_errors(encoder: Model, shared: Path) -> None:
    with pytest.raises(DataError, match="give two texts"):
        encoder.explain_similarity(A, 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="measure is 'euclidean'; allowed: cosine, dot"):
        encoder.explain_similarity(A, B, measure="euclidean")
    assert encoder.explain_similarity("", "").similarity == pytest.approx(1.0)  # the special tokens are pooled too
    with pytest.raises(ConfigError, match="prompt_name is 'query'"):
        encoder.explain_similarity(A, B, prompt_name="query")


def test_nan_is_an_error(minilm: Path) -> None:
    model = load(minilm)
    with torch.no_grad():
        next(model.network.parameters()).fill_(float("nan"))
    with pytest.raises(WeightsError, match="the states of these texts hold NaN, because"):
        model.explain_similarity(A, B)


def test_a_prompt_is_a_part_of_the_texts(encoder: Model) -> None:
    found = encoder.explain_similarity(A, B, prompt="query: ")
    assert [token.text for token in found.tokens[0]][1:3] == ["query", ":"]
    vectors = encoder.encode([A, B], prompt="query: ")
    assert found.similarity == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-6)


def test_decoders_too(shared: Path) -> None:
    """A decoder has mean pooling where its folder says nothing."""
    model = load(shared / "models" / "stories260k")
    vectors = model.encode([A, B])
    found = model.explain_similarity(A, B)
    assert found.similarity == pytest.approx(float(model.similarity(vectors[:1], vectors[1:])), abs=1e-6)
