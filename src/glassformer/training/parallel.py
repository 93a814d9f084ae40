"""Who trains: one process, or several that `torchrun` started, which act as one.

    alone      step = its passes                                     gradient
    together   step = rank 0's passes + rank 1's passes + …          the same gradient: their sum
               copies: each holds the network whole (DDP) · shards: each holds a part of every tensor (FSDP)

Every number that decides anything (counts of labels, losses, norms, stop signals) is added up over all, so that all
decide alike. What is saved is whole tensors, so a run goes on with another number of processes.

Source: Li et al. 2020, "PyTorch Distributed"; Zhao et al. 2023, "PyTorch FSDP".
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.models import Network
from glassformer.tasks.microbatch import Pass

if TYPE_CHECKING:
    from glassformer.model import Model


class Learner(nn.Module):
    """A network as training calls it: from a pass to the sums of its losses, or to what it says.

    Whatever shares the work between processes hooks into this one call.
    """

    def __init__(self, network: Network, *, smoothing: float = 0.0, recompute: bool = False) -> None:
        super().__init__()
        self.network = network
        self.smoothing = smoothing
        self.recompute = recompute

    def forward(self, item: Pass, learn: bool = True) -> dict[str, Tensor] | Output:
        if not learn:
            said: Output = self.network(item.batch, item.flow)
            return said
        flow = replace(item.flow, recompute=self.recompute)
        return self.network.learn(item.batch, flow, item.labels, smoothing=self.smoothing)


class Crew:
    """One process alone; what several do together is below."""

    rank: int = 0
    world: int = 1

    @property
    def main(self) -> bool:
        """Is this the process that writes?"""
        return self.rank == 0

    def wrapped(self, learner: Learner) -> nn.Module:
        """The learner whose gradients are everybody's."""
        return learner

    @contextmanager
    def accumulating(self, learner: nn.Module, last: bool) -> Iterator[None]:
        """A pass whose gradients need not be shared yet, unless it is the last of its step."""
        yield

    def settle(self, learner: nn.Module) -> None:
        """After a call without a way back: parameters are again those that the optimiser knows."""

    def added(self, values: Mapping[str, float]) -> dict[str, float]:
        """Numbers, each added up over all processes."""
        return dict(values)

    def most(self, value: int) -> int:
        """The largest of all processes' numbers."""
        return value

    def each(self, tensor: Tensor) -> list[Tensor]:
        """One tensor of each process, of one shape."""
        return [tensor]

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor of which each process may hold a part, as a whole on the CPU; all must ask for it."""
        return tensor.detach().cpu()

    def part(self, whole: Tensor, like: Tensor) -> Tensor:
        """What this process holds of a whole tensor that belongs to `like`: a parameter, or a count beside one."""
        return whole

    def seed(self, seed: int, step: int = 0) -> int:
        """A seed of this process's own, so that two do not drop the same neurons."""
        return (seed + 1_000_003 * self.rank + step) % 2**32

    def published(self, model: Model) -> Model:
        """The model with whole tensors, as it is saved; all must ask for it."""
        return model

    def leave(self) -> None:
        """Nobody needs the others any more."""


class Copies(Crew):
    """Several processes, each with the whole network: gradients are added up while the backward pass goes on."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrapped(self, learner: Learner) -> nn.Module:
        # A pass may leave experts without tokens, and a recipe's pooler without a use.
        return nn.parallel.DistributedDataParallel(learner, find_unused_parameters=True)

    @contextmanager
    def accumulating(self, learner: nn.Module, last: bool) -> Iterator[None]:
        if last:
            yield
        else:
            with cast(nn.parallel.DistributedDataParallel, learner).no_sync():
                yield

    def added(self, values: Mapping[str, float]) -> dict[str, float]:
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def most(self, value: int) -> int:
        found = torch.tensor([value], dtype=torch.int64, device=self.device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found.item())

    def each(self, tensor: Tensor) -> list[Tensor]:
        sent = tensor.to(self.device)
        found = [torch.empty_like(sent) for _ in range(self.world)]
        dist.all_gather(found, sent)
        return [x.to(tensor.device) for x in found]

    def leave(self) -> None:
        dist.barrier()  # nobody goes while another still waits for it
        # The group's own threads free Python objects, for which they need the interpreter. Who frees the group holds
        # the interpreter and waits for those threads: let them come to rest first.
        time.sleep(0.2)
        dist.destroy_process_group()


class Shards(Copies):
    """Several processes, each with a part of every tensor: a block is whole only while it is computed."""

    def wrapped(self, learner: Learner) -> nn.Module:
        from torch.distributed.fsdp import fully_shard

        for module in learner.modules():
            if isinstance(module, Stack):
                for block in module:
                    fully_shard(block)
        fully_shard(learner)
        return learner

    @contextmanager
    def accumulating(self, learner: nn.Module, last: bool) -> Iterator[None]:
        cast(Any, learner).set_requires_gradient_sync(last)
        yield

    def settle(self, learner: nn.Module) -> None:
        from torch.distributed.fsdp import FSDPModule

        for module in learner.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def whole(self, tensor: Tensor) -> Tensor:
        return (
            cast(Any, tensor).full_tensor().detach().cpu()
            if hasattr(tensor, "full_tensor")
            else super().whole(tensor)
        )

    def part(self, whole: Tensor, like: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(like, DTensor) or whole.shape != like.shape:
            return whole
        return distribute_tensor(whole.to(self.device), like.device_mesh, like.placements)

    def published(self, model: Model) -> Model:
        twin = type(model).from_config(
            model.config, task=model.task, tokenizer=model._tokenizer, device="meta"
        )
        for name, x in model.network.named_parameters(remove_duplicate=False):
            stem, _, leaf = name.rpartition(".")
            setattr(twin.network.get_submodule(stem), leaf, nn.Parameter(self.whole(x), requires_grad=False))
        return twin


def gather_crew(device: torch.device, *, sharded: bool = False) -> tuple[Crew, torch.device]:
    """Meet the other processes, if `torchrun` started several; and the device of this one.

    Raises: ConfigError: shards of a single process; a device that is not this process's own.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        if sharded:
            raise ConfigError(
                "sharded training needs several processes: torchrun --nproc-per-node 2 -m glassformer train …"
            )
        return Crew(), device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    return (Shards if sharded else Copies)(device), device
