"""Low-rank layers (LoRA): a linear layer with its updates, y = W x + b + α/r · B A x, and the plain one of both.

Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from jaxtyping import Float


class LowRank(nn.Module):
    """A low-rank update: delta = α/r · B A dropout(x).

    Differs: the paper initialises A from a normal distribution without its width; here the standard deviation is
    1/√in, so that the components of A x are about as large as those of x.
    """

    def __init__(self, base: nn.Linear, rows: slice, rank: int, scale: float, dropout: float) -> None:
        super().__init__()
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.rows, self.scale, self.active = rows, scale, True
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(base.in_features, rank, bias=False, **like)
        self.up = nn.Linear(rank, rows.stop - rows.start, bias=False, **like)
        nn.init.normal_(self.down.weight, std=base.in_features**-0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... rows"]:
        delta: Tensor = self.up(self.down(self.dropout(x))) * self.scale
        return delta

    def matrix(self) -> Float[Tensor, "rows D"]:
        """α/r · B A, in at least fp32."""
        wide = torch.promote_types(self.up.weight.dtype, torch.float32)
        return self.up.weight.to(wide) @ self.down.weight.to(wide) * self.scale


class AdaptedLinear(nn.Linear):
    """A linear layer with adapters: y = W x + b, plus their updates on some rows.

    `weight` and `bias` are those of the original layer; `adapters` holds those of each name, by target module.
    """

    def __init__(self, base: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.adapters = nn.ModuleDict()
        self.train(base.training)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        y = F.linear(x, self.weight, self.bias)
        for adapter in self.low_ranks():
            # In place: y is new, and a sum would copy all of q, k and v.
            y[..., adapter.rows].add_(adapter(x))
        return y

    def add(self, name: str, target: str, adapter: LowRank) -> None:
        """Add an adapter for a target module, to those of a name."""
        if name not in self.adapters:
            self.adapters[name] = nn.ModuleDict()
        self.adapters[name].add_module(target, adapter)

    def low_ranks(self) -> Iterator[LowRank]:
        """The active low-rank adapters of this layer."""
        named = (adapter for group in self.adapters.children() for adapter in group.children())
        return (adapter for adapter in named if isinstance(adapter, LowRank) and adapter.active)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain layer with the updates added to its weight; this layer does not change."""
        plain = self.plain()
        # summed in fp32 and rounded once: in bf16 most of a small update would be lost
        wide = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32), copy=True)
        for adapter in self.low_ranks():
            wide[adapter.rows] += adapter.matrix()
        plain.weight = nn.Parameter(wide.to(self.weight.dtype), requires_grad=False)
        return plain

    def plain(self) -> nn.Linear:
        """The original layer, with the same tensors."""
        with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight, plain.bias = self.weight, self.bias
        return plain.train(self.training)


def install(network: nn.Module, layers: Mapping[str, nn.Linear]) -> None:
    """Put linear layers, which have the same matrix or stand for it, in the place of those at their paths."""
    for path, layer in layers.items():
        layer_before = network.get_submodule(path)
        assert isinstance(layer_before, nn.Linear)
        _replace(network, layer_before, layer.train(network.training))


def _replace(network: nn.Module, old: nn.Linear, new: nn.Linear) -> None:
    """Replace a layer under all its paths, and all layers that share its matrix: a shared layer stays shared."""
    for parent in list(network.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.Linear) and child.weight is old.weight:
                setattr(parent, name, new)
