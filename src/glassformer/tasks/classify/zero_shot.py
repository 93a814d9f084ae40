"""zero-shot-classification pipeline: labels that the model was never trained on, by natural language inference.

    premise      one day I will see the world
    hypothesis   This example is travel.               entailment 3.1    neutral 0.2    contradiction -2.9
                 This example is cooking.              entailment -1.7   …

Source: Yin et al. 2019, "Benchmarking Zero-shot Text Classification", section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files.schema import check
from glassformer.model import Model
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.columns import tell_cut
from glassformer.tasks.label_options import candidate_labels, check_candidates, ranked
from glassformer.tasks.pipelines import PackedPipeline, logits_of
from glassformer.tasks.results import RankedLabels


class ZeroShotClassification(PackedPipeline):
    """Which of some labels a text has.

        classify("one day I will see the world", candidate_labels=["travel", "cooking"])

    candidate_labels: a list of labels, or a text of them with commas between
    hypothesis_template: a sentence with {} in the place of a label (default "This example is {}.")
    multi_label: each label by itself, against contradiction; False = against one another, and the scores sum to 1
    truncation: as `PackedPipeline`

    Raises: ConfigError: the model's labels have no entailment.
    """

    HEAD = "text-classification"
    WHY = "it has no head for natural language inference; BART has one, once it is trained on MNLI"
    OWN = ("candidate_labels", "hypothesis_template", "multi_label", *PackedPipeline.OWN)
    TEMPLATE = "This example is {}."

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.task_object = Classify(model)
        names = [name.lower() for name in self.task_object.kind.names]
        entailing = [number for number, name in enumerate(names) if name.startswith("entail")]
        if len(entailing) != 1:
            raise ConfigError(
                f"the model's labels are {', '.join(self.task_object.kind.names[:10])}, and none says entailment; give "
                "one that was trained for natural language inference, such as facebook/bart-large-mnli"
            )
        self.entailment = entailing[0]
        # A model of three classes has contradiction at the other end.
        self.contradiction = len(names) - 1 if self.entailment == 0 else 0
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_candidates(options)
        check(bool, options.get("multi_label", False), "multi_label")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        labels = candidate_labels(options)
        hypotheses = [options.get("hypothesis_template", self.TEMPLATE).format(label) for label in labels]
        premises = [text for text in batch for _ in labels]
        examples, cut = self.task_object.encoded(premises, hypotheses * len(batch))
        self.count_truncated([example["input_ids"] for example in examples], cut, options)
        logits = torch.stack(logits_of(self.task_object, examples)).unflatten(0, (len(batch), len(labels)))
        scores = self._scores(logits, apart=options.get("multi_label", False) or len(labels) == 1)
        answers = []
        for text, row in zip(batch, scores, strict=True):
            names, values = zip(
                *ranked(labels[::-1], row.flip(0)), strict=True
            )  # of equal ones the last first, as there
            answers.append(RankedLabels(text, list(names), list(values)))
        return answers

    def entailed(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[float]:
        """The probability that each premise entails its hypothesis; long premises are cut, with a warning."""
        examples, cut = self.task_object.encoded(list(premises), list(hypotheses))
        tell_cut("texts", cut, len(examples), self.limit)
        shares = torch.stack(logits_of(self.task_object, examples)).softmax(-1)[:, self.entailment]
        return [float(share) for share in shares]

    def _scores(self, logits: Tensor, *, apart: bool) -> Tensor:
        """[texts, labels, classes] → [texts, labels]"""
        if apart:
            return logits[..., [self.contradiction, self.entailment]].softmax(-1)[..., 1]
        return logits[..., self.entailment].softmax(-1)

    def __call__(self, texts: Any, candidate_labels: Any = None, **options: Any) -> Any:
        """As any pipeline; the labels may come second."""
        labels = {} if candidate_labels is None else {"candidate_labels": candidate_labels}
        return super().__call__(texts, **options, **labels)
