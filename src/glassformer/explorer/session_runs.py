"""Forward passes in background threads, and an LRU cache of the inspection sessions that they make.

begin(texts) ──> SessionRun: cached, joined, or new ──a thread──> Session, cached
                 blocks_done = (done, total)                      the least recently used is evicted
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from glassformer.errors import DataError
from glassformer.explorer.describe import model_facts, session_id
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.session import Progress, Session

if TYPE_CHECKING:
    from glassformer.model import Model

log = logging.getLogger(__name__)

BUDGET = 1 << 30
"""RAM in bytes that all cached sessions may take together."""
MAX_STORED = 8
MAX_WAITING = 16
JOIN_SECONDS = 10.0
"""Timeout in seconds for a stopped pass to finish its current block."""


class SessionGone(DataError):
    """A session that is not in the cache (any more): HTTP 410; running its texts again makes it anew."""


class PassStopped(DataError):
    """A forward pass that was cancelled because its server was closed."""


class SessionRun:
    """One forward pass over texts: running, finished, or failed."""

    def __init__(self, id: str, texts: tuple[str, ...], make: Callable[[Progress], Session]) -> None:
        self.id = id
        self.texts = texts
        self.make = make
        self.blocks_done = (0, 0)
        self.session: Session | None = None
        self.failure: Exception | None = None
        self._finished = threading.Event()

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    def finish(self, session: Session | None, failure: Exception | None) -> None:
        self.session, self.failure = session, failure
        self._finished.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait up to so many seconds (None = without limit); is it finished?"""
        return self._finished.wait(seconds)

    def result(self) -> Session:
        """Wait for the session. Raises: what the pass raised."""
        self._finished.wait()
        if self.failure is not None:
            raise self.failure
        assert self.session is not None
        return self.session


class SessionRuns:
    """Runs and caches the sessions of one model. Thread-safe; the passes themselves run one after another.

    Args:
        budget: RAM in bytes that sessions may take together; the one used last is kept in any case.
        max_stored: sessions kept, at most.
    """

    def __init__(self, model: Model, *, budget: int = BUDGET, max_stored: int = MAX_STORED) -> None:
        self.model = model
        self.facts = model_facts(model)
        self.budget, self.max_stored = budget, max_stored
        self._runs: OrderedDict[str, SessionRun] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()
        self._pass_lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._stopped = False

    def begin(self, texts: Sequence[str]) -> SessionRun:
        """The run of these texts: cached, running, or new.

        Raises: DataError: too many runs are waiting. PassStopped: after `stop`.
        """
        id = session_id(self.facts.revision, texts)
        return self._begin(id, texts, lambda progress: self.model.inspect(*texts, progress=progress))

    def attend(self, trace: GenerationTrace, node: int) -> SessionRun:
        """The run over a prompt and its generated text, up to a node of the token tree.

        Raises: DataError: there is no such node; as `begin`.
        """
        texts = trace.inputs(node).texts
        tokens = [str(token) for token in trace.tree.tokens(node)]
        id = session_id(self.facts.revision, ["written", trace.prompt, *tokens])
        return self._begin(id, texts, lambda progress: trace.session(node, progress=progress))

    def _begin(self, id: str, texts: Sequence[str], make: Callable[[Progress], Session]) -> SessionRun:
        with self._lock:
            if id in self._runs:
                self._runs.move_to_end(id)
                return self._runs[id]
            if sum(not run.finished for run in self._runs.values()) >= MAX_WAITING:
                raise DataError(
                    f"{MAX_WAITING} texts are waiting for their forward pass; try again when one is finished"
                )
            self._check_running()
            run = self._runs[id] = SessionRun(id, tuple(texts), make)
            thread = threading.Thread(target=self._run, args=(run,), name=f"pass {id}", daemon=True)
            self._threads.add(thread)
            thread.start()
        return run

    def stop(self) -> None:
        """Cancel running passes at the end of their block, and wait for their threads.

        An interpreter that exits in the middle of a kernel can crash, so their threads are not simply abandoned.
        """
        with self._lock:  # else a thread that `begin` has noted but not started could be joined
            self._stopped, threads = True, list(self._threads)
        for thread in threads:
            thread.join(JOIN_SECONDS)

    def get(self, id: str) -> SessionRun:
        """A finished run by its id.

        Raises: SessionGone: it is not in the cache.
        """
        with self._lock:
            run = self._runs.get(id)
            if run is None or run.session is None:
                raise SessionGone("this session was evicted from memory; run the text again")
            self._runs.move_to_end(id)
            self._evict()  # a session grows while it is looked at: heads are computed on demand
            return run

    def _run(self, run: SessionRun) -> None:
        def progress(done: int, of: int) -> None:
            self._check_running()
            run.blocks_done = (done, of)

        session, failure = None, None
        with self._pass_lock:
            try:
                self._check_running()
                session = run.make(progress)
            except Exception as error:  # `result` raises it in the thread that waits
                log.debug("the pass failed", exc_info=True)
                failure = error
        with self._lock:
            self._threads.discard(threading.current_thread())
            run.finish(session, failure)
            if session is None:
                del self._runs[run.id]  # not cached: the next request tries again
            else:
                self._runs.move_to_end(run.id)
                self._evict()

    def _check_running(self) -> None:
        if self._stopped:
            raise PassStopped("the forward pass was cancelled: its program has ended, or its server was closed")

    def _evict(self) -> None:
        """Evict the least recently used sessions until the rest fits; running passes stay."""
        done = [run for run in self._runs.values() if run.session is not None]
        while len(done) > 1 and (len(done) > self.max_stored or sum(map(_nbytes, done)) > self.budget):
            del self._runs[done.pop(0).id]


def _nbytes(run: SessionRun) -> int:
    assert run.session is not None
    return run.session.nbytes
