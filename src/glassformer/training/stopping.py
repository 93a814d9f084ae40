"""Ctrl-C that loses nothing: the first finishes the step and saves, the second stops at once.

with Stopping() as stop:
    while step < steps:
        train_step()
        if stop.asked:
            save()
            raise stop.stopped(step, "glassformer train …")
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from glassformer.errors import GlassformerError

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: no failure; started again, it goes on


class Stopped(GlassformerError):
    """Training stopped because it was asked to, and what is done is saved; the exit code is 75."""

    exit_code = EXIT_CODE


class Stopping:
    """While it is entered, SIGINT and SIGTERM are requests to stop after the step.

    The second one stops at once, as it would a program that knows of no signals: SIGINT by a KeyboardInterrupt,
    SIGTERM by ending the program. A save it interrupts is as if it had not begun. Outside the main thread, where no
    signals arrive, nothing changes. On leaving, signals go where they went before.

    asked: the name of the signal, `SIGINT` or `SIGTERM`; "" = go on
    """

    def __init__(self) -> None:
        self.asked = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is not None:  # None: set from outside Python, and not ours to give back
                    self._before[number] = before
                    signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _hear(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.asked:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + number)
        self.asked = name
        # Straight to the screen: a buffer may be half written where the signal came in.
        os.write(2, f"\n{name}: stopping after this step; once more stops at once\n".encode())
