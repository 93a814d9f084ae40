"""Token classification: a tag for each word, such as named entities or parts of speech.

    row        {"tokens": ["Jeff", "Deane", "works"], "tags": ["B-PER", "I-PER", "O"]}
    example    [CLS]  jeff   dean   ##e   works [SEP]
    labels     -100   B-PER  I-PER  -100  O     -100          as numbers; -100 does not count

A word is judged by its first token alone, so that each word counts once, however many tokens it falls into.
Source: Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.tasks.base import Baseline, Dataset, Examples, PerClassReport, Progress, Task
from glassformer.tasks.classify.kinds import label_names
from glassformer.tasks.classify.labels import relabelled
from glassformer.tasks.columns import (
    check_columns,
    chunks,
    columns_of,
    head_of,
    limit_of,
    placed,
    store_examples,
    tell_cut,
)
from glassformer.tasks.loop import run_examples
from glassformer.tasks.metrics.bootstrap import Bootstrap
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.microbatch import IGNORE_INDEX, Example, joined, padded
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.tag.tags import COLUMNS, Tags, tags_of, words_and_tags

if TYPE_CHECKING:
    from glassformer.model import Model


class Tag(Task):
    """Which tag each word has; the model's config names the tags.

    Tags of entities (O, B-PER, I-PER, …) are judged by whole entities, others as classes of words.

    Args:
        columns: role → column
        max_tokens: longer rows are cut, and the words that are lost counted; None = what the model can take
        all_tokens: every token of a word has its tag, and what begins in the first (B-PER) goes on in the others
            (I-PER); the words then count as often as they have tokens, in the figures too
    Raises: ConfigError: the model has no head, or its config does not name the tags.
    """

    HEAD = "token-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = COLUMNS
    TARGETS = ("tags",)

    def __init__(
        self,
        model: Model,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        all_tokens: bool = False,
    ) -> None:
        super().__init__(model)
        self.columns = columns_of(self.COLUMNS, columns)
        self.tags = Tags(label_names(model.config))
        self.head = head_of(model, self.HEAD)
        self.METRIC, self.VALIDATION_METRIC = self.tags.METRIC, self.tags.VALIDATION_METRIC
        self.max_tokens = limit_of(model, max_tokens)
        self.all_tokens = all_tokens
        self._next = _tags_within(self.tags.names)

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
        return relabelled(config, tags_of(rows, columns), own=own)

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        return store_examples(
            self._made(rows),
            rows,
            self.model,
            cache,
            objective=self.HEAD,
            columns=self.columns,
            cut=self.max_tokens,
            tags=self.tags.names,
            all_tokens=self.all_tokens,
        )

    def _made(self, rows: Dataset) -> Iterator[Example]:
        cut = lost = silent = 0
        for numbers, held in chunks(rows):
            words: list[list[str]] = []
            tags: list[np.ndarray] = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    read, tags_of_row = words_and_tags(row, self.columns)
                    words.append(read)
                    tags.append(np.array([self.tags.number(tag) for tag in tags_of_row], dtype=np.int32))
            made = self.model.tokenizer.batch_words(words, self.max_tokens)
            for index, encoded, numbered in zip(numbers, made, tags, strict=True):
                owners = np.array(encoded.words, dtype=np.int64)
                without = len(numbered) - len(np.unique(owners[owners >= 0]))
                if without == len(numbered):
                    raise DataError(f"{rows.where(index)}: none of its {without} words has a token")
                if encoded.truncated:
                    cut, lost = cut + 1, lost + without
                else:
                    silent += without
                yield {
                    "input_ids": np.array(encoded.ids, dtype=np.int32),
                    "labels": self._labelled(owners, numbered),
                }
        tell_cut(f"rows, with {lost:,} words,", cut, len(rows), self.max_tokens)
        if silent:
            warnings.warn(
                f"{silent:,} words, such as those of control characters, have no token; nothing is learned of them",
                stacklevel=2,
            )

    def _labelled(self, owners: np.ndarray, tags: np.ndarray) -> np.ndarray:
        """A label for each token: that of its word where it is the word's first, else -100. [tokens]"""
        labels = np.full(len(owners), IGNORE_INDEX, dtype=np.int32)
        if self.all_tokens:
            labels[owners >= 0] = self._next[tags[owners[owners >= 0]]]
        words, first = np.unique(owners, return_index=True)
        labels[first[words >= 0]] = tags[words[words >= 0]]
        return labels

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        arrays = [example["labels"] for example in examples]
        return joined(arrays) if self.packs else padded(arrays, IGNORE_INDEX, torch.int64)

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """A tag for each word of each row; words that were cut off, or have no token, count as untagged."""
        predictions = list(self._of_seen_words(rows, progress))
        untagged = self.tags.of_unseen_words([x.predicted for x in predictions])
        for x in predictions:
            tags = [untagged if tag is None else tag for tag in x.predicted]
            yield replace(x, predicted=tags, correct=tags == x.label)

    def _of_seen_words(self, rows: Dataset, progress: Progress | None) -> Iterator[Prediction]:
        """The predictions for the words that the model sees; None for the others."""
        tokens = self.evaluation.tokens
        logits = run_examples(self, self.encode(rows), tokens=tokens, progress=progress)
        for numbers, chunk in chunks(rows):
            words_of_rows = [words_and_tags(row, self.columns) for row in chunk]
            encoded = self.model.tokenizer.batch_words([words for words, _ in words_of_rows], self.max_tokens)
            for index, (words, tags), row in zip(numbers, words_of_rows, encoded, strict=True):
                label = [self.tags.number(tag) for tag in tags]
                yield Prediction(
                    index=index,
                    where=rows.where(index),
                    row={"tokens": words},
                    label=[self.tags.names[number] for number in label],
                    **self._decode_words(next(logits).float().cpu(), np.array(row.words), label),
                )

    def _decode_words(self, logits: Tensor, owners: np.ndarray, label: list[int]) -> dict[str, Any]:
        """The tag of each word by its first token, and its loss.

        Args: logits: [tokens, tags] · owners: the word of each token, -1 for none. [tokens]
        """
        words, first = np.unique(owners, return_index=True)
        log_probs = logits[first[words >= 0]].log_softmax(-1)
        predicted: list[str | None] = [None] * len(label)
        losses: list[float | None] = [None] * len(label)
        best = log_probs.argmax(-1).tolist()
        for word, scores, tag in zip(words[words >= 0].tolist(), log_probs, best, strict=True):
            predicted[word], losses[word] = self.tags.names[tag], -float(scores[label[word]])
        known = [loss for loss in losses if loss is not None]
        return {"predicted": predicted, "loss": sum(known) / len(known), "details": {"losses": losses}}

    def metric(self) -> Metric:
        return self.tags.metric(self.head)

    def check_evaluation(self) -> None:
        self.tags.check_packages()

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        scores: Bootstrap = self.tags.metrics(predictions)
        return scores

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        from glassformer.tasks.tag.baselines import tag_baselines

        yield from tag_baselines(self, train, predictions)

    def per_class(self, predictions: Sequence[Prediction]) -> PerClassReport:
        return self.tags.per_class(predictions)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        return self.tags.notes(predictions)


def _tags_within(names: Sequence[str]) -> np.ndarray:
    """Tag → the tag of what follows within the same word: I-PER for B-PER where there is one, else the same."""
    within = [f"I{name[1:]}" if name.startswith("B") else name for name in names]
    return np.array([names.index(name if name in names else names[i]) for i, name in enumerate(within)])
