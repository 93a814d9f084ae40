"""The worker process of t-SNE and UMAP: `in.npy` [levels, N, D] of a folder to `out.npy` [levels, N, 2].

Standard output is a line for each step: `done of`. What the libraries print of their progress is read for it.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import numpy as np

TSNE_STEPS = 1_000  # scikit-learn's default
NOISE = 0.1
"""Of the start of t-SNE, as a part of the spread of the first principal component."""
UMAP_STEPS = {10_000: 500}  # number of points → epochs; UMAP's own default, as the line below
LARGE_STEPS = 200
"""Epochs of UMAP for more points than that."""
_ITERATION = re.compile(r"Iteration (\d+)")  # of scikit-learn
_EPOCH = re.compile(r"(\d+)/(\d+) ")  # of tqdm, which UMAP uses


class ProgressLines(io.TextIOBase):
    """A stream that turns what a library prints of its progress into `done of` lines."""

    def __init__(self, stream: TextIO, before: int, of: int) -> None:
        self._stream, self.before, self.of = stream, before, of

    def write(self, text: str) -> int:
        if match := (_ITERATION.search(text) or _EPOCH.search(text)):
            self._stream.write(f"{self.before + int(match[1])} {self.of}\n")
            self._stream.flush()
        return len(text)

    def isatty(self) -> bool:
        return False


def main() -> None:
    """Run; arguments: a folder, and the options as JSON."""
    warnings.simplefilter("ignore")
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    levels = np.load(folder / "in.npy")
    steps = TSNE_STEPS if options["method"] == "tsne" else umap_steps(levels.shape[1])
    stream, results = sys.stdout, []
    for number, vectors in enumerate(levels):
        lines = ProgressLines(stream, number * steps, len(levels) * steps)
        lines.write("Iteration 0")
        with redirect_stdout(lines):
            run = _tsne if options["method"] == "tsne" else _umap
            results.append(run(vectors, options, steps, lines))
    np.save(folder / "out.tmp.npy", np.stack(results))
    os.replace(folder / "out.tmp.npy", folder / "out.npy")


def umap_steps(points: int) -> int:
    """Epochs: UMAP's own defaults."""
    return next((steps for most, steps in UMAP_STEPS.items() if points <= most), LARGE_STEPS)


def _tsne(vectors: np.ndarray, options: dict[str, Any], steps: int, lines: ProgressLines) -> np.ndarray:
    from sklearn.manifold import TSNE

    # Begun near the PCA, scaled as scikit-learn does it: the exact PCA would leave nothing to the seed. The noise is
    # the same at each level, so that levels stay comparable.
    start = vectors[:, :2] if vectors.shape[1] > 1 else np.concatenate([vectors, np.zeros_like(vectors)], 1)
    start = start / max(float(np.std(start[:, 0])), 1e-12) * 1e-4
    start = start + np.random.default_rng(options["seed"]).normal(scale=NOISE * 1e-4, size=start.shape)
    model = TSNE(
        perplexity=options["perplexity"],
        init=start.astype(np.float32),
        max_iter=steps,
        learning_rate="auto",
        verbose=2,
    )
    return np.asarray(model.fit_transform(vectors))


def _umap(vectors: np.ndarray, options: dict[str, Any], steps: int, lines: ProgressLines) -> np.ndarray:
    import umap

    start = vectors[:, :2] if vectors.shape[1] > 1 else np.concatenate([vectors, np.zeros_like(vectors)], 1)
    model = umap.UMAP(
        n_neighbors=options["neighbours"],
        min_dist=options["min_dist"],
        init=start / max(float(np.abs(start).max()), 1e-12) * 10,
        random_state=options["seed"],
        n_jobs=1,
        n_epochs=steps,
        verbose=True,
        tqdm_kwds={"file": lines, "mininterval": 0.1},
    )
    return np.asarray(model.fit_transform(vectors))
