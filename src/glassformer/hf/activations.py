"""ACT2FN and Conv1D: activation functions by name, and GPT-2's linear layer, for custom modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from glassformer.core.feed_forward import ACTIVATIONS, make_activation


class _Activations(Mapping[str, nn.Module]):
    """Names in `config.json` → new modules."""

    def __getitem__(self, name: str) -> nn.Module:
        return make_activation(name)

    def __iter__(self) -> Iterator[str]:
        return iter(ACTIVATIONS)

    def __len__(self) -> int:
        return len(ACTIVATIONS)


ACT2FN = _Activations()


def get_activation(activation_string: str) -> nn.Module:
    """A new module of an activation function. Raises: UnknownNameError: there is none of this name."""
    return ACT2FN[activation_string]


class Conv1D(nn.Module):
    """A linear layer whose weight has inputs as rows: y = x W + b.

    Args:
        nf: the width of y
        nx: of x
    """

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias
