"""Batch loader: the micro-batches of each step, prefetched in a thread while the step before it is computed.

    step              s  ░░░░ network ░░░░ | s+1  ░░░░ network ░░░░ |
    micro-batches of  s+1 ▓▓               | s+2 ▓▓                 |

What a step reads follows from (epoch, position) alone, so what was prefetched may be thrown away without harm.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from glassformer.data.order import example_generator
from glassformer.tasks.base import Examples, Task
from glassformer.tasks.loop import first_batch, micro_batches
from glassformer.tasks.microbatch import MicroBatch
from glassformer.training.batch_sampler import BatchSampler


class BatchLoader:
    """Loads one process's share of each batch, as micro-batches.

    Args:
        share: (rank, world size): every world-size-th example of a batch is this process's
    """

    def __init__(
        self, task: Task, examples: Examples, batch_sampler: BatchSampler, share: tuple[int, int]
    ) -> None:
        self.task = task
        self.examples = examples
        self.batch_sampler = batch_sampler
        self.rank, self.world_size = share
        self._executor: ThreadPoolExecutor | None = None
        self._prefetched: tuple[tuple[int, ...], Future[list[MicroBatch]]] | None = None

    def micro_batches(self, epoch: int, position: int, tokens: int, size: int | None) -> list[MicroBatch]:
        """This process's micro-batches of one step; an empty list where the batch has fewer examples than processes.

        Args:
            position: of the step in its epoch · tokens, size: at most so many tokens and examples a micro-batch
        """
        key = (epoch, position, tokens, size or 0)
        loaded = (
            self._prefetched[1].result()
            if self._prefetched is not None and self._prefetched[0] == key
            else self._load(*key)
        )
        after = (
            (epoch, position + 1)
            if position + 1 < self.batch_sampler.steps_per_epoch(epoch)
            else (epoch + 1, 0)
        )
        following = (*after, tokens, size or 0)
        self._executor = self._executor or ThreadPoolExecutor(1, thread_name_prefix="batch-loader")
        self._prefetched = (following, self._executor.submit(self._load, *following))
        return loaded

    def dummy_batch(self) -> MicroBatch:
        """A micro-batch for a process without a share, which must call the network as often as the others."""
        return first_batch(self.task, self.examples)

    def close(self) -> None:
        """Stop prefetching, until the next call of `micro_batches`."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._prefetched = None

    def _load(self, epoch: int, position: int, tokens: int, size: int) -> list[MicroBatch]:
        chosen = self.batch_sampler.batch_indices(epoch, position)[self.rank :: self.world_size]
        seed = self.batch_sampler.options.seed
        augmented = [
            self.task.augment(self.examples[int(i)], example_generator(seed, epoch, int(i))) for i in chosen
        ]
        return micro_batches(self.task, augmented, chosen.tolist(), tokens, size or None)
