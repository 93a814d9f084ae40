"""Baselines of classes, of several labels, and of numbers.

                     most simple               bag of words             embeddings
    one of several   the most frequent class   logistic regression      logistic regression
    any of several   the most frequent set     one of them a label      one of them a label
    a number         the mean                  ridge regression         ridge regression

A bag of words is TF-IDF of words and of pairs of neighbours. Embeddings are vectors of the model that the training
began with, as it was before. Of two texts, u and v, either has the features [u, v, |u − v|, u·v].
Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification".
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from glassformer.errors import GlassformerError, MissingExtraError
from glassformer.model import Model
from glassformer.tasks.base import Objective, Rows
from glassformer.tasks.baselines import drawn, instead, nats, package, read, scores
from glassformer.tasks.classify.feature_classifier import Text, scaled, sides_of, sklearn, vectors
from glassformer.tasks.classify.labels import Kind
from glassformer.tasks.columns import check_columns, text_of
from glassformer.tasks.evaluator import Baseline
from glassformer.tasks.predictions import Record

MOST_WORDS = 20_000
"""A bag counts so many words and pairs of neighbours, the most frequent ones."""

LOOSE = 10.0
"""How loosely the weights of words are held (C): chosen on rows that were held out of three sets' training rows."""

TOP = 5
WORD = re.compile(r"(?u)\b\w+\b")


def class_baselines(
    objective: Objective,
    train: Rows | None,
    records: Sequence[Record],
    body: Callable[[], Model] | None = None,
) -> Iterator[Baseline]:
    """What simple means say of texts, having seen the training rows; without these, nothing can be said.

    Args:
        objective: a `Classify`, whose kind of labels decides · records: of the model
        body: gives the model that the training began with; where it cannot, or that makes no vectors of texts, the
            baseline of embeddings is left out with a warning
    Raises: MissingExtraError: without scikit-learn. DataError: a training row without a text or a label.
    """
    if train is None:
        return
    kind: Kind = objective.kind  # type: ignore[attr-defined]
    roles = [role for role in ("text", "pair") if role in records[0].row]
    numbers, note = drawn(train)
    texts, targets = _read(
        train, numbers, kind, {role: objective.columns[role] for role in (*roles, "label")}
    )
    asked = [_text([record.row[role] for role in roles]) for record in records]
    means = MEANS[kind.PROBLEM or "single"](kind.names, targets, records)

    yield Baseline(means.simplest, f"{means.simplest_about}{note}", means.simply())
    if not means.differ:
        warnings.warn(
            "every training row has the same label; no other baseline can learn from them", stacklevel=2
        )
        return
    about = f"{means.learner}, {package()}{note}"
    if (bags := _bags(texts, asked)) is None:
        warnings.warn("no training text has a word; the baseline of words is left out", stacklevel=2)
    else:
        words = "TF-IDF of words and pairs of neighbours"
        yield Baseline("bag of words", f"{words}, {about}", means.learnt(means.of_words(), *bags))
    if body is None:
        why = "which model the training began with is not known, or it was new"
        warnings.warn(f"the baseline of embeddings is left out: {why}", stacklevel=2)
        return
    try:
        model = body()
        found = vectors(model, texts), vectors(model, asked)
    except MissingExtraError:
        raise
    except GlassformerError as error:
        warnings.warn(f"the baseline of embeddings is left out: {error}", stacklevel=2)
        return
    name = f"embeddings + {means.learner}"
    yield Baseline(
        name, f"vectors of the model before it was trained, {about}", means.learnt(means.of_vectors(), *found)
    )


def _read(
    train: Rows, numbers: Sequence[int], kind: Kind, columns: Mapping[str, str]
) -> tuple[list[Text], np.ndarray]:
    """The texts, or pairs of them, and what the head should say to each. [N] or [N, labels]"""
    check_columns(train, list(columns.values()))
    sides = [name for role, name in columns.items() if role != "label"]
    found = read(
        train,
        numbers,
        lambda row: (_text([text_of(row, name) for name in sides]), kind.read(row.get(columns["label"]))),
    )
    return [text for text, _ in found], np.stack([label for _, label in found])


def _text(sides: Sequence[str]) -> Text:
    return sides[0] if len(sides) == 1 else tuple(sides)


def _bags(texts: Sequence[Text], asked: Sequence[Text]) -> tuple[Any, Any] | None:
    """How often words and pairs of neighbours stand in texts, rare ones weighing more; None where there is no word.

    Pairs of texts have the features that pairs of vectors have.
    """
    known, new = sides_of(texts), sides_of(asked)
    if not any(WORD.search(text) for side in known for text in side):
        return None
    bag = sklearn("feature_extraction.text").TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD.pattern, max_features=MOST_WORDS
    )
    bag.fit(chain(*known))
    return _beside([bag.transform(side) for side in known]), _beside([bag.transform(side) for side in new])


