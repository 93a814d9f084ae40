"""Contextual embeddings of words or texts at every level of a model: similarities, neighbours, layer curves, senses.

    states [levels, N, D] ──vectors("sum")──> [N, D] ──┬─ cosine()       all pairs [N, N]
                                                       ├─ nearest(3)     contexts in which the word is used similarly
                                                       └─ senses()       clusters, silhouette, purity
           ──layer_curve()──> how similar at each level, compared with any two tokens (anisotropy)

Sources: Ethayarajh 2019, "How contextual are contextualized word representations?" (anisotropy); Devlin et al. 2019,
section 5.3 (sums and concatenations of the last four layers); Rousseeuw 1987 (silhouette).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError, import_optional
from glassformer.files import is_int, safe_repr
from glassformer.inspect.embeddings.senses import Senses, cluster_senses
from glassformer.inspect.numbers import level_names
from glassformer.reports.report import Report
from glassformer.reports.table import Table

POOLINGS = ("word", "first", "mean")
"""Which tokens a vector is the mean of: the word's pieces, the first token alone, or all tokens of the text."""
COMBINATIONS = ("sum", "last", "concat", "mean")
"""Layers in one vector: the sum of the last four, the last, the last four side by side, their mean."""
LAST = 4
"""Layers that are combined, as in Devlin et al. 2019, section 5.3."""
CONTEXT_CHARACTERS = 60
"""Of a text on either side of a word: with the word, a row of a terminal 160 columns wide."""
SHOWN_ITEMS = 20
"""Rows of the table in a terminal; JSON and files have all."""
MAX_PAIRS = 4_000
"""Largest number of vectors of which all pairs are compared at once: 128 MB in fp64."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word in a text: which text, its token position there, its characters, its form, and its pieces."""

    sentence: int
    position: int
    start: int
    end: int
    form: str
    pieces: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`3:12`: sentence 3, token 12."""
        return f"{self.sentence}:{self.position}"


@dataclass(frozen=True, slots=True, repr=False)
class LayerCurve(Report, kind="layer-curve", keys=("curves",)):
    """Mean cosine similarities at each level.

    all: of all pairs
    within, between: of pairs with the same label, and with different ones; NaN where there are none
    baseline: of random pairs of tokens from different texts (anisotropy): what similarity is worth at this level;
        None where whole texts are compared
    """

    all: np.ndarray
    within: np.ndarray | None
    between: np.ndarray | None
    baseline: np.ndarray | None

    @property
    def caption(self) -> str:
        baseline = "" if self.baseline is None else "; baseline: any two tokens of different texts (anisotropy)"
        return f"mean cosine similarity by level{baseline}"

    @property
    def curves(self) -> dict[str, np.ndarray]:
        """The curves by name; the last is how far the pairs are above the baseline."""
        sides = {"within": self.within, "between": self.between}
        known = {name: values for name, values in sides.items() if values is not None}
        if self.baseline is None:
            return {"all pairs": self.all, **known}
        return {"all pairs": self.all, **known, "baseline": self.baseline, "above baseline": self.all - self.baseline}

    def tables(self) -> list[Table]:
        curves = self.curves
        names = level_names(len(self.all))
        rows = [[name, *(_number(values[i]) for values in curves.values())] for i, name in enumerate(names)]
        return [Table(["level", *curves], rows)]


@dataclass(frozen=True, slots=True, repr=False)
class CosineTable(Report, kind="cosines", keys=("occurrences", "cosine")):
    """Cosine similarities of all pairs of occurrences [N, N]; row and column i are occurrence i."""

    values: np.ndarray
    items: tuple[Occurrence, ...]
    contexts: tuple[str, ...]
    labels: tuple[str, ...] | None = None

    caption = "cosine similarity of each pair of occurrences (sentence:position)"

    @property
    def occurrences(self) -> list[str]:
        """Each occurrence as `sentence:position`."""
        return [item.key for item in self.items]

    @property
    def cosine(self) -> np.ndarray:
        """The similarities, to six decimals."""
        return self.values.round(6)

    def pairs(self) -> list[tuple[int, int, float]]:
        """All pairs of different occurrences with their similarity, the most similar first."""
        left, right = np.triu_indices(len(self.items), 1)
        order = np.argsort(-self.values[left, right], kind="stable")
        return [(int(left[i]), int(right[i]), float(self.values[left[i], right[i]])) for i in order]

    def to_pandas(self) -> Any:
        """A DataFrame whose rows and columns are named sentence:position."""
        return _pandas().DataFrame(self.values, index=self.occurrences, columns=self.occurrences)

    def tables(self) -> list[Table]:
        names = self.occurrences
        rows = [[name, *(_number(x) for x in row)] for name, row in zip(names, self.values, strict=True)]
        return [Table(["occurrence", *names], rows, shades=self.values.tolist())]


@dataclass(frozen=True, repr=False)
class ContextualEmbeddings(
    Report, kind="contextual-embeddings", keys=("word", "pooling", "levels", "labels", "occurrences")
):
    """Vectors of the occurrences of a word, or of texts (word = None), at every level of a model.

    items: what each row is
    labels: its label, where there are labels
    texts: all texts that were given
    states: hidden states [levels, N, D]; level 0 = the embeddings, the last = the model's output
    static: the rows of the embedding table, without position or context [N, E]
    baseline, baseline_texts: states of other tokens [levels, M, D], and the text of each
    """

    word: str | None
    texts: list[str]
    items: list[Occurrence]
    labels: list[str] | None
    states: np.ndarray
    static: np.ndarray
    pooling: str
    baseline: np.ndarray
    baseline_texts: np.ndarray

    def __len__(self) -> int:
        return len(self.items)

    @property
    def levels(self) -> int:
        """L + 1: the embeddings, and the output of each block."""
        return len(self.states)

    def vectors(self, layers: int | str = "sum") -> np.ndarray:
        """One vector an item. [N, D], of "concat" [N, 4 D]

        Args:
            layers: "sum", "mean" or "concat" of the last four layers, "last", or a level from 0, or from the end: -1
        Raises: ConfigError: no such level or combination.
        """
        if is_int(layers, -math.inf):
            if not -self.levels <= layers < self.levels:
                raise ConfigError(
                    f"layers is {layers}; the levels are 0 (embeddings) to {self.levels - 1}, or from the end: -1"
                )
            level: np.ndarray = self.states[layers]
            return level
        if layers not in COMBINATIONS:
            raise ConfigError(
                f"layers is {safe_repr(layers)}; allowed: {', '.join(COMBINATIONS)}, or the number of a level"
            )
        if layers == "last":
            return self.vectors(-1)
        # Level 0 has no context: it is combined with none of the others.
        last = self.states[-min(LAST, self.levels - 1) :] if self.levels > 1 else self.states
        if layers == "concat":
            return np.concatenate(list(last), axis=-1)
        total: np.ndarray = last.sum(0) if layers == "sum" else last.mean(0)
        return total

    def context(self, item: int, characters: int = CONTEXT_CHARACTERS) -> tuple[str, str, str]:
        """What is before an occurrence, itself, and what is after, on one line each."""
        each = self.items[item]
        text = self.texts[each.sentence]
        before, form, after = (
            text[max(0, each.start - characters) : each.start],
            text[each.start : each.end],
            text[each.end :],
        )
        cut = "…" if each.start > characters else "", "…" if len(after) > characters else ""
        return cut[0] + _line(before), _line(form), _line(after[:characters]) + cut[1]

    def shown(self, item: int, characters: int = CONTEXT_CHARACTERS) -> str:
        """An item in its context, as one string."""
        if self.word is None:
            # Cut first: a text may have megabytes, of which one row is shown.
            text = _line(self.texts[self.items[item].sentence][: 3 * characters])
            return text[: 2 * characters] + "…" * (len(text) > 2 * characters)
        return "".join(self.context(item, characters))

    def cosine(self, layers: int | str = "sum") -> CosineTable:
        """Cosine similarity of each pair. Raises: DataError: too many for a table."""
        if len(self) > MAX_PAIRS:
            raise DataError(
                f"{len(self):,} vectors have too many pairs for a table, of at most {MAX_PAIRS:,}: "
                "use nearest, or layer_curve"
            )
        unit = unit_rows(self.vectors(layers))
        values = np.clip(unit @ unit.T, -1, 1)  # rounding takes identical vectors beyond 1
        labels = None if self.labels is None else tuple(self.labels)
        return CosineTable(values, tuple(self.items), tuple(self.shown(i) for i in range(len(self))), labels)

    def static_cosine(self) -> np.ndarray:
        """Cosine similarities of the static embeddings: 1 for the same form, whatever is around it. [N, N]"""
        unit = unit_rows(self.static)
        values: np.ndarray = np.clip(unit @ unit.T, -1, 1)
        return values

    def nearest(self, item: int, k: int = 5, layers: int | str = "sum") -> list[tuple[int, float]]:
        """The k most similar other items, with their cosine similarity. Raises: DataError: no such item."""
        if not 0 <= item < len(self):
            raise DataError(f"there is no item {item}; there are {len(self):,}, counted from 0")
        return nearest_rows(self.vectors(layers), item, k)

    def layer_curve(self) -> LayerCurve:
        """Mean cosine similarity at each level: of all pairs, within and between labels, and of any two tokens."""
        groups = None if self.labels is None else np.unique(self.labels, return_inverse=True)[1]
        every = np.zeros(len(self), dtype=np.int64)
        curves: dict[str, list[float]] = {"all": [], "within": [], "between": [], "baseline": []}
        for level in range(self.levels):
            unit = unit_rows(self.states[level])
            curves["all"].append(mean_within(unit, every))
            if groups is not None:
                curves["within"].append(mean_within(unit, groups))
                curves["between"].append(mean_between(unit, groups))
            if self.word is not None:  # of whole texts there are no other tokens to compare with
                curves["baseline"].append(mean_between(unit_rows(self.baseline[level]), self.baseline_texts))
        arrays = {name: np.array(values) if values else None for name, values in curves.items()}
        return LayerCurve(**arrays)  # type: ignore[arg-type] # all is never empty

    def senses(
        self, count: int | None = None, *, layers: int | str = "sum", method: str = "kmeans", seed: int = 0
    ) -> Senses:
        """Cluster the occurrences into senses, next to a bag of words of their texts where there are labels.

        Args:
            count: None = as many as there are labels, else as the silhouette prefers
            method: kmeans, agglomerative
        Raises: DataError: fewer than three items, or all identical. ConfigError: no such method or number.
        """
        # Without the word itself, which all texts share: a bag of words would cluster by its spelling.
        around = [
            self.texts[x.sentence][: x.start] + " " + self.texts[x.sentence][x.end :]
            if self.word
            else self.texts[x.sentence]
            for x in self.items
        ]
        return cluster_senses(self.vectors(layers), around, self.labels, count=count, method=method, seed=seed)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each item: sentence, position, form, label, text."""
        return _pandas().DataFrame(self.metadata())

    def metadata(self) -> list[dict[str, Any]]:
        """What each row is: sentence, position, form and label, as far as there are such, and the text."""
        rows = []
        for i, item in enumerate(self.items):
            row: dict[str, Any] = (
                {} if self.word is None else {"sentence": item.sentence, "position": item.position, "form": item.form}
            )
            if self.labels is not None:
                row["label"] = self.labels[i]
            rows.append({**row, "text": self.texts[item.sentence]})
        return rows

    @property
    def occurrences(self) -> list[Occurrence]:
        return self.items

    @property
    def heading(self) -> str:
        what = (
            f"{len(self):,} texts"
            if self.word is None
            else f"{len(self):,} occurrences of {self.word!r} in {len(self.texts):,} texts"
        )
        return f"contextual embeddings of {what}: {self.levels} levels × {self.states.shape[2]}, pooling {self.pooling}"

    def tables(self) -> list[Table]:
        """The first occurrences in their contexts."""
        items = self.items[:SHOWN_ITEMS]
        rows = [[item.key, self.labels[i] if self.labels else "", self.shown(i)] for i, item in enumerate(items)]
        return [Table(["sentence:position", "label", "context"], rows, left=3, longest=2 * CONTEXT_CHARACTERS + 40)]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit: np.ndarray = vectors / np.where(lengths == 0, 1, lengths)
    return unit


