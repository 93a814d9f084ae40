"""Batch sampler: which examples make which step, from the options, the seed and the examples' lengths alone.

    batch_size=3     | c a f | d b g | e |          batch_tokens=10   | c a | f d b | g e |

The order is that of `data/order.py`; the last step of an epoch takes what is left. So a run is resumed by two numbers,
its epoch and its position in it, on any number of processes.
"""

from __future__ import annotations

import math

import numpy as np

from glassformer.data.order import ShuffledOrder
from glassformer.runs.options import TrainingOptions


class BatchSampler:
    """The batches of a run.

    Args:
        lengths: tokens of each example. [N]
    Raises: DataError: there is no example.
    """

    def __init__(self, options: TrainingOptions, lengths: np.ndarray) -> None:
        self.options = options
        self.lengths = np.asarray(lengths)
        self.order = ShuffledOrder(len(lengths), seed=options.seed, shuffled=options.shuffle)
        self._cached_starts: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def steps_per_epoch(self, epoch: int) -> int:
        """Number of steps of an epoch."""
        if self.options.batch_tokens is None:
            return -(-self.order.count // self.options.batch_size)
        return len(self._starts(epoch)) - 1

    def total_steps(self) -> int:
        """Number of steps of the run."""
        if self.options.steps is not None:
            return self.options.steps
        full_epochs = math.floor(self.options.epochs)
        count = sum(self.steps_per_epoch(epoch) for epoch in range(full_epochs))
        fraction = self.options.epochs - full_epochs
        return max(count + (math.ceil(fraction * self.steps_per_epoch(full_epochs)) if fraction else 0), 1)

    def batch_indices(self, epoch: int, position: int) -> np.ndarray:
        """Indices of the examples of one step, by its epoch and its position in it. [n] int64"""
        if self.options.batch_tokens is None:
            start = position * self.options.batch_size
            return self.order.at(epoch, range(start, min(start + self.options.batch_size, self.order.count)))
        starts = self._starts(epoch)
        return self.order.at(epoch, range(starts[position], starts[position + 1]))

    def _starts(self, epoch: int) -> np.ndarray:
        """Where the steps of an epoch begin, and end: each as full as `batch_tokens` allows; cached for an epoch."""
        cached = (
            self._cached_starts
        )  # once: the thread that makes steps ahead asks for the next epoch meanwhile
        if cached[0] != epoch:
            budget = self.options.batch_tokens or 0
            ends = np.cumsum(self.lengths[self.order.at(epoch, range(self.order.count))])
            starts, filled = [0], 0
            while starts[-1] < len(ends):
                fits = int(np.searchsorted(ends, filled + budget, side="right"))
                starts.append(
                    max(fits, starts[-1] + 1)
                )  # an example longer than the budget is a step of its own
                filled = int(ends[starts[-1] - 1])
            self._cached_starts = cached = (epoch, np.asarray(starts, dtype=np.int64))
        return cached[1]
