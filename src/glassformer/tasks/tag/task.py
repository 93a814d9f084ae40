"""A label for each word: named entities, parts of speech.

    row        {"tokens": ["Jeff", "Deane", "works"], "tags": ["B-PER", "I-PER", "O"]}
    example    [CLS]  jeff   dean   ##e   works [SEP]
    labels     -100   B-PER  I-PER  -100  O     -100          as numbers; -100 does not count

A word is judged by its first token alone, so that each word counts once, however many tokens it falls into.
Source: Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.heads import Head
from glassformer.errors import DataError
from glassformer.tasks.base import Examples, Meter, Objective, Rows
from glassformer.tasks.classify.labels import OneOf, names_in, relabelled
from glassformer.tasks.classify.values import name_of, sorted_names
from glassformer.tasks.columns import (
    check_columns,
    chunks,
    columns_of,
    head_of,
    kept,
    limit_of,
    placed,
    tell_cut,
    words_of,
)
from glassformer.tasks.metrics.entities import Entities, marks_entities
from glassformer.tasks.metrics.meters import Classification
from glassformer.tasks.microbatch import HIDDEN, Example, joined, padded

if TYPE_CHECKING:
    from glassformer.model import Model


class Tags(OneOf):
    """The tags of words: of entities, which are judged as wholes, or others, which are classes of words."""

    PROBLEM = None

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.marks_entities = marks_entities(names)
        self.METRIC = "f1" if self.marks_entities else "f1_macro"

    def number(self, value: object) -> int:
        """The number of a tag. A number is one itself, but not its letter, which is often meant for an O."""
        if isinstance(value, str) and value not in self.names:
            raise self.unknown(value)
        return super().number(value)

    def meter(self, head: Head) -> Meter:
        return (Entities if self.marks_entities else Classification)(head, self.names)


class Tag(Objective):
    """Which tag each word has; the model's config names the tags.

    Tags of entities (O, B-PER, I-PER, …) are judged by whole entities, others as classes of words.

    Args:
        columns: role → column
        max_tokens: longer rows are cut, and the words that are lost counted; None = what the model can take
        all_tokens: every token of a word has its tag, and what begins in the first (B-PER) goes on in the others
            (I-PER); the words then count as often as they have tokens, in the figures too
    Raises: ConfigError: the model has no head, or its config does not name the tags.
    """

    TASK = "token-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"tokens": "tokens", "tags": "tags"}
    SAID = ("tags",)
    HIGHER = True

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
        self.tags = Tags(names_in(model.config))
        self.head = head_of(model, self.TASK)
        self.METRIC = self.tags.METRIC
        self.max_tokens = limit_of(model, max_tokens)
        self.all_tokens = all_tokens
        self._next = _tags_within(self.tags.names)

    @classmethod
    def head_config(
        cls,
        rows: Rows,
        config: Mapping[str, Any],
        *,
        own: bool,
        columns: Mapping[str, str] | None,
        options: Any,
    ) -> dict[str, Any]:
        return relabelled(config, tags_of(rows, columns), own=own)

    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        return kept(
            self._made(rows),
            rows,
            self.model,
            cache,
            objective=self.TASK,
            columns=self.columns,
            cut=self.max_tokens,
            tags=self.tags.names,
            all_tokens=self.all_tokens,
        )

    def _made(self, rows: Rows) -> Iterator[Example]:
        cut = lost = silent = 0
        for numbers, held in chunks(rows):
            words: list[list[str]] = []
            tags: list[np.ndarray] = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    read, said = words_and_tags(row, self.columns)
                    words.append(read)
                    tags.append(np.array([self.tags.number(tag) for tag in said], dtype=np.int32))
            made = self.model.tokenizer.batch_words(words, self.max_tokens)
            for index, encoded, numbered in zip(numbers, made, tags, strict=True):
                owners = np.array(encoded.words, dtype=np.int64)
                without = len(numbered) - len(np.unique(owners[owners >= 0]))
                if without == len(numbered):
                    raise DataError(f"{rows.where(index)}: none of its {without} words has a token")
                if encoded.cut:
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
        labels = np.full(len(owners), HIDDEN, dtype=np.int32)
        if self.all_tokens:
            labels[owners >= 0] = self._next[tags[owners[owners >= 0]]]
        words, first = np.unique(owners, return_index=True)
        labels[first[words >= 0]] = tags[words[words >= 0]]
        return labels

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        arrays = [example["labels"] for example in examples]
        return joined(arrays) if self.packs else padded(arrays, HIDDEN, torch.int64)

    def meter(self) -> Meter:
        return self.tags.meter(self.head)


def tags_of(rows: Rows, columns: Mapping[str, str] | None = None) -> Tags:
    """The tags of the rows that are learned from: O first, then type by type.

    Raises: DataError: a row without tags, or another number of them than of words; tags of entities and others in one
        column, such as 0 beside B-PER.
    """
    columns = columns_of(Tag.COLUMNS, columns)
    check_columns(rows, list(columns.values()))
    where: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for index, row in enumerate(iter(rows)):
        with placed(rows, index):
            tags = [name_of(tag) for tag in words_and_tags(row, columns)[1]]
        for tag in tags:
            counts[tag] += 1
            where.setdefault(tag, index)
    names = sorted(sorted_names(counts), key=lambda tag: (tag != "O", tag.partition("-")[2]))
    if len(names) < 2:
        what = f"is {names[0]!r}" if names else "is missing"
        raise DataError(
            f"{rows.where(0)}: every tag of {columns['tags']!r} {what}; there is nothing to learn"
        )
    others = [tag for tag in names if not marks_entities([tag, "B-x"])]
    entities = [tag for tag in names if tag not in others and "-" in tag]
    if others and entities:
        odd = min(others, key=counts.__getitem__)
        hint = "; the letter O stands for no entity" if odd == "0" else ""
        raise DataError(
            f"{rows.where(where[odd])}: the tag {odd!r} is none of entities, as {entities[0]!r} is{hint}; tags are O, "
            "or B-, I-, E- or S- and a type"
        )
    return Tags(names)


def words_and_tags(row: Mapping[str, Any], columns: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    """The words of a row, and a tag for each.

    Raises: DataError: there are not as many, or none.
    """
    words = words_of(row, columns["tokens"])
    tags = row.get(columns["tags"])
    tags = tags.tolist() if isinstance(tags, np.ndarray) else tags
    if not isinstance(tags, (list, tuple)):
        raise DataError(f"{columns['tags']!r} is {tags!r:.80}; it must be a list with a tag for each word")
    if len(words) != len(tags) or not words:
        raise DataError(
            f"{columns['tokens']!r} has {len(words)} words and {columns['tags']!r} has {len(tags)} tags; "
            "each word has one tag"
        )
    return words, list(tags)


def _tags_within(names: Sequence[str]) -> np.ndarray:
    """Tag → the tag of what follows within the same word: I-PER for B-PER where there is one, else the same."""
    within = [f"I{name[1:]}" if name.startswith("B") else name for name in names]
    return np.array([names.index(name if name in names else names[i]) for i, name in enumerate(within)])
