"""Baselines of token classification: all O, a dictionary, and logistic regression on words and shapes.

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

from glassformer.tasks.classify.baselines import nats, sklearn
from glassformer.tasks.columns import check_columns, parse_rows, training_sample
from glassformer.tasks.metrics.scikit_learn import by_sklearn
from glassformer.tasks.tag.task import Tag, Tags, words_and_tags
from glassformer.tasks.types import Baseline, Dataset, Prediction

CELLS = 2**24
"""The most weights that are learnt, of all tags together; features are hashed to as many numbers as that allows."""

MOST_BITS, ALPHA, EPOCHS = 20, 1e-6, 5
"""Beyond a million cells few features share one; a weak penalty, since most features are rare; a few epochs suffice."""

EDGE = "\n"
"""What is before the first word and behind the last."""


def tag_baselines(task: Tag, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
    """The baselines of tagging, fitted to the training rows; without these, of entities: that there is none.

    Args:
        task: whose tags
        predictions: of the model, with a tag for each word
    Raises: MissingExtraError: without scikit-learn. DataError: a training row without words and tags.
    """
    tags = task.kind
    sentences = [list(prediction.row["tokens"]) for prediction in predictions]

    def everywhere(tag: str) -> list[Prediction]:
        return _with_tags(predictions, [[tag] * len(words) for words in sentences])

    if tags.marks_entities:
        yield Baseline("all O", "no word is of an entity", everywhere("O"))
    if train is None:
        return
    numbers, note = training_sample(train)
    check_columns(train, task.columns)

    def parse(row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        words, tags_of_row = words_and_tags(row, task.columns)
        return words, [tags.names[tags.number(tag)] for tag in tags_of_row]

    training = list(parse_rows(train, parse, numbers))
    counts = Counter(tag for _, row in training for tag in row)
    usual = "O" if tags.marks_entities else counts.most_common(1)[0][0]
    if not tags.marks_entities:
        about = "always the tag that most words of the training rows have"
        yield Baseline("most frequent", f"{about}{note}", everywhere(usual))

    dictionary = _dictionary(training)
    about = f"the tag that each word has most often in the training rows; a word that is new there: {usual}"
    tags_of_row = [_whole([dictionary.get(word, usual) for word in words], tags) for words in sentences]
    yield Baseline("dictionary", f"{about}{note}", _with_tags(predictions, tags_of_row))

    if len(counts) < 2:
        return
    about = f"logistic regression on words, their shapes, ends and neighbours, {by_sklearn()}{note}"
    yield Baseline("words and shapes", about, _fit_and_predict(predictions, sentences, training, tags))


def _dictionary(training: Sequence[tuple[list[str], list[str]]]) -> dict[str, str]:
    """The tag that each word has most often; of equally many, the one that stood there first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for words, tags_of_row in training:
        for word, tag in zip(words, tags_of_row, strict=True):
            counts[word][tag] += 1
    return {word: results.most_common(1)[0][0] for word, results in counts.items()}


def _fit_and_predict(
    predictions: Sequence[Prediction],
    sentences: Sequence[Sequence[str]],
    training: Sequence[tuple[list[str], list[str]]],
    tags: Tags,
) -> list[Prediction]:
    size = 2 ** min(MOST_BITS, (CELLS // len(tags.names)).bit_length() - 1)
    hasher = sklearn("feature_extraction").FeatureHasher(size, input_type="string", alternate_sign=False)
    # By gradient descent with averaged weights: exact solvers take minutes on millions of words.
    estimator = sklearn("linear_model").SGDClassifier(
        loss="log_loss", alpha=ALPHA, max_iter=EPOCHS, tol=None, average=True, random_state=0
    )
    estimator.fit(
        hasher.transform(features for words, _ in training for features in _features(words)),
        np.array([tag for _, tags_of_row in training for tag in tags_of_row]),
    )
    names = estimator.classes_.tolist()
    probabilities = estimator.predict_proba(hasher.transform(f for words in sentences for f in _features(words)))
    results, start = [], 0
    for prediction, words in zip(predictions, sentences, strict=True):
        rows = probabilities[start : start + len(words)]
        start += len(words)
        true = [row[names.index(tag)] if tag in names else 0.0 for row, tag in zip(rows, prediction.label, strict=True)]
        losses = nats(np.array(true)).tolist()
        results += _with_tags([prediction], [_whole([names[i] for i in rows.argmax(1)], tags)], [losses])
    return results


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


def _whole(tags_of_row: list[str], tags: Tags) -> list[str]:
    """Tags where every entity begins with a B, if there is one of its type."""
    if tags.marks_entities:
        for i, tag in enumerate(tags_of_row):
            inside, _, type_ = tag.partition("-")
            before = tags_of_row[i - 1] if i else "O"
            if inside == "I" and before not in (f"B-{type_}", f"I-{type_}") and f"B-{type_}" in tags.names:
                tags_of_row[i] = f"B-{type_}"
    return tags_of_row


def _with_tags(
    predictions: Sequence[Prediction],
    tags_of_row: Sequence[list[str]],
    losses: Sequence[list[float]] | None = None,
) -> list[Prediction]:
    """The predictions with these tags, and the losses of their words; a row's is the mean."""
    results = []
    for number, (x, tags) in enumerate(zip(predictions, tags_of_row, strict=True)):
        details = {} if losses is None else {"losses": losses[number]}
        loss = sum(losses[number]) / len(tags) if losses else None
        results.append(x.by_baseline(tags, tags == x.label, loss, **details))
    return results
