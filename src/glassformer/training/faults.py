"""Faults of a training step: out of memory, and NaN or infinity in weights, activations, gradients or the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.tasks.microbatch import MicroBatch


class Diverged(GlassformerError):
    """The loss was NaN or infinite, again and again; the weights are those before. The exit code is 3."""

    exit_code = 3


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; the CPU allocator raises a RuntimeError that only its message tells from others."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def first_nonfinite_module(network: nn.Module, run: Callable[[], Any]) -> str | None:
    """The first module whose output holds NaN or infinity while `run` is called; None where all are finite."""
    names: list[str] = []

    def hook_for(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def check(module: nn.Module, inputs: Any, output: Any) -> None:
            if not names and isinstance(output, Tensor) and not bool(output.isfinite().all()):
                names.append(name)

        return check

    hooks = [module.register_forward_hook(hook_for(name)) for name, module in network.named_modules() if name]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return names[0] if names else None


def diagnose(network: nn.Module, training_module: nn.Module, batches: Sequence[MicroBatch]) -> str:
    """Where NaN or infinity comes from: the weights, the output of a module, a gradient, or the loss."""
    for name, x in network.named_parameters():
        if not bool(x.isfinite().all()):
            return f"the weights {name}"
    for batch in batches:
        if (module := first_nonfinite_module(network, partial(training_module, batch))) is not None:
            return f"the output of {module}"
    for name, x in network.named_parameters():
        if x.grad is not None and not bool(x.grad.isfinite().all()):
            return f"the gradient of {name}"
    return "the loss"


def is_finite(*values: float) -> bool:
    """Whether all values are finite: neither NaN nor infinite."""
    return all(map(math.isfinite, values))
