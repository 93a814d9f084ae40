"""The tags of words: which there are, and how they are scored: entities as wholes, other tags as classes of words.

    tags         B-PER  I-PER  O      entities, scored as wholes by seqeval
                 NOUN   NOUN   VERB   classes of words, scored one by one by scikit-learn

Every word of a row is scored, also one that was cut off: a score must not rise because rows were cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from glassformer.core.heads import Head
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.tasks.base import Dataset, PerClassReport
from glassformer.tasks.classify.kinds import SingleLabel
from glassformer.tasks.classify.values import name_of, sorted_names
from glassformer.tasks.columns import check_columns, columns_of, placed, words_of
from glassformer.tasks.metrics.classes import (
    ClassificationMetric,
    ClassificationScores,
    sklearn_metrics,
    undefined_scores,
)
from glassformer.tasks.metrics.entities import EntityMetric, EntityScores, marks_entities, seqeval_metrics
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.predictions import Prediction

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
        self.METRIC, self.VALIDATION_METRIC = (
            ("f1", "f1") if self.marks_entities else ("f1_weighted", "f1_macro")
        )
        missing = self.marks_entities and OUTSIDE not in names
        self.scored_names = [*names, OUTSIDE] if missing else list(names)

    def number(self, value: object) -> int:
        """The number of a tag. A number is one itself, but not its digits, since "0" is often meant for an O."""
        if isinstance(value, str) and value not in self.names:
            raise self.unknown(value)
        return super().number(value)

    def metric(self, head: Head) -> Metric:
        return (EntityMetric if self.marks_entities else ClassificationMetric)(head, self.names)

    def check_packages(self) -> None:
        """Raises: MissingExtraError: without the package seqeval, or scikit-learn."""
        (seqeval_metrics if self.marks_entities else sklearn_metrics)()

    def metrics(self, predictions: Sequence[Prediction]) -> Any:
        return self._entities(predictions) if self.marks_entities else self._words(predictions)

    def per_class(self, predictions: Sequence[Prediction]) -> PerClassReport:
        """Types of entities, or tags; the confusion matrix is that of the tags of words in any case."""
        words = self._words(predictions)
        scores = (self._entities(predictions) if self.marks_entities else words).per_class()
        return PerClassReport(names=self.scored_names, scores=scores, confusion=words.confusion_matrix())

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        notes = undefined_scores(
            self.per_class(predictions).scores,
            "no entity is" if self.marks_entities else "no word is",
            left_out=True,
            weighted=not self.marks_entities,
        )
        losses = list(chain.from_iterable(x.details.get("losses", []) for x in predictions))
        if unseen := losses.count(None):
            counted = f"{OUTSIDE!r}" if self.marks_entities else "the tag that was predicted most often"
            notes.append(
                f"{unseen:,} of {len(losses):,} words were cut off, or have no token; each counts as {counted}"
            )
        return notes

    def of_unseen_words(self, predicted: Sequence[Sequence[str | None]]) -> str:
        """The tag that words count as which the model never saw: O, or the one that was predicted most often."""
        if self.marks_entities:
            return OUTSIDE
        counts: Counter[str] = Counter(tag for tags in predicted for tag in tags if tag is not None)
        return counts.most_common(1)[0][0]

    def _entities(self, predictions: Sequence[Prediction]) -> EntityScores:
        self._check(predictions)
        return EntityScores(
            self.scored_names, [x.label for x in predictions], [x.predicted for x in predictions]
        )

    def _words(self, predictions: Sequence[Prediction]) -> ClassificationScores:
        number = self._check(predictions)
        sides = ([x.label for x in predictions], [x.predicted for x in predictions])
        true, predicted = (np.array([number[tag] for tag in chain.from_iterable(side)]) for side in sides)
        rows = np.repeat(np.arange(len(predictions)), list(map(len, sides[0])))
        return ClassificationScores(self.scored_names, true, predicted, rows)

    def _check(self, predictions: Sequence[Prediction]) -> dict[str, int]:
        """The number of each tag. Raises: DataError: a prediction with other tags, or not one for each word."""
        number = {name: i for i, name in enumerate(self.scored_names)}
        for x in predictions:
            if len(x.label) != len(x.predicted):
                raise DataError(
                    f"{x.where}: {len(x.label)} tags are true, and {len(x.predicted)} were predicted"
                )
            for tag in (*x.label, *x.predicted):
                if tag not in number:
                    raise DataError(
                        f"{x.where}: the tag {safe_repr(tag)} is none that the model knows: {', '.join(number)}"
                    )
        return number


def tags_of(rows: Dataset, columns: Mapping[str, str] | None = None) -> Tags:
    """The tags of the rows that are learned from: O first, then type by type.

    Raises: DataError: a row without tags, or another number of them than of words; tags of entities and others in one
        column, such as 0 beside B-PER.
    """
    columns = columns_of(COLUMNS, columns)
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
