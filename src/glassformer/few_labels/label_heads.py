"""Classifiers of scikit-learn on features of texts: one for all classes, or one-vs-rest, one for each label."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.few_labels.rows import LabelledTexts
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
