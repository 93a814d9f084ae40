"""Next-sentence prediction, does the second segment follow the first; and sentence order, which of two is the first.

    document    A1 A2 A3 A4 A5                             another document   B1 B2 B3
    half        [CLS] A1 A2 A3 [SEP] A4 A5 [SEP]  → 0      it does
    half        [CLS] A1 A2 A3 [SEP] B2 B3 [SEP]  → 1      it does not

Where a window of sentences is cut in two, and what follows, is drawn again each time it is read.
Sources: Devlin et al. 2019, section 3.1 and appendix A.2; Lan et al. 2020 (ALBERT), section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.masked import Masking
from glassformer.tasks.metrics.classes import ClassificationMetric
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.types import Dataset, Example, Examples
from glassformer.tasks.windows import (
    LanguageTask,
    joined_window,
    max_example_tokens,
    sentence_windows,
    split_stretches,
    tokens_beside_special,
)
from glassformer.text.engine import pair_template

FOLLOWS, DOES_NOT = 0, 1
IN_ORDER, SWAPPED = 0, 1


class SentenceWindows:
    """Windows of sentences by number; each example knows the pool, from which a stranger to it can be drawn."""

    def __init__(self, windows: Examples) -> None:
        self._windows = windows
        self.lengths = windows.lengths
        self.fingerprint = windows.fingerprint
        if len({int(windows[index]["document"]) for index in (0, len(windows) - 1)}) < 2:
            raise DataError("all sentences are of one document; a sentence that does not follow needs another one")

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> Example:
        return {**self._windows[index], "pool": self}

    def stranger(self, document: int, draw: np.random.Generator) -> Example:
        """A window of another document."""
        while True:
            candidate = self._windows[int(draw.integers(len(self)))]
            if int(candidate["document"]) != document:
                return candidate


class NextSentence(LanguageTask):
    """Documents of sentences, cut into pairs of segments.

    Args:
        language: of the texts, for finding sentences
        max_tokens: of a pair; None = as many as the model takes
        columns: role → column, where a column has another name
    """

    HEAD = "next-sentence-prediction"
    VALIDATION_METRIC = "accuracy"
    EVALUATION = None
    CACHE_KEY = "next"
    REQUIRES = "a text of two sentences at least is needed"

    def __init__(
        self,
        model: LoadedModel,
        *,
        language: str = "en",
        max_tokens: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        if model.network.token_types in (0, 1):
            raise ConfigError(f"a {model.family.model_type!r} model does not tell two segments apart")
        super().__init__(model, columns)
        self.language = language
        self.max_tokens = max_example_tokens(model, max_tokens)
        self.frame, self.types = pair_template(model.tokenizer.engine)
        self.room = tokens_beside_special(self.max_tokens, sum(map(len, self.frame)), least=2)
        self.how = {"room": self.room, "language": self.language}

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        """Windows of two sentences or more; a text of one sentence has no next, and makes none."""
        return SentenceWindows(super().encode(rows, cache=cache))

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        sentences = split_stretches(example["input_ids"], example["sentences"])
        cut = int(draw.integers(1, len(sentences)))
        first, second = (np.concatenate(part) for part in (sentences[:cut], sentences[cut:]))
        label = FOLLOWS
        if draw.random() < 0.5:
            stranger = example["pool"].stranger(int(example["document"]), draw)
            others = split_stretches(stranger["input_ids"], stranger["sentences"])
            begin = int(draw.integers(len(others)))
            second = np.concatenate(others[begin:])[: self.room - len(first)]
            label = DOES_NOT
        return {**self._framed(first, second), "next_sentence_label": label}

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor | dict[str, Tensor]:
        return torch.tensor([int(example["next_sentence_label"]) for example in examples])

    def metric(self) -> Metric:
        return ClassificationMetric(self.head, ("follows", "does not follow"))

    def make_examples(self, rows: Dataset) -> Iterator[dict[str, Any]]:
        column, tokenizer = self.columns["text"], self.model.tokenizer
        for document, window in sentence_windows(rows, column, tokenizer, self.language, self.room):
            if len(window) > 1:
                yield {**joined_window(window), "document": document}

    def _framed(self, first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        """[CLS] first [SEP] second [SEP], and which segment every token is of."""
        before, between, after = self.frame
        types = [
            *self.types[0], *self.types[1] * len(first), *self.types[2], *self.types[3] * len(second), *self.types[4]
        ]  # fmt: skip
        ids = np.array([*before, *first, *between, *second, *after], dtype=np.int64)
        return {"input_ids": ids, "token_type_ids": np.array(types, dtype=np.int64)}


class PreTraining(NextSentence):
    """BERT's own: masked words and the next sentence at once.

    Args:
        rate: how many tokens are chosen to be hidden
        others: as in `NextSentence`
    """

    HEAD = "pre-training"
    VALIDATION_METRIC = "loss"
    LABEL = "next_sentence_label"

    def __init__(
        self,
        model: LoadedModel,
        *,
        rate: float = 0.15,
        language: str = "en",
        max_tokens: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, language=language, max_tokens=max_tokens, columns=columns)
        self.masking = Masking.of(model.tokenizer, rate)

    def pair(self, example: Example, draw: np.random.Generator) -> Example:
        """Two segments, and the label of the second."""
        return super().augment(example, draw)

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        pair = self.pair(example, draw)
        masked_ids, labels_of_pair = self.masking(pair["input_ids"], draw)
        return {**pair, "input_ids": masked_ids, "labels": labels_of_pair}

    def labels(self, examples: Sequence[Example], flow: Flow) -> dict[str, Tensor]:
        masked = LanguageTask.labels(self, examples, flow)
        assert isinstance(masked, Tensor)
        return {"labels": masked, self.LABEL: torch.tensor([int(example[self.LABEL]) for example in examples])}

    def metric(self) -> Metric:
        return Metric(self.head, ("masked", "next"))


class SentenceOrder(PreTraining):
    """ALBERT's own: masked words, and whether two consecutive segments are in their order or swapped.

    The arguments are those of `PreTraining`.
    """

    HEAD = "sentence-order-pre-training"
    LABEL = "sentence_order_label"
    CACHE_KEY = "order"

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        """Windows of two sentences or more; both segments are of one window, so one document is enough."""
        return LanguageTask.encode(self, rows, cache=cache)

    def pair(self, example: Example, draw: np.random.Generator) -> Example:
        sentences = split_stretches(example["input_ids"], example["sentences"])
        cut = int(draw.integers(1, len(sentences)))
        first, second = (np.concatenate(part) for part in (sentences[:cut], sentences[cut:]))
        swapped = draw.random() < 0.5
        framed = self._framed(second, first) if swapped else self._framed(first, second)
        return {**framed, self.LABEL: SWAPPED if swapped else IN_ORDER}
