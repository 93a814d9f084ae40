"""Logistic regression on sentence embeddings: the encoder is not trained, only a linear classifier on its vectors.

    texts      it crashes on start  ──encoder, as it is──> vectors [N, D] ──logistic regression──> scores [N, L]

The names of the labels are further labelled texts: with eight labels they know more than these. It takes seconds, and
is what a training of the encoder has to beat.
Sources: Alain and Bengio 2017, "Understanding Intermediate Layers Using Linear Classifier Probes"; rare labels weigh as
much as frequent ones: King and Zeng 2001, "Logistic Regression in Rare Events Data".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.few_labels.label_heads import NameTemplate, NameWeight, Penalty, regression_on_vectors, with_names
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Schema
from glassformer.tasks.classify.scorer import SentenceVectors, TextScorer


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(Schema):
    """The penalty, and what labels' names weigh."""

    weight: Penalty = 10.0
    names: NameWeight = 3.0
    template: NameTemplate = "{}"


class EmbeddingRegression(Method[EmbeddingOptions]):
    """Logistic regression on the vectors of a sentence encoder."""

    OPTIONS = EmbeddingOptions

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        options, setting = self.options, self.setting
        texts = with_names(labelled, setting, options.template) if options.names else labelled
        self.heads, scores = regression_on_vectors(
            setting.vectors(texts.texts), texts, len(labelled), weight=options.weight, names=options.names,
            seed=setting.seed,
        )  # fmt: skip
        return scores

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self.heads.scores(self.setting.vectors(texts))

    def saved(self) -> TextScorer:
        return self.scorer(SentenceVectors(self.setting.vectors.model), self.heads.linear())
