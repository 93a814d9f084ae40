"""When a stack runs as a program of compiled kernels: what a call asks for, and which weights programs read."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from glassformer.core.flow import Flow


class References(list[object]):
    """Whatever the instructions of a program have addresses of: it lives as long as the program."""

    def address(self, tensor: Tensor | None) -> int:
        """The address of a tensor, which is kept; 0 for none."""
        if tensor is None:
            return 0
        tensor = tensor.contiguous()
        self.append(tensor)
        return tensor.data_ptr()


def is_plain_call(x: Tensor, flow: Flow) -> bool:
    """Whether a call asks for nothing but its result, of a stream that programs read."""
    return (
        flow.tape is None
        and not torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.bfloat16)
        and x.numel() > 0
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


def weights_state(modules: Iterable[nn.Module]) -> tuple[tuple[int, int], ...]:
    """What changes when weights do: where they lie, and how often they were written to, which torch counts."""
    weights = (x for module in modules for x in module._parameters.values() if x is not None)
    return tuple((x.data_ptr(), 0 if x.is_inference() else x._version) for x in weights)


def is_watched(modules: Iterable[nn.Module]) -> bool:
    """Whether a module has hooks, or is being trained: programs would leave them out."""
    return any(m._forward_hooks or m._forward_pre_hooks or m.training for m in modules)
