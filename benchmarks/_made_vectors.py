"""Sentence vectors for benchmarks of vector search: real ones of texts, and as many made from them as asked.

A made vector is a real one moved as paraphrases are: up to half of the way to one of its ten nearest neighbours, and
noise whose covariance is that of the differences between real neighbours (so it has few strong directions, as these
have, where even noise would make each vector its own distant point). The noise is as strong as makes the median cosine
of a made vector and its source that of a real vector and its nearest neighbour. Queries are real and held out.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

SHORTEST, LONGEST = 25, 300
"""Characters of a passage."""
NEIGHBOURS, SOURCES = 10, 30_000
"""Real vectors that others are made from, and how many neighbours of each take part."""
ENDS = re.compile(r"(?<=[.!?])\s+")


def texts_of(path: Path) -> Iterator[str]:
    """The strings of a file of rows, of JSON, or of lines; packed by gzip or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text, kind = data.decode("utf-8"), path.name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("json", "jsonl"):
        for part in [text] if kind == "json" else text.splitlines():
            yield from strings(json.loads(part))
    elif kind in ("tsv", "csv"):
        quoting = csv.QUOTE_NONE if kind == "tsv" else csv.QUOTE_MINIMAL
        for row in csv.reader(io.StringIO(text), delimiter="\t" if kind == "tsv" else ",", quoting=quoting):
            yield from row
    elif kind == "txt":
        yield from text.splitlines()


def strings(value: Any) -> Iterator[str]:
    """The strings of a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def passages(folder: Path, count: int) -> list[str]:
    """Distinct sentences of the files below a folder, long ones cut, in random order."""
    found: dict[str, None] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for text in texts_of(path):
            for sentence in ENDS.split(text.strip()):
                for start in range(0, len(sentence), LONGEST):
                    if len(sentence[start : start + LONGEST]) >= SHORTEST:
                        found[sentence[start : start + LONGEST]] = None
    listed = list(found)
    return [listed[i] for i in np.random.default_rng(0).permutation(len(listed))[:count]]


def nearest(queries: torch.Tensor, vectors: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and numbers of the nearest vectors, exactly. [Q, D], [N, D] → [Q, k], [Q, k]"""
    parts = [(block @ vectors.T).topk(count) for block in queries.split(1_000)]
    return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])


def made_vectors(real: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """The real vectors, and as many made from them as `count` needs. [R, D] float32 → [count, D] float16"""
    torch.manual_seed(seed)
    x = torch.from_numpy(real)
    sources = torch.randperm(len(x))[:SOURCES]
    cosines, neighbours = nearest(x[sources], x, NEIGHBOURS + 1)  # the first is the source itself
    some = slice(0, 5_000)
    differences = (x[neighbours[some, 1:]] - x[sources[some], None]).flatten(0, 1)
    values, directions = torch.linalg.eigh(differences.T @ differences / len(differences))
    shape = (directions * values.clamp(min=0).sqrt()).T

    def moved(number: int, strength: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Made vectors, and their cosines with their sources."""
        at = torch.randint(len(sources), (number,))
        source, other = x[sources[at]], x[neighbours[at, torch.randint(1, NEIGHBOURS + 1, (number,))]]
        made = source + 0.5 * torch.rand(number, 1) * (other - source)
        made = torch.nn.functional.normalize(made + strength * torch.randn(number, x.shape[1]) @ shape)
        return made, (made * source).sum(1)

    low, high, wanted = 0.0, 4.0, cosines[:, 1].median()
    for _ in range(15):
        strength = (low + high) / 2
        low, high = (strength, high) if moved(2_000, strength)[1].median() > wanted else (low, strength)
    vectors = np.empty((count, x.shape[1]), np.float16)
    vectors[: len(x)] = real[:count]
    for start in range(len(x), count, 20_000):
        stop = min(start + 20_000, count)
        vectors[start:stop] = moved(stop - start, strength)[0].numpy()
    return np.random.default_rng(seed).permutation(vectors)
