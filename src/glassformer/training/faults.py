"""What goes wrong in a step, told apart: no memory, and numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.tasks.microbatch import Pass


class Diverged(GlassformerError):
    """The loss was no number, again and again; the weights are those before. The exit code is 3."""

    exit_code = 3


def is_out_of_memory(error: BaseException) -> bool:
    """Did an allocation fail? A CPU's allocator says so in words alone."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def first_bad_module(network: nn.Module, run: Callable[[], Any]) -> str | None:
    """The first module whose answer holds a number that is none while `run` is run; None where all are numbers."""
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, inputs: Any, answer: Any) -> None:
            if not found and isinstance(answer, Tensor) and not bool(answer.isfinite().all()):
                found.append(name)

        return look

    hooks = [module.register_forward_hook(watch(name)) for name, module in network.named_modules() if name]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


def what_is_wrong(network: nn.Module, learner: nn.Module, items: Sequence[Pass]) -> str:
    """Where a loss or gradient went astray: the weights, a module, or the way back."""
    for name, x in network.named_parameters():
        if not bool(x.isfinite().all()):
            return f"the weights {name}"
    for item in items:
        if (module := first_bad_module(network, lambda item=item: learner(item))) is not None:  # type: ignore[misc]
            return f"the output of {module}"
    for name, x in network.named_parameters():
        if x.grad is not None and not bool(x.grad.isfinite().all()):
            return f"the gradient of {name}"
    return "the loss"


def is_number(*values: float) -> bool:
    return all(map(math.isfinite, values))
