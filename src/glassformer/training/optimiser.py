"""Optimizers, parameter groups (weight decay, learning rates by depth), and learning rate schedules.

    parameter of                                                      decays    learning rate
    matrix of a linear layer or convolution                           yes       the stack's
    bias · norm · embedding, also as a head's matrix · lone vector    no        the stack's
    new head                                                          as above  its own, if one is given
    block l of L, from below                                          as above  times decay^(L - l), if one is given

Names decide nothing: GPT-2 calls its norms `ln_1`, T5 calls them `layer_norm`, and both are norms.

Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization"; which weights decay: Radford et al. 2018,
section 4.1 ("all non bias or gain weights"), here without embeddings; rates by depth: Howard and Ruder 2018,
section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr

ENDLESS = ("constant", "inverse-sqrt", "noam")
SCHEDULES = ("constant", "linear", "cosine", "inverse-sqrt", "noam")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Learning rate schedule: `schedule(step)`, the factor of the learning rate at an update, counted from 1.

        1 ┤      ╱‾‾╲__                 a function of the step alone, so resuming needs no state
          │    ╱       ‾‾╲__
        0 ┼──╱───────────────‾──>
          0    warmup       steps + 1

        constant        1
        linear          1 - t                           t = (step - 1 - warmup) / (steps - warmup), from 0 to below 1
        cosine          (1 + cos πt) / 2
        inverse-sqrt    √(warmup / step)
        noam            D^-0.5 · min(step^-0.5, step · warmup^-1.5)     an absolute rate: the learning rate is its scale

    With a floor, factor = floor + (1 - floor) · (as above). All but `noam`, whose formula has it, begin with
    step / warmup, so that no update has rate 0: neither the first one, nor the last one of a schedule that falls to 0.

    name: one of `SCHEDULES`
    steps: how many updates there will be; the endless ones need none
    warmup: updates of rising rates, or below 1 the share of all steps that they take
    floor: what it falls to, a share of the learning rate; noam has none
    width: D, for noam
    Raises: ConfigError: numbers that do not fit.
    Source: noam, from whose formula inverse-sqrt is the shape: Vaswani et al. 2017, section 5.3; cosine: Loshchilov and
        Hutter 2017, section 3; warm-up: Goyal et al. 2017, section 2.2.
    Differs: the reference library's warm-up counts the updates that are done, so its first one has rate 0.
    """

    name: str = "linear"
    steps: int | None = None
    warmup: float = 0
    floor: float = 0.0
    width: int | None = None

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise ConfigError(
                f"schedule is {safe_repr(self.name)}; allowed: {', '.join(SCHEDULES)}"
                f"{nearest(str(self.name), SCHEDULES)}"
            )
        if self.steps is None and (self.name not in ENDLESS or 0 < self.warmup < 1):
            what = "a warm-up that is a share" if self.name in ENDLESS else f"the schedule {self.name!r}"
            raise ConfigError(f"{what} needs to know how many steps there will be: give steps")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"steps is {self.steps}; at least 1 is needed")
        if self.warmup < 0 or (self.warmup >= 1 and self.warmup != int(self.warmup)):
            raise ConfigError(f"warmup is {self.warmup}; give a whole number of steps, or a share below 1")
        if self.name in ("linear", "cosine") and self.steps is not None and self.warmup_steps > self.steps:
            what = f"warmup is {self.warmup:g}, longer than the {self.steps} steps of the run"
            raise ConfigError(f"{what}; give fewer, or a share below 1")
        if self.name in ("inverse-sqrt", "noam") and self.warmup_steps < 1:
            raise ConfigError(f"the schedule {self.name!r} falls from the end of its warm-up on: give warmup")
        if not 0 <= self.floor <= (0 if self.name == "noam" else 1):
            raise ConfigError(f"floor is {self.floor}; it is a share of the learning rate, from 0 to 1; noam has none")
        if self.name == "noam" and (self.width is None or self.width < 1):
            raise ConfigError("the schedule 'noam' needs width, the model's D")

    @property
    def warmup_steps(self) -> int:
        """Number of warm-up steps."""
        return round(self.warmup * (self.steps or 0)) if self.warmup < 1 else int(self.warmup)

    def __call__(self, step: int) -> float:
        if step < 0:
            raise ConfigError(f"step is {step}; updates count from 1")
        if self.name == "noam":
            return float((self.width or 1) ** -0.5 * min(max(step, 1) ** -0.5, step * self.warmup_steps**-1.5))
        if step < self.warmup_steps:
            return step / self.warmup_steps
        return self.floor + (1 - self.floor) * DECAY[self.name](self, step)


def _progress(schedule: Schedule, step: int) -> float:
    """The share of the updates after warm-up that are done before this one."""
    assert schedule.steps is not None
    done = max(0, step - 1 - schedule.warmup_steps)
    return min(1.0, done / max(1, schedule.steps - schedule.warmup_steps))


DECAY: dict[str, Callable[[Schedule, int], float]] = {
    "constant": lambda schedule, step: 1.0,
    "linear": lambda schedule, step: 1 - _progress(schedule, step),
    "cosine": lambda schedule, step: (1 + math.cos(math.pi * _progress(schedule, step))) / 2,
    "inverse-sqrt": lambda schedule, step: math.sqrt(schedule.warmup_steps / step),
}
"""The factor from the end of warm-up on, before the floor."""