def _beside(sides: list[Any]) -> Any:
    """The bags of texts; of pairs [u, v, |u − v|, u·v]. Sparse, [N, words] or [N, 4 words]"""
    if len(sides) == 1:
        return sides[0]
    from scipy.sparse import hstack

    u, v = sides
    return hstack((u, v, abs(u - v), u.multiply(v)), "csr")


class Means(ABC):
    """How labels of one kind are learnt by simple means, and said.

    simplest, simplest_about: what needs no text at all · learner: what learns from features

    Args: names: of the classes, by number · targets: of the rows to learn from. [N] or [N, labels]
    """

    simplest: str
    simplest_about: str
    learner: str

    def __init__(self, names: Sequence[str], targets: np.ndarray, records: Sequence[Record]) -> None:
        self.names, self.targets, self.records = list(names), targets, records

    @property
    def differ(self) -> bool:
        """Is there anything to tell apart?"""
        return bool((self.targets != self.targets[0]).any())

    @abstractmethod
    def simply(self) -> list[Record]:
        """What is said without a look at any text."""

    @abstractmethod
    def of_words(self) -> Any:
        """What learns from many features, of which each text has few."""

    @abstractmethod
    def of_vectors(self) -> Any:
        """What learns from a few features that every text has."""

    @abstractmethod
    def said(self, fitted: Any, features: Any) -> list[Record]:
        """What a fitted estimator says."""

    def learnt(self, estimator: Any, known: Any, new: Any) -> list[Record]:
        """Learn from the features of known texts, and answer new ones."""
        return self.said(estimator.fit(known, self.targets), new)


class OneOf(Means):
    """One class of several."""

    simplest, simplest_about = "most frequent", "always the class that most training rows have"
    learner = "logistic regression"

    def simply(self) -> list[Record]:
        prior = sklearn("dummy").DummyClassifier(strategy="prior")  # which says how frequent each is, too
        return self.said(prior.fit(self.targets, self.targets), self.records)

    def of_words(self) -> Any:
        return _one_each(sklearn("linear_model").LogisticRegression(C=LOOSE, solver="liblinear"))

    def of_vectors(self) -> Any:
        return scaled(sklearn("linear_model").LogisticRegression(max_iter=1_000))

    def said(self, fitted: Any, features: Any) -> list[Record]:
        likely = np.zeros((len(self.records), len(self.names)))
        likely[:, fitted.classes_] = fitted.predict_proba(features)
        found = []
        for record, row in zip(self.records, likely, strict=True):
            said = self.names[int(row.argmax())]
            loss = float(nats(row[self.names.index(record.label)]))
            right = said == record.label
            found.append(instead(record, said, right=right, loss=loss, scores=scores(self.names, row, TOP)))
        return found


class AnyOf(Means):
    """Any of several labels, none included."""

    simplest, simplest_about = "most frequent", "always the set of labels that most training rows have"
    learner = "logistic regression"

    def simply(self) -> list[Record]:
        (often, _), *_ = Counter(map(tuple, self.targets > 0.5)).most_common(1)
        count = len(self.records)
        return self._said(np.tile(self.targets.mean(0), (count, 1)), np.tile(np.array(often), (count, 1)))

    def of_words(self) -> Any:
        return _one_each(sklearn("linear_model").LogisticRegression(C=LOOSE, solver="liblinear"))

    def of_vectors(self) -> Any:
        return scaled(_one_each(sklearn("linear_model").LogisticRegression(max_iter=1_000)))

    def said(self, fitted: Any, features: Any) -> list[Record]:
        likely = fitted.predict_proba(features)
        return self._said(likely, likely > 0.5)

    def _said(self, likely: np.ndarray, yes: np.ndarray) -> list[Record]:
        found = []
        for record, row, said in zip(self.records, likely, yes, strict=True):
            true = np.isin(self.names, record.label)
            loss = float(nats(np.where(true, row, 1 - row)).mean())
            named = [name for name, each in zip(self.names, said, strict=True) if each]
            right = bool((said == true).all())
            found.append(instead(record, named, right=right, loss=loss, scores=scores(self.names, row)))
        return found


class Number(Means):
    """A number."""

    simplest, simplest_about = "mean", "always the mean of the training rows"
    learner = "ridge regression"

    def simply(self) -> list[Record]:
        mean = sklearn("dummy").DummyRegressor()
        return self.said(mean.fit(self.targets, self.targets), self.records)

    def of_words(self) -> Any:
        return sklearn("linear_model").Ridge()

    def of_vectors(self) -> Any:
        return scaled(sklearn("linear_model").Ridge())

    def said(self, fitted: Any, features: Any) -> list[Record]:
        return [
            instead(record, float(value), right=None, loss=(float(value) - float(record.label)) ** 2)
            for record, value in zip(self.records, fitted.predict(features), strict=True)
        ]


def _one_each(estimator: Any) -> Any:
    """One estimator a class."""
    return sklearn("multiclass").OneVsRestClassifier(estimator)


MEANS: dict[str, type[Means]] = {"single": OneOf, "multi": AnyOf, "regression": Number}
"""`Kind.PROBLEM` → how it is learnt."""
