"""Progress bars and spinners on standard error, which disappear when they are done."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

T = TypeVar("T")
Bar = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""Around work: its name, and how much of it there is; the function it gives is called with how much more is done."""
enabled = True
"""False turns all of them off (`hf.logging.disable_progress_bar`)."""
log_seconds: float | None = None
"""Seconds between lines of progress where standard error is no terminal; None = no lines. The command line sets it."""


@contextmanager
def hidden(hide: bool = True) -> Iterator[None]:
    """Show no progress bars, spinners and lines of progress meanwhile."""
    global enabled
    before = enabled
    enabled = enabled and not hide
    try:
        yield
    finally:
        enabled = before


def no_bar(what: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """A `Bar` that shows nothing."""
    return nullcontext(lambda done: None)


@contextmanager
def progress_bar(
    what: str, total: int | None, *, shown: bool | None = None, delay: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """A progress bar; the function it gives is called with how many more are done.

    Args:
        total: None = not known beforehand; then only a count is shown
        shown: None = where standard error is a terminal, of the first process; elsewhere lines now and then, see
            `log_seconds`
        delay: seconds until it appears, for what is mostly fast
    """
    if not enabled or not (_is_terminal() if shown is None else shown):
        yield _logged(what, total) if enabled and shown is None else lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Only what goes to the terminal is printed above the bar: output that goes to a file or a pipe stays there.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    task, start = bar.add_task(what, total=total), time.monotonic()

    def advance(done: int) -> None:
        if not bar.live.is_started and time.monotonic() - start >= delay:
            bar.start()
        bar.advance(task, done)

    try:
        advance(0)
        yield advance
    finally:
        if bar.live.is_started:  # stopping a bar that never started would print an empty line
            bar.stop()


def _logged(what: str, total: int | None) -> Callable[[int], None]:
    """The same as lines of a log."""
    log, done = log_lines(what), 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        log(done, total)

    return advance


def log_lines(what: str) -> Callable[[int, int | None], None]:
    """A function that prints a line about how many of how many are done, at most every `log_seconds`."""
    if log_seconds is None or not is_first_process():
        return lambda done, total: None
    interval, last = log_seconds, time.monotonic()

    def log(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= interval:
            last = time.monotonic()
            print(f"{what}: {done:,}" + (f" of {total:,}" if total else ""), file=sys.stderr, flush=True)

    return log


def with_bar(
    items: Iterable[T], what: str, total: int | None = None, *, shown: bool | None = None, delay: float = 0.0
) -> Iterator[T]:
    """The same items, and a progress bar that counts those that are done."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress_bar(what, total, shown=shown, delay=delay) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def spinner(what: str, *, shown: bool | None = None, delay: float = 0.5, logged: float | None = None) -> Iterator[None]:
    """A spinner for work that cannot be counted, such as loading a model.

    Args:
        shown: None = where standard error is a terminal, of the first process
        delay: seconds until it appears
        logged: seconds until a line says the same where it is not shown, for logs; None = never
    """
    if _is_terminal() if shown is None else shown:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(stderr=True)
        live = Live(Spinner("dots", f"{what} …"), console=console, transient=True, redirect_stdout=sys.stdout.isatty())
        begin, end, wait = live.start, live.stop, delay
    elif logged is not None and is_first_process():
        begin, end, wait = partial(print, f"{what} …", file=sys.stderr, flush=True), lambda: None, logged
    else:
        yield
        return
    # A thread of its own, because the work does not come back before it is done.
    timer = threading.Timer(wait, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be starting just now
        end()


def is_first_process() -> bool:
    """Whether this process is the one that speaks, of several that train together."""
    return os.environ.get("RANK", "0") == "0"


def _is_terminal() -> bool:
    return sys.stderr.isatty() and is_first_process()
