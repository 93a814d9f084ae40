"""Baselines of text classification: most frequent class, bag of words, embeddings with logistic regression.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.errors import GlassformerError, MissingExtraError
from glassformer.model import Model
from glassformer.tasks.base import Baseline, Dataset
from glassformer.tasks.baselines import nats, package, read, scores, training_sample, with_prediction
from glassformer.tasks.classify.feature_classifier import Text, scaled, sides_of, sklearn, vectors
from glassformer.tasks.classify.kinds import LabelKind
from glassformer.tasks.columns import check_columns, text_of
from glassformer.tasks.predictions import Prediction

if TYPE_CHECKING:
    from glassformer.tasks.classify.task import ClassificationTask

MOST_WORDS = 20_000
"""A bag counts so many words and pairs of neighbours, the most frequent ones."""

LOOSE = 10.0
"""How loosely the weights of words are held (C): chosen on rows that were held out of three sets' training rows."""

TOP = 5
WORD = re.compile(r"(?u)\b\w+\b")


def class_baselines(
    task: ClassificationTask,
    train: Dataset | None,
    rows_to_predict: Sequence[Prediction],
    initial_model: Callable[[], Model] | None = None,
) -> Iterator[Baseline]:
    """The baselines of a classification, fitted to the training rows; without these, there are none.

    Args:
        task: whose kind of labels decides · rows_to_predict: the model's predictions for the same rows
        initial_model: gives the model that training began with; where it cannot, or that makes no vectors of texts, the
            baseline of embeddings is left out with a warning
    Raises: MissingExtraError: without scikit-learn. DataError: a training row without a text or a label.
    """
    if train is None:
        return
    kind: LabelKind = task.kind
    roles = [role for role in ("text", "pair") if role in rows_to_predict[0].row]
    numbers, note = training_sample(train)
    texts, targets = _read(train, numbers, kind, {role: task.columns[role] for role in (*roles, "label")})
    inputs = [_text([prediction.row[role] for role in roles]) for prediction in rows_to_predict]
    baselines = BASELINES[kind.PROBLEM or "single"](kind.names, targets, rows_to_predict)

    yield Baseline(baselines.simplest, f"{baselines.simplest_about}{note}", baselines.predict_simplest())
    if not baselines.differ:
        warnings.warn(
            "every training row has the same label; no other baseline can learn from them", stacklevel=2
        )
        return
    about = f"{baselines.learner}, {package()}{note}"
    if (bags := _bags(texts, inputs)) is None:
        warnings.warn("no training text has a word; the baseline of words is left out", stacklevel=2)
    else:
        words = "TF-IDF of words and pairs of neighbours"
        yield Baseline(
            "bag of words", f"{words}, {about}", baselines.fit_and_predict(baselines.of_words(), *bags)
        )
    if initial_model is None:
        why = "which model the training began with is not known, or it was new"
        warnings.warn(f"the baseline of embeddings is left out: {why}", stacklevel=2)
        return
    try:
        model = initial_model()
        features = vectors(model, texts), vectors(model, inputs)
    except MissingExtraError:
        raise
    except GlassformerError as error:
        warnings.warn(f"the baseline of embeddings is left out: {error}", stacklevel=2)
        return
    name = f"embeddings + {baselines.learner}"
    yield Baseline(
        name,
        f"vectors of the model before it was trained, {about}",
        baselines.fit_and_predict(baselines.of_vectors(), *features),
    )


def _read(
    train: Dataset, numbers: Sequence[int], kind: LabelKind, columns: Mapping[str, str]
) -> tuple[list[Text], np.ndarray]:
    """The texts, or pairs of them, and what the head should say to each. [N] or [N, labels]"""
    check_columns(train, list(columns.values()))
    sides = [name for role, name in columns.items() if role != "label"]
    results = read(
        train,
        numbers,
        lambda row: (_text([text_of(row, name) for name in sides]), kind.read(row.get(columns["label"]))),
    )
    return [text for text, _ in results], np.stack([label for _, label in results])


def _text(sides: Sequence[str]) -> Text:
    return sides[0] if len(sides) == 1 else tuple(sides)


def _bags(texts: Sequence[Text], inputs: Sequence[Text]) -> tuple[Any, Any] | None:
    """How often words and pairs of neighbours stand in texts, rare ones weighing more; None where there is no word.

    Pairs of texts have the features that pairs of vectors have.
    """
    known, new = sides_of(texts), sides_of(inputs)
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


