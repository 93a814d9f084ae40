"""What a view is asked about, and the jobs of views that take time: run once, joined, kept with their session.

ViewJobs.begin(session id, name, request) ──a thread──> frame, kept in the session's run under its key
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from glassformer.errors import DataError
from glassformer.explorer.embeddings import EmbeddingMaps
from glassformer.explorer.registry import Reading, View, fields_of, key_of
from glassformer.explorer.session_runs import Job, Jobs, SessionGone, SessionRun, SessionRuns
from glassformer.explorer.traces import TraceStore
from glassformer.files.schema import Schema
from glassformer.inspect.session import Session

MAX_WAITING, MAX_READINGS = 16, 64
"""Jobs that take turns and wait, and frames that are kept with a session; then the oldest is dropped."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a view reads: the session that a request names, and what else the page has.

    id: of the session; empty where a request names none
    runs, traces, maps: sessions, generation traces and maps of embeddings of the page
    progress: called with the number of steps done and of all
    check: raises where the client has left; to be called often
    """

    id: str
    runs: SessionRuns
    traces: TraceStore
    maps: EmbeddingMaps
    progress: Callable[[int, int], None] = lambda done, of: None
    check: Callable[[], None] = lambda: None

    @property
    def run(self) -> SessionRun:
        """The run of the session. Raises: DataError: none is named. SessionGone: it is not in the cache."""
        if not self.id:
            raise DataError("the request lacks 's', the session that it is about")
        return self.runs.get(self.id)

    @property
    def session(self) -> Session:
        return self.run.result()


class ViewJob(Job[Reading]):
    """One view that is computed in a thread of its own."""

    def __init__(self, make: Callable[[ViewJob], Reading], turn: threading.Lock) -> None:
        super().__init__()
        self.steps_done = (0, 0)
        self._make, self._turn = make, turn

    def work(self) -> Reading:
        with self.in_turn(self._turn):
            return self._make(self)

    def progress(self, done: int, of: int) -> None:
        self.check_running()
        self.steps_done = (done, of)


class ViewJobs:
    """The running jobs of a page's views."""

    def __init__(self, runs: SessionRuns, traces: TraceStore, maps: EmbeddingMaps) -> None:
        self.runs, self.traces, self.maps = runs, traces, maps
        self._running: dict[tuple[str, str], ViewJob] = {}
        self._by_view: defaultdict[str, set[ViewJob]] = defaultdict(set)
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # a view: its jobs, one by one
        self._lock, self._jobs = threading.Lock(), Jobs()

    def scene(self, id: str, job: ViewJob | None = None) -> Scene:
        """What a view of a session reads."""
        hooks: dict[str, Any] = {} if job is None else {"progress": job.progress, "check": job.check_running}
        return Scene(id=id, runs=self.runs, traces=self.traces, maps=self.maps, **hooks)

    def begin(self, id: str, name: str, view: View, request: Schema) -> ViewJob:
        """Start a view, or join the same that is running.

        Raises: SessionGone: no such session. DataError: too many are waiting for their turn.
        """
        self.runs.get(id)  # early
        fields = fields_of(request)
        key = key_of(name, fields)

        def make(job: ViewJob) -> Reading:
            return Reading(name, fields, view.frame(name, self.scene(id, job), request))

        with self._lock:
            running = self._running.get((id, key))
            if running is not None and not running.stopped:
                return running
            if sum(not job.stopped for job in self._by_view[name]) >= MAX_WAITING:
                raise DataError(f"{MAX_WAITING} of the view {name!r} are waiting; try again when one is finished")
            job = self._running[id, key] = ViewJob(make, self._turns[name])
            self._by_view[name].add(job)
            self._jobs.start(job, lambda: self._store(id, name, job, key))
        return job

    def _store(self, id: str, name: str, job: ViewJob, key: str) -> None:
        with self._lock:
            self._by_view[name].discard(job)
            if self._running.get((id, key)) is job:
                del self._running[id, key]
        if job.value is not None:
            with suppress(SessionGone):  # the session was evicted meanwhile, and its views with it
                self.runs.get(id).keep(job.value, MAX_READINGS)

    def frame(self, id: str, key: str) -> bytes:
        """The frame of a finished job. Raises: SessionGone: it, or its session, was evicted."""
        readings = self.runs.get(id).readings
        if key not in readings:
            raise SessionGone("this view was evicted from memory; ask for it again")
        frame: bytes = readings[key].frame
        return frame

    def close(self) -> None:
        """Stop the jobs that still run."""
        self._jobs.close()
