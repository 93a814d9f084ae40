"""Estimators of scikit-learn: they live where its own live, and say what is wrong with texts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import glassformer
from glassformer import DataError
from glassformer.integrations.sklearn import Embedder, TextClassifier, texts_of

X = ["so glad", "leave me alone", "what joy", "I hate it"] * 3
Y = np.array(["joy", "anger", "joy", "anger"] * 3)


def test_vectors_in_a_pipeline_and_a_grid(minilm: Path) -> None:
    embedder = Embedder(minilm).fit(X)
    vectors = embedder.transform(X)
    np.testing.assert_allclose(vectors, glassformer.load(minilm).encode(X), atol=1e-6)
    assert len(embedder.get_feature_names_out()) == vectors.shape[1]
    pipeline = make_pipeline(Embedder(minilm), LogisticRegression())
    assert cross_val_score(pipeline, X, Y, cv=2).mean() == 1.0
    grid = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert grid.predict(["what a joy"]) == ["joy"]


@pytest.mark.parametrize("labels", [Y, np.where(Y == "joy", 10, 9), Y == "joy"], ids=["strings", "numbers", "booleans"])
def test_a_fine_tuned_classifier(minilm: Path, labels: np.ndarray) -> None:
    first = TextClassifier(minilm, epochs=6, learning_rate=3e-4, batch_size=6).fit(X, labels)
    assert first.classes_.tolist() == sorted(set(labels.tolist()))
    assert first.score(X, labels) == 1.0
    shares = first.predict_proba(np.array(X)[:, None])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    if labels is Y:
        again = clone(first).fit(X, labels)
        np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(X), shares)
        assert first.model_.config["id2label"] == {"0": "anger", "1": "joy"}


API_CHECKS = """check_estimator_cloneable check_estimator_repr check_get_params_invariance check_set_params
check_no_attributes_set_in_init check_parameters_default_constructible
check_mixin_order check_valid_tag_types""".split()
"""All that do not fit arrays of numbers."""


@pytest.mark.parametrize("check", API_CHECKS)
def test_checks_of_the_library(check: str) -> None:
    for estimator in (Embedder(), TextClassifier()):
        getattr(estimator_checks, check)(type(estimator).__name__, estimator)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("one text", "X is 'one text'"),
        (None, "X is None"),
        ([], "X is empty"),
        (iter([]), "X is empty"),
        ([["a", "b"], ["c", "d"]], "which is no text"),
        (np.array([["a", "b"], ["c", "d"]]), r"X has shape \[2, 2\]"),
        (np.zeros(3), "X holds 0.0"),
        (["a", None], "X holds None"),
    ],
)
def test_what_are_no_texts(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts_of(given)


def test_labels_that_do_not_fit(minilm: Path) -> None:
    with pytest.raises(DataError, match="y has one class, \\['joy'\\]"):
        TextClassifier(minilm).fit(["a", "b"], ["joy", "joy"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TextClassifier(minilm).fit(["a", "b"], ["joy"])
    with pytest.raises(ValueError, match="Unknown label type"):
        TextClassifier(minilm).fit(["a", "b"], [0.5, 0.7])
