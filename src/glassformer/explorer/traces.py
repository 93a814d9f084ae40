"""Store of generation traces: text that the model generates for the page, streamed step by step from threads.

begin(prompt, options) ──> StoredTrace ── write(…) ──a thread──> TraceJob: lines {"step"} … {"ready"}
                           branch: write(after, tokens, …) on the same token tree
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError
from glassformer.explorer import views
from glassformer.explorer.http import status_and_message
from glassformer.explorer.session_runs import Job, Jobs, SessionGone
from glassformer.generation.options import NEW_TOKENS, GenerationOptions
from glassformer.generation.served_options import check_served, limits, served
from glassformer.inspect.generation_trace import GenerationTrace, TraceResult
from glassformer.inspect.token_tree import TreeStep
from glassformer.inspect.trace_recorder import StopTrace
from glassformer.reports.report import plain

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene

MAX_STORED = 8
"""Generations that the back button reaches; each holds the probabilities of all its steps."""
MAX_RUNNING = 4  # generations at a time: they share one processor
DEFAULT_NEW_TOKENS = limits()["max_new_tokens"].default or NEW_TOKENS
"""`max_new_tokens` unless the request gives another, or the model has fewer positions left."""
MAX_PROMPT_TOKENS = 16_384
"""Tokens of a prompt: the time of one layer, after which a job can be stopped, grows with their square."""


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Validate generation options of a request, and fill in the explorer's default length.

    Raises: ConfigError: an unknown option, or one above its limit.
    """
    check_served(options)
    return {"max_new_tokens": DEFAULT_NEW_TOKENS, **options}


class TraceJob(Job[dict[str, Any]]):
    """One running call of `GenerationTrace.write`, and the queue of JSON lines that it produces.

    write: generates, calls its argument at each decoding step, and returns a summary of the result
    """

    def __init__(self, write: Callable[[Callable[[TreeStep], None]], dict[str, Any]]) -> None:
        super().__init__()
        self._write = write
        self._lines: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def work(self) -> dict[str, Any]:
        return self._write(self.on_step)

    def take(self) -> list[dict[str, Any]]:
        """Take all lines queued since the last call."""
        new_lines = []
        with suppress(Empty):
            while True:
                new_lines.append(self._lines.get_nowait())
        return new_lines

    def on_step(self, step: TreeStep) -> None:
        """Callback of each decoding step, in the thread that generates."""
        self._lines.put({"step": plain(step)})
        self.check_stopped()

    def check_stopped(self) -> None:
        """Raises: StopTrace: the job was told to stop."""
        if self.stopped:
            raise StopTrace

    def queue_last_line(self) -> None:
        """Queue the result, or the error."""
        failure = self.failure
        self._lines.put({"ready": self.value} if failure is None else {"error": status_and_message(failure)[1]})


@dataclass(eq=False)
class StoredTrace:
    """A generation trace, its options, and the jobs that generate in it now."""

    id: str
    trace: GenerationTrace
    options: GenerationOptions
    running: set[TraceJob] = field(default_factory=set)
    result: TraceResult | None = None

    def location(self, node: int) -> dict[str, Any]:
        """Position of the generated tokens in a session over the path to a node."""
        return {
            "w": self.id,
            "node": node,
            "stream": self.trace.stream,
            "prefix_length": len(self.trace.prefix),
        }

    @property
    def description(self) -> dict[str, Any]:
        """The trace as JSON, before its first decoding step."""
        trace, options = self.trace, asdict(self.options)
        return {
            "id": self.id,
            "prompt": trace.prompt,
            "options": {name: options[name] for name in served() if options[name] is not None},
            "stream": trace.stream,
            "prefix_length": len(trace.prefix),
            "prefix": [asdict(token) for token in trace.prefix],
            "vocabulary": trace.vocabulary,
            "max_tokens": trace.max_tokens,
        }


def result_summary(trace: GenerationTrace, result: TraceResult) -> dict[str, Any]:
    """The result of a job as JSON: returned texts, finished beams, seconds."""
    best = {answer.node for answer in result.answers}
    return {
        "answers": [asdict(answer) for answer in result.answers],
        "ended": [{**asdict(location), "returned": location.node in best} for location in result.ended],
        "seconds": result.seconds,
        "count": len(trace.nodes),
    }


