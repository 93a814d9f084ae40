"""Projection of vectors to a plane: PCA at once; t-SNE and UMAP in a worker process, with progress; Procrustes.

    vectors [N, D] ──PCA──> coordinates [N, 2], explained variance
                   ──PCA to 50 dimensions──worker process──> t-SNE, UMAP [N, 2], begun at the PCA
    coordinates of one layer ──Procrustes──> turned, mirrored and scaled to lie on those of the layer before

Sources: Pearson 1901 (PCA); van der Maaten and Hinton 2008 (t-SNE), begun at the PCA: Kobak and Berens 2019; McInnes,
Healy and Melville 2018 (UMAP); Schönemann 1966 (orthogonal Procrustes).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import IO, Any

import numpy as np

from glassformer.errors import DataError, GlassformerError, import_optional
from glassformer.files import child
from glassformer.inspect.embeddings.options import ProjectionOptions

REDUCED = 50
"""t-SNE and UMAP see this many principal components, which hold what noise is not."""
LEAST = 4
"""Fewest vectors for t-SNE and UMAP, which place points by their neighbours."""

Progress = Callable[[int, int], None]
Check = Callable[[], None]


def check_vectors(vectors: Any) -> np.ndarray:
    """Vectors as an array [N, D] of finite numbers. Raises: DataError: they are none, or hold NaN or infinity."""
    array = np.asarray(vectors)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
        raise DataError(f"the vectors have the shape {list(array.shape)} and type {array.dtype}; give numbers [N, D]")
    finite = np.isfinite(array).all(1)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        raise DataError(
            f"{len(bad):,} of {len(array):,} vectors hold NaN or infinity, the first is row {bad[0]}; leave them out, "
            "or look at what made them"
        )
    return array


def pca(vectors: np.ndarray, components: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Principal components: coordinates [N, components], and the share of the variance that each explains.

    A component's largest loading is positive; beyond the rank of the vectors, coordinates and shares are 0.

    Raises: DataError: as `check_vectors`.
    """
    array = check_vectors(vectors)
    centred = array - array.mean(0, dtype=np.float64)
    total = float((centred**2).sum())
    coordinates, shares = np.zeros((len(array), components)), np.zeros(components)
    noise = np.finfo(np.float32).eps ** 2 * float((array.astype(np.float64) ** 2).sum())
    if total <= noise:  # all the same, but for rounding
        return coordinates, shares
    if len(array) > array.shape[1]:
        squares, axes = np.linalg.eigh(centred.T @ centred)
        squares, axes = squares[::-1], axes[:, ::-1].T
    else:
        _, singular, axes = np.linalg.svd(centred, full_matrices=False)
        squares = singular**2
    count = min(components, len(axes))
    axes = axes[:count] * np.sign(axes[np.arange(count), np.abs(axes[:count]).argmax(1)])[:, None]
    coordinates[:, :count] = centred @ axes.T
    shares[:count] = np.maximum(squares[:count], 0) / total
    return coordinates, shares


def procrustes(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Points turned, mirrored and scaled about their mean to lie as near as can be to a target. [N, 2] both

    Minimises |s · (P - p̄) R - (T - t̄)|² over rotations R and scales s; the result has the target's mean.
    """
    middle = target.mean(0)
    moved, fixed = points - points.mean(0), target - middle
    u, singular, v = np.linalg.svd(moved.T @ fixed)
    square = float((moved**2).sum())
    scale = singular.sum() / square if square and singular.sum() else 1.0
    turned: np.ndarray = scale * moved @ (u @ v) + middle
    return turned


def project(
    levels: Sequence[np.ndarray],
    options: ProjectionOptions,
    progress: Progress | None = None,
    check: Check | None = None,
) -> list[np.ndarray]:
    """Points of a plane for the vectors of one or more levels. [N, 2] each

    t-SNE and UMAP run in a worker process, which is ended where `check` raises, or Ctrl-C.

    Args:
        progress: told how many steps are done, and of how many
        check: called often; may raise
    Raises: DataError: as `check_vectors`, too few or only identical vectors. MissingExtraError: no scikit-learn, umap.
    """
    if options.method == "pca":
        return [pca(vectors)[0] for vectors in levels]
    package, name = {"tsne": ("sklearn.manifold", "scikit-learn"), "umap": ("umap", "umap-learn")}[options.method]
    if not _importable(package):
        import_optional(package, name, "map", options.method.replace("tsne", "t-SNE").replace("umap", "UMAP"))
    reduced = []
    for vectors in levels:
        if len(vectors) < LEAST:
            raise DataError(f"{options.method} needs at least {LEAST} points, there are {len(vectors)}; take pca")
        coordinates, shares = pca(vectors, min(REDUCED, vectors.shape[1]))
        if not shares.any():
            raise DataError(
                f"all {len(vectors):,} vectors are the same, so {options.method} has nothing to place them by; take "
                "another layer"
            )
        reduced.append(coordinates.astype(np.float32))
    return _in_worker(reduced, options.within(len(levels[0])), progress, check)


def _importable(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package.partition(".")[0]) is not None


def _in_worker(
    levels: Sequence[np.ndarray], options: ProjectionOptions, progress: Progress | None, check: Check | None
) -> list[np.ndarray]:
    program = "from glassformer.inspect.embeddings.projection_worker import main; main()"
    with tempfile.TemporaryDirectory(prefix="glassformer-map-") as folder:
        path = Path(folder)
        np.save(path / "in.npy", np.stack(levels))
        with subprocess.Popen(
            child.command(program, folder, json.dumps(asdict(options))),
            stdout=subprocess.PIPE,
            stderr=(path / "err.txt").open("wb"),
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        ) as process:
            assert process.stdout is not None
            steps = _Steps(process.stdout)
            try:
                while process.poll() is None:
                    steps.thread.join(0.05)
                    if check is not None:
                        check()
                    if progress is not None and steps.of:
                        progress(steps.done, steps.of)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(0.02)
            finally:
                process.kill()
        if process.returncode or not (path / "out.npy").is_file():
            lines = (path / "err.txt").read_text(errors="replace").strip().splitlines() or ["it was ended"]
            raise ProjectionFailed(f"{options.method} failed: {lines[-1]:.300}; take fewer points, or pca")
        return list(np.load(path / "out.npy").astype(np.float64))


class ProjectionFailed(GlassformerError):
    """A worker process that ended without a result, such as for want of memory."""


class _Steps:
    """Reads `done of` lines of a worker in a thread."""

    def __init__(self, lines: IO[bytes]) -> None:
        self.done = self.of = 0
        self.thread = Thread(target=self._read, args=(lines,), daemon=True)
        self.thread.start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            with suppress(ValueError):
                self.done, self.of = map(int, line.split())
