"""Distributed training: one process, or several that `torchrun` started, by data parallelism (DDP) or sharding (FSDP).

    alone      step = its micro-batches                                      gradient
    together   step = rank 0's micro-batches + rank 1's + …                  the same gradient: their sum
               DDP: each holds the whole network · FSDP: each holds a shard of every tensor

Every number that decides anything (counts of labels, losses, norms, stop signals) is added up over all, so that all
decide the same way. What is saved is whole tensors, so a run can be resumed with another number of processes.

Source: Li et al. 2020, "PyTorch Distributed"; Zhao et al. 2023, "PyTorch FSDP".
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.models import Network
from glassformer.tasks.types import MicroBatch
from glassformer.training.callbacks import TrainingStopped


class TrainingModule(nn.Module):
    """A network as training calls it: from a micro-batch to the sums of its losses, or to its output.

    DDP and FSDP hook into this one call.

    Args:
        head: a task's own, without weights, which reads the final states; None = the network's
    """

    def __init__(
        self, network: Network, head: Head | None = None, *, smoothing: float = 0.0, recompute: bool = False
    ) -> None:
        super().__init__()
        self.network, self.head = network, head
        self.smoothing = smoothing
        self.recompute = recompute

    def forward(
        self, batch: MicroBatch, with_loss: bool = True, smoothing: float | None = None
    ) -> dict[str, Tensor] | Output:
        flow = replace(batch.flow, recompute=self.recompute)
        smoothing = self.smoothing if smoothing is None else smoothing
        if self.head is not None:
            x = self.network.states(batch.batch, flow)
            return self.head.loss_sums(x, flow, batch.labels, smoothing=smoothing) if with_loss else self.head(x, flow)
        if not with_loss:
            output: Output = self.network(batch.batch, batch.flow)
            return output
        return self.network.loss_sums(batch.batch, flow, batch.labels, smoothing=smoothing)


class Distributed:
    """A single process; subclasses override what several processes do together."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the main process (rank 0), which alone writes files."""
        return self.rank == 0

    def wrap(self, module: TrainingModule) -> nn.Module:
        """Wrap the module for the backward pass: gradients are then those of all processes."""
        return module

    @contextmanager
    def gradient_sync(self, module: nn.Module, last: bool) -> Iterator[None]:
        """Synchronize gradients in the backward pass of the last micro-batch of a step only."""
        yield

    def reshard(self, module: nn.Module) -> None:
        """After a forward pass without a backward pass: drop the gathered parameters, keep the shards."""

    def all_reduce_sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """Each number summed over all processes."""
        return dict(values)

    def all_reduce_max(self, value: int) -> int:
        """The maximum over all processes."""
        return value

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, in the order of their ranks; all of one shape."""
        return [tensor]

    def all_gather_rows(self, rows: Sequence[Sequence[float] | np.ndarray]) -> list[Sequence[float] | np.ndarray]:
        """The rows of numbers of all processes, of which each may have another number; all rows are of one length.

        Numbers stay what they are in 64 bits: some are keys of 48 bits.
        """
        width, most = self.all_reduce_max(max(map(len, rows), default=0)), self.all_reduce_max(len(rows))
        padded = torch.zeros(most, 1 + width, dtype=torch.float64)  # the first column marks rows that are there
        for row, values in zip(padded, rows, strict=False):
            row[0], row[1:] = 1.0, torch.as_tensor(values, dtype=torch.float64)
        return [row[1:].numpy() for part in self.all_gather(padded) for row in part if row[0]]

    def full_tensor(self, tensor: Tensor) -> Tensor:
        """A tensor that may be sharded, whole and on the CPU; a collective call."""
        return tensor.detach().cpu()

    def shard_like(self, tensor: Tensor, like: Tensor) -> Tensor:
        """This process's shard of a whole tensor, sharded as `like` is: a parameter, or the optimizer state of one."""
        return tensor

    def process_seed(self, seed: int, step: int = 0) -> int:
        """A random seed of this process alone, so that no two processes drop the same neurons."""
        # A prime above any usual number of steps, so that no process draws what another does some steps later.
        return (seed + 1_000_003 * self.rank + step) % 2**32

    def full_model(self, model: Model) -> Model:
        """The model with whole tensors, to be saved; a collective call."""
        return model

    @contextmanager
    def lost_processes(self) -> Iterator[None]:
        """Say what to do where the block waits for a process that has ended. Raises: TrainingStopped: it has."""
        yield

    def close(self) -> None:
        """Leave the process group."""


