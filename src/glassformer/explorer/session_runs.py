"""Background jobs in threads; forward passes among them, and an LRU cache of the inspection sessions that they make.

begin(texts) ──> SessionRun: cached, joined, or new ──a thread──> Session, cached
                 blocks_done = (done, total)                      the least recently used is evicted
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from glassformer.errors import DataError
from glassformer.explorer.describe import ModelFacts, session_id
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.session import Progress, Session

if TYPE_CHECKING:
    from glassformer.explorer.lesson import Lesson
    from glassformer.inspect.corpus import CorpusSearch
    from glassformer.inspect.similarity import SimilarityMap

T = TypeVar("T")

log = logging.getLogger(__name__)

BUDGET = 1 << 30
"""RAM in bytes that all cached sessions may take together."""
MAX_STORED = 8  # sessions, however small
MAX_WAITING = 16  # texts; each waits for those before it, since one forward pass runs at a time
MAX_TEXT_TOKENS = 16_384
"""Tokens that a page may send: the time of one block, after which a pass can be stopped, grows with their square."""
JOIN_SECONDS, POLL_SECONDS = 3.0, 0.05
"""Timeout in seconds for a stopped job to finish its current block or decoding step; interval of waiting for a turn."""


STOPPED = "the forward pass was cancelled: its program has ended, its server was closed, or its reader has left"


class SessionGone(DataError):
    """Evicted session: HTTP 410. Posting its texts again recreates it."""


class PassStopped(DataError):
    """A job that was cancelled: its server was closed, or its last client left."""


class Job(ABC, Generic[T]):
    """Work in a background thread: running, finished, or failed.

    value: what `work` gave; None before its end, and where it failed
    failure: what it raised
    """

    def __init__(self) -> None:
        self.value: T | None = None
        self.failure: Exception | None = None
        self._stopped, self._finished = threading.Event(), threading.Event()
        self._readers, self._readers_lock = 0, threading.Lock()

    @abstractmethod
    def work(self) -> T:
        """Do the work, in the thread; it is to end soon after `stop`."""

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Ask the job to stop at its next step."""
        self._stopped.set()

    def check_running(self) -> None:
        """Raises: PassStopped: its end was asked for."""
        if self.stopped:
            raise PassStopped(STOPPED)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """While the block runs, a reader waits for the job; where the last one leaves before its end, it is stopped."""
        with self._readers_lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._readers_lock:
                self._readers -= 1
                if not self._readers and not self.finished:
                    self.stop()

    @contextmanager
    def in_turn(self, turn: threading.Lock) -> Iterator[None]:
        """Hold a lock that jobs take one after another; one that is stopped waits no longer.

        Raises: PassStopped: it was stopped before its turn.
        """
        while not turn.acquire(timeout=POLL_SECONDS):
            self.check_running()
        try:
            self.check_running()
            yield
        finally:
            turn.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait up to this many seconds (None = without limit); is it finished?"""
        return self._finished.wait(seconds)

    def result(self) -> T:
        """Wait for the end. Raises: what the work raised."""
        with self.awaited():
            self._finished.wait()
        if self.failure is not None:
            raise self.failure
        assert self.value is not None
        return self.value

    def run(self, at_end: Callable[[], None]) -> None:
        """The whole life of its thread; `at_end` is called before those who wait learn of the end."""
        try:
            self.value = self.work()
        except Exception as error:  # `result` raises it in the thread that waits
            log.debug("a job failed", exc_info=True)
            self.failure = error
        try:
            at_end()
        finally:
            self._finished.set()


class Jobs:
    """The threads of running jobs."""

    def __init__(self) -> None:
        self._threads: dict[Job[Any], threading.Thread] = {}
        self._lock = threading.Lock()

    def start(self, job: Job[Any], at_end: Callable[[], None]) -> None:
        """Run a job in a thread of its own."""

        def run() -> None:
            job.run(at_end)
            with self._lock:
                del self._threads[job]

        thread = threading.Thread(target=run, name=type(job).__name__, daemon=True)
        with self._lock:  # else `close` could join a thread that is noted but not started
            self._threads[job] = thread
            thread.start()

    def close(self) -> None:
        """Stop all jobs, and wait for their threads.

        An interpreter that exits in the middle of a kernel can crash, so their threads are not simply abandoned.
        """
        with self._lock:
            running = dict(self._threads)
        for job in running:
            job.stop()
        until = time.monotonic() + JOIN_SECONDS
        for thread in running.values():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                _abandoned.append(thread)


_abandoned: list[threading.Thread] = []


@atexit.register
def _exit_at_once() -> None:
    """End the process without its cleanup where a thread is still in a kernel, which would abort it (SIGABRT)."""
    if any(thread.is_alive() for thread in _abandoned):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(int(hasattr(sys, "last_value")))


class TranscribedSound(Protocol):
    """A recording that is transcribed for the page; `speech`, which is above this package, has what does it.

    sound: its file
    alignments: frames with the attention of windows, along which their words got their times
    """

    sound: Path
    alignments: list[bytes]

    @property
    def duration(self) -> float:
        """Length of the sound in seconds."""

    def run(self, progress: Callable[[float], None], check: Callable[[], None]) -> None:
        """Transcribe; `progress` is called with the seconds that are done, `check` is called often and may raise."""

    def description(self, *, playable: bool) -> dict[str, Any]:
        """Words, windows, heads: JSON.

        Args:
            playable: whether the page has the sound
        """

    def spectrogram(self) -> bytes:
        """The log-mel spectrogram as a binary frame."""

    def session(self, window: int, *, progress: Progress | None = None) -> Session:
        """The pass over a window and its text. Raises: DataError: there is no such window."""


@dataclass(frozen=True)
class OtherModel:
    """A model, or the same in another precision, that a page compares with.

    names: of the page's own model and of this one, as sentences name them
    inspect: as `SessionFactory.inspect`
    """

    names: tuple[str, str]
    inspect: Callable[..., Session]


@dataclass(frozen=True)
class SessionFactory:
    """What the explorer shows: facts about a model, and what makes its sessions and its generation traces.

    inspect: (texts …, progress=…) → session, as `Model.inspect`
    trace: prompt → trace, as `Model.writing`
    in_precision: the same model in another precision, one of `facts.precisions`
    transcribe: a file → its transcription, not begun; None = the model does not transcribe
    explain_similarity: two texts → their map; None = the model makes no vectors of texts
    corpus: to search in
    count_tokens: of a text; None = the model reads none
    lesson: that the page plays; None = its tour
    against: what the view of differences compares with at first; None = nothing
    """

    facts: ModelFacts
    inspect: Callable[..., Session]
    trace: Callable[[str], GenerationTrace]
    in_precision: Callable[[str], OtherModel]
    transcribe: Callable[[str], TranscribedSound] | None = None
    explain_similarity: Callable[[str, str], SimilarityMap] | None = None
    corpus: CorpusSearch | None = None
    count_tokens: Callable[[str], int] | None = None
    lesson: Lesson | None = None
    against: OtherModel | None = None


class SessionRun(Job[Session]):
    """One forward pass over texts.

    turn: held while it runs, since passes run one after another
    readings: views of its session that took time, by key: a saved page has them
    """

    def __init__(
        self, id: str, texts: tuple[str, ...], make: Callable[[Progress], Session], turn: threading.Lock
    ) -> None:
        super().__init__()
        self.id = id
        self.texts = texts
        self.blocks_done = (0, 0)
        self.readings: dict[str, Any] = {}
        self._readings_lock = threading.Lock()
        self._make = make
        self._turn = turn

    def keep(self, reading: Any, most: int) -> None:
        """Keep a view, and of the oldest as many as this leaves."""
        with self._readings_lock:  # jobs of several views may end at once
            readings = [each for each in self.readings.values() if each.key != reading.key] + [reading]
            # A new mapping: one that is being read stays as it is.
            self.readings = {each.key: each for each in readings[-most:]}

    def follow(self, progress: Progress) -> None:
        """Report the progress of the forward pass, to its end. Raises: what the pass raised."""
        while not self.wait(0.05):
            progress(*self.blocks_done)
        self.result()

    def work(self) -> Session:
        with self.in_turn(self._turn):
            return self._make(self._progress)

    def _progress(self, done: int, of: int) -> None:
        self.check_running()
        self.blocks_done = (done, of)


class SessionRuns:
    """Runs and caches the sessions of one model. Thread-safe; the passes themselves run one after another.

    Args:
        budget: RAM in bytes that sessions may take together; the one used last is kept in any case.
        max_stored: sessions kept, at most.
    """

    def __init__(self, factory: SessionFactory, *, budget: int = BUDGET, max_stored: int = MAX_STORED) -> None:
        self.factory = factory
        self.facts = factory.facts
        self.budget, self.max_stored = budget, max_stored
        self._runs: OrderedDict[str, SessionRun] = OrderedDict()  # least recently used first
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._jobs = Jobs()
        self._stopped = False

    def begin(self, texts: Sequence[str]) -> SessionRun:
        """The run of these texts: cached, running, or new.

        Raises: DataError: too many runs are waiting. PassStopped: after `stop`.
        """
        id = session_id(self.facts.revision, texts)
        return self._begin(id, texts, lambda progress: self.factory.inspect(*texts, progress=progress))

    def check_length(self, texts: Sequence[str]) -> None:
        """Raises: DataError: a text is so long that a page could not be answered, nor its pass be stopped, in time."""
        count = self.factory.count_tokens
        for tokens in () if count is None else map(count, texts):
            if tokens > MAX_TEXT_TOKENS:
                raise DataError(
                    f"the text has {tokens:,} tokens; a page may send at most {MAX_TEXT_TOKENS:,}: shorten it, or call "
                    "model.inspect, which takes any"
                )

    def attend(self, trace: GenerationTrace, node: int) -> SessionRun:
        """The run over a prompt and its generated text, up to a node of the token tree.

        Raises: DataError: there is no such node; as `begin`.
        """
        texts = trace.inputs(node).texts
        tokens = [str(token) for token in trace.tree.tokens(node)]
        id = session_id(self.facts.revision, ["written", trace.prompt, *tokens])
        return self._begin(id, texts, lambda progress: trace.session(node, progress=progress))

    def listen(self, sound: str, transcribed: Callable[[], TranscribedSound], window: int) -> SessionRun:
        """The run over a window of a recording, and the text that was heard there.

        Args:
            transcribed: gives the transcription, or waits for it
        Raises: as `begin`.
        """
        id = session_id(self.facts.revision, ["heard", sound, str(window)])
        return self._begin(id, [sound], lambda progress: transcribed().session(window, progress=progress))

    def _begin(self, id: str, texts: Sequence[str], make: Callable[[Progress], Session]) -> SessionRun:
        with self._lock:
            if id in self._runs and not self._runs[id].stopped:
                self._runs.move_to_end(id)
                return self._runs[id]
            if sum(not (run.finished or run.stopped) for run in self._runs.values()) >= MAX_WAITING:
                raise DataError(
                    f"{MAX_WAITING} texts are waiting for their forward pass; try again when one is finished"
                )
            if self._stopped:
                raise PassStopped(STOPPED)
            run = self._runs[id] = SessionRun(id, tuple(texts), make, self._turn)
            self._jobs.start(run, lambda: self._store(run))
        return run

    def start(self, job: Job[Any]) -> None:
        """Run another job of the page, which ends with the passes."""
        self._jobs.start(job, lambda: None)

    def forget(self) -> None:
        """Drop the sessions that are not running: a text that is asked for again is run again."""
        with self._lock:
            self._runs = OrderedDict((id, run) for id, run in self._runs.items() if not run.finished)

    def stop(self) -> None:
        """Cancel running passes at the end of their block, and wait for their threads."""
        with self._lock:
            self._stopped = True
        self._jobs.close()

    def get(self, id: str) -> SessionRun:
        """A finished run by its id.

        Raises: SessionGone: it is not in the cache.
        """
        with self._lock:
            run = self._runs.get(id)
            if run is None or run.value is None:
                raise SessionGone("this session was evicted from memory; run the text again")
            self._runs.move_to_end(id)
            self._evict()  # a session grows while it is looked at: heads are computed on demand
            return run

    def _store(self, run: SessionRun) -> None:
        with self._lock:
            if self._runs.get(run.id) is not run:
                return  # it was stopped, and a new one has taken its place
            if run.value is None:
                del self._runs[run.id]  # not cached: the next request tries again
            else:
                self._runs.move_to_end(run.id)
                self._evict()

    def _evict(self) -> None:
        """Evict the least recently used sessions until the rest fits; running passes stay."""
        done = {run.id: run.value for run in self._runs.values() if run.value is not None}
        while len(done) > 1 and (
            len(done) > self.max_stored or sum(session.nbytes for session in done.values()) > self.budget
        ):
            oldest = next(iter(done))
            del self._runs[oldest], done[oldest]
