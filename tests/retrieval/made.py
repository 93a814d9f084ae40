"""Vectors for tests of vector search."""

from __future__ import annotations

import numpy as np


def unit_vectors(count: int, dimension: int, seed: int = 0, groups: int = 20) -> np.ndarray:
    """Vectors of unit length around some centres, which do not depend on the seed. [N, D] float16"""
    centres = np.random.default_rng(99).normal(size=(groups, dimension))
    draw = np.random.default_rng(seed)
    vectors = centres[draw.integers(0, groups, count)] + draw.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
