"""Text classifiers on features, saved without pickle: word counts or sentence vectors, and what scores labels by them.

    classifier.json           labels, thresholds, the kind of features and of scores, the words that are counted
    classifier.safetensors    weights [L, D] and bias [L]; or neighbours: vectors [N, D] and their labels [N, L]
    encoder/                  the sentence encoder whose vectors are the features

    texts ──features──> [N, D] ──linear: softmax, sigmoid or cosine; or neighbours──> scores [N, L]

Naive Bayes and logistic regression are linear in counts, and so is the similarity to label names in unit vectors. The
folder is what the methods of few labels save; `predict`, `evaluate` and `pipeline` read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from glassformer.errors import ConfigError, DataError, WeightsError
from glassformer.files import as_path, read_json_object
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.files.schema import Count, Schema, parse
from glassformer.hub.find import SCORER
from glassformer.model import Model, load
from glassformer.tasks.classify.baselines import WORD
from glassformer.tasks.classify.kinds import THRESHOLD, MultiLabel, SingleLabel
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors

TENSORS, ENCODER = "classifier.safetensors", "encoder"
VERSION = 1
TIE = 1e-3
"""Weight of similarity, which only decides between labels with as many neighbours."""
IMPOSSIBLE = -1e4
"""Logit of a label that no text can have."""


@dataclass(frozen=True)
class WordCounts:
    """Counts of words, and of runs of words, as scikit-learn's vectorizers count them.

    words: those that are counted, by their number
    longest: run of words that is counted
    rarity: TF-IDF: a weight of each word; counts are then 1 + ln, and a text has the length 1. None = plain counts [D]
    """

    words: Sequence[str]
    longest: int = 1
    rarity: np.ndarray | None = None

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The features of texts. [N, D]"""
        place = {word: i for i, word in enumerate(self.words)}
        counts = np.zeros((len(texts), len(self.words)), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            known = Counter(place[run] for run in self._runs(text) if run in place)
            row[list(known)] = list(known.values())
        if self.rarity is None:
            return counts
        weighted = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * self.rarity
        lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
        return np.asarray(weighted / np.maximum(lengths, 1e-12))

    def _runs(self, text: str) -> list[str]:
        words = WORD.findall(text.lower())
        lengths = range(1, self.longest + 1)
        return [" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)]


@dataclass(frozen=True)
class SentenceVectors:
    """The vectors of a sentence encoder, of length 1."""

    model: Model

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The features of texts. [N, D]"""
        vectors: np.ndarray = self.model.encode(list(texts), normalize_embeddings=True)
        return vectors


@dataclass(frozen=True)
class LinearScores:
    """Scores that are linear in features: of one label softmax, of several sigmoid, or the value itself, from 0 to 1.

    weights: [L, D]
    bias: [L]
    """

    weights: np.ndarray
    bias: np.ndarray
    link: Literal["softmax", "sigmoid", "cosine"]

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The scores of texts. [N, D] → [N, L]"""
        logits = features @ self.weights.T + self.bias
        if self.link == "cosine":
            return np.asarray(logits.clip(0, 1))
        if self.link == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-logits.clip(-500, 500))))
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True))


