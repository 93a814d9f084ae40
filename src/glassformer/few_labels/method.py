"""Methods of few-shot classification: the interface that all have, what they may use, and their names.

    class Constant(Method[ConstantOptions]):
        \"""Majority class: always the most frequent label.\"""

        OPTIONS = ConstantOptions

        def learn(self, labelled, unlabelled):
            self.shares = labelled.holds.mean(0)

        def scores(self, texts):
            return np.tile(self.shares, (len(texts), 1))

A method is a line of `METHODS`. `fit` and `predict` are the same for all.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch

from glassformer.engine.encoder import check_texts
from glassformer.errors import ConfigError, DataError, UnsupportedError, nearest
from glassformer.few_labels.rows import LabelledTexts
from glassformer.few_labels.thresholds import best_thresholds
from glassformer.files import counted, safe_repr
from glassformer.files.lazy import imported
from glassformer.files.schema import Allowed, parse
from glassformer.model import Model, load
from glassformer.reports.table import Table
from glassformer.tasks.classify.kinds import THRESHOLD, MultiLabel, SingleLabel
from glassformer.tasks.classify.scorer import (
    LinearScores,
    NeighbourScores,
    SentenceVectors,
    TextScorer,
    WordCounts,
    decide,
)
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.pipeline_registry import pipeline

Options = TypeVar("Options")
FOLDS = 5
ROWS = frozenset({"labels", "unlabelled"})
"""Those of `Method.NEEDS` that are rows; the others are models."""
REHEARSED = tuple(f"this is the {number} text of a rehearsal, and of no use" for number in (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "last",
))  # fmt: skip
Template = Annotated[
    str,
    Allowed("a text with one {} in the place of a label", lambda x: x.count("{}") == x.count("{") == x.count("}") == 1),
]


class TextVectors:
    """Sentence embeddings that are computed once for all methods of a study.

    borrowed: seconds that the vectors, and all else that methods share, took when another method needed them first, so
        that each is charged for what it needs
    """

    def __init__(self, model: str) -> None:
        self.model_name = model
        self.borrowed = 0.0
        self._vectors: dict[str, np.ndarray] = {}
        self._seconds: dict[str, float] = {}
        self._loaded: dict[str, Model] = {}

    @property
    def model(self) -> Model:
        """The sentence encoder, loaded when first used; methods that train load a copy of their own."""
        if self.model_name not in self._loaded:
            if not self.model_name:
                raise ConfigError("a method reads texts by a sentence encoder, and none is named: model= FOLDER")
            self._loaded[self.model_name] = load(self.model_name)
        return self._loaded[self.model_name]

    def emptied(self) -> TextVectors:
        """The same encoder, loaded once for both, and no vectors yet."""
        other = copy(self)
        other._vectors, other._seconds = {}, {}
        return other

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, of length 1. [N, D]"""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self.borrowed += sum(self._seconds.get(text, 0.0) for text in dict.fromkeys(texts))
        if missing:
            model = self.model
            start = time.perf_counter()
            encoded = model.encode(missing, normalize_embeddings=True)
            each = (time.perf_counter() - start) / len(missing)
            for text, vector in zip(missing, encoded, strict=True):
                self._vectors[text], self._seconds[text] = vector, each
        return np.stack([self._vectors[text] for text in texts])


@dataclass
class Setting:
    """What methods may use besides the rows.

    model: encoder, a folder or a name; "" = none, for methods that need none
    seed: of everything that is drawn at random
    max_tokens: longer texts are cut
    descriptions: label → a text that says what it is; a label without one is described by its name
    models: other models by what they are for: "entailment", "masked", "decoder", "there" and "back" (translators)
    work: folder for what several cells of a study use, such as an adapted model; None = nothing is stored
    vectors: embeddings, shared by the methods of a study
    recent: what a method leaves for the next ones of a study that begin with the same, by what it is
    """

    model: str = ""
    seed: int = 0
    max_tokens: int = 128
    descriptions: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    work: Path | None = None
    vectors: TextVectors = field(init=False)
    recent: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.vectors = TextVectors(self.model)

    def seeded(self, seed: int) -> Setting:
        """The same with another seed; what methods share stays shared."""
        other = copy(self)
        other.seed = seed
        return other

    def set_aside(self) -> Setting:
        """The same, sharing nothing but loaded models."""
        other = copy(self)
        other.vectors, other.recent, other.work = self.vectors.emptied(), {}, None
        return other

    def text_of(self, label: str) -> str:
        """What a label means, in words: its description, or its name without `_` and `-`."""
        return self.descriptions.get(label) or " ".join(label.replace("_", " ").replace("-", " ").split())

    def tokens_of(self, model: Model) -> int:
        """The most tokens of a text that a model reads: `max_tokens`, or its own limit where that is less."""
        limit = model.network.max_tokens
        return self.max_tokens if limit is None else min(limit, self.max_tokens)

    def model_for(self, role: str) -> str:
        """The model for a role. Raises: ConfigError: none is named."""
        if role not in self.models:
            raise ConfigError(
                f"a model for {safe_repr(role)} is needed, and none is named: models= {role}=FOLDER (in the "
                f"configuration of a training: method.models.{role})"
            )
        return self.models[role]

    def loaded_for(self, role: str, task: str) -> Model:
        """The model for a role. Raises: ConfigError: none is named. WeightsError: its head would be random."""
        return pipeline(task, self.model_for(role)).model


