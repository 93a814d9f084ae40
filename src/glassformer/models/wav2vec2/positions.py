"""Convolutional position encoding of audio frames."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, Spec
from glassformer.core.feed_forward import make_activation
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolvedPositionsSpec(Spec):
    """Convolutional position encoding over `kernel` frames, in `groups` of channels, with weight normalisation."""

    width: Count
    kernel: Count
    groups: Count
    activation: str = "gelu"

    def validate(self) -> None:
        if self.width % self.groups:
            raise ConfigError(
                f"ConvolvedPositionsSpec.width {self.width} is not a multiple of groups {self.groups} "
                "(config.json: hidden_size, num_conv_pos_embedding_groups)"
            )


class ConvolvedPositions(nn.Module):
    """Convolutional position encoding of audio frames: relative positions from the neighbours on either side.

        positions(x) = activation(W ∗ x),   W = gain · direction / |direction|, a length for each step of the kernel

    An even kernel reaches one frame further back than ahead. Rows are padded with 0 at both ends. The form of W is
    weight normalisation.
    Source: Baevski et al. 2020, section 2, after Mohamed et al. 2019; W: Salimans and Kingma 2016, section 2.
    """

    KIND = "convolution"

    def __init__(self, spec: ConvolvedPositionsSpec) -> None:
        super().__init__()
        self.spec = spec
        self.gain = nn.Parameter(torch.ones(1, 1, spec.kernel))
        self.direction = nn.Parameter(torch.empty(spec.width, spec.width // spec.groups, spec.kernel))
        self.bias = nn.Parameter(torch.zeros(spec.width))
        self.activation = make_activation(spec.activation)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize: directions from N(0, 4 / (kernel · width)), gains equal to their lengths, bias 0."""
        nn.init.normal_(self.direction, std=2 / math.sqrt(self.spec.kernel * self.spec.width))
        with torch.no_grad():
            self.gain.copy_(self._lengths())
        nn.init.zeros_(self.bias)

    @property
    def kernel(self) -> Tensor:
        """What is convolved with, but for its gain: see `glassformer.inspect.summary`. [out, in / groups, kernel]"""
        return self.direction

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        weight = self.direction * (self.gain / self._lengths())
        half = self.spec.kernel // 2
        mixed = F.conv1d(x.transpose(1, 2), weight, self.bias, padding=half, groups=self.spec.groups)
        activated: Tensor = self.activation(mixed[..., : x.shape[1]])  # an even kernel gives one frame too many
        return activated.transpose(1, 2)

    def _lengths(self) -> Tensor:
        """Norms of the directions, one for each step of the kernel. [1, 1, kernel]"""
        lengths: Tensor = torch.linalg.vector_norm(self.direction, dim=(0, 1), keepdim=True)
        return lengths
