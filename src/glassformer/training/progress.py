"""A line that lives while a model learns; where nobody watches a terminal, a plain line from time to time.

━━━━━━━━━━╸━━━━━  1,240/2,000  loss 0.412  best f1 0.912  3:12 left  epoch 1.24  lr 1.20e-05  3,420 tokens/s
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from glassformer.runs.charts import clock
from glassformer.runs.history import Smoothed
from glassformer.training.callbacks import Callback, Report, Training

SECONDS_A_LINE = 10.0
BAR, GAP = 16, "  "


class Progress(Callback):
    """Shows a training on standard error: how far it is, and what validations say as they come.

    Args:
        quiet: show nothing · file: where to instead · seconds: between two plain lines
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        file: TextIO | None = None,
        seconds: float = SECONDS_A_LINE,
    ) -> None:
        self.quiet = quiet
        self.file = file
        self.seconds = seconds

    def on_begin(self, trainer: Training) -> None:
        if self.quiet:
            return
        from rich.console import Console
        from rich.live import Live

        # soft_wrap: a plain line stays one line, however long it is.
        self._console = Console(file=self.file or sys.stderr, highlight=False, soft_wrap=True)
        self._loss, self._speed = Smoothed(), Smoothed()
        self._begun = self._said = time.perf_counter()
        self._first = trainer.state.step
        self._live = Live(console=self._console, transient=True) if self._console.is_terminal else None
        if self._live is not None:
            self._live.start()

    def on_step(self, trainer: Training, report: Report) -> None:
        if self.quiet:
            return
        facts = self._facts(trainer, report)
        if self._live is not None:
            self._live.update(self._line(report.step, trainer.steps, facts))
        elif (now := time.perf_counter()) - self._said >= self.seconds or report.step == trainer.steps:
            self._said = now
            self._say(f"step {GAP.join(facts)}")

    def on_validation(self, trainer: Training, figures: Mapping[str, float]) -> None:
        said = GAP.join(f"{name} {value:.4g}" for name, value in figures.items())
        self._say(f"step {trainer.state.step:,}{GAP}validation: {said}")

    def on_checkpoint(self, trainer: Training, folder: Path | None) -> None:
        if folder is not None:
            self._say(f"step {trainer.state.step:,}{GAP}saved in {folder}")

    def on_end(self, trainer: Training, result: Any) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.stop()
        done = trainer.state.step - self._first
        self._say(f"{done:,} steps in {clock(time.perf_counter() - self._begun)}")

    def _facts(self, trainer: Training, report: Report) -> list[str]:
        """What there is to say, the most important first: a narrow terminal shows what it has room for."""
        loss, speed = self._loss.add(report.loss), self._speed.add(report.tokens_per_s)
        seconds = (time.perf_counter() - self._begun) / max(report.step - self._first, 1)
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
        """A bar, and as many facts as have room beside it."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        room = self._console.width - BAR
        while len(facts) > 1 and sum(len(GAP) + len(fact) for fact in facts) > room:
            facts = facts[:-1]
        line = Table.grid(padding=(0, len(GAP)))
        line.add_row(ProgressBar(total=steps, completed=step, width=BAR), *facts)
        return line

    def _say(self, line: str) -> None:
        if not self.quiet:
            self._console.print(line, markup=False)
