"""The page of `glassformer embed-map`: the explorer with a map of embeddings, as a file or served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.screen import progress_of

if TYPE_CHECKING:
    from glassformer.cli.embed_map import EmbedMapOptions
    from glassformer.explorer import Look
    from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
    from glassformer.inspect.embeddings.projection import ProjectionOptions
    from glassformer.inspect.embeddings.word_study import WordStudy
    from glassformer.model import Model

PROJECTED_TOGETHER = 2_000
"""A file holds a projection of all levels for this many points at most, else of the last one."""


def make_look(
    model: Model,
    embedding_map: EmbeddingMap,
    study: WordStudy,
    projections: Mapping[str, bytes] | None = None,
    start: str = "",
) -> Look:
    """The explorer on the text of the first point, with the map as its first view."""
    from glassformer.explorer import Look
    from glassformer.explorer.embedding_page import PageMap
    from glassformer.explorer.look import InitialView
    from glassformer.explorer.session_runs import SessionRuns

    first = study.embeddings.items[0].sentence
    text = study.embeddings.texts[first] if study.embeddings.word is None else embedding_map_text(study)
    page = PageMap.of(embedding_map, study.caption, study=study)
    factory = model.session_factory(truncation=True)
    view = InitialView(view="embedding", projection=start or None)
    return Look(SessionRuns(factory), [text], view, corpus=page, projections=projections)


def embedding_map_text(study: WordStudy) -> str:
    """The words about the first occurrence, which the other views of the page look at."""
    return "".join(study.embeddings.context(0, 400)).strip("…")


def write_page(
    model: Model,
    embedding_map: EmbeddingMap,
    study: WordStudy,
    options: EmbedMapOptions,
    projection: ProjectionOptions,
) -> dict[str, Any]:
    """Write the page, with the projection that was asked for."""
    from glassformer.explorer.embedding_page import PageMap

    assert options.html is not None
    projections: dict[str, bytes] = {}
    if projection.method != "pca":
        count, last = len(embedding_map), len(embedding_map.levels) - 1
        every = [level for level in range(last + 1) if embedding_map.explained[level][0] > 0]
        levels = every if every and count <= PROJECTED_TOGETHER else [last]
        page = PageMap.of(embedding_map, study.caption)
        with progress_of(options.method) as bar:
            frames = page.projections(projection, levels, bar)
        projections = {f"{projection.method}/{level}": frame for level, frame in zip(levels, frames, strict=True)}
    look = make_look(model, embedding_map, study, projections, projection.method)
    with look, progress_of("page") as bar:
        look.save(options.html, cap_bytes=1_000_000, progress=bar)
    return {"out": str(options.html), "bytes": options.html.stat().st_size, "projections": sorted(projections)}


def serve_page(
    model: Model,
    embedding_map: EmbeddingMap,
    study: WordStudy,
    options: EmbedMapOptions,
) -> None:
    """Serve the page until Ctrl-C."""
    with make_look(model, embedding_map, study, start=options.method) as look:
        look.serve(options.port)
        look.show(options.browser)
        typer.echo("Ctrl-C stops the server")
        look.wait()