class Method(ABC, Generic[Options]):
    """A way to classify texts after few labels, or none.

    OPTIONS: a dataclass of its options, each with its `Doc`
    NEEDS: what it cannot do without: "labels", "unlabelled", or the role of a model in `Setting.models`
    BRIEF: options with which it learns in as few steps as it can, see `rehearse`
    kind: of the labels, once it is fitted
    thresholds: from which score on each label of several holds. [L]
    top_k: the number of labels that each text gets instead, of several; None = by thresholds
    withheld: how many of the labelled texts were held out, and taught nothing
    name: by which it was made
    """

    OPTIONS: ClassVar[type]
    NEEDS: ClassVar[tuple[str, ...]] = ("labels",)
    BRIEF: ClassVar[Mapping[str, Any]] = {}
    kind: SingleLabel
    name: str = "method"

    def __init__(self, options: Options, setting: Setting) -> None:
        self.options, self.setting = options, setting
        self.thresholds: np.ndarray | float = THRESHOLD
        self.top_k: int | None = None
        self.withheld = 0

    @classmethod
    def brief(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with which it learns in as few steps as it can, the rest being those given."""
        return {**options, **cls.BRIEF}

    @abstractmethod
    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        """Learn from labelled and unlabelled texts.

        Returns: scores of the labelled texts by a model that did not learn from the text it scores, to choose the
            thresholds of several labels by; NaN where it did [N, L]. None = there are none, or none are needed.
        """

    @abstractmethod
    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """How likely each label is, from 0 to 1. [N, L]"""

    def tables(self) -> Sequence[Table]:
        """What was chosen or learnt, for a report."""
        return ()

    @property
    def roles(self) -> set[str]:
        """The roles of those of `Setting.models` that it reads."""
        return {*self.NEEDS} - ROWS

    @property
    def needs_encoder(self) -> bool:
        """Whether it reads texts by `Setting.model`, and not by the model of a role alone."""
        return ROWS.issuperset(self.NEEDS)

    def require_encoder(self, model: str | None, name: str) -> None:
        """Raises: ConfigError: it reads texts by a sentence encoder, and none is named.

        Args:
            name: of the method, as a configuration has it
        """
        if self.needs_encoder and not model:
            raise ConfigError(f"{name} reads texts by a sentence encoder; name one: model= FOLDER")

    def saved(self) -> Classify | TextScorer:
        """What answers without the method, once it is fitted: a network with its task, or a scorer.

        Raises: UnsupportedError: it asks another model each time, which is saved already.
        """
        raise UnsupportedError(
            f"{self.name} asks another model each time and learns nothing that could be saved; use it in Python: "
            f"glassformer.few_labels.make_method({self.name!r}, …).predict(texts)"
        )

    def scorer(self, features: WordCounts | SentenceVectors, score: LinearScores | NeighbourScores) -> TextScorer:
        """Features and scores, with the labels and thresholds of this method."""
        return TextScorer(
            method=self.name, kind=self.kind, features=features, score=score, thresholds=self.thresholds,
            top_k=self.top_k,
        )  # fmt: skip

    def fit(self, labelled: LabelledTexts, unlabelled: Sequence[str] = ()) -> Method[Options]:
        """Learn, and choose thresholds. Returns: itself.

        Raises: DataError: no labels, one label alone, or no unlabelled texts, where they are needed.
        """
        name = type(self).__name__
        if "labels" in self.NEEDS:
            _refuse_equal_labels(labelled, name)
        if "unlabelled" in self.NEEDS and not len(unlabelled):
            raise DataError(f"{name} learns from unlabelled texts, and there are none: give some, or another method")
        self.kind = labelled.kind
        held_out = self.learn(labelled, unlabelled)
        if held_out is not None and labelled.several:
            self.thresholds = best_thresholds(held_out, labelled.holds)
        return self

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Which labels hold, of scores. [N, L] bool"""
        several = isinstance(self.kind, MultiLabel)
        return decide(scores, several=several, thresholds=self.thresholds, top_k=self.top_k)

    def hold_from(self, threshold: float | None, top_k: int) -> None:
        """Let labels, of several, hold from a threshold on; None = the first `top_k` of each text."""
        if threshold is None:
            self.top_k = top_k
        else:
            self.thresholds = threshold

    def predict(self, texts: Sequence[str]) -> list[Any]:
        """The label of each text: a name, or of several labels a list of names.

        Raises: DataError: one string instead of a list. UnsupportedError: it is not fitted yet.
        """
        if not hasattr(self, "kind"):
            raise UnsupportedError(f"{self.name} has learned nothing yet; first fit it: method.fit(labelled)")
        texts = check_texts(texts)
        return LabelledTexts(texts, self.decide(self.scores(texts)), self.kind).labels if texts else []


def _refuse_equal_labels(labelled: LabelledTexts, name: str) -> None:
    """Raises: DataError: no labelled text, or all have the same labels."""
    if not len(labelled):
        raise DataError(f"{name} learns from labelled texts, and there are none: label some, or use a zero-shot method")
    if (labelled.holds == labelled.holds[0]).all():
        only = " and ".join(labelled.kind.names[i] for i in np.flatnonzero(labelled.holds[0])) or "no label"
        raise DataError(
            f"all {counted(len(labelled), 'labelled text')} have {only}: there is nothing to tell apart; label some of "
            "another kind"
        )


def out_of_fold(
    labelled: LabelledTexts, seed: int, fit_and_score: Callable[[LabelledTexts, Sequence[str]], np.ndarray]
) -> np.ndarray:
    """Cross-validated scores: those of each text by a model that learned from the others. [N, L]

    Args:
        fit_and_score: learns from the first, and scores the second
    """
    scores = np.full(labelled.holds.shape, np.nan)
    for inner, outer in labelled.folds(FOLDS, seed):
        part = labelled.select(inner)
        if not (part.holds == part.holds[0]).all():  # else there is nothing to learn in this fold
            scores[outer] = fit_and_score(part, [labelled.texts[i] for i in outer])
    return scores


METHODS: dict[str, str | type[Method[Any]]] = {
    "naive-bayes": "glassformer.few_labels.counts:NaiveBayes",
    "logistic-regression": "glassformer.few_labels.counts:CountRegression",
    "embeddings": "glassformer.few_labels.embeddings:EmbeddingRegression",
    "nearest-neighbours": "glassformer.few_labels.neighbours:NearestNeighbours",
    "label-names": "glassformer.few_labels.label_names:LabelNames",
    "entailment": "glassformer.few_labels.entailment:Entailment",
    "prompts": "glassformer.few_labels.prompts:MaskPrompts",
    "augmented": "glassformer.few_labels.augmentation:Augmented",
    "contrastive": "glassformer.few_labels.contrastive:ContrastiveTuning",
    "fine-tuning": "glassformer.few_labels.fine_tuning:FineTuning",
    "domain-adaptation": "glassformer.few_labels.domain_adaptation:DomainAdaptation",
    "self-training": "glassformer.few_labels.self_training:SelfTraining",
    "in-context": "glassformer.few_labels.in_context:InContext",
    "uda": "glassformer.few_labels.uda:UnsupervisedAugmentation",
}
"""Name → class of a method as "module:class", imported on first use; or a class that was registered."""

OWN = frozenset(METHODS)
"""Those of this package."""


def register(name: str, method: type[Method[Any]]) -> None:
    """Let studies name a method of your own. Raises: ConfigError: the name is taken, or it is no method."""
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise ConfigError(f"the method {safe_repr(name)} is {safe_repr(method)}; it must be a subclass of Method")
    if METHODS.get(name, method) is not method:
        raise ConfigError(f"there is a method {safe_repr(name)} already; choose another name")
    METHODS[name] = method


def find_method(name: str) -> type[Method[Any]]:
    """The class of a method. Raises: ConfigError: there is none of this name, with the nearest that there is."""
    if name not in METHODS:
        raise ConfigError(
            f"there is no method {safe_repr(name)}{nearest(name, METHODS)}; there are: {', '.join(METHODS)}"
        )
    known = METHODS[name]
    if isinstance(known, str):
        known = METHODS[name] = imported(known)
    return known


def make_method(name: str, setting: Setting, **options: Any) -> Method[Any]:
    """A method by its name, with its options. Raises: ConfigError: no such method, or an invalid option."""
    method = find_method(name)
    made = method(parse(method.OPTIONS, options, name), setting)
    made.name = name
    return made


def rehearse(name: str, setting: Setting, kind: SingleLabel, **options: Any) -> None:
    """Fit a method once and let it answer, on a few texts of no study and in as few steps as it can.

    What starting costs is paid then: libraries, models, compiled kernels. A time that is measured afterwards does not
    depend on which method comes first. A method of yours is left alone: it may ask what costs money, and what starting
    it costs belongs to its first cell.

    Args:
        kind: the labels of the study
        options: of the method
    """
    if not {name, options.get("method", name)} <= OWN:  # "method": that some of them teach
        return
    count = len(kind.names)
    labelled = LabelledTexts(REHEARSED, np.eye(count, dtype=bool)[np.arange(len(REHEARSED)) % count], kind)
    method = make_method(name, setting.set_aside(), **find_method(name).brief(options))
    if "labels" not in method.NEEDS:
        labelled = labelled.select(())
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what these few texts lack
        method.fit(labelled, REHEARSED).scores(REHEARSED)
