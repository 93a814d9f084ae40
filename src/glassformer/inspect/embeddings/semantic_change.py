"""Semantic change: how far a word's contexts in one corpus are from those in another, compared with control words.

    average pairwise distance (APD)   mean of 1 - cos(u, v) over all pairs of an occurrence here and one there
    prototype distance (PRT)          1 - cos(mean of those here, mean of those there)

Both are above 0 for a word that did not change: APD because contexts differ, PRT because means of few occurrences do.
Each is compared with its value for occurrences dealt at random to two corpora of these sizes, and with control words.

Sources: Kutuzov and Giulianelli 2020, "UiO-UvA at SemEval-2020 Task 1"; confidence intervals: Efron 1979.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import is_int
from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, unit_rows
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.options import WordStudyOptions
from glassformer.loaded_model import LoadedModel
from glassformer.reports.report import Report
from glassformer.reports.table import Table

RESAMPLES = 1_000
"""Enough for two digits of a 95% interval and of a p-value."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance of two corpora with its bootstrap confidence interval; chance: its mean over random deals."""

    value: float
    low: float
    high: float
    chance: float

    def __str__(self) -> str:
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


@dataclass(frozen=True, slots=True)
class WordChange:
    """How far a word's occurrences in two corpora are apart.

    counts: occurrences in each
    control: to compare
    """

    word: str
    counts: tuple[int, int]
    apd: Distance
    prt: Distance
    control: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class SemanticChange(Report, kind="semantic-change"):
    """Semantic change of a word between two corpora, and of control words.

    corpora: their names
    """

    words: tuple[WordChange, ...]
    corpora: tuple[str, str]
    layers: int | str

    @property
    def caption(self) -> str:
        return (
            f"semantic change from {self.corpora[0]} to {self.corpora[1]}: cosine distances, 95% confidence intervals"
        )

    notes = (
        "PRT: distance of the mean vectors; APD: mean distance of all pairs; by chance: the same occurrences dealt at "
        "random to two corpora of these sizes",
    )

    def tables(self) -> list[Table]:
        """The word, then the control words."""
        headings = ["word", *self.corpora, "PRT", "by chance", "APD", "by chance"]
        rows = [
            [
                f"{each.word} (control)" if each.control else each.word,
                *(f"{count:,}" for count in each.counts),
                str(each.prt),
                f"{each.prt.chance:z.3f}",
                str(each.apd),
                f"{each.apd.chance:z.3f}",
            ]
            for each in self.words
        ]
        return [Table(headings, rows)]


def semantic_change(
    model: LoadedModel,
    first: Sequence[str],
    second: Sequence[str],
    word: str,
    controls: Sequence[str] = (),
    *,
    layers: int | str = "last",
    names: tuple[str, str] = ("first", "second"),
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Any,
) -> SemanticChange:
    """How far a word's contexts in one corpus are from those in another, compared with control words.

    Args:
        first, second: texts of the corpora
        controls: words that should not have changed
        layers: as `ContextualEmbeddings.vectors`
        resamples: of the bootstrap
        options: as in `embed_words`
    Raises: DataError: a word occurs less than twice in one of the corpora. ConfigError: fewer than one resample.
    """
    corpora = [*first, *second]
    labels = [names[0]] * len(first) + [names[1]] * len(second)
    if names[0] == names[1]:
        raise ConfigError(f"both corpora are named {names[0]!r}; give two names")
    changes = []
    for number, each in enumerate([word, *controls]):
        embeddings = embed_words(model, corpora, each, labels=labels, seed=seed, **options)
        changes.append(
            word_change(embeddings, names, layers=layers, resamples=resamples, seed=seed, control=number > 0)
        )
    return SemanticChange(tuple(changes), names, layers)


def change_of(
    model: LoadedModel,
    first: Sequence[str],
    second: Sequence[str],
    options: WordStudyOptions,
    *,
    names: tuple[str, str] = ("first", "second"),
    seed: int = 0,
) -> SemanticChange:
    """The semantic change of the word of a study between two corpora, compared with its control words.

    Raises: ConfigError: no word. Else as `semantic_change`.
    """
    if options.word is None:
        raise ConfigError("word= is missing: the word whose contexts in two corpora are compared")
    layers = "last" if options.layers == "sum" else options.layers
    about: dict[str, Any] = {"layers": layers, "names": names, "seed": seed, **options.keywords()}
    return semantic_change(model, first, second, options.word, options.control, **about)


def word_change(
    embeddings: ContextualEmbeddings,
    names: tuple[str, str],
    *,
    layers: int | str = "last",
    resamples: int = RESAMPLES,
    seed: int = 0,
    control: bool = False,
) -> WordChange:
    """How far the occurrences with one label are from those with another.

    Raises: DataError: fewer than two occurrences with a label. ConfigError: fewer than one resample.
    """
    if not is_int(resamples, 1):
        raise ConfigError(f"resamples is {resamples!r}; draw at least 1, better {RESAMPLES:,}")
    unit, labels = unit_rows(embeddings.vectors(layers)), np.array(embeddings.labels or [])
    sides = [unit[labels == name] if len(labels) else unit[:0] for name in names]
    for name, side in zip(names, sides, strict=True):
        if len(side) < 2:
            raise DataError(
                f"{embeddings.word!r} occurs {len(side)} times in {name}; a distance needs at least 2 in each corpus"
            )
    generator = np.random.default_rng(seed)
    counts = [_resampled(generator, len(side), resamples) for side in sides]
    resampled = _distances(*(c @ side / len(side) for c, side in zip(counts, sides, strict=True)))
    pooled, size = np.concatenate(sides), len(sides[0])
    deals = (generator.permutation(len(pooled)) for _ in range(min(resamples, 200)))
    means = [(pooled[deal[:size]].mean(0), pooled[deal[size:]].mean(0)) for deal in deals]
    chance = _distances(*(np.stack(side) for side in zip(*means, strict=True)))
    value = _distances(*(side.mean(0)[None] for side in sides))
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    apd, prt = (
        Distance(float(v[0]), float(np.quantile(r, tails[0])), float(np.quantile(r, tails[1])), float(c.mean()))
        for v, r, c in zip(value, resampled, chance, strict=True)
    )
    return WordChange(str(embeddings.word), (len(sides[0]), len(sides[1])), apd, prt, control)


def _resampled(generator: np.random.Generator, size: int, resamples: int) -> np.ndarray:
    """How often each resample has each occurrence. [resamples, size]"""
    return generator.multinomial(size, np.full(size, 1 / size), resamples)


def _distances(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """APD and PRT from the means of unit vectors: the mean cosine of all pairs is the product of the means. [S, D]"""
    product = (first * second).sum(1)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return 1 - product, 1 - product / np.maximum(lengths, 1e-12)