@dataclass(frozen=True)
class NeighbourScores:
    """Share of the k nearest labelled texts that have a label, by cosine; ties are broken by similarity.

    vectors: of the labelled texts, of length 1. [N, D]
    holds: which labels they have. [N, L] bool
    """

    vectors: np.ndarray
    holds: np.ndarray
    k: int

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The scores of texts. [N, D] → [N, L]"""
        votes = neighbour_votes(features @ self.vectors.T, self.holds, self.k)
        return np.asarray(votes / (self.k * (1 + TIE)))


def neighbour_votes(near: np.ndarray, holds: np.ndarray, k: int) -> np.ndarray:
    """How many of the k nearest have each label, and a little of how near they are. [N, L]

    Args:
        near: similarity of each text to the labelled ones. [N, M]
        holds: [M, L]
    """
    nearest = np.argsort(-near, axis=1, kind="stable")[:, :k]
    weights = 1 + TIE * np.clip(np.take_along_axis(near, nearest, 1), 0, 1)
    votes: np.ndarray = np.einsum("nk,nkl->nl", weights, holds[nearest].astype(np.float64))
    return votes


def decide(scores: np.ndarray, *, several: bool, thresholds: np.ndarray | float, top_k: int | None) -> np.ndarray:
    """Which labels hold: of one label the best; of several those above their threshold, or the first few.

    Args:
        scores: [N, L]
        several: whether a text may have several labels
        top_k: the number of labels that each text gets; None = by thresholds
    Returns: [N, L] bool
    """
    if several and top_k is None:
        above: np.ndarray = scores > thresholds
        return above
    best = np.argsort(-scores, axis=1, kind="stable")[:, : (top_k or 1) if several else 1]
    holds = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(holds, best, True, axis=1)
    return holds


# ----------------------------------------------------------------------------------------------- the classifier


@dataclass(frozen=True, kw_only=True)
class ScorerFile(Schema):
    """What `classifier.json` holds.

    method: that learned it
    labels: names, by number
    thresholds: from which score on a label of several holds: one, or one a label
    features, scores: their kinds
    words, longest: that are counted
    k: number of neighbours
    """

    version: int
    method: str
    labels: list[str]
    several: bool
    thresholds: list[float]
    top_k: Count | None
    features: Literal["words", "vectors"]
    scores: Literal["softmax", "sigmoid", "cosine", "neighbours"]
    words: list[str] = field(default_factory=list)
    longest: Count = 1
    k: Count = 1

    def validate(self) -> None:
        if self.version > VERSION:
            raise ConfigError(f"version is {self.version}, of a later Glassformer; this one reads {VERSION}")
        if len(self.thresholds) not in (1, len(self.labels)) or len({*self.labels}) < max(len(self.labels), 1):
            raise ConfigError("labels and thresholds do not go together: one threshold, or one for each label")


@dataclass(frozen=True, kw_only=True)
class TextScorer:
    """A text classifier that is no network: features, and scores of labels by them.

    method: that learned it
    kind: of the labels
    thresholds: from which score on each label of several holds. [L]
    top_k: the number of labels that each text gets instead, of several; None = by thresholds
    """

    method: str
    kind: SingleLabel
    features: WordCounts | SentenceVectors
    score: LinearScores | NeighbourScores
    thresholds: np.ndarray | float = THRESHOLD
    top_k: int | None = None

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """How likely each label is, from 0 to 1. [N, L]"""
        return self.score(self.features(texts))

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        return isinstance(self.kind, MultiLabel)

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Which labels hold, of scores. [N, L] bool"""
        return decide(scores, several=self.several, thresholds=self.thresholds, top_k=self.top_k)

    @property
    def config(self) -> Mapping[str, Any]:
        """Its labels, as the config of a network has them."""
        return self.kind.config()

    @property
    def device(self) -> torch.device:
        """That of the encoder; of counts, the processor."""
        return self.features.model.device if isinstance(self.features, SentenceVectors) else torch.device("cpu")

    def save(self, folder: str | Path) -> None:
        """Write it into a folder, which is made. Raises: DataError: the disk refuses."""
        folder, score, words = as_path(folder, "folder"), self.score, self.features
        values: dict[str, Any] = {
            "version": VERSION, "method": self.method, "labels": list(self.kind.names), "several": self.several,
            "thresholds": np.atleast_1d(self.thresholds).tolist(), "top_k": self.top_k, "features": "vectors",
        }  # fmt: skip
        if isinstance(score, LinearScores):
            values["scores"] = score.link
            tensors = {"weights": score.weights, "bias": score.bias}
        else:
            values |= {"scores": "neighbours", "k": score.k}
            tensors = {"vectors": score.vectors, "holds": score.holds.astype(np.uint8)}
        if isinstance(words, WordCounts):
            values |= {"features": "words", "words": list(words.words), "longest": words.longest}
            tensors |= {} if words.rarity is None else {"rarity": words.rarity}
        with disk_errors(folder, DataError, "the classifier"):
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(folder / TENSORS) as stream:
                write_tensors(stream, {name: _stored(x) for name, x in tensors.items()}, {})
        if isinstance(words, SentenceVectors):
            words.model.save_pretrained(folder / ENCODER)
        write_json(folder / SCORER, values, DataError)  # last: a folder with it is complete

    @classmethod
    def load(cls, folder: str | Path, **loading: Any) -> TextScorer:
        """Read it from a folder.

        Args:
            loading: options of `load`, for the encoder
        Raises: ConfigError, WeightsError: the folder holds none, or files that do not go together.
        """
        folder = as_path(folder, "folder")
        file = parse(ScorerFile, read_json_object(folder / SCORER, ConfigError), SCORER)
        stored = open_file(folder / TENSORS)
        tensors = {name: stored.read(name).clone().numpy() for name in stored.tensors}
        kind = MultiLabel(file.labels) if file.several else SingleLabel(file.labels)
        features: WordCounts | SentenceVectors
        if file.features == "vectors":
            features = SentenceVectors(load(folder / ENCODER, **loading))
        else:
            features = WordCounts(file.words, file.longest, tensors.get("rarity"))
        return cls(
            method=file.method, kind=kind, features=features, score=_scores_of(file, tensors, folder),
            thresholds=np.array(file.thresholds), top_k=file.top_k,
        )  # fmt: skip


def _stored(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values if values.dtype == np.uint8 else values.astype(np.float32)))


def _scores_of(file: ScorerFile, tensors: Mapping[str, np.ndarray], folder: Path) -> LinearScores | NeighbourScores:
    """What scores labels. Raises: WeightsError: a tensor is missing, or of another shape."""
    linear = file.scores != "neighbours"
    names = ("weights", "bias") if linear else ("vectors", "holds")
    if missing := [name for name in names if name not in tensors]:
        raise WeightsError(f"{folder / TENSORS}: holds no tensor {missing[0]!r}; save the method again")
    first, second, labels = tensors[names[0]], tensors[names[1]], len(file.labels)
    shapes = (labels,) if linear else (len(first), labels)
    width = len(file.words) if file.features == "words" else first.shape[-1]
    if first.ndim != 2 or second.shape != shapes or first.shape[-1] != width or (linear and len(first) != labels):
        raise WeightsError(f"{folder / TENSORS}: its tensors do not fit the {labels} labels; save the method again")
    if file.scores == "neighbours":
        return NeighbourScores(first, second.astype(bool), file.k)
    return LinearScores(first, second, file.scores)
