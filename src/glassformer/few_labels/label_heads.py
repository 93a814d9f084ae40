"""Classifiers of scikit-learn on features of texts: one for all classes, or one-vs-rest, one for each label."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.few_labels.rows import LabelledTexts
from glassformer.tasks.classify.scorer import IMPOSSIBLE, LinearScores
from glassformer.tasks.metrics.scikit_learn import sklearn


class LabelHeads:
    """Fitted estimators.

    Args:
        features: of the labelled texts, dense or sparse. [N, D]
        estimator: of scikit-learn, with `predict_proba`; a copy of it is fitted
    """

    def __init__(self, features: Any, labelled: LabelledTexts, estimator: Any) -> None:
        clone = sklearn("base", "few labels").clone
        # A label that all or none of the texts have has no classifier: its share is its score.
        self.shares, self.one = labelled.holds.mean(0), None
        self.each: dict[int, Any] = {}
        if not labelled.several:
            self.one = clone(estimator).fit(features, labelled.classes)
            return
        varied = [i for i, share in enumerate(self.shares) if 0 < share < 1]
        self.each = {i: clone(estimator).fit(features, labelled.holds[:, i]) for i in varied}

    def scores(self, features: Any) -> np.ndarray:
        """The probability of each label. [N, L]"""
        if self.one is not None:
            scores = np.zeros((features.shape[0], len(self.shares)))
            scores[:, self.one.classes_] = self.one.predict_proba(features)
            return scores
        scores = np.tile(self.shares, (features.shape[0], 1))
        for i, estimator in self.each.items():
            scores[:, i] = estimator.predict_proba(features)[:, 1]
        return scores

    def linear(self) -> LinearScores:
        """The same scores as weights, for estimators that are linear: logistic regression and naive Bayes."""
        if self.one is not None:
            weights, bias = linear_of(self.one)
            every = np.zeros((len(self.shares), weights.shape[1])), np.full(len(self.shares), IMPOSSIBLE)
            every[0][self.one.classes_], every[1][self.one.classes_] = weights, bias
            return LinearScores(*every, "softmax")
        parts = {i: linear_of(estimator) for i, estimator in self.each.items()}
        width = next(iter(parts.values()))[0].shape[1] if parts else 1
        weights, bias = np.zeros((len(self.shares), width)), np.where(self.shares > 0, -IMPOSSIBLE, IMPOSSIBLE)
        for i, (own, own_bias) in parts.items():
            weights[i], bias[i] = own[1] - own[0], own_bias[1] - own_bias[0]
        return LinearScores(weights, bias, "sigmoid")


def linear_of(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of each class, whose softmax is what a linear estimator gives. [C, D] and [C]"""
    if hasattr(estimator, "feature_log_prob_"):
        return estimator.feature_log_prob_, estimator.class_log_prior_
    weights, bias = estimator.coef_, estimator.intercept_
    if len(weights) == 1:  # of two classes the second one alone
        return np.concatenate([np.zeros_like(weights), weights]), np.concatenate([np.zeros_like(bias), bias])
    return weights, bias
