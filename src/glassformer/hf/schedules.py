"""Learning rate schedules by the names of the reference library, as `torch.optim` schedulers; and the random seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from glassformer.errors import ConfigError, nearest


def set_seed(seed: int) -> None:
    """Seed the random generators of Python, NumPy and PyTorch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _with_warmup(optimizer: Optimizer, warmup: int, after: Callable[[int], float]) -> LambdaLR:
    """Rates that rise to their peak in `warmup` updates, from 0; then a share of it."""
    return LambdaLR(optimizer, lambda step: step / max(1, warmup) if step < warmup else after(step))


def get_constant_schedule(optimizer: Optimizer) -> LambdaLR:
    """One rate."""
    return _with_warmup(optimizer, 0, lambda step: 1.0)


def get_constant_schedule_with_warmup(optimizer: Optimizer, num_warmup_steps: int) -> LambdaLR:
    """One rate, after a warm-up."""
    return _with_warmup(optimizer, num_warmup_steps, lambda step: 1.0)


def get_linear_schedule_with_warmup(optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int) -> LambdaLR:
    """A warm-up, then a line down to 0."""
    falling = max(1, num_training_steps - num_warmup_steps)
    return _with_warmup(optimizer, num_warmup_steps, lambda step: max(0.0, (num_training_steps - step) / falling))


def get_cosine_schedule_with_warmup(
    optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int, num_cycles: float = 0.5
) -> LambdaLR:
    """A warm-up, then a cosine down to 0. Source: Loshchilov and Hutter 2017, section 3."""
    falling = max(1, num_training_steps - num_warmup_steps)

    def after(step: int) -> float:
        return max(0.0, (1 + math.cos(2 * math.pi * num_cycles * (step - num_warmup_steps) / falling)) / 2)

    return _with_warmup(optimizer, num_warmup_steps, after)


def get_scheduler(
    name: str, optimizer: Optimizer, num_warmup_steps: int | None = None, num_training_steps: int | None = None
) -> LambdaLR:
    """A schedule by name: "linear", "cosine", "constant" or "constant_with_warmup".

    Raises: ConfigError: another name, or numbers of steps that it needs.
    """
    name, warmup = str(getattr(name, "value", name)), num_warmup_steps or 0
    if name == "constant":
        return get_constant_schedule(optimizer)
    if name == "constant_with_warmup":
        return get_constant_schedule_with_warmup(optimizer, warmup)
    falling = {"linear": get_linear_schedule_with_warmup, "cosine": get_cosine_schedule_with_warmup}
    if name not in falling:
        names = ("linear", "cosine", "constant", "constant_with_warmup")
        raise ConfigError(f"schedule is {name!r}; allowed: {', '.join(names)}{nearest(name, names)}")
    if num_training_steps is None:
        raise ConfigError(f"the schedule {name!r} needs to know how many steps there will be: num_training_steps")
    return falling[name](optimizer, warmup, num_training_steps)