class DDP(Distributed):
    """Distributed data parallelism: each process holds the whole network, and gradients are all-reduced."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world_size, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrap(self, module: TrainingModule) -> nn.Module:
        # A micro-batch may leave experts without tokens, and the pooler of a family without a use.
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)

    @contextmanager
    def gradient_sync(self, module: nn.Module, last: bool) -> Iterator[None]:
        if last:
            yield
        else:
            with cast(nn.parallel.DistributedDataParallel, module).no_sync():
                yield

    def all_reduce_sum(self, values: Mapping[str, float]) -> dict[str, float]:
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def all_reduce_max(self, value: int) -> int:
        maximum = torch.tensor([value], dtype=torch.int64, device=self.device)
        dist.all_reduce(maximum, op=dist.ReduceOp.MAX)
        return int(maximum.item())

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        sent = tensor.to(self.device)
        gathered = [torch.empty_like(sent) for _ in range(self.world_size)]
        dist.all_gather(gathered, sent)
        return [x.to(tensor.device) for x in gathered]

    @contextmanager
    def lost_processes(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # Gloo's have no class of their own
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            raise TrainingStopped(
                f"process {self.rank} of {self.world_size} stops, since another one has ended or does not answer; see "
                "what that one printed, then start all of them again: the same command resumes from the last checkpoint"
            ) from error

    def close(self) -> None:
        dist.barrier()  # no process leaves while another still waits for it
        # A deadlock otherwise: the threads of the group need the interpreter lock to free Python objects, while
        # destroying the group holds that lock and waits for these threads. So let them finish first.
        time.sleep(1.0)
        dist.destroy_process_group()


class FSDP(DDP):
    """Fully sharded data parallelism: each process holds a shard of every tensor; a block is gathered when it runs."""

    def wrap(self, module: TrainingModule) -> nn.Module:
        from torch.distributed.fsdp import fully_shard

        for part in module.modules():
            if isinstance(part, Stack):
                # Blocks that share parameters are gathered together, since a tensor belongs to one group.
                groups = [list(part)] if part.spec.shared else [[block] for block in part]
                for group in groups:
                    fully_shard(cast(Any, group))
        fully_shard(module)
        return module

    @contextmanager
    def gradient_sync(self, module: nn.Module, last: bool) -> Iterator[None]:
        cast(Any, module).set_requires_gradient_sync(last)
        yield

    def reshard(self, module: nn.Module) -> None:
        from torch.distributed.fsdp import FSDPModule

        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.reshard()

    def full_tensor(self, tensor: Tensor) -> Tensor:
        return (
            cast(Any, tensor).full_tensor().detach().cpu()
            if hasattr(tensor, "full_tensor")
            else super().full_tensor(tensor)
        )

    def shard_like(self, tensor: Tensor, like: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(like, DTensor) or tensor.shape != like.shape:
            return tensor
        return distribute_tensor(tensor.to(self.device), like.device_mesh, like.placements)

    def full_model(self, model: Model) -> Model:
        copy = type(model).from_config(model.config, task=model.task, tokenizer=model._tokenizer, device="meta")
        for name, x in model.network.named_parameters(remove_duplicate=False):
            stem, _, leaf = name.rpartition(".")
            setattr(copy.network.get_submodule(stem), leaf, nn.Parameter(self.full_tensor(x), requires_grad=False))
        return copy


def init_distributed(device: torch.device, *, sharded: bool = False) -> tuple[Distributed, torch.device]:
    """Join the process group, if `torchrun` started several processes; and the device of this one.

    Args:
        sharded: FSDP instead of DDP
    Raises: ConfigError: sharded training in a single process.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        if sharded:
            raise ConfigError(
                "sharded training needs several processes: torchrun --nproc-per-node 2 -m glassformer train …"
            )
        return Distributed(), device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # The others wait minutes while the main process saves a large model on a slow disk.
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    return (FSDP if sharded else DDP)(device), device
