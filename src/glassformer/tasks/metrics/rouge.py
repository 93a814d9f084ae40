"""ROUGE: recall, precision and F1 of the n-grams and subsequences that a summary shares with a reference.

    reference  the cat is on the mat          ROUGE-1  words             the cat on the mat
    summary    the cat on the mat             ROUGE-2  pairs of words    the cat · on the · the mat
                                              ROUGE-L  longest run of words in common order, with gaps
                                              ROUGE-Lsum  the same sentence by sentence, put together

    recall = in common / of the reference    precision = in common / of the summary    F = 2 P R / (P + R)

The counting is that of the reference package `rouge-score`, which reads lower-case a-z and 0-9 and no other letter.
It takes a line for a sentence; here sentences are found first (`text/sentences.py`).

Source: Lin, ROUGE: a package for automatic evaluation of summaries (2004).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from glassformer.errors import DataError, import_optional
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.metrics.metric import RESAMPLES, Interval
from glassformer.tasks.metrics.text_metric import TextMetric, add_all
from glassformer.text.sentences import split_sentences

KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL", "ROUGE-Lsum": "rougeLsum"}
"""Our names, the field's, and those of the package."""

PARTS = ("precision", "recall", "f")

MOST_PAIRS = 50_000_000
"""The longest run in common is found in a table of all pairs of words, eight bytes each."""

_WORD = re.compile("[a-z0-9]+", re.IGNORECASE)


@dataclass(frozen=True)
class Overlap:
    """One kind of ROUGE, from 0 to 1: precision, recall, and their harmonic mean f."""

    precision: Interval
    recall: Interval
    f: Interval


@dataclass(frozen=True, repr=False)
class Rouge(Report, kind="rouge"):
    """ROUGE of a set of summaries: the mean over its rows.

    stemming: were words cut to their stems?
    sentences: were sentences found, instead of taking lines for them?
    wordless: rows of which no reference has a word that ROUGE reads; they count as 0
    packages: what counted
    """

    rouge1: Overlap
    rouge2: Overlap
    rougeL: Overlap
    rougeLsum: Overlap
    rows: int
    stemming: bool
    sentences: bool
    wordless: int
    packages: dict[str, str]

    def tables(self) -> list[Table]:
        """A row a kind of ROUGE."""
        kinds = {kind: getattr(self, field) for kind, field in KINDS.items()}
        rows = [[kind, *(getattr(overlap, part).cell() for part in PARTS)] for kind, overlap in kinds.items()]
        return [Table(["", *PARTS], rows)]

    @property
    def heading(self) -> str:
        """Of how many rows, and how it is counted."""
        how = _method(self.packages, self.stemming)
        return f"ROUGE of {self.rows:,} rows, {how}; 95% intervals in brackets"


class RougeMetric(TextMetric):
    """The overlaps of rows, counted one at a time.

    Args:
        stemming: cut English words to their stems: "cats" is "cat".
        sentences: find the sentences for ROUGE-Lsum; False: each line is one.
        language: of the texts, for finding sentences.
    Raises: MissingExtraError: without the package rouge-score.
    """

    def __init__(self, *, stemming: bool = False, sentences: bool = True, language: str = "en") -> None:
        super().__init__(len(KINDS) * len(PARTS))
        self._stemming, self._sentences, self._language = stemming, sentences, language
        self._wordless = 0
        split_sentences("", language)  # an unknown language is an error now
        self._scorer = _scorer(stemming)

    def counts(self, output: str, references: list[str]) -> Sequence[float]:
        words, longest = _words(output), max(map(_words, references))
        if words * longest > MOST_PAIRS:
            raise DataError(
                f"a text of {words:,} words with one of {longest:,} is too long for ROUGE-L, whose table has a cell "
                f"for each pair, at most {MOST_PAIRS:,}; shorten the texts"
            )
        if not longest:
            self._warn()
        scores = self._scorer.score_multi([self._lines(text) for text in references], self._lines(output))
        return [number for kind in KINDS.values() for number in scores[kind]]

    def scores(self, sums: np.ndarray, rows: int) -> Mapping[str, np.ndarray]:
        names = [f"{kind} {part}" for kind in KINDS for part in PARTS]
        return dict(zip(names, (sums / rows).T, strict=True))

    def result(self, resamples: int = RESAMPLES, seed: int = 0) -> Rouge:
        """ROUGE of all rows so far. Args, Raises: as `TextMetric.intervals`."""
        of_scores = self.intervals(resamples, seed)
        overlaps = {field: Overlap(*(of_scores[f"{kind} {part}"] for part in PARTS)) for kind, field in KINDS.items()}
        return Rouge(
            **overlaps,
            rows=len(self),
            stemming=self._stemming,
            sentences=self._sentences,
            wordless=self._wordless,
            packages=self._packages,
        )

    @property
    def method(self) -> str:
        return f"ROUGE (F): {_method(self._packages, self._stemming)}"

    @property
    def _packages(self) -> dict[str, str]:
        used = ["rouge-score", *(["nltk"] if self._stemming else []), *(["pysbd"] if self._sentences else [])]
        return {name: version(name) for name in used}

    def _lines(self, text: str) -> str:
        return "\n".join(split_sentences(text, self._language)) if self._sentences else text

    def _warn(self) -> None:
        self._wordless += 1
        if self._wordless == 1:
            warnings.warn(
                "a reference has no word that ROUGE reads: it knows the letters a-z and digits alone, so texts in "
                "other scripts score 0; evaluate them by chrF (glassformer.tasks.metrics.bleu)",
                stacklevel=4,
            )


def rouge(
    outputs: Iterable[str],
    references: Iterable[str | Sequence[str]],
    *,
    stemming: bool = False,
    sentences: bool = True,
    language: str = "en",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rouge:
    """ROUGE-1, -2, -L and -Lsum of summaries, each with a 95% interval.

        rouge(["the cat on the mat"], ["the cat is on the mat"]).rouge1.recall

    Args:
        outputs: what was written, one a row.
        references: a summary for each, or several, of which the one with the best F counts.
        stemming, sentences, language: as in `RougeMetric`
        resamples, seed: as in `TextMetric.intervals`
    Raises: DataError: nothing to evaluate, or not one reference a row. MissingExtraError: without rouge-score.
    """
    text_metric = RougeMetric(stemming=stemming, sentences=sentences, language=language)
    add_all(text_metric, outputs, references)
    return text_metric.result(resamples, seed)


def _scorer(stemming: bool) -> Any:
    package = import_optional("rouge_score.rouge_scorer", "rouge-score", "evaluate", "ROUGE")
    return package.RougeScorer(list(KINDS.values()), use_stemmer=stemming)


def _words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _method(packages: Mapping[str, str], stemming: bool) -> str:
    by = ", ".join(f"{name} {number}" for name, number in packages.items())
    return f"words {'stemmed' if stemming else 'not stemmed'}, by {by}"
