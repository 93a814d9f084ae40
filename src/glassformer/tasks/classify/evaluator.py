"""Judging labels of texts: one class of several, any of several labels, or a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.tasks.base import Rows
from glassformer.tasks.classify.labels import AnyOf, Number
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.evaluator import Baseline, Classes, Judge
from glassformer.tasks.loop import TOKENS, answers
from glassformer.tasks.metrics.bootstrap import Sampled
from glassformer.tasks.metrics.classes import SaidClasses, SaidLabels, sklearn_metrics, undefined
from glassformer.tasks.metrics.regression import SaidNumbers
from glassformer.tasks.microbatch import Example
from glassformer.tasks.predictions import Record

TOP = 5
"""Of so many classes a record keeps how likely they were."""


class ClassifyJudge(Judge):
    """What a text, or a pair of texts, is labelled with.

    Args: tokens: of a pass at most; no figure depends on it
    Raises: MissingExtraError: without the package scikit-learn.
    """

    METRIC = "f1_weighted"
    objective: Classify

    def __init__(self, objective: Classify, *, tokens: int = TOKENS) -> None:
        super().__init__(objective)
        sklearn_metrics()  # what is missing is better known before the model is asked
        self.tokens, self.kind = tokens, objective.kind
        if isinstance(self.kind, AnyOf | Number):
            self.METRIC = self.kind.METRIC

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        examples = self.objective.examples(rows)
        roles = {role: name for role, name in self.objective.columns.items() if role != "label"}
        said = answers(self.objective, examples, tokens=self.tokens, progress=progress)
        for index, logits in enumerate(said):
            row = rows[index]
            yield Record(
                index=index,
                where=rows.where(index),
                row={role: row[name] for role, name in roles.items() if name in row},
                **self._judged(logits.float().cpu(), examples[index]),
            )

    def _judged(self, logits: Tensor, example: Example) -> dict[str, Any]:
        """What was said of a row, beside what is true: the fields of its record."""
        label, names = np.asarray(example["labels"]), self.kind.names
        if isinstance(self.kind, Number):
            number, true = float(logits.flatten()[0]), float(label)
            return {"label": true, "said": number, "loss": (number - true) ** 2}
        if isinstance(self.kind, AnyOf):
            wanted = torch.from_numpy(label)
            right = {"label": _where(names, wanted > 0.5), "said": _where(names, logits > 0)}  # as its meter
            return {
                **right,
                "right": right["label"] == right["said"],
                "loss": float(F.binary_cross_entropy_with_logits(logits, wanted)),
                "details": {"scores": dict(zip(names, logits.sigmoid().tolist(), strict=True))},
            }
        sure = logits.log_softmax(-1)
        best = sure.topk(min(TOP, len(names)))
        true, first = int(label), int(sure.argmax())
        scores = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        return {
            "label": names[true],
            "said": names[first],
            "right": true == first,
            "loss": -float(sure[true]),
            "details": {"scores": {names[number]: score for number, score in scores}},
        }

    def judged(self, records: Sequence[Record]) -> Sampled:
        return self._said(records)

    def _said(self, records: Sequence[Record]) -> SaidClasses | SaidLabels | SaidNumbers:
        if isinstance(self.kind, Number):
            return SaidNumbers(*(np.array([float(x) for x in side]) for side in _sides(records)))
        if isinstance(self.kind, AnyOf):
            return SaidLabels(
                self.kind.names,
                *(np.array([self.kind.read(x) > 0.5 for x in side]) for side in _sides(records)),
            )
        return SaidClasses(
            self.kind.names, *(np.array([self.kind.number(x) for x in side]) for side in _sides(records))
        )

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        from glassformer.tasks.classify.baselines import class_baselines

        yield from class_baselines(self.objective, train, records, self.body)

    def classes(self, records: Sequence[Record]) -> Classes | None:
        said = self._said(records)
        if isinstance(said, SaidNumbers):
            return None
        confusion = said.confusion() if isinstance(said, SaidClasses) else None
        return Classes(names=said.names, each=said.each(), confusion=confusion)

    def notes(self, records: Sequence[Record]) -> list[str]:
        said = self._said(records)
        if isinstance(said, SaidNumbers):
            return [
                f"what is {side} is the same for every row: no correlation is defined, and 0 is reported"
                for side in said.constant()
            ]
        return undefined(said.each(), "no row is", left_out=isinstance(said, SaidClasses))


def _sides(records: Sequence[Record]) -> tuple[list[Any], list[Any]]:
    return [record.label for record in records], [record.said for record in records]


def _where(names: Sequence[str], holds: Tensor) -> list[str]:
    return [name for name, yes in zip(names, holds.tolist(), strict=True) if yes]
