"""The explorer with the map of a word study as its first view: served, or as a file with its projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from glassformer.explorer.embedding_page import PageMap
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionFactory, SessionRuns
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.embeddings.projection import Progress
from glassformer.inspect.embeddings.word_study import WordStudy

PROJECTED_TOGETHER = 2_000
"""A file holds a projection of all levels for this many points at most, else of the last one."""
EXACT_BYTES = 1_000_000
"""Exact layers of attention in a file: its map is what it is about."""
CONTEXT_CHARACTERS = 400
"""Of an occurrence, in the command of a page: about a paragraph, which a shell takes as one argument."""


def study_look(
    factory: SessionFactory,
    study: WordStudy,
    embedding_map: EmbeddingMap,
    *,
    method: str = "pca",
    projections: Mapping[str, bytes] | None = None,
) -> Look:
    """The explorer on the words around the first occurrence, or on the first text, with the map as its first view.

    Args:
        method: of the projection that it opens with
        projections: frames by "METHOD/LEVEL", which a file holds
    """
    embeddings = study.embeddings
    if embeddings.word is None:
        text = embeddings.texts[embeddings.items[0].sentence]
    else:
        text = "".join(embeddings.context(0, CONTEXT_CHARACTERS)).strip("…")
    page = PageMap.of(embedding_map, study.caption, study=study)
    view = InitialView(view="embedding", projection=method)
    return Look(SessionRuns(factory), [text], view, corpus=page, projections=projections)


def save_study_page(
    factory: SessionFactory,
    study: WordStudy,
    embedding_map: EmbeddingMap,
    path: Path,
    projection: ProjectionOptions,
    bar: Callable[[str], AbstractContextManager[Progress]],
) -> dict[str, Any]:
    """Write the page as a file, with the projection that it opens with; what it holds.

    Args:
        bar: shows the progress of a step with this title
    """
    projections: dict[str, bytes] = {}
    if projection.method != "pca":
        last = len(embedding_map.levels) - 1
        every = [level for level in range(last + 1) if embedding_map.explained[level][0] > 0]
        levels = every if every and len(embedding_map) <= PROJECTED_TOGETHER else [last]
        page = PageMap.of(embedding_map, study.caption)
        with bar(projection.method) as progress:
            frames = page.projections(projection, levels, progress)
        projections = {f"{projection.method}/{level}": frame for level, frame in zip(levels, frames, strict=True)}
    look = study_look(factory, study, embedding_map, method=projection.method, projections=projections)
    with look, bar("page") as progress:
        look.save(path, cap_bytes=EXACT_BYTES, progress=progress)
    return {"out": str(path), "bytes": path.stat().st_size, "projections": sorted(projections)}
