"""BLEU and chrF: n-gram overlap of translations with references, by words and by characters.

    reference    the cat is on the mat         BLEU = BP · (p1 p2 p3 p4)^(1/4)
    translation  the cat is on mat
                                               pn = n-grams that occur in the reference, each as often as there at
    p1 = 5/5   p2 = 3/4   p3 = 2/3   p4 = 1/2         most (clipped) / all n-grams of the translation
    BP = exp(1 - 6/5) = 0.819                  BP = exp(1 - words of the reference / words) where it is too short
    BLEU = 0.819 · (1 · 3/4 · 2/3 · 1/2)^(1/4) = 57.9

N-grams are counted over all rows before anything is divided, so BLEU of a set is no mean over its rows. The counting
is that of the reference package `sacrebleu`, and its signature, which says all that matters, comes with each figure.

Source: Papineni et al., BLEU (2002); Post, A call for clarity in reporting BLEU scores (2018);
    Popović, chrF (2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, import_optional
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.metrics.metric import RESAMPLES, Interval
from glassformer.tasks.metrics.text_metric import TextMetric, add_all

SMOOTHING = ("exp", "floor", "add-k", "none")
TOKENIZE = ("13a", "intl", "char", "zh", "none")
"""Those of the package that need nothing to be fetched."""


@dataclass(frozen=True, repr=False)
class Score(Report, kind="chrf"):
    """A score from 0 to 100 of a set of rows (chrF, or BLEU), with what is needed to compare it with others.

    signature: the package's own description of the method
    packages: what counted
    """

    name: str
    score: Interval
    rows: int
    signature: str
    packages: dict[str, str]

    def tables(self) -> list[Table]:
        """The score, and how it is computed."""
        score = [self.name, self.score.cell(2)]
        rows = [score, *self._parts(), ["rows", f"{self.rows:,}"], ["method", self.signature]]
        return [Table(["metric", "value"], rows, left=2, longest=300)]

    def _parts(self) -> list[list[str]]:
        """What the score is made of: names and values."""
        return []


@dataclass(frozen=True, repr=False)
class Bleu(Score, kind="bleu"):
    """BLEU, and what it is made of.

    precisions: p1 to p4, in percent
    matches, totals: their numerators and denominators
    brevity_penalty: below 1 where the outputs are shorter than the references · in tokens: output and reference_length
    """

    precisions: tuple[float, ...]
    matches: tuple[int, ...]
    totals: tuple[int, ...]
    brevity_penalty: float
    output_length: int
    reference_length: int

    def _parts(self) -> list[list[str]]:
        parts = zip(self.precisions, self.matches, self.totals, strict=True)
        lengths = f"{self.output_length:,} tokens compared with {self.reference_length:,}"
        precisions = [
            [
                f"{n}-grams",
                f"{precision:.2f}{' =' if matches or not precision else ', smoothed:'} {matches:,} of {total:,}",
            ]
            for n, (precision, matches, total) in enumerate(parts, start=1)
        ]
        return [*precisions, ["brevity", f"{self.brevity_penalty:.4f}: {lengths}"]]


class SacreMetric(TextMetric):
    """Rows counted by a metric of sacrebleu.

    Args:
        name: of the figure
        metric: an object of the package
        width: how many counts it takes of a row
    """

    def __init__(self, name: str, metric: Any, width: int) -> None:
        super().__init__(width)
        self.name = name
        self._metric = metric
        self._numbers_of_references: set[int] = set()

    def add(
        self, output: str, references: str | Sequence[str], counts: Sequence[float] | None = None
    ) -> Sequence[float]:
        counts = super().add(output, references, counts)
        self._numbers_of_references.add(1 if isinstance(references, str) else len(references))
        return counts

    def counts(self, output: str, references: list[str]) -> Sequence[float]:
        (row,) = self._metric._extract_corpus_statistics([output], [[text] for text in references])
        return [float(count) for count in row]

    def scores(self, sums: np.ndarray, rows: int) -> Mapping[str, np.ndarray]:
        return {self.name: np.array([self._of(row).score for row in sums])}

    def result(self, resamples: int = RESAMPLES, seed: int = 0) -> Score:
        """The figure for all rows so far. Args, Raises: as `TextMetric.intervals`."""
        return Score(
            name=self.name,
            score=self.intervals(resamples, seed)[self.name],
            rows=len(self),
            signature=self.signature,
            packages={"sacrebleu": version("sacrebleu")},
        )

    @property
    def signature(self) -> str:
        """The package's own description of the method."""
        numbers = self._numbers_of_references
        self._metric.num_refs = next(iter(numbers)) if len(numbers) == 1 else -1  # -1: they vary
        return str(self._metric.get_signature())

    @property
    def method(self) -> str:
        return f"{self.name}: {self.signature}"

    def _of(self, sums: np.ndarray) -> Any:
        return self._metric._compute_score_from_stats([int(count) for count in sums])


