"""Classifiers of scikit-learn on features of texts: one for all classes, or one-vs-rest, one for each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from glassformer.few_labels.method import Setting, Template, out_of_fold
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Doc, NonNegative, Positive
from glassformer.tasks.classify.scorer import IMPOSSIBLE, LinearScores
from glassformer.tasks.metrics.scikit_learn import sklearn

Penalty = Annotated[Positive, Doc("Inverse of the penalty on large weights of the regression (C).")]
NameWeight = Annotated[
    NonNegative, Doc("A label's name or description is one more labelled text, which weighs as many. 0: none.")
]
NameTemplate = Annotated[Template, Doc("Sentence around the label's name or description, with {} in its place.")]


class LabelHeads:
    """Fitted estimators.

    Args:
        features: of the labelled texts, dense or sparse. [N, D]
        estimator: of scikit-learn, with `predict_proba`; a copy of it is fitted
        weights: of the texts, when every label shall weigh the same in all; None = each text does [N]
    """

    def __init__(
        self, features: Any, labelled: LabelledTexts, estimator: Any, weights: np.ndarray | None = None
    ) -> None:
        clone = sklearn("base", "few labels").clone

        def fitted(classes: np.ndarray) -> Any:
            own = None if weights is None else balanced(weights, classes.astype(np.int64))
            return clone(estimator).fit(features, classes, sample_weight=own)

        # A label that all or none of the texts have has no classifier: its share is its score.
        self.shares, self.one = labelled.holds.mean(0), None
        self.each: dict[int, Any] = {}
        if not labelled.several:
            self.one = fitted(labelled.classes)
            return
        varied = [i for i, share in enumerate(self.shares) if 0 < share < 1]
        self.each = {i: fitted(labelled.holds[:, i]) for i in varied}

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


def with_names(labelled: LabelledTexts, setting: Setting, template: str) -> LabelledTexts:
    """The labelled texts, and behind them the names of the labels, in the sentence of a template, as further ones."""
    names = [template.format(setting.text_of(name)) for name in labelled.kind.names]
    return labelled.joined(LabelledTexts(names, np.eye(len(names), dtype=bool), labelled.kind))


def regression_on_vectors(
    vectors: np.ndarray, texts: LabelledTexts, count: int, *, weight: float, names: float, seed: int
) -> tuple[LabelHeads, np.ndarray | None]:
    """Logistic regression on vectors of texts, in which every label weighs the same, however few texts it has.

    Args:
        vectors: of the texts. [N + L, D]
        texts: labelled ones, and behind them the names of labels, if any
        count: how many are labelled ones, and no names
        weight: inverse of the penalty on large weights (C)
        names: what a name weighs; a labelled text weighs 1
        seed: of the folds
    Returns: the classifiers; and of several labels the score of each labelled text by those that have not seen it, to
        choose thresholds by. [N, L]
    """
    regression = sklearn("linear_model", "few labels").LogisticRegression(C=weight, max_iter=1_000)
    weights = np.where(np.arange(len(texts)) < count, 1.0, names)

    def fitted(indices: Sequence[int]) -> LabelHeads:
        return LabelHeads(vectors[indices], texts.select(indices), regression, weights[indices])

    every = list(range(len(texts)))
    heads = fitted(every)
    if not texts.several:
        return heads, None
    labelled, behind = texts.select(every[:count]), every[count:]
    place = {text: i for i, text in enumerate(labelled.texts)}

    def score(part: LabelledTexts, others: Sequence[str]) -> np.ndarray:
        return fitted([*(place[x] for x in part.texts), *behind]).scores(vectors[[place[x] for x in others]])

    return heads, out_of_fold(labelled, seed, score)


def balanced(weights: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Weights of texts, scaled so that each class has the same in all, and the mean stays. [N]"""
    own = np.bincount(classes, weights)
    scaled: np.ndarray = weights * weights.sum() / (own[classes] * np.count_nonzero(own))
    return scaled
