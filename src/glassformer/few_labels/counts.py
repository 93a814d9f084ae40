"""Naive Bayes and logistic regression on word counts: the baselines that need no model; of several labels one-vs-rest.

    texts      it crashes on start  ──words──> counts [N, V] ──one classifier, or one a label──> scores [N, L]

Sources: McCallum and Nigam 1998, "A Comparison of Event Models for Naive Bayes Text Classification" (multinomial);
Wang and Manning 2012, "Baselines and Bigrams"; one-vs-rest: Tunstall et al. 2022, "Natural Language Processing with
Transformers", chapter 9.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from glassformer.errors import DataError
from glassformer.few_labels.label_heads import LabelHeads
from glassformer.few_labels.method import Method, out_of_fold
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Count, Doc, Positive, Schema
from glassformer.tasks.classify.baselines import WORD
from glassformer.tasks.classify.scorer import TextScorer, WordCounts
from glassformer.tasks.metrics.scikit_learn import sklearn


@dataclass(frozen=True, kw_only=True)
class NaiveBayesOptions(Schema):
    """Smoothing, and which words are counted."""

    smoothing: Annotated[Positive, Doc("Additive smoothing: the count that every word has in advance.")] = 1.0
    ngrams: Annotated[Count, Doc("Longest run of words that is counted: 2 = also pairs of neighbours.")] = 1


@dataclass(frozen=True, kw_only=True)
class CountRegressionOptions(Schema):
    """Penalty, and which words are counted."""

    weight: Annotated[Positive, Doc("Inverse of the penalty on large weights (C of scikit-learn).")] = 10.0
    ngrams: Annotated[Count, Doc("Longest run of words that is counted: 2 = also pairs of neighbours.")] = 1


class CountMethod(Method[Any]):
    """A classifier of scikit-learn on the counts of words."""

    @abstractmethod
    def parts(self) -> tuple[Any, Any]:
        """The vectorizer and the estimator, not fitted."""

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        if not any(WORD.search(text) for text in labelled.texts):
            raise DataError("no labelled text has a word to count; use a method that reads texts otherwise")
        self._vectorizer, self._heads = self._learned(labelled)
        if not labelled.several:
            return None

        def score(part: LabelledTexts, texts: Sequence[str]) -> np.ndarray:
            vectorizer, heads = self._learned(part)
            return heads.scores(vectorizer.transform(texts))

        return out_of_fold(labelled, self.setting.seed, score)

    def _learned(self, labelled: LabelledTexts) -> tuple[Any, LabelHeads]:
        """What counts, and what scores counts."""
        vectorizer, estimator = self.parts()
        return vectorizer, LabelHeads(vectorizer.fit_transform(labelled.texts), labelled, estimator)

    @property
    def needs_encoder(self) -> bool:
        return False

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self._heads.scores(self._vectorizer.transform(texts))

    def saved(self) -> TextScorer:
        words = [str(word) for word in self._vectorizer.get_feature_names_out()]
        rarity = getattr(self._vectorizer, "idf_", None)
        return self.scorer(WordCounts(words, self.options.ngrams, rarity), self._heads.linear())


class NaiveBayes(CountMethod):
    """Multinomial naive Bayes on word counts."""

    OPTIONS = NaiveBayesOptions

    def parts(self) -> tuple[Any, Any]:
        counted = sklearn("feature_extraction.text", "a method on counts").CountVectorizer(
            token_pattern=WORD.pattern, ngram_range=(1, self.options.ngrams)
        )
        return counted, sklearn("naive_bayes", "a method on counts").MultinomialNB(alpha=self.options.smoothing)


class CountRegression(CountMethod):
    """Logistic regression on word counts, of which rare words weigh more (TF-IDF)."""

    OPTIONS = CountRegressionOptions

    def parts(self) -> tuple[Any, Any]:
        counted = sklearn("feature_extraction.text", "a method on counts").TfidfVectorizer(
            token_pattern=WORD.pattern, ngram_range=(1, self.options.ngrams), sublinear_tf=True
        )
        regression = sklearn("linear_model", "a method on counts").LogisticRegression
        return counted, regression(C=self.options.weight, max_iter=1_000)
