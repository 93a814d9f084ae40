"""Embeddings view: what the page draws of a map of embeddings, live.

Where the page was opened with a map of texts, that is meant; else the tokens of a session's stream, layer by layer.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from glassformer.explorer.embedding_page import PageMap, session_map
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.embeddings.options import ProjectionOptions

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene

STORED_MAPS = 8  # sessions whose maps stay in RAM; that of another is computed again


class EmbeddingMaps:
    """Maps of sessions of a page.

    corpus: the map that the page was opened with, if any
    """

    def __init__(self, runs: SessionRuns, corpus: PageMap | None = None) -> None:
        self.runs, self.corpus = runs, corpus
        self._of_sessions: dict[tuple[str, str], PageMap] = {}
        self._lock = threading.Lock()

    def get(self, session: str, stream: str) -> PageMap:
        """The map. Raises: SessionGone: of a session that is not in the cache. DataError: no such stream."""
        if self.corpus is not None:
            return self.corpus
        key = session, stream
        if key not in self._of_sessions:
            page_map = session_map(self.runs.get(session).result(), stream)
            with self._lock:
                self._of_sessions[key] = page_map
                while len(self._of_sessions) > STORED_MAPS:
                    del self._of_sessions[next(iter(self._of_sessions))]
            return page_map
        return self._of_sessions[key]


def points(scene: Scene, *, stream: str) -> dict[str, Any]:
    """Description of the points of a map, as JSON."""
    return scene.maps.get(scene.id, stream).description()


def places(scene: Scene, *, stream: str) -> bytes:
    """The first two principal components of every level."""
    return scene.maps.get(scene.id, stream).places()


def neighbours(scene: Scene, *, stream: str, point: int, level: int) -> dict[str, Any]:
    """The points with the largest cosine similarity: [[point, cosine], …]."""
    return {"neighbours": scene.maps.get(scene.id, stream).neighbours(point, level)}


def projection(scene: Scene, *, stream: str, levels: list[int], **options: Any) -> bytes:
    """Places of these levels by t-SNE or UMAP, computed in a worker process."""
    page_map, chosen = scene.maps.get(scene.id, stream), ProjectionOptions(**options)
    numbers = [page_map.embedding_map.level(level) for level in levels]
    return page_map.projection(chosen, numbers, scene.progress, scene.check)
