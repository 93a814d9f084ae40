"""Token classification: a tag for each word, such as named entities or parts of speech.

    row        {"tokens": ["Jeff", "Deane", "works"], "tags": ["B-PER", "I-PER", "O"]}
    example    [CLS]  jeff   dean   ##e   works [SEP]
    labels     -100   B-PER  I-PER  -100  O     -100          as numbers; -100 does not count

    tags       B-PER  I-PER  O      entities, scored as wholes by seqeval
               NOUN   NOUN   VERB   classes of words, scored one by one by scikit-learn

A word is evaluated by its first token alone, so that each word counts once, however many tokens it has. Every word
of a row is scored, also one that was cut off: a score must not rise because rows were cut.
Source: Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.base import Progress
from glassformer.tasks.classify.kinds import SingleLabel, name_of, sorted_names
from glassformer.tasks.classify.task import ClassificationTask, count_names, label_names
from glassformer.tasks.columns import (
    check_columns,
    columns_of,
    limit_of,
    listed,
    row_chunks,
    tell_cut,
    words_of,
)
from glassformer.tasks.metrics.classes import ClassificationMetric, ClassificationScores
from glassformer.tasks.metrics.entities import EntityMetric, EntityScores, marks_entities
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.types import Dataset, Example, MicroBatch, Prediction
from glassformer.tasks.windows import token_labels

OUTSIDE = "O"
"""The tag of words that are of no entity."""

COLUMNS = {"tokens": "tokens", "tags": "tags"}


class Tags(SingleLabel):
    """The tags of words: of entities, which are scored as wholes, or others, which are classes of words.

    scored_names: the tags that predictions may have, by number: O is among those of entities in any case
    """

    PROBLEM = None

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.marks_entities = marks_entities(names)
        self.scored_names = list(names)
        if self.marks_entities:
            self.METRIC = self.VALIDATION_METRIC = "f1"
            self.scored_names += [OUTSIDE] if OUTSIDE not in names else []

    def number(self, value: object) -> int:
        """The number of a tag. A number is one itself, but not its digits, since "0" is often meant for an O."""
        if isinstance(value, str) and value not in self.names:
            raise self.unknown(value)
        return super().number(value)

    def metric(self, head: Head) -> Metric:
        if self.marks_entities:
            return EntityMetric(head, self.scored_names)
        return ClassificationMetric(head, self.names, read=_predicted_and_true)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        """Raises: DataError: a prediction with other tags, or not one for each word."""
        number = {name: i for i, name in enumerate(self.scored_names)}
        for x in predictions:
            if len(x.label) != len(x.predicted):
                raise DataError(f"{x.where}: {len(x.label)} tags are true, and {len(x.predicted)} were predicted")
            for tag in (*x.label, *x.predicted):
                if tag not in number:
                    raise DataError(
                        f"{x.where}: the tag {safe_repr(tag)} is none that the model knows: {', '.join(number)}"
                    )
        sides = [x.label for x in predictions], [x.predicted for x in predictions]
        if self.marks_entities:
            return EntityScores(self.scored_names, *sides)
        true, predicted = (np.array([number[tag] for tag in chain.from_iterable(side)]) for side in sides)
        rows = np.repeat(np.arange(len(predictions)), list(map(len, sides[0])))
        return ClassificationScores(self.scored_names, true, predicted, rows)

    def of_unseen_words(self, predicted: Sequence[Sequence[str | None]]) -> str:
        """The tag that words count as which the model never saw: O, or the one that was predicted most often."""
        if self.marks_entities:
            return OUTSIDE
        counts: Counter[str] = Counter(tag for tags in predicted for tag in tags if tag is not None)
        return max(self.names, key=counts.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordBatch(MicroBatch):
    """A micro-batch with all words of its rows, by which it is scored.

    words: of each row the true tags of its words, and the place of the first token of each among the tokens of the row,
        -1 for a word that was cut off or has no token. [words, 2]
    """

    words: tuple[Tensor, ...]

    def tags_of_words(self, output: Output) -> tuple[Tensor, Tensor, Tensor]:
        """The predicted tag of each word, -1 where the model does not see it, the true one, and the number of its row.

        [words] each, on the CPU
        """
        assert output.logits is not None
        tags = output.logits.argmax(-1).cpu()
        lengths = [tags.shape[1]] * len(self.words) if self.flow.packing is None else self.flow.packing.lengths
        tags = torch.cat([tags.flatten(), torch.tensor([-1])])  # place -1 is the last
        firsts = zip(self.words, accumulate(lengths, initial=0), strict=False)
        predicted = [tags[torch.where(row[:, 1] < 0, -1, row[:, 1] + first)] for row, first in firsts]
        rows = torch.arange(len(self.words)).repeat_interleave(torch.tensor([len(row) for row in self.words]))
        return torch.cat(predicted), torch.cat([row[:, 0] for row in self.words]), rows


def _predicted_and_true(output: Output, batch: MicroBatch) -> tuple[Tensor, Tensor]:
    assert isinstance(batch, WordBatch)
    predicted, true, _ = batch.tags_of_words(output)
    return predicted, true


def tags_of(rows: Dataset, columns: Mapping[str, str] | None = None) -> Tags:
    """The tags of the rows that are learned from: O first, then type by type.

    Raises: DataError: a row without tags, or another number of them than of words; tags of entities and others in one
        column, such as 0 with B-PER.
    """
    columns = columns_of(COLUMNS, columns)
    check_columns(rows, columns)
    counts, where = count_names(rows, iter(rows), lambda row: [name_of(tag) for tag in words_and_tags(row, columns)[1]])
    names = sorted(sorted_names(counts), key=lambda tag: (tag != "O", tag.partition("-")[2]))
    if len(names) < 2:
        what = f"is {names[0]!r}" if names else "is missing"
        raise DataError(f"{rows.where(0)}: every tag of {columns['tags']!r} {what}; there is nothing to learn")
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
    tags = listed(row.get(columns["tags"]))
    if tags is None:
        given = safe_repr(row.get(columns["tags"]))
        raise DataError(f"{columns['tags']!r} is {given}; it must be a list with a tag for each word")
    if len(words) != len(tags) or not words:
        raise DataError(
            f"{columns['tokens']!r} has {len(words)} words and {columns['tags']!r} has {len(tags)} tags; "
            "each word has one tag"
        )
    return words, tags


class Tag(ClassificationTask):
    """Which tag each word has; the model's config names the tags.

    Tags of entities (O, B-PER, I-PER, …) are evaluated by whole entities, others as classes of words.

    Args:
        columns: role → column
        max_tokens: longer rows are cut, and the words that are lost counted; None = what the model can take
        all_tokens: every token of a word has its tag, and what begins in the first (B-PER) continues in the others
            (I-PER); in the loss the words then count as often as they have tokens
    Raises: ConfigError: the model has no head, or its config does not name the tags.
    """

    HEAD = "token-classification"
    BASELINES = "glassformer.tasks.tag.baselines:tag_baselines"
    COLUMNS: ClassVar[Mapping[str, str]] = COLUMNS
    TARGETS = ("tags",)
    kind: Tags

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        all_tokens: bool = False,
    ) -> None:
        super().__init__(model, columns=columns)
        self.max_tokens = limit_of(model, max_tokens)
        self.all_tokens = all_tokens
        names = self.kind.names
        self.how = {"cut": self.max_tokens, "tags": names, "all_tokens": all_tokens, "scored by": "words"}
        within = [f"I{name[1:]}" if name.startswith("B") else name for name in names]
        # Tag → that of what follows within the same word: I-PER for B-PER where there is one, else the same.
        self._next = np.array([names.index(name if name in names else names[i]) for i, name in enumerate(within)])

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> Tags:
        return Tags(label_names(config))

    @staticmethod
    def kind_of_rows(rows: Dataset, columns: Mapping[str, str], separator: str | None) -> Tags:
        return tags_of(rows, columns)

    def _read(self, row: Mapping[str, Any]) -> tuple[list[str], np.ndarray]:
        """The words of a row, and the numbers of their tags."""
        words, tags = words_and_tags(row, self.columns)
        return words, np.array([self.kind.number(tag) for tag in tags], dtype=np.int32)

    def _tokenised(self, rows: Dataset) -> Iterator[tuple[int, list[str], np.ndarray, Any]]:
        """Each row: its number, its words, the numbers of their tags, its tokens and the word of each."""
        for numbers, parsed in row_chunks(rows, self._read):
            encoded = self.model.tokenizer.batch_words([words for words, _ in parsed], self.max_tokens)
            for index, (words, tags), row in zip(numbers, parsed, encoded, strict=True):
                yield index, words, tags, row

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        cut = lost = silent = 0
        for index, words, tags, encoded in self._tokenised(rows):
            owners = np.array(encoded.words, dtype=np.int64)
            seen, first = first_tokens(owners)
            without = len(words) - len(seen)
            if without == len(words):
                raise DataError(f"{rows.where(index)}: none of its {without} words has a token")
            if encoded.truncated:
                cut, lost = cut + 1, lost + without
            else:
                silent += without
            labels = np.full(len(owners), IGNORE_INDEX, dtype=np.int32)
            if self.all_tokens:
                labels[owners >= 0] = self._next[tags[owners[owners >= 0]]]
            labels[first] = tags[seen]
            places = np.full(len(words), -1, dtype=np.int32)
            places[seen] = first
            yield {
                "input_ids": np.array(encoded.ids, dtype=np.int32),
                "labels": labels,
                "words": np.stack((tags, places), -1),
            }
        tell_cut(f"rows, with {lost:,} words,", cut, len(rows), self.max_tokens)
        if silent:
            warnings.warn(
                f"{silent:,} words, such as those of control characters, have no token; nothing is learned of them",
                stacklevel=2,
            )

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> WordBatch:
        item = super().collate(examples, indices)
        words = tuple(torch.from_numpy(np.array(example["words"], dtype=np.int64)) for example in examples)
        return WordBatch(item.batch, item.flow, item.labels, item.indices, item.tokens, words=words)

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return token_labels([example["labels"] for example in examples], flow)

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """A tag for each word of each row; words that were cut off, or have no token, count as untagged."""
        tokens = self.evaluation.tokens
        logits = run_examples(self, self.encode(rows), tokens=tokens, progress=progress)
        predictions = [
            Prediction(
                index=index,
                where=rows.where(index),
                row={"tokens": words},
                label=[self.kind.names[number] for number in tags],
                **self._decode_words(next(logits).float().cpu(), np.array(row.words), tags),
            )
            for index, words, tags, row in self._tokenised(rows)
        ]
        untagged = self.kind.of_unseen_words([x.predicted for x in predictions])
        for x in predictions:
            tagged = [untagged if tag is None else tag for tag in x.predicted]
            yield replace(x, predicted=tagged, correct=tagged == x.label)

    def _decode_words(self, logits: Tensor, owners: np.ndarray, tags: np.ndarray) -> dict[str, Any]:
        """The tag of each word by its first token, and its loss; None for words that the model does not see.

        Args:
            logits: [tokens, tags]
            owners: the word of each token, -1 for none. [tokens]
            tags: of words
        """
        seen, first = first_tokens(owners)
        log_probs = logits[first].log_softmax(-1)
        predicted: list[str | None] = [None] * len(tags)
        losses: list[float | None] = [None] * len(tags)
        best = log_probs.argmax(-1).tolist()
        for word, scores, tag in zip(seen.tolist(), log_probs, best, strict=True):
            predicted[word], losses[word] = self.kind.names[tag], -float(scores[tags[word]])
        known = [loss for loss in losses if loss is not None]
        return {"predicted": predicted, "loss": sum(known) / len(known), "details": {"losses": losses}}

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        losses = list(chain.from_iterable(x.details.get("losses", []) for x in predictions))
        if not (unseen := losses.count(None)):
            return []
        counted = f"{OUTSIDE!r}" if self.kind.marks_entities else "the tag that was predicted most often"
        return [f"{unseen:,} of {len(losses):,} words were cut off, or have no token; each counts as {counted}"]


def first_tokens(owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The words that have a token, and the first token of each.

    Args:
        owners: the word of each token, -1 for none [tokens]
    """
    words, first = np.unique(owners, return_index=True)
    return words[words >= 0], first[words >= 0]
