"""A program of one instruction, for what is not part of a decoding step."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.engine.native import Kernel
from glassformer.engine.program import INSTRUCTION, state_of
from glassformer.engine.team import TeamJob


class Instruction:
    """One instruction, which any number of Python threads may run at once.

    Args:
        floats: scratch memory of each thread, in fp32 numbers
        fields: those of `INSTRUCTION` that are the same in every run.
    """

    def __init__(self, floats: int = 0, **fields: Any) -> None:
        self._floats, self._fields = floats, fields
        self._idle: list[tuple[np.ndarray, TeamJob]] = []  # programs that no thread runs

    def run(self, kernel: Kernel, *, nbytes: int, **fields: Any) -> None:
        """Run it.

        Args:
            nbytes: bytes that it reads
            fields: those of this run
        """
        instructions, job = self._idle.pop() if self._idle else self._program()
        op = instructions[0]
        for name, value in fields.items():
            op[name] = value
        job.nbytes = nbytes
        job.run(kernel)
        self._idle.append((instructions, job))

    def _program(self) -> tuple[np.ndarray, TeamJob]:
        instructions = np.zeros(1, INSTRUCTION)
        for name, value in self._fields.items():
            instructions[name] = value
        return instructions, TeamJob(state_of(instructions), self._floats, 0)
