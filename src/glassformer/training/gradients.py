"""The gradient of a step: of the mean loss over all its labels, in however many passes and processes.

counts   of labels, of all passes and processes, known before the first pass
each     pass ─ network ─ Σ losses / count ─ backward       adds to the gradients
no room  once more, all over again, in passes of half the size; the batch stays what it is
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
from glassformer.runs.options import Options
from glassformer.tasks.microbatch import Pass
from glassformer.training import randomness
from glassformer.training.faults import is_out_of_memory
from glassformer.training.feed import Feed
from glassformer.training.parallel import Crew, Learner
from glassformer.training.snapshot import State

CPU_TOKENS, TOKENS = 2_048, 16_384
"""Tokens a pass where nobody says: on a CPU so few that they stay in its caches."""


class Gradients:
    """Makes gradients of steps.

    learner: the network as training calls it · wrapped: the same, its gradients shared between processes
    """

    def __init__(
        self, network: Network, feed: Feed, options: Options, crew: Crew, device: torch.device
    ) -> None:
        self.network, self.feed, self.options = network, feed, options
        self.crew, self.device = crew, device
        self.learner = Learner(
            network, smoothing=options.label_smoothing, recompute=options.gradient_checkpointing
        )
        self.wrapped: nn.Module = crew.wrapped(self.learner)
        self.scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "fp16")

    @property
    def head(self) -> Head:
        """Raises: ConfigError: there is none."""
        if self.network.head is None:
            raise ConfigError("this model has no head, so there is nothing to learn; load it with a task")
        return self.network.head

    def of(self, state: State, told: Callable[..., None]) -> tuple[list[Pass], float, int]:
        """The step's passes, its mean loss, and its tokens; the gradients are then with the parameters.

        Raises: ConfigError: there is no memory for a single example.
        """
        drawn = randomness.capture()
        while True:
            items = self.feed.passes(state.epoch, state.place, self.tokens(state), self.size(state))
            try:
                return items, *self.added_up(items)
            except Exception as error:
                if not is_out_of_memory(error) or self.crew.world > 1:
                    raise
                if all(len(item.indices) <= 1 for item in items):
                    raise ConfigError(
                        f"there is no memory for a single example of {max(item.tokens for item in items)} tokens; try "
                        "gradient_checkpointing, precision bf16, or shorter texts"
                    ) from error
                reason = str(error).split("\n")[0]
            self.network.zero_grad(set_to_none=True)
            randomness.restore(drawn)
            state.narrowed += 1
            told("memory", step=state.step, pass_tokens=self.tokens(state), reason=reason)

    def added_up(self, items: list[Pass]) -> tuple[float, int]:
        """The mean loss of some passes and their tokens, with those of all processes."""
        rounds = self.crew.most(len(items))  # all processes call their network equally often
        idle = self.feed.idle() if rounds > len(items) else items[0]
        names = list(self.head.counts(idle.labels))
        counted = [{"tokens": item.tokens, **self.head.counts(item.labels)} for item in items]
        counts = self.crew.added({name: sum(one[name] for one in counted) for name in ("tokens", *names)})
        weights = {name: self.crew.world / max(counts[name], 1) for name in names}
        sums = {name: torch.zeros((), device=self.device) for name in names}
        for i in range(rounds):
            item = items[i] if i < len(items) else idle
            real = float(i < len(items))
            with self.crew.accumulating(self.wrapped, last=i == rounds - 1):
                with self.precise(), self._kept():
                    found = self.wrapped(item.to(self.device))
                    loss = sum(x * (real * weights[name]) for name, x in found.items())
                self.scaler.scale(loss).backward()
            for name, x in found.items():
                sums[name] = sums[name] + real * x.detach()
        total = self.crew.added({name: float(x) for name, x in sums.items()})
        return sum(total[name] / max(counts[name], 1) for name in names), int(counts["tokens"])

    def clipped(self, optimizer: torch.optim.Optimizer) -> float:
        """The norm of the whole gradient, before it is clipped."""
        self.scaler.unscale_(optimizer)
        found = [p for p in self.network.parameters() if p.grad is not None]
        total = nn.utils.get_total_norm([p.grad for p in found if p.grad is not None])
        norm = float(self.crew.whole(total))
        if norm > (self.options.clip or math.inf):  # else there is nothing to multiply
            nn.utils.clip_grads_with_norm_(found, self.options.clip or math.inf, total)
        return norm

    @contextmanager
    def precise(self) -> Iterator[None]:
        """Products in the precision that was asked for."""
        narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.options.precision)
        with torch.autocast(self.device.type, dtype=narrow, enabled=narrow is not None):
            yield

    def tokens(self, state: State) -> int:
        """How many tokens a pass may hold."""
        whole = self.options.micro_batch_tokens or (CPU_TOKENS if self.device.type == "cpu" else TOKENS)
        return max(whole >> state.narrowed, 1)

    def size(self, state: State) -> int | None:
        """How many examples a pass may hold."""
        size = self.options.micro_batch_size
        return None if size is None else max(size >> state.narrowed, 1)

    def _kept(self) -> AbstractContextManager[Any]:
        """Where what the backward pass needs is kept."""
        return torch.autograd.graph.save_on_cpu() if self.options.offload else nullcontext()
