"""Which examples make which step: a function of the options, the seed and the examples' lengths, and of nothing else.

    batch_size=3     | c a f | d b g | e |          batch_tokens=10   | c a | f d b | g e |

The order is `data/order.py`'s; the last step of an epoch takes what is left. So a run is resumed by two numbers, its
epoch and its place in it, on any number of processes.
"""

from __future__ import annotations

import math

import numpy as np

from glassformer.data.order import Order
from glassformer.runs.options import Options


class Plan:
    """The steps of a run.

    Args:
        lengths: tokens of each example. [N]
    Raises: DataError: there is no example.
    """

    def __init__(self, options: Options, lengths: np.ndarray) -> None:
        self.options = options
        self.lengths = np.asarray(lengths)
        self.order = Order(len(lengths), seed=options.seed, shuffled=options.shuffle)
        self._of: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def steps(self, epoch: int) -> int:
        """How many steps an epoch has."""
        if self.options.batch_tokens is None:
            return -(-self.order.count // self.options.batch_size)
        return len(self._starts(epoch)) - 1

    def total(self) -> int:
        """How many steps the run has."""
        if self.options.steps is not None:
            return self.options.steps
        whole = math.floor(self.options.epochs)
        count = sum(self.steps(epoch) for epoch in range(whole))
        part = self.options.epochs - whole
        return max(count + (math.ceil(part * self.steps(whole)) if part else 0), 1)

    def examples(self, epoch: int, place: int) -> np.ndarray:
        """The examples of one step. [n] int64"""
        if self.options.batch_tokens is None:
            start = place * self.options.batch_size
            return self.order.at(epoch, range(start, min(start + self.options.batch_size, self.order.count)))
        starts = self._starts(epoch)
        return self.order.at(epoch, range(starts[place], starts[place + 1]))

    def _starts(self, epoch: int) -> np.ndarray:
        """Where the steps of an epoch begin, and its end: each as full as its budget allows; kept for one epoch."""
        kept = self._of  # once: the thread that makes steps ahead asks for the next epoch meanwhile
        if kept[0] != epoch:
            budget = self.options.batch_tokens or 0
            ends = np.cumsum(self.lengths[self.order.at(epoch, range(self.order.count))])
            starts, filled = [0], 0
            while starts[-1] < len(ends):
                fits = int(np.searchsorted(ends, filled + budget, side="right"))
                starts.append(max(fits, starts[-1] + 1))  # one that is longer than a step is a step
                filled = int(ends[starts[-1] - 1])
            self._of = kept = (epoch, np.asarray(starts, dtype=np.int64))
        return kept[1]
