"""Runs a program in the threads that torch has already: the calling one, and those of OpenMP that torch's products use.

As many as torch has. They are awake when they are needed, and no others fight with them for the cores. Several Python
threads may run programs at once, as they may call torch. A forked process has lost these threads, and works alone.
"""

from __future__ import annotations

import os

import numpy as np
import torch

from glassformer.engine.native import Kernel
from glassformer.engine.program import restart

WORTH_HELP = 1 << 18
"""Bytes of weights from which on it pays to wake other threads."""

_forked = False


class Job:
    """A program's state, and scratch memory of so many fp32 numbers for each thread."""

    def __init__(self, state: np.ndarray, floats: int, nbytes: int) -> None:
        self.state, self.threads = state, max(1, torch.get_num_threads())
        scratch = np.empty((self.threads, floats + 16), np.float32)  # a cache line between two threads
        self._kept = scratch, np.array([state.ctypes.data, scratch.ctypes.data, scratch.strides[0], 0], np.int64)
        self.address = self._kept[1].ctypes.data
        self.nbytes = nbytes

    def run(self, kernel: Kernel) -> None:
        """Run the program from the beginning to the end."""
        restart(self.state)
        self._kept[1][3] = 0  # how many threads have begun
        alone = _forked or self.nbytes < WORTH_HELP
        kernel(self.address, 1 if alone else min(self.threads, torch.get_num_threads()))


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
