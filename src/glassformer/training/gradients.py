"""Gradient accumulation: the gradient of the mean loss of a step, in any number of micro-batches and processes.

counts           of labels, of all micro-batches and processes, known before the first micro-batch
each             micro-batch ─ network ─ Σ losses / count ─ backward       adds to the gradients
out of memory    the whole step again, in micro-batches of half the size; the batch stays what it is
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from glassformer.core.heads import Head
from glassformer.errors import ConfigError
from glassformer.models import Network
from glassformer.runs.options import TrainingOptions
from glassformer.tasks.microbatch import MicroBatch
from glassformer.training import randomness
from glassformer.training.batch_loader import BatchLoader
from glassformer.training.distributed import Distributed, TrainingModule
from glassformer.training.faults import is_out_of_memory
from glassformer.training.training_state import TrainingState

CPU_TOKENS, TOKENS = 2_048, 16_384
"""Default tokens of a micro-batch: on a CPU so few that activations stay in its caches."""


class Gradients:
    """Computes the gradients of steps.

    training_module: the network as training calls it · wrapped_module: the same, wrapped by DDP or FSDP
    """

    def __init__(
        self,
        network: Network,
        batch_loader: BatchLoader,
        options: TrainingOptions,
        distributed: Distributed,
        device: torch.device,
    ) -> None:
        self.network, self.batch_loader, self.options = network, batch_loader, options
        self.distributed, self.device = distributed, device
        self.training_module = TrainingModule(
            network, smoothing=options.label_smoothing, recompute=options.gradient_checkpointing
        )
        self.wrapped_module: nn.Module = distributed.wrap(self.training_module)
        self.scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "fp16")

    @property
    def head(self) -> Head:
        """Raises: ConfigError: there is none."""
        if self.network.head is None:
            raise ConfigError("this model has no head, so there is no loss; load it with a task")
        return self.network.head

    def of_step(self, state: TrainingState, log: Callable[..., None]) -> tuple[list[MicroBatch], float, int]:
        """Compute the gradients of a step, which are then in `parameter.grad`.

        Args: log: called with what happened, where micro-batches had to be halved
        Returns: this process's micro-batches, the mean loss, and the tokens, of all processes.
        Raises: ConfigError: out of memory with a single example.
        """
        rng_states = randomness.capture()
        while True:
            batches = self.batch_loader.micro_batches(
                state.epoch, state.position, self.micro_batch_tokens(state), self.micro_batch_size(state)
            )
            try:
                return batches, *self.accumulate(batches)
            except Exception as error:
                if not is_out_of_memory(error) or self.distributed.world_size > 1:
                    raise
                if all(len(batch.indices) <= 1 for batch in batches):
                    raise ConfigError(
                        f"out of memory with a single example of {max(batch.tokens for batch in batches)} tokens; try "
                        "gradient_checkpointing, precision bf16, or shorter texts"
                    ) from error
                reason = str(error).split("\n")[0]
            self.network.zero_grad(set_to_none=True)
            randomness.restore(rng_states)
            state.micro_batch_halvings += 1
            log("memory", step=state.step, pass_tokens=self.micro_batch_tokens(state), reason=reason)

    def accumulate(self, batches: list[MicroBatch]) -> tuple[float, int]:
        """Add up the gradients of micro-batches; the mean loss and the tokens, of all processes."""
        # All processes call their network equally often: collective operations inside it wait for all.
        rounds = self.distributed.all_reduce_max(len(batches))
        dummy = self.batch_loader.dummy_batch() if rounds > len(batches) else batches[0]
        names = list(self.head.label_counts(dummy.labels))
        counted = [{"tokens": batch.tokens, **self.head.label_counts(batch.labels)} for batch in batches]
        counts = self.distributed.all_reduce_sum(
            {name: sum(one[name] for one in counted) for name in ("tokens", *names)}
        )
        # DDP and FSDP take the mean over processes, hence the world size: what is wanted is the sum.
        weights = {name: self.distributed.world_size / max(counts[name], 1) for name in names}
        sums = {name: torch.zeros((), device=self.device) for name in names}
        for i in range(rounds):
            batch = batches[i] if i < len(batches) else dummy
            counts_at_all = float(i < len(batches))  # a dummy's loss is multiplied by 0
            with self.distributed.gradient_sync(self.wrapped_module, last=i == rounds - 1):
                with self.autocast(), self._saved_tensors():
                    losses = self.wrapped_module(batch.to(self.device))
                    loss = sum(x * (counts_at_all * weights[name]) for name, x in losses.items())
                self.scaler.scale(loss).backward()
            for name, x in losses.items():
                sums[name] = sums[name] + counts_at_all * x.detach()
        total = self.distributed.all_reduce_sum({name: float(x) for name, x in sums.items()})
        return sum(total[name] / max(counts[name], 1) for name in names), int(counts["tokens"])

    def clip_norm(self, optimizer: torch.optim.Optimizer) -> float:
        """Clip the gradient; its norm before that."""
        self.scaler.unscale_(optimizer)
        trained = [p for p in self.network.parameters() if p.grad is not None]
        total = nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None])
        norm = float(self.distributed.full_tensor(total))
        if norm > (self.options.clip or math.inf):  # else there is nothing to multiply
            nn.utils.clip_grads_with_norm_(trained, self.options.clip or math.inf, total)
        return norm

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Mixed precision: matrix products in the `precision` of the options."""
        narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.options.precision)
        with torch.autocast(self.device.type, dtype=narrow, enabled=narrow is not None):
            yield

    def micro_batch_tokens(self, state: TrainingState) -> int:
        """Maximum tokens of a micro-batch."""
        full = self.options.micro_batch_tokens or (CPU_TOKENS if self.device.type == "cpu" else TOKENS)
        return max(full >> state.micro_batch_halvings, 1)

    def micro_batch_size(self, state: TrainingState) -> int | None:
        """Maximum examples of a micro-batch; None = any number."""
        size = self.options.micro_batch_size
        return None if size is None else max(size >> state.micro_batch_halvings, 1)

    def _saved_tensors(self) -> AbstractContextManager[Any]:
        """Offload what the backward pass needs to the host's RAM, if the options say so."""
        return torch.autograd.graph.save_on_cpu() if self.options.offload else nullcontext()
