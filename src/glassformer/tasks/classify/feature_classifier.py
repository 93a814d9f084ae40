"""Feature-based classifier: a scikit-learn estimator on the embeddings of a frozen model.

    text ──body.encode──> vector ──scaled──> logistic regression ──> class
    a pair of texts: u, v ──> [u, v, |u − v|, u·v]

It takes seconds where fine-tuning takes hours, and says how much of the answer the vectors hold already.

Source: Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations", section 3.1, for pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.errors import DataError, MissingExtraError
from glassformer.model import Model

Text = str | tuple[str, ...]
"""A text, or two that belong together."""


class FeatureClassifier:
    """A classifier of scikit-learn on the vectors of a model.

        body = glassformer.load("all-MiniLM-L6-v2")
        FeatureClassifier(body).fit(["so glad", "leave me alone"], ["joy", "anger"]).predict(["what a day"])

    Args:
        body: an encoder, of which nothing is changed
        estimator: any that has `fit` and `predict`, such as a random forest; None = logistic regression
        pooling: of token states, see `glassformer.engine.encoder.encode`: "cls", "mean", …; None = the folder's own
    Raises: MissingExtraError: without the package scikit-learn.
    """

    def __init__(self, body: Model, estimator: Any = None, *, pooling: str | None = None) -> None:
        self.body, self.pooling = body, pooling
        usual = sklearn("linear_model").LogisticRegression(max_iter=1_000)
        self.pipeline = scaled(usual if estimator is None else estimator)

    def fit(self, texts: Sequence[Text], labels: Sequence[Any]) -> FeatureClassifier:
        """Learn from texts, or pairs of them, and a label for each.

        Raises: DataError: not one label a text, or a single class.
        """
        if len(texts) != len(labels):
            raise DataError(
                f"there are {len(texts):,} texts and {len(labels):,} labels; give one for each text"
            )
        if len({*map(str, labels)}) < 2:
            raise DataError("every text has the same label; there is nothing to tell apart")
        self.pipeline.fit(self.vectors(texts), np.asarray(labels))
        return self

    def predict(self, texts: Sequence[Text]) -> np.ndarray:
        """A label for each. [N]"""
        outputs: np.ndarray = self.pipeline.predict(self.vectors(texts))
        return outputs

    def predict_proba(self, texts: Sequence[Text]) -> np.ndarray:
        """How likely each class is, in the order of `classes`; not every estimator tells. [N, classes]"""
        outputs: np.ndarray = self.pipeline.predict_proba(self.vectors(texts))
        return outputs

    @property
    def classes(self) -> list[Any]:
        """The labels that were learnt, in sorted order."""
        return list(self.pipeline.classes_)

    def vectors(self, texts: Sequence[Text]) -> np.ndarray:
        """What the classifier reads. [N, D], of pairs [N, 4D]"""
        return vectors(self.body, texts, self.pooling)


def vectors(body: Model, texts: Sequence[Text], pooling: str | None = None) -> np.ndarray:
    """The vectors of texts; of pairs [u, v, |u − v|, u·v], which tells how alike both are. [N, D] or [N, 4D]

    Raises: UnsupportedError: a model that makes no vectors of texts.
    """
    outputs = [body.encode(side, pooling=pooling) for side in sides_of(texts)]
    if len(outputs) == 1:
        return outputs[0]
    u, v = outputs
    return np.concatenate((u, v, abs(u - v), u * v), axis=1)


def sides_of(texts: Sequence[Text]) -> list[list[str]]:
    """The texts, or the first ones of pairs and the second ones."""
    return [list(side) for side in zip(*(((x,) if isinstance(x, str) else x) for x in texts), strict=True)]


def scaled(estimator: Any) -> Any:
    """An estimator of features that are brought to mean 0 and variance 1 first."""
    return sklearn("pipeline").make_pipeline(sklearn("preprocessing").StandardScaler(), estimator)


def sklearn(part: str) -> Any:
    """A module of scikit-learn, such as `linear_model`. Raises: MissingExtraError: it is not installed."""
    from importlib import import_module

    try:
        return import_module(f"sklearn.{part}")
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "a baseline") from error
