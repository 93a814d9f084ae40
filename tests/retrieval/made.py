"""Vectors for tests of vector search, and what a store holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from glassformer.retrieval.sqlite_store import open_folder


def unit_vectors(count: int, dimension: int, seed: int = 0, groups: int = 20) -> np.ndarray:
    """Vectors of unit length around some centres, which do not depend on the seed. [N, D] float16"""
    centres = np.random.default_rng(99).normal(size=(groups, dimension))
    draw = np.random.default_rng(seed)
    vectors = centres[draw.integers(0, groups, count)] + draw.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def dump(store: Path) -> list[object]:
    """All passages with their names, text and vectors, without ids."""
    opened = open_folder(store)
    rows = opened._all(
        "SELECT d.name, p.start, p.stop, p.line, p.text, v.vector FROM documents d JOIN passages p ON p.content = "
        "d.content LEFT JOIN vectors v ON v.passage = p.id ORDER BY 1, 2"
    )
    opened.close()
    return rows
