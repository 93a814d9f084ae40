"""Causal language modelling: predict every token from those before it.

    read   Fruit flies like a banana          the labels are the ids themselves; the head compares position t with
    say          flies like a banana ·        token t + 1, so the first token of a text is nobody's to say

Source: Radford et al. 2018, section 3.1; only answers counted: Ouyang et al. 2022, appendix C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.data.packing import document_starts, pack
from glassformer.tasks.base import Dataset, Examples
from glassformer.tasks.causal.evaluation import LanguageModelTask
from glassformer.tasks.columns import (
    check_columns,
    columns_of,
    head_of,
    store_examples,
)
from glassformer.tasks.metrics.metric import PerplexityMetric
from glassformer.tasks.microbatch import IGNORE_INDEX, Example, MicroBatch
from glassformer.tasks.windows import (
    apart,
    encoded,
    room_of,
    some,
    token_labels,
)

if TYPE_CHECKING:
    from glassformer.model import Model


class Causal(LanguageModelTask):
    """Texts, packed into blocks of one length, every token of them learnt.

    Args:
        block: in tokens; None = as many as the model takes.
        isolated: texts of one block do not see each other; False = they do, as GPT-2 was trained.
        rest: the last block, which is shorter: "keep" or "drop" it.
        columns: role → column, where a column has another name.
    """

    HEAD = "text-generation"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text"}

    def __init__(
        self,
        model: Model,
        *,
        block: int | None = None,
        isolated: bool = True,
        rest: str = "keep",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model)
        self.head = head_of(model, self.HEAD)
        self.columns = columns_of(self.COLUMNS, columns)
        self.block = room_of(model, block)
        self.isolated = isolated
        self.rest = rest

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        tokenizer = self.model.tokenizer
        documents = encoded(rows, self.columns["text"], lambda texts: tokenizer.batch_ids(texts, None)[0])
        blocks = pack(
            documents, self.block, end=tokenizer.eos_token_id, isolated=self.isolated, rest=self.rest
        )
        learnt = (block for block in blocks if (_labels(block) != IGNORE_INDEX).any())
        needs = "a text of two tokens at least is needed, and with rest='drop' a whole block"
        how = {"block": self.block, "isolated": self.isolated, "rest": self.rest}
        return store_examples(
            some(learnt, needs), rows, self.model, cache, made="causal", columns=self.columns, **how
        )

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        # A rectangle holds a stretch a row: there is nothing else in it that could keep them apart.
        stretches = examples if self.packs else [part for example in examples for part in _stretches(example)]
        return super().collate(stretches, indices)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return token_labels([_labels(example) for example in examples], flow)

    def metric(self) -> PerplexityMetric:
        return PerplexityMetric(self.head)


def _labels(example: Example) -> np.ndarray:
    """The labels of an example: its ids but for those that are hidden, and the first of each stretch."""
    labels = np.array(example.get("labels", example["input_ids"]))
    labels[document_starts(_lengths(example))] = IGNORE_INDEX
    return labels


def _stretches(example: Example) -> list[dict[str, Any]]:
    """The stretches of an example that see each other, each an example of its own."""
    lengths = _lengths(example)
    parts = {name: apart(example[name], lengths) for name in ("input_ids", "labels") if name in example}
    return [dict(zip(parts, columns, strict=True)) for columns in zip(*parts.values(), strict=True)]


def _lengths(example: Example) -> np.ndarray:
    return np.asarray(example.get("documents", [len(example["input_ids"])]))