class TraceStore:
    """Least-recently-used store of the generation traces of one model. Thread-safe.

    Args:
        make: makes the trace of a prompt
        max_stored: traces kept; one that is being generated is never evicted
    """

    def __init__(self, make: Callable[[str], GenerationTrace], *, max_stored: int = MAX_STORED) -> None:
        self.make = make
        self.max_stored = max_stored
        self._stored: OrderedDict[str, StoredTrace] = OrderedDict()  # least recently used first
        self._opening: tuple[str, dict[str, Any], StoredTrace, TraceJob] | None = None
        self._lock = threading.Lock()
        self._jobs = Jobs()

    def write_opening(self, prompt: str, options: Mapping[str, Any]) -> StoredTrace:
        """Generate the text that a page opens with, before the page asks for it; waits for its end.

        Raises: as `begin`.
        """
        stored = self.begin(prompt, options)
        job = self.write(stored)
        job.result()
        self._opening = prompt, dict(options), stored, job
        return stored

    def begin_writing(self, prompt: str, options: Mapping[str, Any]) -> tuple[StoredTrace, TraceJob]:
        """Start generation in a new trace; the first request for the text that a page opens with gets that one.

        Raises: as `begin` and `write`.
        """
        with self._lock:
            opening = self._opening
            if opening is not None and opening[:2] == (prompt, options) and opening[2].id in self._stored:
                self._opening = None
                return opening[2:]
        stored = self.begin(prompt, options)
        return stored, self.write(stored)

    def begin(self, prompt: str, options: Mapping[str, Any]) -> StoredTrace:
        """Add a new trace with only its prompt.

        Raises: DataError: the prompt is empty or too long. ConfigError: as `check_options`, and as `generate`.
            UnsupportedError: the model cannot generate text.
        """
        trace = self.make(prompt)
        if len(trace.prefix) > MAX_PROMPT_TOKENS:
            raise DataError(
                f"the prompt has {len(trace.prefix):,} tokens; the generation view takes at most "
                f"{MAX_PROMPT_TOKENS:,}: shorten it, or call model.generate, which takes any"
            )
        chosen = check_options(options)
        if "max_new_tokens" not in options and trace.max_tokens is not None:  # by default, as many as have room
            room = trace.max_tokens - len(trace.prefix) + 1  # the last token is not read
            chosen["max_new_tokens"] = max(1, min(DEFAULT_NEW_TOKENS, room))
        stored = StoredTrace(secrets.token_hex(8), trace, trace.resolve_options(**chosen))
        with self._lock:
            self._stored[stored.id] = stored
            idle = [entry for entry in self._stored.values() if not entry.running and entry is not stored]
            for entry in idle[: max(0, len(self._stored) - self.max_stored)]:
                del self._stored[entry.id]
        return stored

    def get(self, id: str) -> StoredTrace:
        """A stored trace by its id.

        Raises: SessionGone: it was evicted, or never existed.
        """
        with self._lock:
            if id not in self._stored:
                raise SessionGone("this generated text was evicted from memory; generate it again")
            self._stored.move_to_end(id)
            return self._stored[id]

    def write(
        self,
        stored: StoredTrace,
        options: GenerationOptions | None = None,
        *,
        after: int = 0,
        tokens: Sequence[int] = (),
    ) -> TraceJob:
        """Generate into a trace, from a thread of its own.

        Args:
            after, tokens: the node to branch from, and the tokens forced there
            others: as in `GenerationTrace.write`
        Raises: DataError: too many jobs are running.
        """

        def write_trace(on_step: Callable[[TreeStep], None]) -> dict[str, Any]:
            chosen = options or stored.options
            with stored.trace.before_each_block(job.check_stopped):
                stored.result = stored.trace.write(chosen, after=after, tokens=tokens, on_step=on_step)
            return result_summary(stored.trace, stored.result)

        def at_end() -> None:
            with self._lock:
                stored.running.discard(job)
            job.queue_last_line()

        job = TraceJob(write_trace)
        with self._lock:
            if sum(len(entry.running) for entry in self._stored.values()) >= MAX_RUNNING:
                raise DataError(f"{MAX_RUNNING} texts are being generated; stop one, or wait until one is done")
            stored.running.add(job)
            self._jobs.start(job, at_end)
        return job

    def stop(self, id: str) -> bool:
        """Stop the jobs of a trace; were there any?"""
        jobs = list(self.get(id).running)
        for job in jobs:
            job.stop()
        return bool(jobs)

    def close(self) -> None:
        """Stop all jobs and wait for their threads."""
        self._jobs.close()


def distribution(scene: Scene, *, w: str, node: int, count: int | None) -> bytes:
    """The next-token distribution at a node of a trace."""
    return views.distribution(scene.traces.get(w).trace, w=w, node=node, count=count)
