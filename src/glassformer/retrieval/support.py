"""Attribution check: does a passage say what a sentence of an answer says? By word overlap, or by textual entailment.

    question  When was the lighthouse built?
    sentence  It was built in 1874.           content words: built, 1874; the question does not have 1874
    passage   … was built in 1874 by …        overlap 1

    overlap      |(S \\ Q) ∩ P| / |S \\ Q|: stems of the content words of sentence, question and passage; |S ∩ P| / |S|
                 where the question has all of them; 0 where the sentence has a number that the passage does not have
    entailment   P(entailment), premise = passage, hypothesis = question and sentence, by a model for natural language
                 inference

A sentence rests on a passage from a score of 0.6 on. Overlap sees no change of roles ("A beat B"), and no negation that
both have; entailment sees as much as its model does.
Sources: Bohnet et al. 2022, "Attributed Question Answering", section 3 (entailment of an answer); Rashkin et al. 2021,
"Measuring Attribution in Natural Language Generation Models" (what an attribution is).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from glassformer.model import Model
from glassformer.retrieval.words import is_without_spaces, query_terms, terms
from glassformer.tasks.classify.zero_shot import ZeroShotClassification
from glassformer.tasks.pipeline_registry import pipeline

THRESHOLD = 0.6
"""Least score of a passage that supports a sentence: of tenths it tells the entailed sentences of SNLI best from others
(docs/retrieval.md)."""

FUNCTION_WORDS = (
    "a an the this that these those and or but nor so yet if then than as because since while when where which who "
    "whom whose what why how i you he she it we they me him her us them my your his its our their mine yours hers "
    "ours theirs myself himself herself itself themselves is are was were be been being am do does did done have has "
    "had having will would shall should can could may might must of in on at by for with from to into onto about over "
    "under between through during before after above below up down out off again also very too just only there here "
    "such own same some any each both all more most other another s t re ve ll d m"
)
"""English words without content of their own; "no", "not" and "never" have some."""
SHORTEST = 4
"""Letters of a content word in other languages."""


class SupportCheck(Protocol):
    """Scores, 0 to 1, how far each of some passages supports a sentence of an answer."""

    def __call__(self, question: str, sentence: str, passages: Sequence[str]) -> list[float]: ...


class WordOverlap:
    """The share of a sentence's content words that a passage has, as the module says.

    language: whose stems are compared
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language

    def __call__(self, question: str, sentence: str, passages: Sequence[str]) -> list[float]:
        words = self.content(query_terms(sentence, self.language))
        new = words - self.content(query_terms(question, self.language)) or words
        numbers = {term for term in words if any(map(str.isdigit, term))}
        scores = []
        for passage in passages:
            has = set(terms(passage, self.language))
            scores.append(len(new & has) / len(new) if new and numbers <= has else 0.0)
        return scores

    def content(self, listed: Iterable[str]) -> set[str]:
        """The terms that are of content words."""
        if self.language == "en":
            return set(listed) - _function_words()
        return {
            term for term in listed
            if len(term) >= SHORTEST or any(map(str.isdigit, term)) or is_without_spaces(term)
        }  # fmt: skip


@cache
def _function_words() -> set[str]:
    return set(terms(FUNCTION_WORDS, "en"))


class EntailmentCheck:
    """The probability, by a model for natural language inference, that a passage entails a sentence.

    Args:
        model: a classifier of pairs of texts with a label "entailment": a folder, a Hub name, or one that is loaded
        loading: keywords of `load`, for a name
    Raises: ConfigError: its labels have no entailment. UnsupportedError, WeightsError: it is no classifier.
    """

    def __init__(self, model: Model | str | Path, **loading: Any) -> None:
        classifier = pipeline("zero-shot-classification", model, **loading)
        assert isinstance(classifier, ZeroShotClassification)
        self.classifier = classifier

    def __call__(self, question: str, sentence: str, passages: Sequence[str]) -> list[float]:
        return self.classifier.entailed(passages, [f"{question} {sentence}"] * len(passages))
