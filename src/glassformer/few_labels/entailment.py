"""Zero-shot classification by natural language inference: the label whose hypothesis the text entails.

    text         the screen stays black        This example is bug.        entailment 0.81
                                               This example is feature.    entailment 0.07

One forward pass for each label and text. A model for `models: {entailment: FOLDER}` is trained by `examples/snli.yaml`.
Source: Yin et al. 2019, "Benchmarking Zero-shot Text Classification: Datasets, Evaluation and Entailment Approach".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from glassformer.few_labels.method import Method, Template
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Count, Doc, Schema, Share
from glassformer.tasks.classify.zero_shot import ZeroShotClassification


@dataclass(frozen=True, kw_only=True)
class EntailmentOptions(Schema):
    """The hypothesis, and how many labels hold."""

    template: Annotated[Template, Doc("Hypothesis, with {} in the place of the label.")] = "This example is {}."
    top_k: Annotated[Count, Doc("Of several labels: how many each text gets, unless a threshold is given.")] = 1
    threshold: Annotated[
        Share | None, Doc("Of several labels: those that are entailed this likely. Default: the first ones.")
    ] = None


class Entailment(Method[EntailmentOptions]):
    """Entailment of a hypothesis about each label."""

    OPTIONS = EntailmentOptions
    NEEDS = ("entailment",)

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        model = self.setting.loaded_for("entailment", "text-classification")
        self._pipeline = ZeroShotClassification(model, "zero-shot-classification")
        self._pipeline.limit = self._pipeline.task_object.max_tokens = self.setting.tokens_of(model)
        self._labels, self._several = [self.setting.text_of(name) for name in labelled.kind.names], labelled.several
        self.hold_from(self.options.threshold, self.options.top_k)
        return None

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        answers = self._pipeline(
            list(texts), self._labels, hypothesis_template=self.options.template, multi_label=self._several
        )
        by_label = [dict(zip(x.labels, x.scores, strict=True)) for x in answers]
        return np.array([[scores[label] for label in self._labels] for scores in by_label])
