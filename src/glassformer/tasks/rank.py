"""Cross-encoder training: a re-ranker that reads two texts together, and gives a score of how well they go together.

    [CLS] query [SEP] passage [SEP]  ─ encoder ─ head with one output ─ logit
                                                                        ├─ binary cross-entropy with a label from 0 to 1
                                                                        └─ squared error, for scores of any range

A sentence encoder (`embed.py`) finds candidates among many texts; a cross-encoder is slower and ranks the best of them.
Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT"; of scores: Devlin et al. 2019, section 4.1 (STS-B).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.schema import check
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.classify.kinds import PROBLEMS, LabelKind, number_of, scaled, score_bounds
from glassformer.tasks.classify.task import ClassificationTask, pair_examples, relabelled
from glassformer.tasks.columns import check_columns, columns_of, limit_of, parse_rows, row_chunks, tell_cut, text_of
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapUnion, Metric
from glassformer.tasks.metrics.ranking import AveragePrecisionScores
from glassformer.tasks.metrics.regression import RegressionScores
from glassformer.tasks.types import Dataset, Example, MicroBatch, Prediction

RankingLoss = Literal["bce", "mse"]


class Rank(ClassificationTask):
    """Pairs of texts with a label: 1 (it answers) or 0, or a score. The trained model ranks by `model.rank`.

    Args:
        columns: role → column, where a column has another name
        loss: "bce": binary cross-entropy, labels from 0 to 1; "mse": squared error. None = as the model's config says
        score_range: the lowest and highest score that a label can have, which then are 0 and 1
        max_tokens: of a pair; the longer text is cut first, and counted; None = what the model can take
    Raises: ConfigError: the model has a head of another kind, or several outputs.
    """

    HEAD = "text-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "text_pair": "text_pair", "label": "label"}
    BASELINES = "glassformer.tasks.embedding_baselines:baselines_of_pairs"
    kind: Relevance

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        loss: RankingLoss | None = None,
        score_range: Sequence[float] = (),
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(model, columns=columns)
        if loss not in (None, self.kind.loss):
            raise ConfigError(
                f"loss is {safe_repr(loss)}, and the model's problem_type is that of {self.kind.loss!r}; load it with "
                "overrides=Rank.head_config(…)"
            )
        self.kind = Relevance(self.kind.loss, score_range, self.kind.names)
        self.max_tokens = limit_of(model, max_tokens)
        self.how = {"cut": self.max_tokens, "labels": self.kind.config(), "range": list(score_range)}

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> Relevance:
        names = config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(int(config.get("num_labels") or 2))}
        if len(names) != 1:
            raise ConfigError(f"a cross-encoder has one output, this head {len(names)}: load it with num_labels=1")
        own = "mse" if config.get("problem_type") == PROBLEMS["regression"] else "bce"
        return Relevance(own, (), [str(name) for name in names.values()])

    @classmethod
    def head_config(
        cls,
        rows: Dataset,
        config: Mapping[str, Any],
        *,
        own: bool,
        columns: Mapping[str, str] | None,
        options: Any,
    ) -> dict[str, Any]:
        column = columns_of(cls.COLUMNS, columns)["label"]
        check_columns(rows, {"label": column})
        loss = options.get("loss")
        if loss is None:
            loss = "mse" if own and config.get("problem_type") == PROBLEMS["regression"] else "bce"
        kind = Relevance(loss, options.get("score_range") or (), [column])
        first, *others = {float(label[0]) for label in parse_rows(rows, lambda row: kind.read(row.get(column)))}
        if not others:
            raise DataError(f"every row of {column!r} has the label {first:g}; there is nothing to tell apart")
        return relabelled(config, kind, own=own)

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        sides, cut = [self.columns[role] for role in ("text", "text_pair")], 0

        def parse(row: Mapping[str, Any]) -> tuple[str, str, np.ndarray]:
            label = self.kind.read(row.get(self.columns["label"]))
            return text_of(row, sides[0]), text_of(row, sides[1]), label

        for _, parsed in row_chunks(rows, parse):
            texts, pairs, labels = (list(side) for side in zip(*parsed, strict=True))
            examples, too_long = pair_examples(self.model, texts, pairs, self.max_tokens)
            cut += too_long
            for example, label in zip(examples, labels, strict=True):
                yield {**example, "labels": label}
        tell_cut("pairs of texts", cut, len(rows), self.max_tokens)


class Relevance(LabelKind):
    """How well two texts go together: a number from 0 to 1, or of any range.

    loss: "bce" or "mse"

    Args:
        bounds: lowest and highest score, which are 0 and 1; none = as they are
        names: of the single output
    Raises: ConfigError: no such loss or range.
    """

    DTYPE = torch.float32
    METRIC = VALIDATION_METRIC = "spearman"

    def __init__(self, loss: str, bounds: Sequence[float], names: Sequence[str]) -> None:
        super().__init__(names)
        check(RankingLoss, loss, "loss")
        self.loss, self.bounds = loss, score_bounds(bounds)

    def problem_config(self) -> dict[str, Any]:
        return {"problem_type": PROBLEMS["regression" if self.loss == "mse" else "multi"]}

    def fits(self, names: Sequence[str]) -> bool:
        return len(names) == 1

    def read(self, value: object) -> np.ndarray:
        number = number_of(value)
        if number is None:
            raise DataError(f"the label is {safe_repr(value)}; it must be a number")
        if self.bounds:
            number = scaled(number, self.bounds, "the label")
        elif self.loss == "bce" and not 0 <= number <= 1:
            raise DataError(
                f"the label is {number:g}; binary cross-entropy takes labels from 0 to 1: give the range of the "
                "scores, task_options.score_range=[0,5], or loss=mse"
            )
        return np.array([number], dtype=np.float32)

    def value_of(self, label: np.ndarray) -> float:
        return float(label[0])

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits if self.loss == "mse" else logits.sigmoid()

    def decode(self, logits: Tensor, label: np.ndarray) -> dict[str, Any]:
        true, logit = self.value_of(label), logits.flatten()[0].double()
        predicted = float(self.probabilities(logit))
        target = torch.tensor(true, dtype=torch.float64)
        loss = (predicted - true) ** 2 if self.loss == "mse" else float(binary_cross_entropy_with_logits(logit, target))
        return {"label": true, "predicted": predicted, "loss": loss}

    def metric(self, head: Head) -> Metric:
        return RelevanceMetric(head, self)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        true, predicted = (np.array([getattr(x, side) for x in predictions]) for side in ("label", "predicted"))
        return BootstrapUnion(*relevance_scores(true, predicted))


class RelevanceMetric(Metric):
    """The loss, and how well the order of the scores is that of the labels."""

    def __init__(self, head: Head, kind: Relevance) -> None:
        super().__init__(head)
        self.kind = kind

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert output.logits is not None and isinstance(batch.labels, Tensor)
        pairs = torch.stack([batch.labels.flatten(), self.kind.probabilities(output.logits.flatten())], dim=1)
        self.records += pairs.double().tolist()

    def compute(self) -> dict[str, float]:
        scores, (true, predicted) = super().compute(), np.array(self.records).T
        every = np.ones((1, len(true)), dtype=np.int64)
        parts = [part.scores(every) for part in relevance_scores(true, predicted)]
        return {**scores, **{name: float(x[0]) for part in parts for name, x in part.items()}}


def relevance_scores(true: np.ndarray, predicted: np.ndarray) -> list[Bootstrap]:
    """Correlations of labels and scores, and average precision where labels are 1 or 0."""
    correlations = RegressionScores(true, predicted, squares=False)
    binary = bool(np.isin(true, (0, 1)).all()) and not math.isnan(float(true.sum()))
    return [AveragePrecisionScores(true, predicted), correlations] if binary else [correlations]
