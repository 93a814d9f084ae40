"""Vectors and a classical classifier: the same as scikit-learn on vectors that `encode` gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from glassformer import Model
from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.classify.feature_classifier import FeatureClassifier, vectors
from tests.tasks.bodies import tiny_body

TEXTS = [f"{a} {b}" for a in ("time", "fruit") for b in ("flies", "like", "an", "arrow", "banana")]
LABELS = ["joy"] * 5 + ["anger"] * 5


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return tiny_body(tmp_path_factory.mktemp("body"))


def test_it_is_scikit_learn_on_vectors(body: Model) -> None:
    features = StandardScaler().fit(body.encode(TEXTS)).transform(body.encode(TEXTS))
    plain = LogisticRegression(max_iter=1_000).fit(features, LABELS)
    found = FeatureClassifier(body).fit(TEXTS, LABELS)
    assert found.predict(TEXTS).tolist() == plain.predict(features).tolist() and found.classes == [
        "anger",
        "joy",
    ]
    np.testing.assert_allclose(found.predict_proba(TEXTS), plain.predict_proba(features), atol=1e-6)
    forest = RandomForestClassifier(20, random_state=0)
    assert FeatureClassifier(body, forest).fit(TEXTS, LABELS).predict(TEXTS).tolist() == LABELS


def test_the_state_of_the_first_token(body: Model) -> None:
    ids = torch.tensor([body.tokenizer.encode("time flies")])
    states = body.network.eval().states(Batch(input_ids=ids), Flow())
    np.testing.assert_allclose(vectors(body, ["time flies"], "cls")[0], states[0, 0].detach(), atol=1e-5)
    with pytest.raises(ConfigError, match="pooling is 'clss'; nearest: 'cls'"):
        vectors(body, TEXTS, "clss")


def test_pairs(body: Model) -> None:
    u, v = body.encode(TEXTS[:3]), body.encode(TEXTS[3:6])
    pairs = list(zip(TEXTS[:3], TEXTS[3:6], strict=True))
    np.testing.assert_allclose(
        vectors(body, pairs), np.concatenate((u, v, np.abs(u - v), u * v), axis=1), atol=1e-6
    )


def test_what_is_refused(body: Model) -> None:
    with pytest.raises(DataError, match="10 texts and 2 labels"):
        FeatureClassifier(body).fit(TEXTS, LABELS[:2])
    with pytest.raises(DataError, match="nothing to tell apart"):
        FeatureClassifier(body).fit(TEXTS[:5], LABELS[:5])
