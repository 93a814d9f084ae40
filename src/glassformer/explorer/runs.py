"""Passes under way, and the sessions that came of them.

begin(texts) ──> Run: known, joined, or new ──a thread──> Session, kept
                 at = (blocks done, of)                   the least recently used is let go when there are too many
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from glassformer.errors import DataError
from glassformer.explorer.describe import facts_of, session_id
from glassformer.inspect.session import Progress, Session
from glassformer.inspect.writing import Writing

if TYPE_CHECKING:
    from glassformer.model import Model

log = logging.getLogger(__name__)

BUDGET = 1 << 30
"""Bytes that all sessions kept may take together."""
MOST_KEPT = 8
MOST_WAITING = 16
PATIENCE = 10.0
"""Seconds that a pass which is stopped may take to the end of its block."""


class SessionGone(DataError):
    """A session that is not kept (any more); running its texts again makes it anew."""


class Stopped(DataError):
    """A pass that was stopped because nobody serves its session any more."""


class Run:
    """One pass over texts: under way, done, or failed."""

    def __init__(self, id: str, texts: tuple[str, ...], make: Callable[[Progress], Session]) -> None:
        self.id = id
        self.texts = texts
        self.make = make
        self.at = (0, 0)
        self.session: Session | None = None
        self.failure: Exception | None = None
        self._over = threading.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def end(self, session: Session | None, failure: Exception | None) -> None:
        self.session, self.failure = session, failure
        self._over.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Is it over, now or within so many seconds?"""
        return self._over.wait(seconds)

    def result(self) -> Session:
        """The session, waited for. Raises: what the pass raised."""
        self._over.wait()
        if self.failure is not None:
            raise self.failure
        assert self.session is not None
        return self.session


class Runs:
    """All passes of one model. Several threads may call at once; the passes themselves go one after another.

    Args:
        budget: bytes that sessions may take together; the one used last is kept in any case.
    """

    def __init__(self, model: Model, *, budget: int = BUDGET, most: int = MOST_KEPT) -> None:
        self.model = model
        self.facts = facts_of(model)
        self.budget, self.most = budget, most
        self._runs: OrderedDict[str, Run] = OrderedDict()  # the one used last is last
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._stopped = False

    def begin(self, texts: Sequence[str]) -> Run:
        """The run of these texts: one that is kept or under way, or a new one.

        Raises: DataError: too many are waiting. Stopped: after `stop`.
        """
        id = session_id(self.facts.revision, texts)
        return self._begin(id, texts, lambda progress: self.model.inspect(*texts, progress=progress))

    def attend(self, writing: Writing, node: int) -> Run:
        """The run of a prompt and what was written behind it, up to a node.

        Raises: DataError: there is no such node; as `begin`.
        """
        texts = writing.reading(node).texts
        said = [str(token) for token in writing.tree.tokens(node)]
        id = session_id(self.facts.revision, ["written", writing.prompt, *said])
        return self._begin(id, texts, lambda progress: writing.session(node, progress=progress))

    def _begin(self, id: str, texts: Sequence[str], make: Callable[[Progress], Session]) -> Run:
        with self._lock:
            if id in self._runs:
                self._runs.move_to_end(id)
                return self._runs[id]
            if sum(not run.over for run in self._runs.values()) >= MOST_WAITING:
                raise DataError(
                    f"{MOST_WAITING} texts are waiting for their pass; try again when one is done"
                )
            self._check_going()
            run = self._runs[id] = Run(id, tuple(texts), make)
            thread = threading.Thread(target=self._work, args=(run,), name=f"pass {id}", daemon=True)
            self._threads.add(thread)
            thread.start()
        return run

    def stop(self) -> None:
        """Stop passes under way at the end of their block, and wait for that: an interpreter that ends must not cut
        through the middle of a computation. Sessions stay with those who have them."""
        self._stopped = True
        for thread in list(self._threads):
            thread.join(PATIENCE)

    def get(self, id: str) -> Run:
        """A run that is done, by its id.

        Raises: SessionGone: it is not kept.
        """
        with self._lock:
            run = self._runs.get(id)
            if run is None or run.session is None:
                raise SessionGone("this session is not kept any more; run the text again")
            self._runs.move_to_end(id)
            self._let_go()
            return run

    def _work(self, run: Run) -> None:
        def progress(done: int, of: int) -> None:
            self._check_going()
            run.at = (done, of)

        session, failure = None, None
        with self._turn:
            try:
                self._check_going()
                session = run.make(progress)
            except Exception as error:  # whoever waits for the run gets it
                log.debug("the pass failed", exc_info=True)
                failure = error
        with self._lock:
            self._threads.discard(threading.current_thread())
            run.end(session, failure)
            if session is None:
                del self._runs[run.id]  # the next who asks tries anew
            else:
                self._runs.move_to_end(run.id)
                self._let_go()

    def _check_going(self) -> None:
        if self._stopped:
            raise Stopped("the pass was stopped: the program that began it has ended, or its look was closed")

    def _let_go(self) -> None:
        """Forget the sessions used least recently until the rest fits; passes under way stay."""
        done = [run for run in self._runs.values() if run.session is not None]
        while len(done) > 1 and (len(done) > self.most or sum(map(_nbytes, done)) > self.budget):
            del self._runs[done.pop(0).id]


def _nbytes(run: Run) -> int:
    assert run.session is not None
    return run.session.nbytes