def nearest_rows(vectors: np.ndarray, item: int, k: int) -> list[tuple[int, float]]:
    """The k other rows with the largest cosine similarity, the most similar first."""
    unit = unit_rows(vectors)
    similarity = unit @ unit[item]
    similarity[item] = -np.inf  # an item is not its own neighbour
    k = min(k, len(vectors) - 1)
    top = np.argpartition(-similarity, max(k - 1, 0))[:k]
    top = top[np.lexsort((top, -similarity[top]))]  # ties by number: argpartition leaves them in any order
    return [(int(i), float(min(similarity[i], 1))) for i in top]


def mean_within(unit: np.ndarray, groups: np.ndarray) -> float:
    """Mean cosine of pairs in the same group; NaN if there are none. The sum over pairs is |Σ u|² - Σ |u|²."""
    sums, counts = _group_sums(unit, groups)
    pairs = float((counts * (counts - 1)).sum())
    return float(((sums**2).sum() - (unit**2).sum()) / pairs) if pairs else float("nan")


def mean_between(unit: np.ndarray, groups: np.ndarray) -> float:
    """Mean cosine of pairs in different groups; NaN if there are none."""
    sums, counts = _group_sums(unit, groups)
    pairs = float(len(unit) ** 2 - (counts**2).sum())
    return float((unit.sum(0) @ unit.sum(0) - (sums**2).sum()) / pairs) if pairs else float("nan")


def _group_sums(unit: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    names, index = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(names), unit.shape[1]))
    np.add.at(sums, index, unit)  # sums[index] += unit would add one row of each group alone
    return sums, np.bincount(index, minlength=len(names)).astype(np.float64)


def _line(text: str) -> str:
    return "".join(" " if character.isspace() else character for character in text)


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _pandas() -> Any:
    return import_optional("pandas", "pandas", "data", "a DataFrame")
