"""Baselines of tags.

words         Jeff     Dean    works   at      Google
all O         O        O       O       O       O
dictionary    B-PER    O       O       O       B-ORG          as each was tagged most often; a new word: O
words and     B-PER    I-PER   O       O       B-ORG          logistic regression on the word, its shape (Xx),
shapes                                                        its ends and its neighbours
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.tasks.base import Objective, Rows
from glassformer.tasks.baselines import drawn, instead, nats, package, read
from glassformer.tasks.classify.feature_classifier import sklearn
from glassformer.tasks.columns import check_columns
from glassformer.tasks.evaluator import Baseline
from glassformer.tasks.predictions import Record
from glassformer.tasks.tag.task import Tags, words_and_tags

CELLS = 2**24
"""The most weights that are learnt, of all tags together; features are hashed to as many numbers as that allows."""

MOST_BITS, ALPHA, EPOCHS = 20, 1e-6, 5

EDGE = "\n"
"""What stands before the first word and behind the last."""


def tag_baselines(objective: Objective, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
    """What simple means say of words, having seen the training rows; without these, of entities: that there is none.

    Args: objective: a `Tag` · records: of the model, with a tag for each word
    Raises: MissingExtraError: without scikit-learn. DataError: a training row without words and tags.
    """
    tags: Tags = objective.tags  # type: ignore[attr-defined]
    asked = [list(record.row["tokens"]) for record in records]
    if tags.marks_entities:
        yield Baseline(
            "all O", "no word is of an entity", _said(records, [["O"] * len(words) for words in asked])
        )
    if train is None:
        return
    numbers, note = drawn(train)
    columns = objective.columns
    check_columns(train, list(columns.values()))
    known = read(train, numbers, lambda row: _words_and_names(row, columns, tags))
    counts = Counter(tag for _, row in known for tag in row)
    usual = "O" if tags.marks_entities else counts.most_common(1)[0][0]
    if not tags.marks_entities:
        about = "always the tag that most words of the training rows have"
        yield Baseline(
            "most frequent", f"{about}{note}", _said(records, [[usual] * len(words) for words in asked])
        )

    dictionary = _dictionary(known)
    about = f"the tag that each word has most often in the training rows; a word that is new there: {usual}"
    said = [_whole([dictionary.get(word, usual) for word in words], tags) for words in asked]
    yield Baseline("dictionary", f"{about}{note}", _said(records, said))

    if len(counts) < 2:
        return
    about = f"logistic regression on words, their shapes, ends and neighbours, {package()}{note}"
    yield Baseline("words and shapes", about, _learnt(records, asked, known, tags))


def _words_and_names(
    row: Mapping[str, Any], columns: Mapping[str, str], tags: Tags
) -> tuple[list[str], list[str]]:
    words, said = words_and_tags(row, columns)
    return words, [tags.names[tags.number(tag)] for tag in said]


def _dictionary(known: Sequence[tuple[list[str], list[str]]]) -> dict[str, str]:
    """The tag that each word has most often; of equally many, the one that stood there first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for words, said in known:
        for word, tag in zip(words, said, strict=True):
            counts[word][tag] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def _learnt(
    records: Sequence[Record],
    asked: Sequence[Sequence[str]],
    known: Sequence[tuple[list[str], list[str]]],
    tags: Tags,
) -> list[Record]:
    size = 2 ** min(MOST_BITS, (CELLS // len(tags.names)).bit_length() - 1)
    hasher = sklearn("feature_extraction").FeatureHasher(size, input_type="string", alternate_sign=False)
    estimator = sklearn("linear_model").SGDClassifier(
        loss="log_loss", alpha=ALPHA, max_iter=EPOCHS, tol=None, average=True, random_state=0
    )
    estimator.fit(
        hasher.transform(features for words, _ in known for features in _features(words)),
        np.array([tag for _, said in known for tag in said]),
    )
    names = estimator.classes_.tolist()
    likely = estimator.predict_proba(hasher.transform(f for words in asked for f in _features(words)))
    found, start = [], 0
    for record, words in zip(records, asked, strict=True):
        rows = likely[start : start + len(words)]
        start += len(words)
        true = [
            row[names.index(tag)] if tag in names else 0.0
            for row, tag in zip(rows, record.label, strict=True)
        ]
        losses = nats(np.array(true)).tolist()
        found += _said([record], [_whole([names[i] for i in rows.argmax(1)], tags)], [losses])
    return found


def _features(words: Sequence[str]) -> Iterator[list[str]]:
    """What is known of each word: itself, its neighbours, how they are written."""
    small = [EDGE, *map(str.lower, words), EDGE]
    shapes = [EDGE, *map(_shape, words), EDGE]
    for i, word in enumerate(words, start=1):
        yield [
            f"word {small[i]}",
            f"before {small[i - 1]}",
            f"after {small[i + 1]}",
            f"with {small[i - 1]} {small[i]}",
            f"shapes {shapes[i - 1]} {shapes[i]} {shapes[i + 1]}",
            f"shape {shapes[i]}",
            f"begins {word[:3]}",
            f"ends {word[-3:]}",
            f"ends {word[-2:]}",
            f"shape before {shapes[i - 1]}",
            f"shape after {shapes[i + 1]}",
        ]


def _shape(word: str) -> str:
    """Xx for London, X for NATO, d for 1999, xXx for eBay."""
    kinds = re.sub(r"[^\W\d_]", lambda m: "X" if m[0].isupper() else "x", re.sub(r"\d", "0", word))
    return re.sub(r"(.)\1+", r"\1", kinds)


def _whole(said: list[str], tags: Tags) -> list[str]:
    """Tags where every entity begins with a B, if there is one of its type."""
    if tags.marks_entities:
        for i, tag in enumerate(said):
            inside, _, type_ = tag.partition("-")
            before = said[i - 1] if i else "O"
            if inside == "I" and before not in (f"B-{type_}", f"I-{type_}") and f"B-{type_}" in tags.names:
                said[i] = f"B-{type_}"
    return said


def _said(
    records: Sequence[Record], said: Sequence[list[str]], losses: Sequence[list[float]] | None = None
) -> list[Record]:
    """The records with these tags, and the losses of their words; a row's is the mean."""
    found = []
    for number, (record, tags) in enumerate(zip(records, said, strict=True)):
        lost = {} if losses is None else {"losses": losses[number]}
        loss = sum(losses[number]) / len(tags) if losses else None
        found.append(instead(record, tags, right=tags == record.label, loss=loss, **lost))
    return found
