"""Judging the tags of words: entities as wholes, other tags as classes of words.

    tokens   [CLS]  jeff   dean   works ‖ at  google [SEP]       a word is judged by its first token
    words           Jeff   Dean   works   at  Google             "at" and "Google" were cut off: they count as O

Every word of a row is judged, also one that the model never saw: a figure must not rise because rows were cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.errors import DataError
from glassformer.files import shown
from glassformer.tasks.base import Rows
from glassformer.tasks.columns import chunks
from glassformer.tasks.evaluator import Baseline, Classes, Judge
from glassformer.tasks.loop import TOKENS, answers
from glassformer.tasks.metrics.bootstrap import Sampled
from glassformer.tasks.metrics.classes import SaidClasses, sklearn_metrics, undefined
from glassformer.tasks.metrics.entities import SaidEntities, seqeval_metrics
from glassformer.tasks.predictions import Record
from glassformer.tasks.tag.task import Tag, words_and_tags

OUTSIDE = "O"


class TagJudge(Judge):
    """Which tag each word has.

    Args: tokens: of a pass at most; no figure depends on it
    Raises: MissingExtraError: without the package seqeval, or scikit-learn.
    """

    METRIC = "f1"
    objective: Tag

    def __init__(self, objective: Tag, *, tokens: int = TOKENS) -> None:
        super().__init__(objective)
        self.tokens, self.tags = tokens, objective.tags
        self.names = list(self.tags.names)
        if self.tags.marks_entities:
            seqeval_metrics()  # what is missing is better known before the model is asked
            self.names += [OUTSIDE] if OUTSIDE not in self.names else []
        else:
            sklearn_metrics()
            self.METRIC = "f1_weighted"

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        made = list(self._seen(rows, progress))
        unseen = OUTSIDE if self.tags.marks_entities else _most_frequent(made)
        for record in made:
            said = [unseen if tag is None else tag for tag in record.said]
            yield replace(record, said=said, right=said == record.label)

    def _seen(self, rows: Rows, progress: Callable[[int], None] | None) -> Iterator[Record]:
        """What the model says of the words that it sees; None of the others."""
        objective, reader = self.objective, self.model.tokenizer
        said = answers(objective, objective.examples(rows), tokens=self.tokens, progress=progress)
        for numbers, held in chunks(rows):
            read = [words_and_tags(row, objective.columns) for row in held]
            encoded = reader.batch_words([words for words, _ in read], objective.max_tokens)
            for index, (words, tags), row in zip(numbers, read, encoded, strict=True):
                label = [self.tags.number(tag) for tag in tags]
                tagged = self._of_words(next(said).float().cpu(), np.array(row.words), label)
                yield Record(
                    index=index,
                    where=rows.where(index),
                    row={"tokens": words},
                    label=[self.names[number] for number in label],
                    **tagged,
                )

    def _of_words(self, logits: Tensor, owners: np.ndarray, label: list[int]) -> dict[str, Any]:
        """What was said of each word, and its loss. Args: logits: [tokens, tags] · owners: the word of each token"""
        found, first = np.unique(owners, return_index=True)
        words, places = found[found >= 0].tolist(), first[found >= 0]
        sure = logits[places].log_softmax(-1)
        said: list[str | None] = [None] * len(label)
        losses: list[float | None] = [None] * len(label)
        for word, scores, best in zip(words, sure, sure.argmax(-1).tolist(), strict=True):
            said[word], losses[word] = self.names[best], -float(scores[label[word]])
        known = [loss for loss in losses if loss is not None]
        return {"said": said, "loss": sum(known) / len(known), "details": {"losses": losses}}

    def judged(self, records: Sequence[Record]) -> Sampled:
        return self._entities(records) if self.tags.marks_entities else self._words(records)

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        from glassformer.tasks.tag.baselines import tag_baselines

        yield from tag_baselines(self.objective, train, records)

    def classes(self, records: Sequence[Record]) -> Classes:
        """Types of entities, or tags; the confusion is of the tags of words in any case."""
        words = self._words(records)
        each = (self._entities(records) if self.tags.marks_entities else words).each()
        return Classes(names=self.names, each=each, confusion=words.confusion())

    def notes(self, records: Sequence[Record]) -> list[str]:
        found = undefined(
            self.classes(records).each,
            "no entity is" if self.tags.marks_entities else "no word is",
            left_out=True,
            weighted=not self.tags.marks_entities,
        )
        losses = list(chain.from_iterable(record.details.get("losses", []) for record in records))
        if unseen := losses.count(None):
            counted = f"{OUTSIDE!r}" if self.tags.marks_entities else "the tag that was said most often"
            found.append(
                f"{unseen:,} of {len(losses):,} words were cut off, or have no token; each counts as {counted}"
            )
        return found

    def _entities(self, records: Sequence[Record]) -> SaidEntities:
        self._check(records)
        return SaidEntities(
            self.names, [record.label for record in records], [record.said for record in records]
        )

    def _words(self, records: Sequence[Record]) -> SaidClasses:
        number = self._check(records)
        sides = ([record.label for record in records], [record.said for record in records])
        true, said = (np.array([number[tag] for tag in chain.from_iterable(side)]) for side in sides)
        return SaidClasses(
            self.names, true, said, np.repeat(np.arange(len(records)), list(map(len, sides[0])))
        )

    def _check(self, records: Sequence[Record]) -> dict[str, int]:
        """The number of each tag. Raises: DataError: a record with others, or not a tag for each word."""
        number = {name: i for i, name in enumerate(self.names)}
        for record in records:
            if len(record.label) != len(record.said):
                raise DataError(
                    f"{record.where}: {len(record.label)} tags are true, and {len(record.said)} were said"
                )
            for tag in (*record.label, *record.said):
                if tag not in number:
                    raise DataError(
                        f"{record.where}: the tag {shown(tag)} is none that the model knows: {', '.join(number)}"
                    )
        return number


def _most_frequent(records: Sequence[Record]) -> str:
    """The tag that was said most often."""
    counted: Counter[str] = Counter(tag for record in records for tag in record.said if tag is not None)
    return counted.most_common(1)[0][0]
