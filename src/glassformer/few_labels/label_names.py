"""Zero-shot classification by embeddings: the label whose name or description is most similar to the text.

    text      the screen stays black        label    bug: something does not work        cosine 0.31
                                            label    feature: a wish                     cosine 0.12

Source: Veeranna et al. 2016, "Using Semantic Similarity for Multi-Label Zero-Shot Classification of Text Documents";
Yin et al. 2019, "Benchmarking Zero-shot Text Classification".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from glassformer.few_labels.label_heads import NameTemplate
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Count, Doc, Positive, Schema, Share
from glassformer.tasks.classify.scorer import LinearScores, SentenceVectors, TextScorer


@dataclass(frozen=True, kw_only=True)
class LabelNameOptions(Schema):
    """The sentence around a label, and how many labels hold."""

    template: NameTemplate = "{}"
    scale: Annotated[Positive, Doc("Inverse temperature of the similarities, of a single label.")] = 20.0
    top_k: Annotated[Count, Doc("Of several labels: how many each text gets, unless a threshold is given.")] = 1
    threshold: Annotated[Share | None, Doc("Of several labels: those with this cosine. Default: the first ones.")] = (
        None
    )


class LabelNames(Method[LabelNameOptions]):
    """Similarity of a text to the names of the labels."""

    OPTIONS = LabelNameOptions
    NEEDS = ()

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        names = [self.options.template.format(self.setting.text_of(name)) for name in labelled.kind.names]
        vectors = self.setting.vectors(names)
        scale = 1.0 if labelled.several else self.options.scale
        self._score = LinearScores(scale * vectors, np.zeros(len(names)), "cosine" if labelled.several else "softmax")
        self.hold_from(self.options.threshold, self.options.top_k)
        return None

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self._score(self.setting.vectors(texts))

    def saved(self) -> TextScorer:
        return self.scorer(SentenceVectors(self.setting.vectors.model), self._score)
