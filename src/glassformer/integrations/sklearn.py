"""scikit-learn: estimators of texts, for `Pipeline`, `GridSearchCV`, `cross_val_score` and the like.

    from glassformer.integrations.sklearn import Embedder, TextClassifier

    make_pipeline(Embedder("all-MiniLM-L6-v2"), LogisticRegression()).fit(texts, labels)  # a head: seconds
    TextClassifier("distilbert-base-uncased", epochs=2).fit(texts, labels)  # all of it: minutes

Texts are a list, a Series or a column of strings. Both are cloned and pickled; names of what is learned end with _.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.integrations import loaded
from glassformer.model import Model

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class _OfTexts(BaseEstimator):
    """An estimator whose X is a column of texts."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


class Embedder(TransformerMixin, _OfTexts):
    """Transformer: texts → sentence embeddings [N, D]. There is nothing to fit; options are those of `Model.encode`."""

    def __init__(self, model: Model | str | Path = MINILM, *, options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.options = options

    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the model; there is nothing to learn from X."""
        texts_of(X)
        self.model_ = loaded(self.model, "feature-extraction")
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Sentence embeddings. [N, D]"""
        check_is_fitted(self)
        return np.asarray(self.model_.encode(texts_of(X), **(self.options or {})))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: embedder0, embedder1, …"""
        check_is_fitted(self)
        width = self.model_.get_sentence_embedding_dimension()
        return np.array([f"embedder{i}" for i in range(width)], dtype=object)


class TextClassifier(ClassifierMixin, _OfTexts):
    """Classifier: a pretrained model with a new head, fine-tuned on texts and labels.

    training: other `TrainingOptions`, such as {"warmup": 0.1, "precision": "bf16"}
    classes_: the labels, sorted
    model_: the fine-tuned model, which `model_.save_pretrained(folder)` saves
    """

    def __init__(
        self,
        model: str | Path = MINILM,
        *,
        epochs: float | None = None,
        batch_size: int = 32,
        learning_rate: float = 5e-5,
        seed: int = 0,
        training: dict[str, Any] | None = None,
        device: str | None = None,
    ) -> None:
        self.model, self.device, self.training = model, device, training
        self.epochs, self.batch_size, self.learning_rate, self.seed = epochs, batch_size, learning_rate, seed

    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune, from the pretrained weights each time."""
        import torch

        from glassformer.data.rows import read_rows
        from glassformer.tasks.classify.task import Classify, labels_of
        from glassformer.training import Trainer, TrainingOptions

        texts, labels = texts_of(X), column_or_1d(y, warn=True)
        check_consistent_length(texts, labels)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has one class, {safe_repr(self.classes_.tolist())}; a classifier needs two or more")
        # Zeros before a number, so that names have the order of the classes.
        names = [f"{number:06}" for number in numbers]
        rows = read_rows([{"text": text, "label": name} for text, name in zip(texts, names, strict=True)])
        torch.manual_seed(self.seed)  # of the new head
        model = loaded(
            self.model, "classify", overrides=labels_of(rows, "label").config(), device=self.device, dtype="float32"
        )
        options = TrainingOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
            **(self.training or {}),
        )
        task = Classify(model)
        Trainer(model, task, options, train=task.encode(rows)).train()
        model.eval()
        model.config["id2label"] = {str(i): str(label) for i, label in enumerate(self.classes_)}
        model.config["label2id"] = {str(label): i for i, label in enumerate(self.classes_)}
        self.model_ = model
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes_`. [N, classes]"""
        check_is_fitted(self)
        from glassformer.tasks import pipeline

        predicted = pipeline("text-classification", self.model_, top_k=None, truncation=True)(texts_of(X))
        column = {str(label): i for i, label in enumerate(self.classes_)}
        shares = np.zeros((len(predicted), len(self.classes_)))
        for row, labels in zip(shares, predicted, strict=True):
            for each in labels:
                row[column[each.label]] = each.score
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each text. [N]"""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def texts_of(X: Any) -> list[str]:
    """A list, an array, a Series or one column of a frame as a list of texts. Raises: DataError: no texts."""
    if isinstance(X, (str, bytes, Mapping)) or not (hasattr(X, "__iter__") or hasattr(X, "__array__")):
        raise DataError(f"X is {safe_repr(X)}; it must be texts: a list, a Series or one column")
    values = X.to_numpy() if hasattr(X, "to_numpy") else X if isinstance(X, np.ndarray) else list(X)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise DataError(f"X has shape {list(values.shape)}; it must be one column of texts, such as frame['text']")
        values = values.tolist()
    if wrong := [value for value in values if not isinstance(value, str)]:
        raise DataError(f"X holds {safe_repr(wrong[0])}, which is no text; all values must be strings")
    if not values:
        raise DataError("X is empty; give at least one text")
    return values
