"""A team of threads that run a program together: the calling thread, and helpers that sleep between programs.

As many as torch has. A thread only ever waits for a chunk that another is computing, never for a thread that the
system does not let run: so a busy neighbour costs little, and a program ends whoever computes it. Several Python
threads may run programs at once: one has the helpers, the others work alone. A forked process starts its own helpers.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import numpy as np
import torch

from glassformer.engine.native import Kernel
from glassformer.engine.program import WAITING, restart

NAP = 2e-5
"""Seconds that a thread sleeps when it has waited for others in vain, so that these get its core."""

WORTH_HELP = 1 << 19
"""Bytes of weights from which on it pays to wake helpers."""


class Job:
    """A program with its state, and scratch memory for each thread."""

    def __init__(self, state: np.ndarray, scratch: np.ndarray, nbytes: int) -> None:
        self.state, self.scratch, self.nbytes = state, scratch, nbytes


class Team:
    """Helpers, and which job they have."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.job: tuple[Kernel, Job] | None = None
        self._alarms: list[threading.Lock] = []  # a released one wakes its helper

    def wake(self, count: int) -> None:
        """Wake so many helpers; start those that do not exist yet."""
        while len(self._alarms) < count:
            alarm = threading.Lock()
            self._alarms.append(alarm)
            arguments = (alarm, len(self._alarms))
            threading.Thread(target=self._help, args=arguments, name="glassformer-helper", daemon=True).start()
        for alarm in self._alarms[:count]:
            with suppress(RuntimeError):  # it is awake
                alarm.release()

    def _help(self, alarm: threading.Lock, number: int) -> None:
        while True:
            alarm.acquire()
            if self.job is not None:
                kernel, job = self.job
                if number < len(job.scratch):
                    _work(kernel, job, number)
                del job


_team = Team()


def _work(kernel: Kernel, job: Job, number: int) -> None:
    state, scratch = job.state.ctypes.data, job.scratch[number].ctypes.data
    while kernel(state, scratch) == WAITING:
        time.sleep(NAP)


def run(kernel: Kernel, job: Job) -> None:
    """Run a job's program from the beginning to the end."""
    team = _team
    restart(job.state)
    helpers = min(torch.get_num_threads(), len(job.scratch)) - 1 if job.nbytes >= WORTH_HELP else 0
    if helpers <= 0 or not team.busy.acquire(blocking=False):
        _work(kernel, job, 0)
        return
    try:
        team.job = kernel, job
        team.wake(helpers)
        _work(kernel, job, 0)
    except BaseException:  # Ctrl-C: helpers must not write to memory that is given back
        _work(kernel, job, 0)
        raise
    finally:
        team.busy.release()


def _forked() -> None:
    global _team
    _team = Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
