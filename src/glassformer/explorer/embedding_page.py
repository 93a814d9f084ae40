"""What the page draws of a map of embeddings: points with their texts, places of each level, neighbours, the study."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.data.sequence import shorten
from glassformer.explorer.binary_frames import encode
from glassformer.inspect.embeddings.contextual import unit_rows
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.embeddings.projection import Check, Progress
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.inspect.numbers import map_level_names
from glassformer.inspect.session import Session
from glassformer.reports.report import plain
from glassformer.reports.table import percent

MAX_POINTS = 200_000
"""A page draws this many points at most; of more, a random sample, and says so."""
MAX_EMBEDDED_NEIGHBOURS = 4_000
"""A file holds the neighbours at all levels of this many points times levels, else those at the last level."""
MAX_LAST_NEIGHBOURS = 20_000
"""Neighbours compare each point with each other one, so the time grows with the square of this number."""
NEIGHBOURS = 10
"""Rows of the list next to the map: a panel without scrolling."""
NAME_CHARACTERS = 40
"""Of a text in a sentence."""
CONTEXT = 90
"""Characters of a text on either side of the word."""


@dataclass(frozen=True)
class PageMap:
    """A map of embeddings as the page shows it.

    kind: of what the points are: words, texts, tokens or vectors
    study: of a word, next to the map
    total: points before a sample was drawn
    """

    embedding_map: EmbeddingMap
    kind: str
    title: str
    study: WordStudy | None = None
    total: int = 0
    classes: dict[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        embedding_map: EmbeddingMap,
        title: str,
        *,
        study: WordStudy | None = None,
        seed: int = 0,
    ) -> PageMap:
        """The page of a map; of more points than a page draws, a random sample without replacement."""
        total = len(embedding_map)
        classes: dict[str, Sequence[str]] = {}
        kind = "words" if embedding_map.word else "texts" if len(embedding_map.levels) > 1 else "vectors"
        if study is not None and study.senses is not None:
            classes["cluster"] = [f"cluster {number}" for number in study.senses.clusters]
        if total > MAX_POINTS:
            sampled = np.sort(np.random.default_rng(seed).choice(total, MAX_POINTS, replace=False)).tolist()
            embedding_map = embedding_map.select(sampled)
            classes = {name: [values[i] for i in sampled] for name, values in classes.items()}
        return cls(embedding_map, kind, title, study, total, classes)

    @cached_property
    def id(self) -> str:
        """A hash of what is shown."""
        places = np.ascontiguousarray(self.embedding_map.pca, dtype=np.float32)
        return hashlib.sha256(places.tobytes() + self.title.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    @cached_property
    def findings(self) -> list[str]:
        """What each level shows, in a sentence: the two words, or texts, that are nearest; of many points how much of
        the vectors the map holds.
        """
        each = self.embedding_map
        special = [label == "special" for label in each.labels or ()] if self.kind == "tokens" else []
        words = None if not special else [i for i, left_out in enumerate(special) if not left_out]
        sentences = []
        for number, level in enumerate(each.levels):
            if pair := each.nearest_pair(number, words):
                first, second = (shorten(each.name(point), NAME_CHARACTERS) for point in pair[:2])
                sentence = f"“{first}” and “{second}” are nearest, with a cosine of {pair[2]:.2f}"
            else:
                share = percent(each.explained[number].sum())
                sentence = f"this map holds {share} of the variance of {len(each):,} vectors"
            sentences.append(f"{level.capitalize()}: {sentence}.")
        return sentences

    @property
    def scaled(self) -> str:
        """That the vectors were scaled before they were mapped, and why, in a sentence; empty where they were not."""
        each = self.embedding_map
        if not each.of_directions:
            return ""
        level, point, times = each.longest
        name = shorten(each.name(point), NAME_CHARACTERS)
        return (
            "Vectors are scaled to length 1 before they are mapped, so that the map shows directions: "
            f"after {each.levels[level]} the vector of “{name}” is {times:.0f} times longer than the median."
        )

    def description(self) -> dict[str, Any]:
        """What the points are, as declared in web/src/core/embedding.ts."""
        each = self.embedding_map
        spans = each.spans or [(0, 0)] * len(each)
        shown = [_snippet(str(row["text"]), span) for row, span in zip(each.rows, spans, strict=True)]
        classes = {**({} if each.labels is None else {"label": each.labels}), **self.classes}
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "word": each.word,
            "levels": list(each.levels),
            "points": len(each),
            "total": self.total or len(each),
            "texts": [text for text, _ in shown],
            "spans": None if each.spans is None else [list(span) for _, span in shown],
            "keys": [_key(i, row) for i, row in enumerate(each.rows)],
            "explained": each.explained.tolist(),
            "scaled": self.scaled,
            "findings": self.findings,
            "classes": {name: _classes(values) for name, values in classes.items()},
            "study": None if self.study is None else _numbers_of(self.study),
        }

    def places(self) -> bytes:
        """The first two principal components of every level, as a frame; of tokens also their lengths."""
        each = self.embedding_map
        lengths = {"lengths": each.lengths.astype(np.float32)} if self.kind == "tokens" else {}
        return encode("places", {"places": each.pca.astype(np.float32), **lengths}, {"method": "pca"})

    def projection(
        self,
        options: ProjectionOptions,
        levels: Sequence[int],
        progress: Progress | None = None,
        check: Check | None = None,
    ) -> bytes:
        """Places of these levels by t-SNE or UMAP, as a frame."""
        places = self._projected(options, levels, progress, check)
        return encode("projection", {"places": places}, {"method": options.method, "levels": list(levels)})

    def projections(
        self, options: ProjectionOptions, levels: Sequence[int], progress: Progress | None = None
    ) -> list[bytes]:
        """The same, a frame for each level: what a standalone page holds."""
        places = self._projected(options, levels, progress, None)
        about = {"method": options.method}
        return [
            encode("projection", {"places": each[None]}, {**about, "levels": [i]})
            for i, each in zip(levels, places, strict=True)
        ]

    def _projected(
        self, options: ProjectionOptions, levels: Sequence[int], progress: Progress | None, check: Check | None
    ) -> np.ndarray:
        places = self.embedding_map.project(options, levels, progress=progress, check=check)
        return places.reshape(len(levels), -1, 2).astype(np.float32)

    def neighbours(self, point: int, level: int, k: int = NEIGHBOURS) -> list[list[float]]:
        """The points with the largest cosine similarity at a level."""
        return [[i, round(cosine, 6)] for i, cosine in self.embedding_map.neighbours(point, k, level)]

    def neighbour_frame(self, level: int, k: int = NEIGHBOURS) -> bytes:
        """The nearest of every point at a level, as a frame: a standalone page has no vectors. [N, k] each"""
        unit = unit_rows(self.embedding_map.states[level]).astype(np.float32)
        k = min(k, len(unit) - 1)
        nearest, cosine = np.zeros((len(unit), k), np.uint32), np.zeros((len(unit), k), np.float32)
        for start in range(0, len(unit), 512):
            similarity = unit[start : start + 512] @ unit.T
            rows = np.arange(len(similarity))
            similarity[rows, start + rows] = -np.inf
            top = np.argpartition(-similarity, max(k - 1, 0), axis=1)[:, :k]
            top = np.take_along_axis(top, np.argsort(-np.take_along_axis(similarity, top, 1), axis=1, kind="stable"), 1)
            nearest[start : start + 512], cosine[start : start + 512] = top, np.take_along_axis(similarity, top, 1)
        return encode("neighbours", {"nearest": nearest, "cosine": np.minimum(cosine, 1)}, {"level": level})

    def frames(self, projections: Mapping[str, bytes] | None = None) -> Iterator[tuple[str, bytes]]:
        """What a standalone page holds besides the description: frames by key."""
        count, levels = len(self.embedding_map), len(self.embedding_map.levels)
        yield "pca", self.places()
        yield from (projections or {}).items()
        if 1 < count <= MAX_LAST_NEIGHBOURS:
            every = count * levels <= MAX_EMBEDDED_NEIGHBOURS
            for level in range(levels) if every else [levels - 1]:
                yield f"neighbours/{level}", self.neighbour_frame(level)


def session_map(session: Session, stream: str) -> PageMap:
    """The map of a session's tokens: each token at every layer.

    Raises: DataError: no such stream.
    """
    layers = len(session.stream_taps(stream))
    tokens = session.streams[stream]
    states = np.stack([session.states(layer, stream).float().numpy(force=True) for layer in range(layers)])
    text = " ".join(token.text for token in tokens)
    starts = np.cumsum([0, *(len(token.text) + 1 for token in tokens)]).tolist()
    embedding_map = EmbeddingMap(
        tuple(map_level_names(layers)),
        states,
        [{"sentence": 0, "position": i, "form": token.text, "text": text} for i, token in enumerate(tokens)],
        ["special" if token.special else f"text {(token.segment or 0) + 1}" for token in tokens],
        [(start, start + len(token.text)) for start, token in zip(starts, tokens, strict=False)],
    )
    return PageMap(embedding_map, "tokens", f"{len(tokens):,} tokens of the {stream}")


def _numbers_of(study: WordStudy) -> Any:
    """A study without its occurrences, as the page reads it."""
    return plain(
        {
            "sentences": study.sentences,
            "cosine": None if study.cosine is None else study.cosine.cosine,
            "static_cosine_min": study.static_cosine_min,
            "curve": study.curve.curves,
            "senses": study.senses,
        }
    )


def _snippet(text: str, span: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """A text on one line, cut around a span, and where the span is then."""
    start, end = span
    if end <= start:
        line = " ".join(text[: 4 * CONTEXT].split())
        return line[: 3 * CONTEXT] + "…" * (len(line) > 3 * CONTEXT), (0, 0)
    before, after = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
    left = "…" * (start > CONTEXT) + before.replace("\n", " ")
    line = left + text[start:end] + after.replace("\n", " ") + "…" * (len(text) > end + CONTEXT)
    return line, (len(left), len(left) + end - start)


def _key(number: int, row: dict[str, Any]) -> str:
    return f"{row['sentence']}:{row['position']}" if "position" in row else str(number)


def _classes(values: Sequence[str]) -> dict[str, Any]:
    """Names of the classes, the most frequent first, and the class of each point."""
    names, index, counts = np.unique(np.array(values, dtype=str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return {"names": names[order].tolist(), "of": rank[index].tolist()}
