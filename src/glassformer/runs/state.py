"""State of a run: does it train, was it stopped, has it ended, as far as that is known without asking its process?

    the log has its end                                 ended
    the lock is held by a process that lives            running      "running, nothing written for over 10 min"
    the lock is free, or its process is gone            stopped
    neither is known, but lines were written lately     running
    neither is known                                    silent       "stopped? nothing written for over 5 min"

The lock is not known of a run on another machine, or of another program. Lines were written lately where the last is
not older than `MIN_SILENCE`, and not older than `INTERVALS` times what usually lies between two lines of that log.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.files.lock import holder_lives

LOCK = "lock"
"""In a run folder: held by the process that trains."""
MIN_SILENCE, INTERVALS = 120.0, 10
"""Seconds without a line that are usual in any run, such as while it validates; and intervals between lines."""
SILENCES = {
    120: "2 min", 180: "3 min", 300: "5 min", 600: "10 min", 1_800: "30 min", 3_600: "1 h", 7_200: "2 h",
    21_600: "6 h", 43_200: "12 h", 86_400: "1 day",
}  # fmt: skip
"""How long nothing was written, in steps: a page that says it need not be drawn again at each look."""


@dataclass(frozen=True)
class RunState:
    """The state of a run.

    name: ended, running, stopped, or silent
    silence: how long nothing was written, if that is long: "5 min"
    marks_end: whether logs of its program have an end, which those of TensorBoard have not
    """

    name: str
    silence: str = ""
    marks_end: bool = True

    def __str__(self) -> str:
        silent = f"nothing written for over {self.silence}"
        if self.name == "silent":
            return f"{'stopped?' if self.marks_end else 'ended?'} {silent}"
        return f"{self.name}, {silent}" if self.silence and self.name == "running" else self.name


def run_state(folder: Path, log: Path, ended: bool, times: np.ndarray, *, marks_end: bool = True) -> RunState:
    """The state of a run.

    Args:
        folder: of the run
        log: its log
        ended: whether the log has its end
        times: of the lines, in seconds since 1970; NaN = not known. [N]
        marks_end: whether logs of its program have an end
    """
    if ended:
        return RunState("ended", marks_end=marks_end)
    lives, seconds = holder_lives(folder / LOCK), silent_seconds(log)
    if lives is False:
        return RunState("stopped", marks_end=marks_end)
    known = times[np.isfinite(times)]
    usual = float(np.median(np.diff(known))) if len(known) > 2 else 0.0
    silence = shown_silence(seconds) if seconds > max(MIN_SILENCE, INTERVALS * usual) else ""
    return RunState("running" if lives or not silence else "silent", silence, marks_end)


def state_stamp(folder: Path, log: Path) -> str:
    """What a state depends on besides the log itself: another text where the state may be another."""
    seconds = silent_seconds(log)
    lives = holder_lives(folder / LOCK) if seconds < max(SILENCES) else None  # of an old run it is not read each time
    return f"{lives} {shown_silence(seconds)}"


def silent_seconds(log: Path) -> float:
    """Seconds since something was written to a log; infinite where that is not known."""
    with suppress(OSError):
        return max(0.0, time.time() - log.stat().st_mtime)
    return float("inf")


def shown_silence(seconds: float) -> str:
    """The longest of SILENCES that is over; "" = none."""
    return next((shown for limit, shown in reversed(SILENCES.items()) if seconds >= limit), "")
