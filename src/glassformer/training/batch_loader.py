"""Batch sampler and batch loader: which examples make which step, and their micro-batches, prefetched in a thread.

    batch_size=3     | c a f | d b g | e |          batch_tokens=10   | c a | f d b | g e |

    step              s  ░░░░ network ░░░░ | s+1  ░░░░ network ░░░░ |
    micro-batches of  s+1 ▓▓               | s+2 ▓▓                 |

The order is that of `data/order.py`. What a step reads follows from (epoch, position) alone, on any number of
processes: a run is resumed by these two numbers, and what was prefetched may be thrown away without harm.
"""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from glassformer.data.order import ShuffledOrder, example_generator
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.microbatch import micro_batches
from glassformer.tasks.types import Examples, MicroBatch

EPOCHS = 3
"""Default of fine-tuning, as in BERT's paper (2 to 4)."""
LEAST_STEPS = 100
"""Of a training of default length: 100 rows in 3 epochs are 12 steps, in which a new head learns nothing.

Source: Mosbach et al. 2021, "On the stability of fine-tuning BERT", section 6: small data need many more epochs.
"""
PAUSES = 10
"""Validations and checkpoints of a training that was lengthened so: its epochs are too short for one each."""


class BatchSampler:
    """Batch sampler: which examples make each step of a run.

    epochs: how many the training has
    epochs_per_pause: after how many it is validated and saved by default

    Args:
        lengths: tokens of each example. [N]
    Raises: DataError: there is no example.
    """

    def __init__(self, options: TrainingOptions, lengths: np.ndarray) -> None:
        self.options = options
        self.lengths = np.asarray(lengths)
        self.order = ShuffledOrder(len(lengths), seed=options.seed, shuffled=options.shuffle)
        self._cached_starts: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))
        self.epochs, self.epochs_per_pause = options.epochs or EPOCHS, 1
        if options.epochs is None and options.steps is None:
            self.epochs = max(EPOCHS, -(-LEAST_STEPS // self.steps_per_epoch(0)))
            self.epochs_per_pause = -(-self.epochs // PAUSES)

    def steps_per_epoch(self, epoch: int) -> int:
        """Number of steps of an epoch."""
        if self.options.batch_tokens is None:
            return -(-self.order.count // self.options.batch_size)
        return len(self._starts(epoch)) - 1

    def total_steps(self) -> int:
        """Number of steps of the run."""
        if self.options.steps is not None:
            return self.options.steps
        full_epochs = math.floor(self.epochs)
        count = sum(self.steps_per_epoch(epoch) for epoch in range(full_epochs))
        fraction = self.epochs - full_epochs
        # Rounded first: 1.1 - 1 is a little more than 0.1, and would make a step too many.
        partial = round(fraction * self.steps_per_epoch(full_epochs), 6) if fraction else 0
        return max(count + math.ceil(partial), 1)

    def batch_indices(self, epoch: int, position: int) -> np.ndarray:
        """Indices of the examples of one step, by its epoch and its position in it. [n] int64"""
        if self.options.batch_tokens is None:
            start = position * self.options.batch_size
            return self.order.at(epoch, range(start, min(start + self.options.batch_size, self.order.count)))
        starts = self._starts(epoch)
        return self.order.at(epoch, range(starts[position], starts[position + 1]))

    def _starts(self, epoch: int) -> np.ndarray:
        """Where the steps of an epoch begin, and end: each as full as `batch_tokens` allows; cached for an epoch."""
        cached = self._cached_starts  # read once: the thread that loads ahead may replace it meanwhile
        if cached[0] != epoch:
            budget = self.options.batch_tokens or 0
            ends = np.cumsum(self.lengths[self.order.at(epoch, range(self.order.count))])
            starts, filled = [0], 0
            while starts[-1] < len(ends):
                fits = int(np.searchsorted(ends, filled + budget, side="right"))
                # An example that is longer than the budget is a step of its own.
                starts.append(max(fits, starts[-1] + 1))
                filled = int(ends[starts[-1] - 1])
            self._cached_starts = cached = (epoch, np.asarray(starts, dtype=np.int64))
        return cached[1]


class BatchLoader:
    """Loads one process's share of each batch, as micro-batches.

    Args:
        share: (rank, world size): every world-size-th example of a batch is this process's
    """

    def __init__(self, task: Task, examples: Examples, batch_sampler: BatchSampler, share: tuple[int, int]) -> None:
        self.task = task
        self.examples = examples
        self.batch_sampler = batch_sampler
        self.rank, self.world_size = share
        self._executor: ThreadPoolExecutor | None = None
        self._prefetched: tuple[tuple[int, ...], Future[list[MicroBatch]]] | None = None

    def micro_batches(self, epoch: int, position: int, tokens: int, size: int | None) -> list[MicroBatch]:
        """This process's micro-batches of one step; an empty list where the batch has fewer examples than processes.

        Args:
            position: of the step in its epoch
            tokens, size: at most this many tokens and examples a micro-batch
        """
        key, ahead = (epoch, position, tokens, size or 0), self._prefetched
        # After a rollback, or with smaller micro-batches, what was loaded ahead is not what is wanted.
        loaded = ahead[1].result() if ahead is not None and ahead[0] == key else self._load(*key)
        ends = position + 1 == self.batch_sampler.steps_per_epoch(epoch)
        following = (*((epoch + 1, 0) if ends else (epoch, position + 1)), tokens, size or 0)
        self._executor = self._executor or ThreadPoolExecutor(1, thread_name_prefix="batch-loader")
        self._prefetched = (following, self._executor.submit(self._load, *following))
        return loaded

    def close(self) -> None:
        """Stop prefetching, until the next call of `micro_batches`."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._prefetched = None

    def _load(self, epoch: int, position: int, tokens: int, size: int) -> list[MicroBatch]:
        chosen = self.batch_sampler.batch_indices(epoch, position)[self.rank :: self.world_size]
        seed = self.batch_sampler.options.seed
        shown = []
        for index in chosen.tolist():
            draw = example_generator(seed, epoch, index)
            shown.append(self.task.augment(self.task.perturb(self.examples[index], draw), draw))
        return micro_batches(self.task, shown, chosen.tolist(), tokens, size or None)
