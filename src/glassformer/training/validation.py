"""The validation loop: the network over examples in eval mode, for metrics while it trains and for its outputs.

examples ─ every world-th of them ─ micro-batches ─ network ─ metric.update ─ all-reduce of its state ─ metric.compute
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from glassformer.core.flow import Output
from glassformer.tasks.base import Examples, Task
from glassformer.tasks.loop import WINDOW, first_batch, run_batches
from glassformer.tasks.microbatch import MicroBatch
from glassformer.training.faults import is_out_of_memory
from glassformer.training.gradients import Gradients


class ValidationLoop:
    """Runs the network in eval mode, each process over a share of the examples.

    Args:
        gradients: whose network is run, and in which precision · tokens: of a micro-batch at most; where memory does
            not suffice it is halved, apart from training's
    """

    def __init__(self, gradients: Gradients, task: Task, *, tokens: int) -> None:
        self.gradients, self.task, self.tokens = gradients, task, tokens
        self.module, self.distributed = gradients.training_module, gradients.distributed

    def metrics(self, examples: Examples) -> dict[str, float]:
        """The loss and the other scores of the task's metric, over all examples of all processes."""
        metric = self.task.metric()
        share = np.arange(len(examples))[self.distributed.rank :: self.distributed.world_size]
        for output, batch in self._run(examples, share):
            metric.update(output, batch)
        for name, x in metric.state.items():
            sums = {str(i): value for i, value in enumerate(x.flatten().tolist())}
            added = list(self.distributed.all_reduce_sum(sums).values())
            metric.state[name] = torch.tensor(added, dtype=x.dtype).view(x.shape)
        return metric.compute()

    def outputs(self, examples: Examples) -> Iterator[Any]:
        """What the head gives for each example, in their order, as the task reads it."""
        for start in range(0, len(examples), WINDOW):
            window = np.arange(start, min(start + WINDOW, len(examples)))
            outputs: dict[int, Any] = {}
            for output, batch in self._run(examples, window):
                outputs.update(zip(batch.indices, self.task.unbatch(output, batch), strict=True))
            yield from (outputs[int(i)] for i in window)

    def _run(self, examples: Examples, indices: np.ndarray) -> Iterator[tuple[Output, MicroBatch]]:
        def keep_in_step(batches: int) -> None:
            """Call the network as often as the other processes: collective operations inside it wait for all."""
            for _ in range(self.distributed.all_reduce_max(batches) - batches):
                self._call(first_batch(self.task, examples).to(self.gradients.device))

        was_training = self.module.training
        self.module.eval()
        try:
            yield from run_batches(
                self.task,
                examples,
                indices.tolist(),
                tokens=lambda: self.tokens,
                call=self._call,
                windows=self.distributed.all_reduce_max(-(-len(indices) // WINDOW)),
                on_window=keep_in_step,
                on_out_of_memory=self._halve,
            )
        finally:
            self.distributed.reshard(self.module)
            self.module.train(was_training)

    def _halve(self, error: Exception) -> int | None:
        """Half the tokens of a micro-batch, for an error that says that memory does not suffice.

        Several processes would have to agree on it, so they do not try.
        """
        if not is_out_of_memory(error) or self.distributed.world_size > 1:
            return None
        self.tokens = max(self.tokens // 2, 1)
        return self.tokens

    def _call(self, batch: MicroBatch) -> Output:
        with torch.no_grad(), self.gradients.autocast():
            output: Output = self.module(batch, with_loss=False)
            return output
