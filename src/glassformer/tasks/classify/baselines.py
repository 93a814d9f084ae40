"""Classifiers on features: baselines of text classification, and embeddings of a frozen model with logistic regression.

                     most simple               bag of words             embeddings
    one of several   the most frequent class   logistic regression      logistic regression
    any of several   the most frequent set     one of them a label      one of them a label
    a number         the mean                  ridge regression         ridge regression

A bag of words is TF-IDF of words and of pairs of neighbours. Embeddings are vectors of the model that the training
began with, as it was before. Of two texts, u and v, either has the features [u, v, |u − v|, u·v].

Sources: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", for words;
Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations", section 3.1, for pairs.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.errors import DataError, GlassformerError, MissingExtraError
from glassformer.loaded_model import LoadedModel
from glassformer.sentence_embeddings import SentenceEmbedder
from glassformer.tasks.columns import check_columns, parse_rows, text_of, training_sample
from glassformer.tasks.metrics.scikit_learn import by_sklearn
from glassformer.tasks.metrics.scikit_learn import sklearn as sklearn_module
from glassformer.tasks.types import Baseline, Dataset, Prediction

if TYPE_CHECKING:
    from glassformer.tasks.classify.task import ClassificationTask

Text = str | tuple[str, ...]
"""A text, or two that belong together."""

MOST_WORDS = 20_000
"""A bag counts this many words and pairs of neighbours, the most frequent ones."""

WEAK_PENALTY = 10.0
"""How loosely the weights of words are held (C): chosen on rows that were held out of three sets' training rows."""

MIN_PROBABILITY = 1e-12
"""No loss is that of a smaller probability: what says that something is impossible and errs is not infinitely wrong."""

TOP = 5
"""Scores that are kept per row, as a pipeline's default."""
WORD = re.compile(r"(?u)\b\w+\b")


sklearn = partial(sklearn_module, purpose="a baseline")


def _text(*sides: str) -> Text:
    return sides[0] if len(sides) == 1 else sides


def nats(probability: float | np.ndarray) -> Any:
    """Negative log-likelihood, −ln p."""
    return -np.log(np.maximum(probability, MIN_PROBABILITY))


class FeatureClassifier:
    """Feature-based classifier: a scikit-learn estimator on the embeddings of a frozen model.

        body = glassformer.load("all-MiniLM-L6-v2")
        FeatureClassifier(body).fit(["so glad", "leave me alone"], ["joy", "anger"]).predict(["what a day"])

    It takes seconds where fine-tuning takes hours, and says how much of the answer the vectors hold already.

    Args:
        body: an encoder, of which nothing is changed
        estimator: any that has `fit` and `predict`, such as a random forest; None = logistic regression
        pooling: of token states, see `glassformer.engine.encoder.encode`: "cls", "mean", …; None = the folder's own
    Raises: MissingExtraError: without the package scikit-learn.
    """

    def __init__(self, body: LoadedModel, estimator: Any = None, *, pooling: str | None = None) -> None:
        self.body, self.pooling = body, pooling
        usual = sklearn("linear_model").LogisticRegression(max_iter=1_000)
        self.pipeline = scaled(usual if estimator is None else estimator)

    def fit(self, texts: Sequence[Text], labels: Sequence[Any]) -> FeatureClassifier:
        """Learn from texts, or pairs of them, and a label for each.

        Raises: DataError: not one label a text, or a single class.
        """
        if len(texts) != len(labels):
            raise DataError(f"there are {len(texts):,} texts and {len(labels):,} labels; give one for each text")
        if len({*map(str, labels)}) < 2:
            raise DataError("every text has the same label; there is nothing to tell apart")
        self.pipeline.fit(self.vectors(texts), np.asarray(labels))
        return self

    def predict(self, texts: Sequence[Text]) -> np.ndarray:
        """A label for each. [N]"""
        return np.asarray(self.pipeline.predict(self.vectors(texts)))

    def predict_proba(self, texts: Sequence[Text]) -> np.ndarray:
        """How likely each class is, in the order of `classes`; not every estimator tells. [N, classes]"""
        return np.asarray(self.pipeline.predict_proba(self.vectors(texts)))

    @property
    def classes(self) -> list[Any]:
        """The labels that were learnt, in sorted order."""
        return list(self.pipeline.classes_)

    def vectors(self, texts: Sequence[Text]) -> np.ndarray:
        """What the classifier reads. [N, D], of pairs [N, 4D]"""
        return vectors(self.body, texts, self.pooling)


def vectors(body: LoadedModel, texts: Sequence[Text], pooling: str | None = None) -> np.ndarray:
    """The vectors of texts; of pairs [u, v, |u − v|, u·v], which tells how similar both are. [N, D] or [N, 4D]

    Raises: UnsupportedError: a model that makes no vectors of texts.
    """
    outputs: list[np.ndarray] = [SentenceEmbedder(body).encode(side, pooling=pooling) for side in sides_of(texts)]
    if len(outputs) == 1:
        return outputs[0]
    u, v = outputs
    return np.concatenate((u, v, abs(u - v), u * v), axis=1)


