"""Embeddings view: what the page draws of a map of embeddings, live and in a standalone file.

GET  /api/embedding?s=SESSION&stream=NAME                  what the points are: JSON
GET  /api/embedding/places?…                               the first two principal components of every level: a frame
GET  /api/embedding/neighbours?…&point=N&level=N           [[point, cosine similarity], …]
POST /api/embedding/project {"s", "stream", "method", …}   a line a step: {"done", "of"} … {"ready"} or {"error"}
GET  /api/embedding/projection?id=ID                       its places: a frame

Where the page was opened with a map of texts, that is meant; else the tokens of a session's stream, layer by layer. Who
leaves a projection before its end ends its worker process.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError
from glassformer.explorer import http
from glassformer.explorer.embedding_page import PageMap, session_map
from glassformer.explorer.http import Query, json_errors
from glassformer.explorer.session_runs import Job, Jobs, SessionGone, SessionRuns
from glassformer.inspect.embeddings.projection import ProjectionOptions

STORED_MAPS, STORED_PROJECTIONS, MAX_WAITING = 8, 64, 16


class ProjectionRun(Job[bytes]):
    """One projection in a worker process; its value is the frame of the places.

    done: steps done, and of how many · turn: held while it runs: each takes a process, and hundreds of megabytes
    """

    def __init__(
        self, page_map: PageMap, options: ProjectionOptions, levels: Sequence[int], turn: threading.Lock
    ) -> None:
        super().__init__()
        self.done = (0, 0)
        self._page_map, self._options, self._levels, self._turn = page_map, options, levels, turn

    def work(self) -> bytes:
        with self.in_turn(self._turn):
            return self._page_map.projection(self._options, self._levels, self._progress, self.check_running)

    def _progress(self, done: int, of: int) -> None:
        self.done = (done, of)


class EmbeddingStore:
    """Maps of sessions, and projections, of a page. corpus: the map that the page was opened with, if any"""

    def __init__(self, runs: SessionRuns, corpus: PageMap | None = None) -> None:
        self.runs, self.corpus = runs, corpus
        self._of_sessions: dict[tuple[str, str], PageMap] = {}
        self._frames: dict[str, bytes] = {}
        self._running: dict[str, ProjectionRun] = {}
        self._lock, self._turn, self._jobs = threading.Lock(), threading.Lock(), Jobs()

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

    def begin(self, page_map: PageMap, options: ProjectionOptions, levels: Sequence[int]) -> tuple[str, ProjectionRun]:
        """Start a projection, or join the one that was asked for; gives its id. They run one after another.

        Raises: DataError: no such level; too many are waiting.
        """
        numbers = [page_map.embedding_map.level(level) for level in levels]
        key = [page_map.id, *sorted(asdict(options).items()), numbers]
        id = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        with self._lock:
            running = self._running.get(id)
            if running is not None and not running.stopped:
                return id, running
            if sum(not run.stopped for run in self._running.values()) >= MAX_WAITING:
                raise DataError(f"{MAX_WAITING} projections are waiting; try again when one is finished")
            run = self._running[id] = ProjectionRun(page_map, options, numbers, self._turn)
            self._jobs.start(run, lambda: self._store(id, run))
        return id, run

    def _store(self, id: str, run: ProjectionRun) -> None:
        with self._lock:
            if self._running.get(id) is run:
                del self._running[id]
            if run.value is not None:
                self._frames[id] = run.value
                while len(self._frames) > STORED_PROJECTIONS:
                    del self._frames[next(iter(self._frames))]

    def frame(self, id: str) -> bytes:
        """The places of a projection. Raises: SessionGone: it is not there any more."""
        with self._lock:
            if id not in self._frames:
                raise SessionGone("this projection was evicted from memory; ask for it again")
            return self._frames[id]

    def close(self) -> None:
        """End running projections."""
        self._jobs.close()


def embedding_routes(store: EmbeddingStore) -> list[Route]:
    """The routes."""

    def asked(query: Query) -> Callable[[], PageMap]:
        session, stream = query.text("s"), query.text("stream")
        return lambda: store.get(session, stream)

    async def describe(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        page_map = asked(query)
        query.reject_unknown()
        return JSONResponse(await run_in_threadpool(lambda: page_map().description()))

    async def places(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        page_map = asked(query)
        query.reject_unknown()
        return await http.frame(request, lambda: page_map().places())

    async def neighbours(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        page_map, point, level = asked(query), query.integer("point"), query.integer("level")
        query.reject_unknown()
        return JSONResponse(await run_in_threadpool(lambda: page_map().neighbours(point, level)))

    async def projection(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id = query.text("id")
        query.reject_unknown()
        return await http.frame(request, lambda: store.frame(id))

    return [
        Route("/api/embedding", json_errors(describe)),
        Route("/api/embedding/places", json_errors(places)),
        Route("/api/embedding/neighbours", json_errors(neighbours)),
        Route("/api/embedding/projection", json_errors(projection)),
        Route("/api/embedding/project", json_errors(_project(store)), methods=["POST"]),
    ]


def _project(store: EmbeddingStore) -> http.Endpoint:
    number = (int, float)
    kinds: dict[str, Any] = {"s": str, "stream": str, "method": str, "levels": list}
    kinds |= {"perplexity": number, "neighbours": int, "min_dist": number, "seed": int}

    async def endpoint(request: Request) -> Response:
        fields = http.check_fields(await http.body(request), **kinds)
        s, stream, levels = fields.pop("s"), fields.pop("stream"), fields.pop("levels")
        if not levels or len(levels) > 1000:
            raise DataError("levels is a list of one level or more")
        options = ProjectionOptions(**fields)
        page_map = await run_in_threadpool(store.get, s, stream)
        id, run = store.begin(page_map, options, levels)

        return http.stream(request, http.progress(run, lambda: run.done, lambda: {"id": id} if run.result() else {}))

    return endpoint
