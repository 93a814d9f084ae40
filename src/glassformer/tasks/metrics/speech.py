"""Word error rate (WER) and character error rate (CER) of speech recognition.

    reference   the cat sat on * the mat        WER = (substitutions + deletions + insertions) / words of the reference
    hypothesis  the bat sat on a *** mat            = (1 + 1 + 1) / 6, by the alignment that has the fewest
                    S          I D

It is not a share: a hypothesis with more words than the reference can have more than one error a
word. CER is the same of characters.
What counts as the same word is the normaliser's to say, so its name belongs to the figure. Edit distances are those of
the package `jiwer`.

Source: Levenshtein 1966; Morris et al. 2004, "From WER and RIL to MER and WIL".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from glassformer.errors import DataError, import_optional
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.metrics.metric import RESAMPLES, BootstrapSums, Interval, intervals
from glassformer.tasks.metrics.normalisers import normaliser_of

MARKS = {"substitute": "S", "delete": "D", "insert": "I", "equal": ""}
NOTHING = "*"
COUNTS = ("hits", "substitutions", "deletions", "insertions")


@dataclass(frozen=True)
class Utterance:
    """A reference and its hypothesis, after the normaliser, and their alignment word by word.

    hits, substitutions, deletions, insertions: of words
    """

    reference_text: str
    hypothesis: str
    hits: int
    substitutions: int
    deletions: int
    insertions: int
    alignment: list[tuple[str, str, str]] = field(repr=False)
    """For each word: reference, hypothesis, and S, D, I or nothing."""

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    def __str__(self) -> str:
        lines = ["reference ", "hypothesis", "          "]
        for reference_text, hypothesis, mark in self.alignment:
            width = max(len(reference_text), len(hypothesis))
            column = (reference_text or NOTHING * width, hypothesis or NOTHING * width, mark)
            lines = [f"{line} {word:<{width}}" for line, word in zip(lines, column, strict=True)]
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, repr=False)
class WordErrors(Report, kind="word-errors"):
    """Error rates of a set of utterances.

    wer, cer: errors for each word, and for each character, of the references; 0 is perfect, and there is no upper end
    hits, substitutions, deletions, insertions: of words
    words: of the references
    utterances: one by one
    normaliser: its name
    packages: what counted
    """

    wer: Interval
    cer: Interval
    hits: int
    substitutions: int
    deletions: int
    insertions: int
    words: int
    normaliser: str
    packages: dict[str, str]
    utterances: list[Utterance]

    @property
    def method(self) -> str:
        by = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        return f"{by}, normaliser {self.normaliser!r}"

    def tables(self) -> list[Table]:
        """Rates, counts of errors, and how they are computed."""
        rows = [
            ["WER", self.wer.cell()],
            ["CER", self.cer.cell()],
            ["substitutions", f"{self.substitutions:,}"],
            ["deletions", f"{self.deletions:,}"],
            ["insertions", f"{self.insertions:,}"],
            ["words", f"{self.words:,} in {len(self.utterances):,} utterances"],
            ["method", self.method],
        ]
        return [Table(["metric", "value"], rows, left=2, longest=300)]


def word_errors(
    references: Iterable[str],
    outputs: Iterable[str],
    *,
    normaliser: str = "basic",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> WordErrors:
    """Word and character error rate, with 95% intervals, and each utterance aligned.

        word_errors(["the cat sat"], ["the bat sat down"]).wer.value        0.666…

    Errors are added up over all utterances before anything is divided.

    Args:
        references: true transcripts
        outputs: hypotheses, in the same order
        normaliser: "basic": lower case, no punctuation · "none": only white space is made even · "english",
            "ukrainian": see normalisers.py
        resamples, seed: of the intervals, which draw utterances
    Raises: DataError: nothing to evaluate, not one output for each reference, no word in any reference. ConfigError:
        another normaliser. MissingExtraError: without jiwer.
    """
    clean, jiwer = normaliser_of(normaliser), _jiwer()
    reference_text, hypothesis = ([_text(text) for text in texts] for texts in (references, outputs))
    if len(reference_text) != len(hypothesis):
        raise DataError(
            f"{len(reference_text):,} references and {len(hypothesis):,} outputs; each utterance has one of both"
        )
    utterances, counts = [], []
    for reference, output in zip(map(clean, reference_text), map(clean, hypothesis), strict=True):
        utterances.append(_utterance(reference, output, jiwer.process_words(reference, output)))
        counts.append(error_counts(reference, output, normaliser="none"))
    if not any(row[1] for row in counts):
        raise DataError("no reference has a word; there is nothing to divide errors by")
    rates = intervals(BootstrapSums(np.array(counts, dtype=np.float64), error_rates, {}), resamples, seed)
    return WordErrors(
        wer=rates["wer"],
        cer=rates["cer"],
        **{name: sum(getattr(u, name) for u in utterances) for name in COUNTS},
        words=sum(row[1] for row in counts),
        normaliser=normaliser,
        packages={"jiwer": version("jiwer")},
        utterances=utterances,
    )


def error_counts(reference: str, output: str, *, normaliser: str = "basic") -> list[int]:
    """Sufficient statistics of one utterance: word errors, words, character errors, characters.

    Raises: ConfigError: another normaliser. MissingExtraError: without jiwer.
    """
    jiwer, clean = _jiwer(), normaliser_of(normaliser)
    reference, output = clean(reference), clean(output)
    words, letters = jiwer.process_words(reference, output), jiwer.process_characters(reference, output)
    errors = (each.substitutions + each.deletions + each.insertions for each in (words, letters))
    return [next(errors), len(reference.split()), next(errors), len(reference)]


def error_rates(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Word and character error rate from sums of `error_counts`. [S, 4] → [S] each"""
    wrong, words, wrong_letters, letters = sums.T
    return {"wer": wrong / np.maximum(words, 1), "cer": wrong_letters / np.maximum(letters, 1)}


def _jiwer() -> Any:
    return import_optional("jiwer", "jiwer", "evaluate", "word error rates")


def _utterance(reference_text: str, hypothesis: str, rates: Any) -> Utterance:
    (before,), (after,), (chunks,) = rates.references, rates.hypotheses, rates.alignments
    alignment = []
    for chunk in chunks:
        gone = before[chunk.ref_start_idx : chunk.ref_end_idx]
        come = after[chunk.hyp_start_idx : chunk.hyp_end_idx]
        for place in range(max(len(gone), len(come))):
            word, instead = ("".join(part[place : place + 1]) for part in (gone, come))
            alignment.append((word, instead, MARKS[chunk.type]))
    counts = {name: getattr(rates, name) for name in COUNTS}
    return Utterance(reference_text, hypothesis, **counts, alignment=alignment)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise DataError(f"a reference or a hypothesis is {text!r:.60}; it must be a text")
    return text
