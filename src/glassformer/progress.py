"""Progress bars on standard error, which disappear when they are done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    what: str, total: int | None, *, shown: bool | None = None, delay: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """A progress bar; the function it gives is called with how many more are done.

    Args:
        total: None = not known beforehand; then only a count is shown
        shown: None = where standard error is a terminal · delay: seconds until it appears, for what is mostly fast
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
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
