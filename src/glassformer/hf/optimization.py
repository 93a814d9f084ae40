"""Learning rate schedules by the names of the reference library, as `torch.optim` schedulers; and the random seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from inspect import signature
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.errors import ConfigError, UnknownOptionError, nearest
from glassformer.files import safe_repr
from glassformer.training.state import seed_all


def set_seed(seed: int) -> None:
    """Seed the random generators of Python, NumPy and PyTorch."""
    seed_all(seed)


def _with_warmup(optimizer: Optimizer, warmup: int, after: Callable[[int], float]) -> LambdaLR:
    """Rates that rise to their peak in `warmup` updates, from 0; then a share of it."""
    return LambdaLR(optimizer, lambda step: step / max(1, warmup) if step < warmup else after(step))


def get_constant_schedule(optimizer: Optimizer) -> LambdaLR:
    """Learning-rate schedule: constant."""
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


def get_polynomial_decay_schedule_with_warmup(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_training_steps: int,
    lr_end: float = 1e-7,
    power: float = 1.0,
) -> LambdaLR:
    """A warm-up, then a power of a line down to `lr_end`.

    Raises: ConfigError: the end is not below the rate.
    """
    peak = float(optimizer.defaults["lr"])
    if not 0 <= lr_end < peak:
        raise ConfigError(f"lr_end is {lr_end}; it must be from 0 to below the learning rate, {peak}")
    falling = max(1, num_training_steps - num_warmup_steps)

    def after(step: int) -> float:
        left = max(0.0, 1 - (step - num_warmup_steps) / falling)
        return float((lr_end + (peak - lr_end) * left**power) / peak)

    return _with_warmup(optimizer, num_warmup_steps, after)


def get_inverse_sqrt_schedule(optimizer: Optimizer, num_warmup_steps: int, timescale: int | None = None) -> LambdaLR:
    """A warm-up, then 1 / √step. Source: Vaswani et al. 2017, section 5.3."""
    scale = timescale or num_warmup_steps or 10_000
    return _with_warmup(optimizer, num_warmup_steps, lambda step: math.sqrt(scale / (step + scale - num_warmup_steps)))


def get_cosine_with_hard_restarts_schedule_with_warmup(
    optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int, num_cycles: int = 1
) -> LambdaLR:
    """A warm-up, then cosines that restart at the peak. Source: Loshchilov and Hutter 2017, section 3."""
    falling = max(1, num_training_steps - num_warmup_steps)

    def after(step: int) -> float:
        done = (step - num_warmup_steps) / falling
        return 0.0 if done >= 1 else max(0.0, (1 + math.cos(math.pi * (num_cycles * done % 1.0))) / 2)

    return _with_warmup(optimizer, num_warmup_steps, after)


class SchedulerType(StrEnum):
    """Names of schedules."""

    LINEAR = "linear"
    COSINE = "cosine"
    COSINE_WITH_RESTARTS = "cosine_with_restarts"
    POLYNOMIAL = "polynomial"
    CONSTANT = "constant"
    CONSTANT_WITH_WARMUP = "constant_with_warmup"
    INVERSE_SQRT = "inverse_sqrt"


SCHEDULES: dict[str, Callable[..., LambdaLR]] = {
    "constant": get_constant_schedule,
    "constant_with_warmup": get_constant_schedule_with_warmup,
    "inverse_sqrt": get_inverse_sqrt_schedule,
    "linear": get_linear_schedule_with_warmup,
    "cosine": get_cosine_schedule_with_warmup,
    "cosine_with_restarts": get_cosine_with_hard_restarts_schedule_with_warmup,
    "polynomial": get_polynomial_decay_schedule_with_warmup,
}


def get_scheduler(
    name: str,
    optimizer: Optimizer,
    num_warmup_steps: int | None = None,
    num_training_steps: int | None = None,
    scheduler_specific_kwargs: Mapping[str, Any] | None = None,
) -> LambdaLR:
    """A schedule by name, of `SchedulerType`.

    Args:
        scheduler_specific_kwargs: further arguments of its function, such as `num_cycles`
    Raises: ConfigError: another name, an argument that it does not have, or numbers of steps that it needs.
    """
    name = str(getattr(name, "value", name))
    if name not in SCHEDULES:
        raise ConfigError(f"schedule is {name!r}; allowed: {', '.join(SCHEDULES)}{nearest(name, SCHEDULES)}")
    taken = [*signature(SCHEDULES[name]).parameters]
    steps = {"num_warmup_steps": num_warmup_steps or 0, "num_training_steps": num_training_steps}
    given = {key: value for key, value in steps.items() if key in taken}
    if given.get("num_training_steps", 0) is None:
        raise ConfigError(f"the schedule {name!r} needs to know how many steps there will be: num_training_steps")
    own = [key for key in taken if key not in ("optimizer", *steps)]
    for key in scheduler_specific_kwargs or ():
        if key not in own:
            raise UnknownOptionError(
                f"the schedule {name!r} takes no {safe_repr(key)}{nearest(str(key), own)}; it takes: "
                + (", ".join(own) or "nothing")
            )
    return SCHEDULES[name](optimizer, **given, **(scheduler_specific_kwargs or {}))


def get_parameter_names(model: nn.Module, forbidden_layer_types: Sequence[type], *_: Any) -> list[str]:
    """The names of parameters that are in no layer of these types; `nn.LayerNorm` means all norms of ours."""
    kinds = (*forbidden_layer_types, *((LayerNorm, RMSNorm) if nn.LayerNorm in forbidden_layer_types else ()))
    within = {id(p) for module in model.modules() if isinstance(module, kinds) for p in module.parameters()}
    return [name for name, parameter in model.named_parameters() if id(parameter) not in within]
