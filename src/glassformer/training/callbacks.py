"""Training callbacks and graceful shutdown: the progress bar, trackers and early pruning listen to a training here.

    begin ── step ── step ── validation ── checkpoint ── step ── … ── end

A callback sees the trainer and may read all of it. An error that one raises ends the training, as one of the loop
would: what must not end it (a tracker without a network) catches its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from glassformer.errors import GlassformerError
from glassformer.files import counted
from glassformer.reports.table import clock, number, scores
from glassformer.runs.folder import ExponentialAverage

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report of one training step.

    epoch: how far through the data, 1.5 = half of the second epoch
    loss: of the step, before it was applied
    grad_norm: before clipping
    tokens: of the step, padding left out
    tokens_per_s: of the step
    """

    step: int
    epoch: float
    loss: float
    lr: float
    grad_norm: float
    tokens: int
    tokens_per_s: float


class Callback:
    """Base class of training callbacks; each method does nothing until a subclass overrides it.

    class StopClock(Callback):
        def on_step(self, trainer, report):
            print(report.step, report.tokens_per_s)
    """

    def on_begin(self, trainer: Trainer) -> None:
        """Before the first step, also of a resumed run: `trainer.state.step` steps are done."""

    def on_step(self, trainer: Trainer, report: StepReport) -> None:
        """After a step was applied."""

    def on_validation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        """After a validation, with its metrics by name."""

    def on_checkpoint(self, trainer: Trainer, folder: Path | None) -> None:
        """After a checkpoint was saved; its folder, where the run has one."""

    def on_end(self, trainer: Trainer, result: Any) -> None:
        """At the end; `result` is None where the training was interrupted or failed."""


EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: no failure; started again, the training resumes


class TrainingStopped(GlassformerError):
    """Training was stopped on request, and is saved; the exit code is 75."""

    exit_code = EXIT_CODE


class GracefulShutdown:
    """Graceful shutdown: a context manager in which SIGINT and SIGTERM are requests to stop after the step.

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
        clear = "\r\x1b[2K" if os.isatty(2) else "\n"  # the line of a progress bar
        os.write(2, f"{clear}{name}: stopping after this step; once more stops at once\n".encode())


SECONDS_PER_LINE = 10.0  # between two lines where the output is no terminal, such as a log file
BAR, GAP = 16, "  "


class Progress(Callback):
    """Callback that shows progress and validation metrics on standard error; without a terminal, a line now and then.

    ━━━━━━━━━━╸━━━━━  1,240/2,000  loss 0.412  best f1 0.912  3:12 left  epoch 1.24  lr 1.2e-5  3,420 tokens/s

    Args:
        quiet: show nothing
        file: instead of standard error
        seconds: between two plain lines
    """

    def __init__(self, *, quiet: bool = False, file: TextIO | None = None, seconds: float = SECONDS_PER_LINE) -> None:
        self.quiet = quiet
        self.file = file
        self.seconds = seconds

    def on_begin(self, trainer: Trainer) -> None:
        if self.quiet:
            return
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=self.file or sys.stderr, highlight=False)
        self._console.soft_wrap = not self._console.is_terminal  # a line of a log stays one, however long it is
        self._loss, self._speed = ExponentialAverage(), ExponentialAverage()
        self._start = self._last_line = time.perf_counter()
        self._first_step = trainer.state.step
        self._live = Live(console=self._console, transient=True) if self._console.is_terminal else None
        if self._live is not None:
            self._live.start()

    def on_step(self, trainer: Trainer, report: StepReport) -> None:
        if self.quiet:
            return
        facts = self._facts(trainer, report)
        if self._live is not None:
            self._live.update(self._line(report.step, trainer.steps, facts))
        elif (now := time.perf_counter()) - self._last_line >= self.seconds or report.step == trainer.steps:
            self._last_line = now
            self._print(f"step {GAP.join(facts)}")

    def on_validation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        self._print(f"step {trainer.state.step:,}{GAP}validation: {GAP.join(scores(metrics, trainer.metric))}")

    def on_checkpoint(self, trainer: Trainer, folder: Path | None) -> None:
        if folder is not None:
            self._print(f"step {trainer.state.step:,}{GAP}saved in {folder}")

    def on_end(self, trainer: Trainer, result: Any) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.stop()
        done = trainer.state.step - self._first_step
        self._print(
            f"{counted(done, 'step')} in {clock(time.perf_counter() - self._start)}, validations and saves included"
        )

    def _facts(self, trainer: Trainer, report: StepReport) -> list[str]:
        """What to show, the most important first: a narrow terminal shows what it has room for."""
        loss, speed = self._loss.add(report.loss), self._speed.add(report.tokens_per_s)
        seconds = (time.perf_counter() - self._start) / max(report.step - self._first_step, 1)
        best = trainer.state.best
        return [
            f"{report.step:,}/{trainer.steps:,}",
            f"loss {number(loss)}",
            *([] if best is None else [f"best {trainer.metric} {number(best)}"]),
            f"{clock(seconds * (trainer.steps - report.step))} left",
            f"epoch {report.epoch:.2f}",
            f"lr {number(report.lr)}",
            f"{speed:,.0f} tokens/s",
        ]

    def _line(self, step: int, steps: int, facts: list[str]) -> Any:
        """A progress bar, and as many facts as have room next to it."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        room = self._console.width - BAR
        while len(facts) > 1 and sum(len(GAP) + len(fact) for fact in facts) > room:
            facts = facts[:-1]
        line = Table.grid(padding=(0, len(GAP)))
        line.add_row(ProgressBar(total=steps, completed=step, width=BAR), *facts)
        return line

    def _print(self, line: str) -> None:
        """Print a line, with the control characters that names of folders and metrics may hold escaped."""
        if not self.quiet:
            plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
            self._console.print(plain, markup=False)