def sides_of(texts: Sequence[Text]) -> list[list[str]]:
    """The texts, or the first ones of pairs and the second ones."""
    return [list(side) for side in zip(*(((x,) if isinstance(x, str) else x) for x in texts), strict=True)]


def scaled(estimator: Any) -> Any:
    """An estimator of features that are brought to mean 0 and variance 1 first."""
    return sklearn("pipeline").make_pipeline(sklearn("preprocessing").StandardScaler(), estimator)


def baselines_of_task(
    task: ClassificationTask, train: Dataset | None, predictions: Sequence[Prediction]
) -> Iterator[Baseline]:
    """The baselines of `class_baselines`, with vectors of the model that training began with."""
    return class_baselines(task, train, predictions, task.initial_model)


def class_baselines(
    task: ClassificationTask,
    train: Dataset | None,
    rows_to_predict: Sequence[Prediction],
    initial_model: Callable[[], LoadedModel] | None = None,
) -> Iterator[Baseline]:
    """The baselines of a classification, fitted to the training rows; without these, there are none.

    Args:
        task: whose kind of labels decides
        rows_to_predict: the model's predictions for the same rows
        initial_model: gives the model that training began with; where it cannot, or that makes no vectors of texts, the
            baseline of embeddings is left out with a warning
    Raises: MissingExtraError: without scikit-learn. DataError: a training row without a text or a label.
    """
    if train is None:
        return
    columns: dict[str, str] = {
        role: task.columns[role] for role in ("text", "text_pair") if role in rows_to_predict[0].row
    }
    label = task.columns["label"]
    check_columns(train, {**columns, "label": label})
    numbers, note = training_sample(train)

    def parse(row: Mapping[str, Any]) -> tuple[Text, np.ndarray]:
        return _text(*[text_of(row, column) for column in columns.values()]), task.kind.read(row.get(label))

    texts, targets = zip(*parse_rows(train, parse, numbers), strict=True)
    inputs = [_text(*[prediction.row[role] for role in columns]) for prediction in rows_to_predict]
    kind = BASELINES[task.kind.PROBLEM or "single"](task.kind.names, np.stack(targets), rows_to_predict)

    yield Baseline(kind.simplest, f"{kind.simplest_about}{note}", kind.predict_simplest())
    if not (kind.targets != kind.targets[0]).any():
        warnings.warn("every training row has the same label; no other baseline can learn from them", stacklevel=2)
        return
    about = f"{kind.learner}, {by_sklearn()}{note}"
    if (bags := _bags(texts, inputs)) is None:
        warnings.warn("no training text has a word; the baseline of words is left out", stacklevel=2)
    else:
        predictions = kind.fit_and_predict(kind.of_words(), *bags)
        yield Baseline("bag of words", f"TF-IDF of words and pairs of neighbours, {about}", predictions)
    if (features := _embeddings(initial_model, texts, inputs)) is None:
        return
    predictions = kind.fit_and_predict(kind.of_vectors(), *features)
    about = f"vectors of the model before it was trained, {about}"
    yield Baseline(f"embeddings + {kind.learner}", about, predictions)


def _bags(texts: Sequence[Text], inputs: Sequence[Text]) -> tuple[Any, Any] | None:
    """How often words and pairs of neighbours occur in texts, rare ones weighing more; None where there is no word.

    Returns: sparse, [N, words] each, or of pairs [N, 4 words]: [u, v, |u − v|, u·v], as of pairs of vectors
    """
    known, new = sides_of(texts), sides_of(inputs)
    if not any(WORD.search(text) for side in known for text in side):
        return None
    bag = sklearn("feature_extraction.text").TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD.pattern, max_features=MOST_WORDS
    )
    bag.fit(chain(*known))

    def features(texts: list[list[str]]) -> Any:
        from scipy.sparse import hstack

        sides = [bag.transform(side) for side in texts]
        if len(sides) == 1:
            return sides[0]
        u, v = sides
        return hstack((u, v, abs(u - v), u.multiply(v)), "csr")

    return features(known), features(new)


