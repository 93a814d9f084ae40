"""Text classification by a scorer: its pipeline, and its task for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Never

import numpy as np
import torch

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files.schema import BelowOne, check
from glassformer.tasks.base import EvaluationOptions, Progress
from glassformer.tasks.classify.kinds import MultiLabel, SingleLabel
from glassformer.tasks.classify.scorer import TextScorer
from glassformer.tasks.classify.task import ClassificationTask
from glassformer.tasks.columns import check_columns, columns_of, row_chunks, text_of
from glassformer.tasks.label_options import ranked
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Label, Results
from glassformer.tasks.types import Dataset, Prediction

TINY = 1e-9


class ScoredTextClassification(Pipeline):
    """The label of a text by a scorer, with its score, best first.

    top_k: how many labels; None = all of them; not given = those that hold
    threshold: from which score on a label of several holds, in place of the thresholds that were chosen
    """

    HEAD = "text-classification"
    WHY = "it is no classifier"
    BATCH = 256
    OWN = ("top_k", "threshold")

    def __init__(self, scorer: TextScorer, task: str, **options: Any) -> None:
        self.scorer = scorer
        super().__init__(scorer, task, **options)  # type: ignore[arg-type] # has labels in its config, as a model

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options.get("threshold") is not None:
            check(BelowOne, options["threshold"], "threshold")
            if not self.scorer.several:
                raise ConfigError("threshold is for labels that may hold together; this classifier predicts one")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        scores, threshold = self.scorer.scores(batch), options.get("threshold")
        holds = self.scorer.decide(scores) if threshold is None else scores > threshold
        counts = holds.sum(1)
        if "top_k" in options:
            counts = np.full(len(batch), options["top_k"] or scores.shape[1])
        names = self.scorer.kind.names
        # Labels with thresholds of their own that hold come before others with higher scores.
        order = scores if "top_k" in options else scores + holds
        return [
            Results(
                Label(name, float(scores[i, names.index(name)])) for name, _ in ranked(names, torch.tensor(row), int(n))
            )
            for i, (row, n) in enumerate(zip(order, counts, strict=True))
        ]


class ScoredClassification(ClassificationTask):
    """Classification of texts by a scorer: predictions and metrics, and no training."""

    HEAD = "text-classification"
    BASELINES = "glassformer.tasks.classify.baselines:baselines_of_task"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "text_pair": "text_pair", "label": "label"}

    def __init__(
        self, scorer: TextScorer, *, columns: Mapping[str, str] | None = None, separator: str | None = None
    ) -> None:
        # No network, so nothing of a task that trains one.
        self.model, self.scorer = scorer, scorer  # type: ignore[assignment] # of which an evaluation reads the device
        self.columns = columns_of(self.COLUMNS, columns)
        self.separator, self.how = separator, {}
        names = scorer.kind.names
        self.kind = MultiLabel(names, separator) if scorer.several else SingleLabel(names)
        self.METRIC, self.VALIDATION_METRIC = self.kind.METRIC, self.kind.VALIDATION_METRIC
        self.evaluation = EvaluationOptions()

    def make_examples(self, rows: Dataset) -> Never:
        raise UnsupportedError("a classifier without a network is not trained further; learn it again with more rows")

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        check_columns(rows, {role: self.columns[role] for role in ("text", "label")})
        roles = [role for role in ("text", "text_pair") if self.columns[role] in rows.columns]

        def parse(row: Mapping[str, Any]) -> tuple[dict[str, str], np.ndarray]:
            return {role: text_of(row, self.columns[role]) for role in roles}, self.kind.read(
                row.get(self.columns["label"])
            )

        for numbers, parsed in row_chunks(rows, parse):
            scores = self.scorer.scores(["\n".join(filter(str.strip, own.values())) for own, _ in parsed])
            for index, (own, label), row, holds in zip(
                numbers, parsed, scores, self.scorer.decide(scores), strict=True
            ):
                fields = self._decoded(row, holds, label)
                yield Prediction(index=index, where=rows.where(index), row=dict(own), **fields)
            if progress is not None:
                progress(len(parsed))

    def _decoded(self, scores: np.ndarray, holds: np.ndarray, label: np.ndarray) -> dict[str, Any]:
        """The fields of a prediction."""
        clipped = np.clip(scores, TINY, 1 - TINY)
        if not self.scorer.several:
            return self.kind.decode(torch.from_numpy(np.log(clipped)), label)
        true, predicted = self.kind.value_of(label), self.kind.value_of(holds)
        return {
            "label": true, "predicted": predicted, "correct": true == predicted,
            "loss": float(-np.log(np.where(label > 0, clipped, 1 - clipped)).mean()),
            "details": {"scores": dict(zip(self.kind.names, map(float, scores), strict=True))},
        }  # fmt: skip
