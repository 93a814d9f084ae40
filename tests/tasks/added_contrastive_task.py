"""A contrastive task that is not ours, in one file: texts that belong together, among the others of their batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, mean_token
from glassformer.model import Model
from glassformer.tasks.base import Task
from glassformer.tasks.columns import check_columns, columns_of, placed, store_examples, text_of
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.types import Dataset, Example, Examples


class PairHead(Head):
    """Cosine similarities of the first texts of pairs with the second ones, and their symmetric cross-entropy.

    Source: Radford et al. 2021, "Learning Transferable Visual Models", figure 3.
    """

    def __init__(self, width: int, temperature: float = 0.1) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: Tensor, flow: Flow) -> Output:
        vectors = normalize(mean_token(x, flow), dim=-1)  # [2 pairs, D]
        return Output(logits=vectors[0::2] @ vectors[1::2].T / self.temperature)  # [pairs, pairs]

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        assert output.logits is not None and isinstance(labels, Tensor)
        both = [cross_entropy(x, labels, reduction="sum") for x in (output.logits, output.logits.T)]
        return {"loss": (both[0] + both[1]) / 2}


class Pairs(Task):
    """In-batch negatives: which second text belongs to a first one, among all second texts of the batch."""

    HEAD = "feature-extraction"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "other": "other"}
    EVALUATION = None
    WHOLE_BATCH = True

    def __init__(self, model: Model, *, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(model)
        self.columns = columns_of(self.COLUMNS, columns)

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        check_columns(rows, self.columns)
        return store_examples(self._encode(rows), rows, self.model, cache, made="pairs", columns=self.columns)

    def _encode(self, rows: Dataset) -> Iterator[dict[str, Any]]:
        for index in range(len(rows)):
            with placed(rows, index):
                texts = [text_of(rows[index], column) for column in self.columns.values()]
                ids, _ = self.model.tokenizer.batch_ids(texts, None)
                yield {"input_ids": np.concatenate(ids), "documents": [len(own) for own in ids]}

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return torch.arange(len(examples))

    def metric(self) -> Metric:
        return Metric(self.model.network.require_head())
