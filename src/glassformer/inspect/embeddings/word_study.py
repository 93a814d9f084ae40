"""Polysemy study: one word, all its occurrences, and what their contextual embeddings say of its senses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.files import counted
from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, CosineTable, LayerCurve
from glassformer.inspect.embeddings.hidden_states import Progress
from glassformer.inspect.embeddings.occurrences import embed_texts, embed_words
from glassformer.inspect.embeddings.options import WordStudyOptions
from glassformer.inspect.embeddings.senses import Senses
from glassformer.inspect.numbers import level_names
from glassformer.loaded_model import LoadedModel
from glassformer.reports.report import Report
from glassformer.reports.table import Table

TABLE_ITEMS = 60
"""Of this many items at most, all pairs are listed."""
NEAREST = 3
"""Neighbours of each occurrence in a line of a terminal."""
CONTEXT = 140
"""Characters of an occurrence in its context, in a table."""


STUDY_KEYS = (
    "word", "texts", "layers", "pooling", "occurrences", "sentences", "cosine", "static_cosine_min", "curve", "senses",
)  # fmt: skip


@dataclass(frozen=True)
class StudiedOccurrence:
    """An occurrence in its context.

    nearest: its most similar others, with their cosine similarity
    """

    sentence: int
    position: int
    form: str
    pieces: tuple[str, ...]
    label: str | None
    text: str
    nearest: list[tuple[int, float]]


@dataclass(frozen=True, repr=False)
class WordStudy(Report, kind="word-study", keys=STUDY_KEYS):
    """The study of a word's occurrences, or of texts: similarities of all pairs, by layer, and clusters.

    layers: as `ContextualEmbeddings.vectors`
    sense_count, method: as `ContextualEmbeddings.senses`
    """

    embeddings: ContextualEmbeddings
    layers: int | str = "sum"
    sense_count: int | None = None
    method: str = "kmeans"
    seed: int = 0

    @cached_property
    def cosine(self) -> CosineTable | None:
        """Of all pairs; None where there are too many, or none."""
        return self.embeddings.cosine(self.layers) if 1 < len(self.embeddings) <= TABLE_ITEMS else None

    @cached_property
    def curve(self) -> LayerCurve:
        """Mean similarities at each level."""
        return self.embeddings.layer_curve()

    @cached_property
    def senses(self) -> Senses | None:
        """Clusters; None where there is too little to cluster."""
        if len(self.embeddings) < 3:
            return None
        try:
            options: Any = {"layers": self.layers, "method": self.method, "seed": self.seed}
            return self.embeddings.senses(self.sense_count, **options)
        except DataError:  # all the same
            return None

    @cached_property
    def nearest(self) -> list[list[tuple[int, float]]]:
        """Of each item its nearest others; none where there are too many items to list."""
        count = len(self.embeddings)
        return [self.embeddings.nearest(i, NEAREST, self.layers) for i in range(count)] if count <= TABLE_ITEMS else []

    @cached_property
    def static_cosine_min(self) -> float | None:
        """Lowest cosine of two static embeddings: 1 where all occurrences have the same form."""
        count = len(self.embeddings)
        return float(self.embeddings.static_cosine().min()) if 1 < count <= TABLE_ITEMS else None

    @property
    def word(self) -> str | None:
        """The word that is studied; None of whole texts."""
        return self.embeddings.word

    @property
    def texts(self) -> int:
        """How many texts were searched."""
        return len(self.embeddings.texts)

    @property
    def pooling(self) -> str:
        """Which tokens a vector is the mean of."""
        return self.embeddings.pooling

    @property
    def occurrences(self) -> list[StudiedOccurrence]:
        """Every occurrence of the word, in the order of the texts."""
        each = self.embeddings
        return [
            StudiedOccurrence(
                sentence=item.sentence,
                position=item.position,
                form=item.form,
                pieces=item.pieces,
                label=None if each.labels is None else each.labels[i],
                text=each.shown(i),
                nearest=[(j, round(cosine, 6)) for j, cosine in self.nearest[i]] if self.nearest else [],
            )
            for i, item in enumerate(each.items)
        ]

    @property
    def caption(self) -> str:
        """What was studied, in a line."""
        each = self.embeddings
        if each.word is None:
            return f"{len(each):,} texts · {each.levels} levels · pooling {each.pooling}"
        holding = len({item.sentence for item in each.items})
        times = f"{counted(len(each), 'occurrence')}"
        return f"“{each.word}”: {times} in {holding:,} of {len(each.texts):,} texts · layers: {self.layers}"

    def tables(self) -> list[Table]:
        """Each occurrence in its context, the similarity of all pairs, and the curves."""
        shown = [] if self.word is None else [self._occurrence_table()]
        if self.cosine is not None:
            numbers = [str(i) for i in range(len(self.embeddings))]
            values = self.cosine.values.tolist()
            rows = [[i, *map(_two_decimals, row)] for i, row in zip(numbers, values, strict=True)]
            shown.append(Table(["row", *numbers], rows, "cosine similarity of all pairs of rows", shades=values))
        return [*shown, *(replace(table, caption=self.curve.caption) for table in self.curve.tables())]

    def _occurrence_table(self) -> Table:
        """Each item by its key (sentence:position), with its label, cluster, context and most similar other."""
        each, senses = self.embeddings, self.senses
        headings = [
            "row",
            "key",
            *["label"] * (each.labels is not None),
            *["cluster"] * (senses is not None),
            "nearest",
            "context",
        ]
        rows = []
        for i, item in enumerate(each.items[:TABLE_ITEMS]):
            label = [] if each.labels is None else [each.labels[i]]
            cluster = [] if senses is None else [str(senses.clusters[i])]
            other = self.nearest[i][:1] if self.nearest else []
            near = f"{each.items[other[0][0]].key} ({other[0][1]:.3f})" if other else ""
            rows.append([str(i), item.key, *label, *cluster, near, each.shown(i, 40)])
        more = f"the first {TABLE_ITEMS} of {len(each):,} occurrences" if len(each) > TABLE_ITEMS else ""
        return Table(headings, rows, more, left=len(headings), longest=CONTEXT)

    def remarks(self) -> list[str]:
        return self.sentences

    @property
    def sentences(self) -> list[str]:
        """The results as sentences."""
        results: list[str] = []
        curve, senses = self.curve, self.senses
        if len(self.embeddings) == 1:
            return ["It occurs once, so there is no pair to compare; give more texts."]
        if self.static_cosine_min is not None and curve.baseline is not None:
            lowest = "1" if self.static_cosine_min > 0.9995 else f"{self.static_cosine_min:.3f} or more"
            results.append(
                f"Static embeddings: cosine {lowest} for all pairs. Contextual, last layer: "
                f"{curve.all[-1]:.3f} on average, {curve.baseline[-1]:.3f} for any two tokens."
            )
        if curve.within is not None and curve.between is not None and not np.isnan(curve.within - curve.between).all():
            level = int(np.nanargmax(curve.within - curve.between))
            name = level_names(len(curve.all))[level]
            results.append(
                f"Senses are furthest apart at {name}: cosine {curve.within[level]:.3f} within a label, "
                f"{curve.between[level]:.3f} between labels."
            )
        if senses is not None:
            text = f"{senses.count} clusters ({senses.method}): silhouette {senses.silhouette:.3f}"
            if senses.purity is not None:
                text += (
                    f"; purity {senses.purity:.3f}, of a bag of words {senses.bag_of_words_purity:.3f}, of one cluster "
                    f"{senses.majority:.3f}"
                )
            results.append(f"{text}.")
        return results


def study(
    model: LoadedModel,
    texts: Sequence[str],
    options: WordStudyOptions,
    *,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> WordStudy:
    """Embed the occurrences of a word, or whole texts, for a study of them.

    Args:
        labels: a label of each text, such as the true sense
        seed: of the sample of other tokens, and of clusters
        progress: (texts done, all)
    Raises: as `embed_words` and `embed_texts`.
    """
    read = options.keywords()
    shared: dict[str, Any] = {"labels": labels, "token_type": options.token_type, "progress": progress}
    if options.word is None:
        limit = read["limit_bytes"]
        embeddings = embed_texts(model, texts, pooling=options.pooling, limit_bytes=limit, **shared)
    else:
        pooling = options.pooling or "word"
        embeddings = embed_words(model, texts, options.word, pooling=pooling, seed=seed, **read, **shared)
    embeddings.vectors(options.layers)  # an early error
    return WordStudy(embeddings, options.layers, options.senses, options.cluster, seed)


def _two_decimals(value: float) -> str:
    """`.83`, `1.0`: a table of all pairs has narrow cells."""
    return f"{value:.2f}".replace("0.", ".", 1).replace("1.00", "1.0")
