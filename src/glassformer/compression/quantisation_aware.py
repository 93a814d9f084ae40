"""Quantisation-aware training: the network computes with rounded weights while it is trained.

    forward     y = Q(W) x          Q rounds to the grid of W as it is now, and inputs to 8 bits where they will be
    backward    ∂L/∂W = ∂L/∂Q(W)    straight-through: rounding counts as the identity, so small steps add up

Weights settle where rounding costs little. `quantisation:` in a run's configuration does it; the model that is saved
has the rounded weights as plain numbers, and the way `int4` or `int8` stores exactly these as levels.

Source: Jacob et al. 2018, section 3; straight-through: Bengio et al. 2013, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.compression.low_rank import install
from glassformer.compression.quantise import Scheme, fake_quantise
from glassformer.compression.quantised_network import quantisable_layers
from glassformer.core.quantised import rounded_by_token
from glassformer.errors import ConfigError
from glassformer.files.schema import NonNegativeInt, Schema


@dataclass(frozen=True, kw_only=True)
class QuantisationSpec(Schema):
    """Quantisation-aware training.

    bits: of a weight
    group_size: neighbouring weights of a row that share a scale; 0: the whole row
    inputs: of linear layers: "wide" as they are, "dynamic" in 8 bits with a scale for each token
    keep: layers that stay in floating point, by patterns such as blocks.0
    """

    bits: Literal[4, 8] = 4
    group_size: NonNegativeInt = 32
    inputs: Literal["wide", "dynamic"] = "wide"
    keep: Sequence[str] = ()


class FakeQuantisedLinear(nn.Linear):
    """A linear layer that computes with its weight rounded; `weight` and `bias` are those of the original layer."""

    def __init__(self, base: nn.Linear, scheme: Scheme, inputs: str) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.scheme, self.inputs = scheme, inputs
        self.train(base.training)

    @property
    def rounded(self) -> Tensor:
        """Q(W), with the gradient of W."""
        grid = self.scheme.grid(self.weight.detach())
        return fake_quantise(self.scheme.grouped(self.weight), grid).reshape(self.weight.shape)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(rounded_by_token(x) if self.inputs == "dynamic" else x, self.rounded, self.bias)

    @torch.no_grad()
    def plain(self) -> nn.Linear:
        """A layer of torch with the rounded weights, in a tensor of its own; the bias is shared."""
        with torch.device("meta"):
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight = nn.Parameter(self.rounded.detach(), requires_grad=self.weight.requires_grad)
        plain.bias = self.bias
        return plain.train(self.training)


class QuantisationAware:
    """Rounded weights in the layers of a network during a run.

    layers: path → layer
    Raises: ConfigError: a name of no layer, a group that does not divide a width, or nothing to quantise.
    """

    def __init__(self, network: nn.Module, spec: QuantisationSpec) -> None:
        self.network, scheme = network, Scheme(spec.bits, spec.group_size)
        plain = quantisable_layers(network, spec.keep)
        if not plain:
            raise ConfigError("there is nothing to quantise: no linear layer is left by quantisation.keep")
        for path, layer in plain.items():
            scheme.grouped(layer.weight, path)
        self.layers = {path: FakeQuantisedLinear(layer, scheme, spec.inputs) for path, layer in plain.items()}
        install(network, self.layers)

    def merge(self) -> None:
        """Put plain layers with rounded weights in the place of these, to save the network as any."""
        install(self.network, {path: layer.plain() for path, layer in self.layers.items()})

    def unmerge(self) -> None:
        """Put the layers that round back: the same parameters, which an optimizer may hold."""
        install(self.network, self.layers)

    def remove(self) -> None:
        """Leave plain layers with rounded weights."""
        self.merge()
