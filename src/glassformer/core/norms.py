"""Layer normalisation and RMS normalisation, of one token at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegative, Spec

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerNormSpec(Spec):
    """Layer normalisation over `width` numbers; `bias` says that a shift parameter exists."""

    width: Count
    eps: NonNegative = 1e-5
    bias: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class RMSNormSpec(Spec):
    """Root-mean-square normalisation over `width` numbers: no centring, no shift; the gain is `offset` + weight."""

    width: Count
    eps: NonNegative = 1e-6
    offset: NonNegative = 0.0


NormSpec = LayerNormSpec | RMSNormSpec


class LayerNorm(nn.LayerNorm):
    """Layer normalisation: centre and scale each token's vector, then apply a learned scale and shift.

        y = (x - mean(x)) / √(var(x) + eps) · weight + bias,      var biased (divided by D)

    Source: Ba, Kiros and Hinton 2016, section 3.
    Differs: some teaching code divides by an unbiased deviation and adds eps outside the root; that form cannot
    reproduce any published checkpoint and is not offered.
    """

    def __init__(self, spec: LayerNormSpec) -> None:
        super().__init__(spec.width, eps=spec.eps, bias=spec.bias)

    def forward(self, input: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return super().forward(input)


class RMSNorm(nn.Module):
    """RMS normalisation: divide each token's vector by its root mean square, then apply a learned scale.

        y = x / √(mean(x²) + eps) · (offset + weight)

    The root is taken in at least fp32, whatever the dtype of x. With an offset of 1 a weight of 0 is a gain of 1, so
    that weight decay draws gains to 1, not to 0; the gain is then added up, and multiplied with, in at least fp32 too.
    Source: Zhang and Sennrich 2019, section 3; the offset: Gemma team 2024, "Gemma", released code.
    """

    def __init__(self, spec: RMSNormSpec) -> None:
        super().__init__()
        self.eps = spec.eps
        self.offset = spec.offset
        self.weight = nn.Parameter(torch.full((spec.width,), 1 - spec.offset))

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        if not self.offset:
            return self.weight * nn.functional.rms_norm(x, self.weight.shape, eps=self.eps)
        wide = torch.promote_types(x.dtype, torch.float32)
        gain = self.offset + self.weight.to(wide)
        return nn.functional.rms_norm(x.to(wide), gain.shape, gain, self.eps).to(x.dtype)


class HeadNorms(nn.ModuleList):
    """Layer normalisation of the heads of q or k, each by weights of its own.

        y_h = (x_h - mean(x_h)) / √(var(x_h) + eps) · weight_h

    Source: Bellagente et al. 2024, "Stable LM 2 1.6B", and the released code of the 12B model.
    """

    def __init__(self, spec: LayerNormSpec, heads: int) -> None:
        super().__init__(LayerNorm(spec) for _ in range(heads))
        self.eps = spec.eps

    @property
    def weight(self) -> Float[Tensor, "N E"]:
        """The scales of all heads."""
        return torch.stack([norm.weight for norm in self])  # type: ignore[misc]

    def forward(self, x: Float[Tensor, "B N T E"]) -> Float[Tensor, "B N T E"]:
        return nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps) * self.weight[:, None]


def make_norm(spec: NormSpec | None) -> nn.Module:
    """The module of a norm slot; the identity for an empty slot."""
    if spec is None:
        return nn.Identity()
    return LayerNorm(spec) if isinstance(spec, LayerNormSpec) else RMSNorm(spec)