def _embeddings(
    initial_model: Callable[[], LoadedModel] | None, texts: Sequence[Text], inputs: Sequence[Text]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The vectors of texts by the model that training began with; None, with a warning, where it makes none."""
    why: object = "which model the training began with is not known, or it was new"
    try:
        if initial_model is not None:
            model = initial_model()
            return vectors(model, texts), vectors(model, inputs)
    except MissingExtraError:
        raise
    except GlassformerError as error:
        why = error
    warnings.warn(f"the baseline of embeddings is left out: {why}", stacklevel=3)
    return None


class LabelBaselines(ABC):
    """Baselines for one kind of labels: the simplest prediction, which needs no text, and estimators on features.

    Args:
        names: of the classes, by number
        targets: of the rows to learn from. [N] or [N, labels]
    """

    simplest: str
    simplest_about: str
    learner = "logistic regression"

    def __init__(self, names: Sequence[str], targets: np.ndarray, rows_to_predict: Sequence[Prediction]) -> None:
        self.names, self.targets, self.rows_to_predict = list(names), targets, rows_to_predict

    @abstractmethod
    def predict_simplest(self) -> list[Prediction]:
        """The predictions that need no text at all."""

    def of_words(self) -> Any:
        """The estimator for many features, of which each text has few."""
        return _one_each(sklearn("linear_model").LogisticRegression(C=WEAK_PENALTY, solver="liblinear"))

    def of_vectors(self) -> Any:
        """The estimator for a few features that every text has."""
        return scaled(sklearn("linear_model").LogisticRegression(max_iter=1_000))

    @abstractmethod
    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        """The predictions of a fitted estimator."""

    def fit_and_predict(self, estimator: Any, known: Any, new: Any) -> list[Prediction]:
        """Fit an estimator to the features of training texts, and predict for others."""
        return self.predictions_of(estimator.fit(known, self.targets), new)

    def scores(self, probabilities: np.ndarray, top: int | None = None) -> dict[str, float]:
        """Class probabilities by name, the likeliest first."""
        order = np.argsort(-probabilities, kind="stable")[:top]
        return {self.names[i]: float(probabilities[i]) for i in order}


class SingleLabelBaselines(LabelBaselines):
    """Baselines for one class of several."""

    simplest, simplest_about = "most frequent", "always the class that most training rows have"

    def predict_simplest(self) -> list[Prediction]:
        shares = np.bincount(self.targets, minlength=len(self.names)) / len(self.targets)
        return self._with_probabilities(np.tile(shares, (len(self.rows_to_predict), 1)))

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        probabilities = np.zeros((len(self.rows_to_predict), len(self.names)))
        probabilities[:, fitted.classes_] = fitted.predict_proba(features)
        return self._with_probabilities(probabilities)

    def _with_probabilities(self, probabilities: np.ndarray) -> list[Prediction]:
        results = []
        for x, row in zip(self.rows_to_predict, probabilities, strict=True):
            predicted, loss = self.names[int(row.argmax())], float(nats(row[self.names.index(x.label)]))
            results.append(x.by_baseline(predicted, predicted == x.label, loss, scores=self.scores(row, TOP)))
        return results


class MultiLabelBaselines(LabelBaselines):
    """Baselines for any of several labels, none included."""

    simplest, simplest_about = "most frequent", "always the set of labels that most training rows have"

    def predict_simplest(self) -> list[Prediction]:
        (often, _), *_ = Counter(map(tuple, self.targets > 0.5)).most_common(1)
        shape = len(self.rows_to_predict), 1
        return self._with_labels(np.tile(self.targets.mean(0), shape), np.tile(np.array(often), shape))

    def of_vectors(self) -> Any:
        return scaled(_one_each(sklearn("linear_model").LogisticRegression(max_iter=1_000)))

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        probabilities = fitted.predict_proba(features)[:, -len(self.names) :]  # one label alone: [no, yes]
        return self._with_labels(probabilities, probabilities > 0.5)

    def _with_labels(self, probabilities: np.ndarray, yes: np.ndarray) -> list[Prediction]:
        results = []
        for x, row, holds in zip(self.rows_to_predict, probabilities, yes, strict=True):
            true = np.isin(self.names, x.label)
            loss = float(nats(np.where(true, row, 1 - row)).mean())
            named = [name for name, each in zip(self.names, holds, strict=True) if each]
            results.append(x.by_baseline(named, bool((holds == true).all()), loss, scores=self.scores(row)))
        return results


class RegressionBaselines(LabelBaselines):
    """Baselines for a number."""

    simplest, simplest_about = "mean", "always the mean of the training rows"
    learner = "ridge regression"

    def predict_simplest(self) -> list[Prediction]:
        return self._with_values([float(self.targets.mean())] * len(self.rows_to_predict))

    def of_words(self) -> Any:
        return sklearn("linear_model").Ridge()

    def of_vectors(self) -> Any:
        return scaled(self.of_words())

    def predictions_of(self, fitted: Any, features: Any) -> list[Prediction]:
        return self._with_values(list(map(float, fitted.predict(features))))

    def _with_values(self, values: Sequence[float]) -> list[Prediction]:
        return [
            x.by_baseline(value, None, (value - float(x.label)) ** 2)
            for x, value in zip(self.rows_to_predict, values, strict=True)
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
