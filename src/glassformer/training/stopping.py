"""Graceful shutdown on Ctrl-C (SIGINT) and SIGTERM: the first finishes the step and saves, the second stops at once.

with GracefulShutdown() as stop:
    while step < steps:
        train_step()
        if stop.requested:
            save()
            raise TrainingStopped("saved; the same command resumes")
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from glassformer.errors import GlassformerError

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: no failure; started again, the training resumes


class TrainingStopped(GlassformerError):
    """Training was stopped on request, and is saved; the exit code is 75."""

    exit_code = EXIT_CODE


class GracefulShutdown:
    """Context manager in which SIGINT and SIGTERM are requests to stop after the step.

    The second one stops at once, as it would a program that knows of no signals: SIGINT by a KeyboardInterrupt,
    SIGTERM by ending the program. A save it interrupts is as if it had not begun. Outside the main thread, where no
    signals arrive, nothing changes. On leaving, signals go where they went before.

    requested: the name of the signal, `SIGINT` or `SIGTERM`; "" = go on
    """

    def __init__(self) -> None:
        self.requested = ""
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is not None:  # None: set from outside Python, and not ours to give back
                    self._previous_handlers[number] = before
                    signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._previous_handlers:
            signal.signal(*self._previous_handlers.popitem())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.requested:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + number)
        self.requested = name
        # Straight to the screen: a buffer may be half written where the signal came in.
        os.write(2, f"\n{name}: stopping after this step; once more stops at once\n".encode())
