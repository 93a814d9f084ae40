"""Runs a program in the threads that torch has already: the calling one, and those of OpenMP that torch's products use.

As many as torch has, or the calling one alone, whichever has been faster lately: where other processes take the cores,
a team waits for members that the system does not let run. They are awake when they are needed, and none of ours fight
with them. Several Python threads may run programs at once, as they may call torch. A forked process works alone.
"""

from __future__ import annotations

import os
import time

import numpy as np
import torch

from glassformer.engine.native import Kernel
from glassformer.engine.program import restart

WORTH_HELP = 1 << 18
"""Bytes of weights from which on it pays to wake other threads."""

TRY_EVERY = 64
"""Runs after which a job tries whether a team, or the thread alone, has become the faster one.

It tries one that takes r times as long every 64 r runs, so that trying costs less than a run in 64, however busy others
keep the cores.
"""

_forked = False


class TeamJob:
    """A program's state, and scratch memory of this many fp32 numbers for each thread.

    nbytes: what a run reads; it may change from run to run
    """

    def __init__(self, state: np.ndarray, floats: int, nbytes: int) -> None:
        self.state, self.threads = state, max(1, torch.get_num_threads())
        scratch = np.empty((self.threads, floats + 16), np.float32)  # a cache line between two threads
        self._owned = scratch, np.array([state.ctypes.data, scratch.ctypes.data, scratch.strides[0], 0], np.int64)
        self.address = self._owned[1].ctypes.data
        self.nbytes = nbytes
        self._seconds = {True: 0.0, False: 0.0}  # a byte, in a team and alone, the latest runs weighing most
        self._runs, self._next_trial = 0, 2

    def run(self, kernel: Kernel) -> None:
        """Run the program from the beginning to the end."""
        restart(self.state)
        self._owned[1][3] = 0  # how many threads have begun
        threads = min(self.threads, torch.get_num_threads())
        if _forked or self.nbytes < WORTH_HELP or threads == 1:
            kernel(self.address, 1)
            return
        self._runs += 1
        team = self._seconds[True] <= self._seconds[False] or not self._seconds[False]
        trial = self._runs >= self._next_trial
        team = team != trial
        start = time.perf_counter()
        kernel(self.address, threads if team else 1)
        seconds, before = (time.perf_counter() - start) / self.nbytes, self._seconds[team]
        self._seconds[team] = seconds if trial or not before else 0.75 * before + 0.25 * seconds
        if trial:
            fast, slow = sorted(self._seconds.values())
            self._next_trial = self._runs + int(TRY_EVERY * slow / max(fast, 1e-18))


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
