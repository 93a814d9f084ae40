"""Layer normalisation and RMS normalisation, of one token at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.specs import LayerNormSpec, NormSpec, RMSNormSpec

if TYPE_CHECKING:
    from jaxtyping import Float


class LayerNorm(nn.Module):
    """Layer normalisation: centre and scale each token's vector, then apply a learned scale and shift.

        y = (x - mean(x)) / √(var(x) + eps) · weight + bias,      var biased (divided by D)

    Source: Ba, Kiros and Hinton 2016, section 3.
    Differs: some teaching code divides by an unbiased deviation and adds eps outside the root; that form cannot
    reproduce any published checkpoint and is not offered.
    """

    def __init__(self, spec: LayerNormSpec) -> None:
        super().__init__()
        self.eps = spec.eps
        self.weight = nn.Parameter(torch.ones(spec.width))
        self.bias = nn.Parameter(torch.zeros(spec.width)) if spec.bias else None

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """RMS normalisation: divide each token's vector by its root mean square, then apply a learned scale.

        y = x / √(mean(x²) + eps) · weight

    The root is taken in at least fp32, whatever the dtype of x.
    Source: Zhang and Sennrich 2019, section 3.
    """

    def __init__(self, spec: RMSNormSpec) -> None:
        super().__init__()
        self.eps = spec.eps
        self.weight = nn.Parameter(torch.ones(spec.width))

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return self.weight * nn.functional.rms_norm(x, self.weight.shape, eps=self.eps)


def make_norm(spec: NormSpec | None) -> nn.Module:
    """The module of a norm slot; the identity for an empty slot."""
    if spec is None:
        return nn.Identity()
    return LayerNorm(spec) if isinstance(spec, LayerNormSpec) else RMSNorm(spec)