class LabelBaselines(ABC):
    """Baselines for one kind of labels: the simplest prediction, and estimators on features.

    simplest, simplest_about: the prediction that needs no text · learner: the estimator on features

    Args: names: of the classes, by number · targets: of the rows to learn from. [N] or [N, labels]
    """

    simplest: str
    simplest_about: str
    learner: str

    def __init__(
        self, names: Sequence[str], targets: np.ndarray, rows_to_predict: Sequence[Prediction]
    ) -> None:
        self.names, self.targets, self.rows_to_predict = list(names), targets, rows_to_predict

    @property
    def differ(self) -> bool:
        """Is there anything to tell apart?"""
        return bool((self.targets != self.targets[0]).any())

    @abstractmethod
    def predict_simplest(self) -> list[Prediction]:
        """The predictions that need no text at all."""

    @abstractmethod
    def of_words(self) -> Any:
        """The estimator for many features, of which each text has few."""

    @abstractmethod
    def of_vectors(self) -> Any:
        """The estimator for a few features that every text has."""

    @abstractmethod
    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        """The predictions of a fitted estimator."""

    def fit_and_predict(self, estimator: Any, known: Any, new: Any) -> list[Prediction]:
        """Fit an estimator to the features of training texts, and predict for others."""
        return self.predictions_of(estimator.fit(known, self.targets), new)


class SingleLabelBaselines(LabelBaselines):
    """Baselines for one class of several."""

    simplest, simplest_about = "most frequent", "always the class that most training rows have"
    learner = "logistic regression"

    def predict_simplest(self) -> list[Prediction]:
        prior = sklearn("dummy").DummyClassifier(strategy="prior")  # which says how frequent each is, too
        return self.predictions_of(prior.fit(self.targets, self.targets), self.rows_to_predict)

    def of_words(self) -> Any:
        return _one_each(sklearn("linear_model").LogisticRegression(C=LOOSE, solver="liblinear"))

    def of_vectors(self) -> Any:
        return scaled(sklearn("linear_model").LogisticRegression(max_iter=1_000))

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        probabilities = np.zeros((len(self.rows_to_predict), len(self.names)))
        probabilities[:, fitted.classes_] = fitted.predict_proba(features)
        results = []
        for prediction, row in zip(self.rows_to_predict, probabilities, strict=True):
            predicted = self.names[int(row.argmax())]
            loss = float(nats(row[self.names.index(prediction.label)]))
            correct = predicted == prediction.label
            results.append(
                with_prediction(
                    prediction, predicted, correct=correct, loss=loss, scores=scores(self.names, row, TOP)
                )
            )
        return results


class MultiLabelBaselines(LabelBaselines):
    """Baselines for any of several labels, none included."""

    simplest, simplest_about = "most frequent", "always the set of labels that most training rows have"
    learner = "logistic regression"

    def predict_simplest(self) -> list[Prediction]:
        (often, _), *_ = Counter(map(tuple, self.targets > 0.5)).most_common(1)
        count = len(self.rows_to_predict)
        return self._with_labels(
            np.tile(self.targets.mean(0), (count, 1)), np.tile(np.array(often), (count, 1))
        )

    def of_words(self) -> Any:
        return _one_each(sklearn("linear_model").LogisticRegression(C=LOOSE, solver="liblinear"))

    def of_vectors(self) -> Any:
        return scaled(_one_each(sklearn("linear_model").LogisticRegression(max_iter=1_000)))

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        probabilities = fitted.predict_proba(features)
        return self._with_labels(probabilities, probabilities > 0.5)

    def _with_labels(self, probabilities: np.ndarray, yes: np.ndarray) -> list[Prediction]:
        results = []
        for prediction, row, holds in zip(self.rows_to_predict, probabilities, yes, strict=True):
            true = np.isin(self.names, prediction.label)
            loss = float(nats(np.where(true, row, 1 - row)).mean())
            named = [name for name, each in zip(self.names, holds, strict=True) if each]
            correct = bool((holds == true).all())
            results.append(
                with_prediction(prediction, named, correct=correct, loss=loss, scores=scores(self.names, row))
            )
        return results


class RegressionBaselines(LabelBaselines):
    """Baselines for a number."""

    simplest, simplest_about = "mean", "always the mean of the training rows"
    learner = "ridge regression"

    def predict_simplest(self) -> list[Prediction]:
        mean = sklearn("dummy").DummyRegressor()
        return self.predictions_of(mean.fit(self.targets, self.targets), self.rows_to_predict)

    def of_words(self) -> Any:
        return sklearn("linear_model").Ridge()

    def of_vectors(self) -> Any:
        return scaled(sklearn("linear_model").Ridge())

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        return [
            with_prediction(
                prediction, float(value), correct=None, loss=(float(value) - float(prediction.label)) ** 2
            )
            for prediction, value in zip(self.rows_to_predict, fitted.predict(features), strict=True)
        ]


def _one_each(estimator: Any) -> Any:
    """One estimator a class."""
    return sklearn("multiclass").OneVsRestClassifier(estimator)


BASELINES: dict[str, type[LabelBaselines]] = {
    "single": SingleLabelBaselines,
    "multi": MultiLabelBaselines,
    "regression": RegressionBaselines,
}
"""`LabelKind.PROBLEM` → its baselines."""
