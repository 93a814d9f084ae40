"""Text classification: a label for each text, or for each pair of texts.

    row        {"text": "i feel cranky", "label": "anger"}        {"text": "a", "text_pair": "b", "label": 3.8}
    example    [CLS] i feel cranky [SEP]                          [CLS] a [SEP] b [SEP], segments 0 0 0 1 1
    labels     0            its number among anger, joy, …        3.8
               [0. 1. 1.]   where a text may have several

Source: Devlin et al. 2019, section 4.1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.errors import DataError
from glassformer.tasks.base import Baseline, Dataset, Examples, PerClassReport, Task, text_labels
from glassformer.tasks.classify.kinds import LabelKind
from glassformer.tasks.classify.labels import label_kind_of, labels_of, relabelled
from glassformer.tasks.columns import (
    check_columns,
    chunks,
    columns_of,
    head_of,
    limit_of,
    placed,
    reads_segments,
    store_examples,
    tell_cut,
    text_of,
)
from glassformer.tasks.metrics.bootstrap import Bootstrap
from glassformer.tasks.metrics.classes import sklearn_metrics
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.microbatch import Example
from glassformer.tasks.predictions import Prediction

if TYPE_CHECKING:
    from glassformer.model import Model


class ClassificationTask(Task):
    """A label for each example, whatever its inputs are: one class, several labels, or a number, as the config says.

    A subclass names its head and columns, the label's among them, and encodes rows.

    kind: of the labels, which decides the loss, the predictions and the metrics (`kinds.py`)

    Args: columns: role → column · separator: what stands between several labels in a text
    Raises: ConfigError: the model has no head, or its config does not say what the head predicts.
    """

    TARGETS = ("label",)

    def __init__(
        self, model: Model, *, columns: Mapping[str, str] | None = None, separator: str | None = None
    ) -> None:
        super().__init__(model)
        self.columns = columns_of(self.COLUMNS, columns)
        self.head = head_of(model, self.HEAD)
        self.separator = separator
        self.kind: LabelKind = label_kind_of(model.config, separator=separator)
        self.METRIC, self.VALIDATION_METRIC = self.kind.METRIC, self.kind.VALIDATION_METRIC

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
        return relabelled(config, labels_of(rows, column, separator=options.get("separator")), own=own)

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return text_labels(examples, self.kind.DTYPE)

    def decode(self, logits: Tensor, example: Example) -> dict[str, Any]:
        return self.kind.decode(logits, np.asarray(example["labels"]))

    def metric(self) -> Metric:
        return self.kind.metric(self.head)

    def check_evaluation(self) -> None:
        sklearn_metrics()

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return self.kind.metrics(predictions)

    def per_class(self, predictions: Sequence[Prediction]) -> PerClassReport | None:
        return self.kind.per_class(predictions)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        return self.kind.notes(predictions)


class Classify(ClassificationTask):
    """The class, labels or number of a text or a pair of texts.

    Args:
        columns: role → column; `pair` is read where it is named, or where the first rows have its usual column
        max_tokens: longer texts are cut, of a pair the longer first, and counted; None = what the model can take
        separator: as of `ClassificationTask`
    """

    HEAD = "text-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "pair": "text_pair", "label": "label"}

    def __init__(
        self,
        model: Model,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        separator: str | None = None,
    ) -> None:
        super().__init__(model, columns=columns, separator=separator)
        self.max_tokens = limit_of(model, max_tokens)
        self._reads_pair = True if "pair" in (columns or {}) else None
        self._token_types = reads_segments(model)

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        pair = self.columns["pair"]
        if self._reads_pair is None:  # the rows that come first are those that are learned from
            self._reads_pair = pair in rows.columns
        check_columns(rows, [c for role, c in self.columns.items() if role != "pair" or self._reads_pair])
        return store_examples(
            self._made(rows, pair if self._reads_pair else None),
            rows,
            self.model,
            cache,
            objective=self.HEAD,
            columns=self.columns,
            cut=self.max_tokens,
            pair=self._reads_pair,
            labels=self.kind.config(),
            separator=self.separator,
        )

    def _made(self, rows: Dataset, pair: str | None) -> Iterator[Example]:
        cut = 0
        for numbers, held in chunks(rows):
            texts: list[str] = []
            pairs: list[str] = []
            labels: list[np.ndarray] = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    texts.append(text_of(row, self.columns["text"]))
                    if pair is not None:
                        pairs.append(text_of(row, pair))
                    labels.append(self.kind.read(row.get(self.columns["label"])))
            made, too_long = self.encoded(texts, pairs if pair is not None else None)
            cut += too_long
            if numbers.start == 0:
                self.look_for_first_token(made[0]["input_ids"])
            for index, example, label in zip(numbers, made, labels, strict=True):
                if not len(example["input_ids"]):
                    raise DataError(
                        f"{rows.where(index)}: the text {texts[index - numbers.start]!r} has no token"
                    )
                yield {**example, "labels": label}
        tell_cut("texts" if pair is None else "pairs of texts", cut, len(rows), self.max_tokens)

    def encoded(self, texts: list[str], pairs: list[str] | None) -> tuple[list[dict[str, Any]], int]:
        """Texts, or pairs of them, as examples without labels; and how many were cut."""
        tokenizer = self.model.tokenizer
        if pairs is None:
            ids, cut = tokenizer.batch_ids(texts, self.max_tokens)
            return [{"input_ids": np.array(row, dtype=np.int32)} for row in ids], cut
        rows, cut = tokenizer.batch_pairs(texts, pairs, self.max_tokens)
        made: list[dict[str, Any]] = []
        for row in rows:
            made.append({"input_ids": np.array(row.ids, dtype=np.int32)})
            if self._token_types:
                made[-1]["token_type_ids"] = np.array(row.token_types, dtype=np.int8)
        return made, cut

    def look_for_first_token(self, ids: np.ndarray) -> None:
        """Warn where the head judges texts by their first token, and the tokenizer puts none there for it."""
        tokenizer = self.model.tokenizer
        marker = tokenizer.cls_token_id
        if self.head.reads_first_token and marker is not None and ids[:1].tolist() != [marker]:
            warnings.warn(
                f"the head reads each text's first token, which should be {tokenizer.cls_token!r}, and this tokenizer "
                "does not put it there; give its tokenizer.json a post-processor that does",
                stacklevel=2,
            )

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        from glassformer.tasks.classify.baselines import class_baselines

        yield from class_baselines(self, train, predictions, self.initial_model)
