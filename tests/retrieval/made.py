"""Vectors and passages for tests of search, BM25 by its formula, and what a store holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from glassformer.retrieval.opening import open_store
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.words import query_terms, terms
from glassformer.weights.header import read_file_header

TEXTS = ["The lighthouse was built in 1874.", "It stands on a rock.", "A ship saw the lighthouse. The ship turned."]


def unit_vectors(count: int, dimension: int, seed: int = 0, groups: int = 20) -> np.ndarray:
    """Vectors of unit length around some centres, which do not depend on the seed. [N, D] float16"""
    centres = np.random.default_rng(99).normal(size=(groups, dimension))
    draw = np.random.default_rng(seed)
    vectors = centres[draw.integers(0, groups, count)] + draw.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def dump(store: str | Path) -> list[object]:
    """All passages with their names, text and vectors, without ids."""
    return [row[:-2] + row[-1:] for row in dump_with_ids(store)]


def dump_with_ids(store: str | Path) -> list[tuple[object, ...]]:
    opened = open_store(store)
    rows = opened._all(
        "SELECT d.name, p.start, p.stop, p.line, p.headings, p.text, p.id FROM documents d JOIN passages p "
        "ON p.content = d.content ORDER BY 1, 2"
    )
    vectors = opened.vectors([row[-1] for row in rows])
    opened.close()
    return [(*row, vector.tobytes()) for row, vector in zip(rows, vectors, strict=True)]


def passages(*texts: str) -> list[Passage]:
    return [Passage(text=text, start=0, stop=len(text), line=1) for text in texts]


def vectors(count: int, width: int = 4, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, width))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)


def formula(question: str, texts: list[str], language: str = "en") -> dict[int, float]:
    """BM25 as the stores state it."""

    def frequency(term: str, own: list[str]) -> int:
        return sum(x.startswith(term[:-1]) for x in own) if term.endswith("*") else own.count(term)

    listed, asked = [terms(text, language) for text in texts], query_terms(question, language)
    mean = sum(map(len, listed)) / len(listed)
    counts = {term: sum(frequency(term, own) > 0 for own in listed) for term in asked}
    scores = {}
    for number, own in enumerate(listed, 1):
        score = 0.0
        for term, n in counts.items():
            tf, idf = frequency(term, own), math.log((len(texts) - n + 0.5) / (n + 0.5))
            idf = idf if idf > 0 else 1e-6
            score += idf * tf * 2.2 / (tf + 1.2 * (1 - 0.75 + 0.75 * len(own) / mean))
        if score:
            scores[number] = score
    return scores


def place_of(path: Path, array: str) -> slice:
    """Which bytes of an index file an array has."""
    info = read_file_header(path).tensors[array]
    return slice(info.begin, info.begin + info.bytes)