class BleuMetric(SacreMetric):
    """N-grams of rows, counted one at a time.

    Args:
        smoothing: of an order without any match: "exp" (the package's own, and what is usually reported), "floor",
            "add-k", or "none", which gives 0 as the paper does. It matters where rows are few.
        tokenize: what a word is: "13a" (as is usual), "intl", "char", "zh", "none"
        lowercase: ignore case
    Raises: MissingExtraError: without the package sacrebleu. ConfigError: another smoothing or tokenizer.
    """

    def __init__(self, *, smoothing: str = "exp", tokenize: str = "13a", lowercase: bool = False) -> None:
        for option, given, allowed in (("smoothing", smoothing, SMOOTHING), ("tokenize", tokenize, TOKENIZE)):
            if given not in allowed:
                raise ConfigError(f"{option} is {given!r}; allowed: {', '.join(allowed)}")
        metric = _metrics().BLEU(smooth_method=smoothing, tokenize=tokenize, lowercase=lowercase)
        super().__init__("BLEU", metric, 2 + 2 * 4)  # lengths, matches and totals of four orders

    def result(self, resamples: int = RESAMPLES, seed: int = 0) -> Bleu:
        sums = self.rows.sum(axis=0)
        reference_score = self._of(sums)
        counts = [int(count) for count in sums]
        return Bleu(
            **vars(super().result(resamples, seed)),
            precisions=tuple(reference_score.precisions),
            matches=tuple(counts[2:6]),
            totals=tuple(counts[6:10]),
            brevity_penalty=reference_score.bp,
            output_length=counts[0],
            reference_length=counts[1],
        )


class ChrfMetric(SacreMetric):
    """Runs of one to six letters of rows, counted one at a time; good for languages that inflect.

    Raises: MissingExtraError: without the package sacrebleu.
    """

    def __init__(self) -> None:
        super().__init__("chrF", _metrics().CHRF(), 3 * 6)  # output, reference and matches of six orders


def bleu(
    outputs: Iterable[str],
    references: Iterable[str | Sequence[str]],
    *,
    smoothing: str = "exp",
    tokenize: str = "13a",
    lowercase: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Bleu:
    """BLEU of a set of translations, with its parts and a 95% interval.

        bleu(["the cat is on mat"], ["the cat is on the mat"]).score.value        57.893…

    Args:
        outputs: what was written, one a row
        references: a translation for each, or several
        smoothing, tokenize, lowercase: as in `BleuMetric`
        resamples, seed: as in `TextMetric.intervals`
    Raises: DataError: nothing to evaluate, or not one reference a row. ConfigError: an unknown option.
        MissingExtraError: without sacrebleu.
    """
    text_metric = BleuMetric(smoothing=smoothing, tokenize=tokenize, lowercase=lowercase)
    add_all(text_metric, outputs, references)
    return text_metric.result(resamples, seed)


def chrf(
    outputs: Iterable[str],
    references: Iterable[str | Sequence[str]],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Score:
    """chrF of a set of translations, with a 95% interval. Args, Raises: as `bleu`."""
    text_metric = ChrfMetric()
    add_all(text_metric, outputs, references)
    return text_metric.result(resamples, seed)


def _metrics() -> Any:
    return import_optional("sacrebleu.metrics", "sacrebleu", "evaluate", "BLEU")
