"""Tune the weights of shallow fusion or rescoring, alpha and beta, by word error rate on validation recordings.

alpha   0     0.2   0.2   0.5   …        fusion: each pair is a search through all recordings, as an evaluation does it
beta    0     0     0.5   0              rescoring: one search finds the n best texts, which each pair reorders
WER     9%    8%    7%    11%           the lowest wins; of equal ones the smallest weights
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from glassformer.core.flow import Output
from glassformer.data.options import ReadingOptions
from glassformer.data.rows import read_rows
from glassformer.model import load
from glassformer.ngram.options import ALPHAS, BETAS, TuningOptions
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.base import Progress
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.metrics.speech import word_errors
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.tasks.types import Dataset, MicroBatch


@dataclass(frozen=True)
class FusionScore:
    """Error rates of a search with these weights, with 95% intervals."""

    alpha: float
    beta: float
    wer: Interval
    cer: Interval


@dataclass(frozen=True, repr=False)
class FusionTuning(Report, kind="fusion-tuning", keys=("alpha", "beta", "scores", "recordings", "rescore")):
    """What `tune_fusion` computed.

    scores: the first without a language model
    recordings: how many were read
    """

    scores: list[FusionScore]
    recordings: int
    rescore: bool

    @property
    def best(self) -> FusionScore:
        """The pair of weights to take."""
        return best_fusion(self.scores)

    @property
    def alpha(self) -> float:
        """The weight of the language model to take."""
        return self.best.alpha

    @property
    def beta(self) -> float:
        """The bonus for a word to take."""
        return self.best.beta

    def tables(self) -> list[Table]:
        """A row a pair of weights; an arrow marks the best."""
        rows = [
            [f"{x.alpha:g}", f"{x.beta:g}", x.wer.cell(), x.cer.cell(), "←" * (x is self.best)] for x in self.scores
        ]
        return [Table(["alpha", "beta", "WER", "CER", ""], rows, left=0)]

    def remarks(self) -> list[str]:
        """The options that the best weights are given by."""
        weights = f"{'--rescore ' * self.rescore}--alpha {self.alpha:g} --beta {self.beta:g}"
        helps = self.best is not self.scores[0]
        best = weights if helps else "no language model: none of these helps"
        return [f"best: {best}", f"recordings: {self.recordings:,}"]


def tune_on_recordings(
    language_model: Path,
    options: TuningOptions,
    progress: Callable[[int, int], None] = lambda done, of: None,
    *,
    reading: ReadingOptions | None = None,
) -> FusionTuning:
    """Tune the weights of a language model's file on the recordings of a table.

    Args:
        progress: called with how many recordings are read, and of how many in all searches
        reading: how the table is read; None = by its name
    Raises: see `tune_fusion`, `read_rows` and `load`.
    """
    rows = read_rows(options.data, **(reading or ReadingOptions()).keywords())
    model = load(options.model, task=Transcribe.HEAD, dtype="float32")
    task = Transcribe(model, columns=options.columns, language=options.language, folder=options.folder)
    searches = 1 if options.rescore else len(weight_pairs(options.alpha, options.beta))
    read = 0

    def advance(more: int) -> None:
        nonlocal read
        read += more
        progress(read, len(rows) * searches)

    scores = tune_fusion(
        task,
        rows,
        str(language_model),
        alphas=options.alpha,
        betas=options.beta,
        beams=options.beams,
        rescore=options.rescore,
        progress=advance,
    )
    return FusionTuning(list(scores), len(rows), options.rescore)


def tune_fusion(
    task: Transcribe,
    rows: Dataset,
    language_model: str,
    *,
    alphas: Sequence[float] = ALPHAS,
    betas: Sequence[float] = BETAS,
    beams: int = 5,
    rescore: bool = False,
    progress: Progress | None = None,
) -> Iterator[FusionScore]:
    """Score the search without a language model (weights 0), then with each pair of weights.

    Args:
        rows: of validation: neither the recogniser nor the language model has seen them, and no test is made on them
        language_model: the file of an n-gram model
        rescore: it orders the n best texts, in the place of fusion
        progress: called with how many recordings more a search is through
    Raises: ConfigError: weights out of range. DataError: see `Transcribe.predict` and `load_ngram`.
    """
    pairs = weight_pairs(alphas, betas)
    search: dict[str, Any] = {"beams": beams, "language_model": language_model, "rescore": rescore}
    references = [row[task.columns["text"]] for row in iter(rows)]
    of_all = _rescored(task.for_evaluation(**search), rows, pairs, progress) if rescore else None
    for pair in pairs:
        if of_all is not None:
            texts = of_all[pair]
        else:
            fused = task.for_evaluation(**search, alpha=pair[0], beta=pair[1])
            texts = [each.predicted for each in fused.predict(rows, progress)]
        errors = word_errors(references, texts, normaliser=task.normaliser)
        yield FusionScore(*pair, errors.wer, errors.cer)


def weight_pairs(alphas: Sequence[float], betas: Sequence[float]) -> list[tuple[float, float]]:
    """What is tried: no weight at all, then each alpha with each beta."""
    return list(dict.fromkeys([(0.0, 0.0), *product(alphas, betas)]))


def _rescored(
    task: Transcribe, rows: Dataset, pairs: Sequence[tuple[float, float]], progress: Progress | None
) -> dict[tuple[float, float], list[str]]:
    """The texts of all rows by each pair of weights, from one search; of a recording of several windows from one each.

    There the text of a window is the prompt of the next, which makes the searches differ.
    """
    options = [replace(task.evaluation.search(), alpha=alpha, beta=beta) for alpha, beta in pairs]

    def read(output: Output, batch: MicroBatch) -> list[list[str]]:
        return task.recogniser.rescored(output, batch.flow, options[0], pairs)

    texts: dict[tuple[float, float], list[str]] = {pair: [] for pair in pairs}
    for _, of_row in task.heard(rows, read, lambda samples: [task.transcribed(samples, each) for each in options]):
        for pair, text in zip(pairs, of_row, strict=True):
            texts[pair].append(text)
        if progress is not None:
            progress(1)
    return texts


def best_fusion(scores: Sequence[FusionScore]) -> FusionScore:
    """The lowest word error rate; of equal ones the smallest weights."""
    return min(scores, key=lambda each: (each.wer.value, each.alpha, abs(each.beta)))
