"""Progress bar of a training; without a terminal, a plain line from time to time.

━━━━━━━━━━╸━━━━━  1,240/2,000  loss 0.412  best f1 0.912  3:12 left  epoch 1.24  lr 1.20e-05  3,420 tokens/s
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from glassformer.runs.charts import clock
from glassformer.runs.history import ExponentialAverage
from glassformer.training.callbacks import Callback, StepReport, TrainerView

SECONDS_PER_LINE = 10.0
BAR, GAP = 16, "  "


class Progress(Callback):
    """Callback that shows progress and validation metrics on standard error.

    Args:
        quiet: show nothing · file: instead of standard error · seconds: between two plain lines
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        file: TextIO | None = None,
        seconds: float = SECONDS_PER_LINE,
    ) -> None:
        self.quiet = quiet
        self.file = file
        self.seconds = seconds

    def on_begin(self, trainer: TrainerView) -> None:
        if self.quiet:
            return
        from rich.console import Console
        from rich.live import Live

        # soft_wrap: a plain line stays one line, however long it is.
        self._console = Console(file=self.file or sys.stderr, highlight=False, soft_wrap=True)
        self._loss, self._speed = ExponentialAverage(), ExponentialAverage()
        self._start = self._last_line = time.perf_counter()
        self._first_step = trainer.state.step
        self._live = Live(console=self._console, transient=True) if self._console.is_terminal else None
        if self._live is not None:
            self._live.start()

    def on_step(self, trainer: TrainerView, report: StepReport) -> None:
        if self.quiet:
            return
        facts = self._facts(trainer, report)
        if self._live is not None:
            self._live.update(self._line(report.step, trainer.steps, facts))
        elif (now := time.perf_counter()) - self._last_line >= self.seconds or report.step == trainer.steps:
            self._last_line = now
            self._print(f"step {GAP.join(facts)}")

    def on_validation(self, trainer: TrainerView, metrics: Mapping[str, float]) -> None:
        values = GAP.join(f"{name} {value:.4g}" for name, value in metrics.items())
        self._print(f"step {trainer.state.step:,}{GAP}validation: {values}")

    def on_checkpoint(self, trainer: TrainerView, folder: Path | None) -> None:
        if folder is not None:
            self._print(f"step {trainer.state.step:,}{GAP}saved in {folder}")

    def on_end(self, trainer: TrainerView, result: Any) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.stop()
        done = trainer.state.step - self._first_step
        self._print(f"{done:,} steps in {clock(time.perf_counter() - self._start)}")

    def _facts(self, trainer: TrainerView, report: StepReport) -> list[str]:
        """What to show, the most important first: a narrow terminal shows what it has room for."""
        loss, speed = self._loss.add(report.loss), self._speed.add(report.tokens_per_s)
        seconds = (time.perf_counter() - self._start) / max(report.step - self._first_step, 1)
        best = trainer.state.best
        return [
            f"{report.step:,}/{trainer.steps:,}",
            f"loss {loss:.4g}",
            *([] if best is None else [f"best {trainer.metric} {best:.4g}"]),
            f"{clock(seconds * (trainer.steps - report.step))} left",
            f"epoch {report.epoch:.2f}",
            f"lr {report.lr:.2e}",
            f"{speed:,.0f} tokens/s",
        ]

    def _line(self, step: int, steps: int, facts: list[str]) -> Any:
        """A progress bar, and as many facts as have room beside it."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        room = self._console.width - BAR
        while len(facts) > 1 and sum(len(GAP) + len(fact) for fact in facts) > room:
            facts = facts[:-1]
        line = Table.grid(padding=(0, len(GAP)))
        line.add_row(ProgressBar(total=steps, completed=step, width=BAR), *facts)
        return line

    def _print(self, line: str) -> None:
        if not self.quiet:
            self._console.print(line, markup=False)