DECAYED = (nn.Linear, nn.Conv1d, nn.Conv2d)
"""Modules whose weight matrices decay."""

OPTIMISERS = ("adamw", "adafactor")

FUSED = ("cpu", "cuda")
"""Devices with a fused AdamW: one kernel over each parameter a step."""


def decays(network: nn.Module) -> dict[str, bool]:
    """Whether weight decay applies, by the name of each trained parameter; a shared one is listed once.

    A matrix that is an embedding too counts as an embedding.
    """
    owners: dict[int, set[bool]] = {}
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            matrix = isinstance(module, DECAYED) and name == "weight"
            owners.setdefault(id(parameter), set()).add(matrix)
    return {
        name: owners[id(parameter)] == {True}
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
    }


def depths(network: nn.Module) -> dict[str, int]:
    """Depth of each parameter below the top: 1 for the last block, 2 for the one before it, and so on.

    What a module has before its stack of blocks, such as embeddings, is one below the first of them; the rest is at 0.
    """
    depth: dict[str, int] = {}
    for path, stack in network.named_modules():
        if not isinstance(stack, Stack):
            continue
        owner = f"{path.rpartition('.')[0]}.".lstrip(".")
        for name, _ in network.named_parameters():
            inside = name.startswith(f"{path}.")
            block = name.removeprefix(f"{path}.").split(".")[0]
            if inside and block.isdigit():
                depth[name] = len(stack) - int(block)
            elif name.startswith(owner) and name not in depth:
                depth[name] = 1 + len(stack)
            if inside:
                owner = f"{path}."  # what comes now is not before the blocks
    return {name: depth.get(name, 0) for name, _ in network.named_parameters()}


def parameter_groups(
    network: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.01,
    head_learning_rate: float | None = None,
    layer_decay: float = 1.0,
    own_rates: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups by weight decay and learning rate, as torch's optimizers take them.

    Args:
        learning_rate: at the peak of the schedule
        weight_decay: how much of a matrix is taken off it each step, times the learning rate
        head_learning_rate: another one for the head, where it is new and the rest is not
        layer_decay: the share of the learning rate that is left with each block below the last
        own_rates: parameters with a learning rate of their own, by name
    Returns: groups with `params`, `names`, `weight_decay`, `lr`, and `peak`, which `lr` is set from by `set_rate`.
    Raises: ConfigError: a number that makes no sense, or nothing to train.
    """
    for name, value in (("learning_rate", learning_rate), ("head_learning_rate", head_learning_rate)):
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name} is {value}; it must be a number above 0")
    if not 0 <= weight_decay < float("inf"):
        raise ConfigError(f"weight_decay is {weight_decay}; it must be a number from 0 up")
    if not 0 < layer_decay <= 1:
        raise ConfigError(f"layer_decay is {layer_decay}; it must be above 0 and at most 1, which is none")
    below, parameters = depths(network), dict(network.named_parameters())
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, decayed in decays(network).items():
        own = head_learning_rate if name.startswith("head.") else None
        rate = (own_rates or {}).get(name) or (own or learning_rate) * layer_decay ** below[name]
        decay = weight_decay if decayed else 0.0
        empty = {"params": [], "names": [], "weight_decay": decay, "lr": rate, "peak": rate}
        group = groups.setdefault((decay, rate), empty)
        group["params"].append(parameters[name])
        group["names"].append(name)
    if not groups:
        raise ConfigError("no parameter of the model requires a gradient, so there is nothing to train")
    return list(groups.values())


def make_optimiser(
    network: nn.Module,
    name: str = "adamw",
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    **rates: Any,
) -> torch.optim.Optimizer:
    """Make the optimizer of the trained parameters of a network.

    Args:
        name: "adamw", or "adafactor", which keeps a row and a column of each matrix's second moment and no first one
        beta1, beta2, epsilon: AdamW's
        rates: as in `parameter_groups`
    Raises: ConfigError: an unknown name, or a number that makes no sense.
    Source: AdamW: Loshchilov and Hutter 2019; Adafactor: Shazeer and Stern 2018.
    """
    if name not in OPTIMISERS:
        raise ConfigError(
            f"optimiser is {safe_repr(name)}; allowed: {', '.join(OPTIMISERS)}{nearest(str(name), OPTIMISERS)}"
        )
    for which, value in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= value < 1:
            raise ConfigError(f"{which} is {value}; it must be from 0 up to, but not including, 1")
    if not 0 < epsilon < 1:
        raise ConfigError(f"epsilon is {epsilon}; it must be a small number above 0")
    groups = parameter_groups(network, **rates)
    if name == "adafactor":
        # Each group has a rate of its own; the argument is one that torch wants all the same.
        return torch.optim.Adafactor(groups, lr=groups[0]["lr"])
    fused = groups[0]["params"][0].device.type in FUSED
    return torch.optim.AdamW(groups, betas=(beta1, beta2), eps=epsilon, fused=fused)


def set_rate(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of each group to a factor of its peak, as a `Schedule` gives it."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak"] * factor
